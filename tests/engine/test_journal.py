"""The journal: when a message is durable, visible, acknowledged. The numbers are those of the journal's rules."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.engine.calls.room import Room
from broker.engine.journal.journal import GATHER_TURNS
from broker.mqi import MQGMO, MQIA, MQOO, MQPMO, MQRC, MessageDescriptor
from broker.storage.memory import MemoryStore
from broker.storage.store import DataDamagedError, Rows, StoreFailedError, StoreFullError
from broker.testing import FaultStore
from tests.engine.bench import ALL, Bench, opened, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker.storage.store import Done


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as bench:
        yield bench


async def drained(bench: Bench) -> list[bytes]:
    found = []
    while True:
        try:
            found.append((await bench.queue.get()).data)
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            return found


class AtOnce(MemoryStore):
    """A store that can fail by itself. `written` counts what it has made durable; each time at once."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.failed: Callable[[StoreFailedError], None] = lambda error: None

    def watch(self, failed: Callable[[StoreFailedError], None]) -> None:
        self.failed = failed

    def submit(self, rows: Rows, done: Done) -> bool:
        assert super().submit(rows, done)
        self.written += 1
        return True


# Durable, then visible


async def test_a_batch_that_is_durable_at_once_settles_in_the_turn_in_which_it_is_written() -> None:
    store = AtOnce()
    async with opened(FaultStore(store)) as bench:
        before = store.written
        seen = []
        putting = asyncio.ensure_future(bench.queue.put(b"A"))
        while not putting.done():
            await asyncio.sleep(0)
            seen.append((store.written - before, bench.manager.core.objects.queues["Q"].uncommitted))
        assert (1, 1) not in seen
        assert (bench.transactions, bench.manager.journal.idle) == (1, True)


async def test_a_store_that_writes_at_once_holds_the_loop_for_one_transaction_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = AtOnce()
    async with opened(FaultStore(store)) as bench:
        monkeypatch.setattr(bench.manager.journal, "_batch_rows_max", 10)
        taken = []

        async def put_on() -> None:
            for _ in range(10):
                await bench.connection.put1("Q", b"A")

        async with asyncio.TaskGroup() as tasks:
            for _ in range(30):
                tasks.create_task(put_on())
            while bench.depth < 300 or not bench.manager.journal.idle:
                before = store.written
                await asyncio.sleep(0)
                taken.append(store.written - before)
        assert max(taken) == 1


async def transactions_a_turn(bench: Bench, room: Room, turns: int) -> list[int]:
    """Submit a unit from `room`; how many transactions each turn has written."""
    bench.manager.journal.submit(Rows(removals=[1]), lambda _: None, None, room)
    written = []
    for _ in range(turns):
        before = bench.transactions
        await asyncio.sleep(0)
        written.append(bench.transactions - before)
    return written


async def test_a_batch_waits_for_the_calls_of_its_line_that_are_being_made_and_for_no_others() -> None:
    """Units of a line whose calls are made in slices wait for each other, for so many turns; nobody else does."""
    line = Room()
    async with opened(FaultStore(AtOnce())) as bench:
        assert await transactions_a_turn(bench, line, 2) == [1, 0]
        line.handling = True
        assert await transactions_a_turn(bench, line, GATHER_TURNS + 2) == [0] * GATHER_TURNS + [1, 0]
        assert await transactions_a_turn(bench, line, 2) == [0, 0]
        assert await transactions_a_turn(bench, Room(), 2) == [1, 0]
        assert await transactions_a_turn(bench, line, 2) == [0, 0]
        line.handling = False
        await asyncio.sleep(0)
        assert bench.manager.journal.idle


async def test_who_submits_when_told_that_its_rows_are_durable_at_once_does_not_fill_the_stack(bench: Bench) -> None:
    journal, left = bench.manager.journal, 3000
    over = asyncio.get_running_loop().create_future()

    def again(error: Exception | None) -> None:
        nonlocal left
        assert error is None
        left -= 1
        if left:
            journal.submit(Rows(removals=[left]), again)
        else:
            over.set_result(None)

    journal.submit(Rows(removals=[left]), again)
    await over
    assert bench.transactions == 3000


async def test_batches_are_logged_at_the_debug_level(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "broker.engine"):
        await bench.queue.put(b"A")
    assert caplog.messages == ["batch to write inserts=1 removals=0 backouts=0 hardened=0 objects=0"]


async def test_rule_1_nothing_is_visible_before_it_is_durable(bench: Bench) -> None:
    await bench.connection.mqsc("DEFINE PROCESS(P)\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
    async with bench.manager.connect() as other, other.trigger_starts() as starts, asyncio.TaskGroup() as tasks:
        queue = await other.open("Q", ALL | MQOO.INQUIRE)
        bench.store.hold()
        putting = tasks.create_task(bench.queue.put(b"A"))
        await bench.store.wait_held()
        assert await queue.inquire(MQIA.CURRENT_Q_DEPTH) == {MQIA.CURRENT_Q_DEPTH: 1}
        assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE
        assert await reason_of(queue.get(options=MQGMO.BROWSE_FIRST)) == MQRC.NO_MSG_AVAILABLE
        assert await starts.pending() == []
        getting = tasks.create_task(queue.get(options=MQGMO.WAIT | MQGMO.BROWSE_FIRST, wait=5))
        await asyncio.sleep(0)
        assert not putting.done()
        assert not getting.done()
        bench.store.release()
        await putting
        assert (await getting).data == b"A"
        assert [each.q_name for each in await starts.pending()] == ["Q"]


async def test_rule_1_nonpersistent_members_of_a_unit_wait_with_it(bench: Bench) -> None:
    async with bench.manager.connect() as other, asyncio.TaskGroup() as tasks:
        queue = await other.open("Q", ALL)
        await bench.queue.put(b"persistent", options=MQPMO.SYNCPOINT)
        await bench.queue.put(b"nonpersistent", options=MQPMO.SYNCPOINT, persistence=0)
        bench.store.hold()
        committing = tasks.create_task(bench.connection.commit())
        await bench.store.wait_held()
        assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE
        bench.store.release()
        await committing
        assert [(await queue.get()).data for _ in range(2)] == [b"persistent", b"nonpersistent"]


async def test_rule_1_a_get_outside_syncpoint_is_answered_when_its_removal_is_durable(bench: Bench) -> None:
    await bench.queue.put(b"A")
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        getting = tasks.create_task(bench.queue.get())
        await bench.store.wait_held()
        assert (bench.depth, await bench.stored()) == (0, [(b"A", 0, 0)])
        assert not getting.done()
        bench.store.release()
        assert (await getting).data == b"A"
        assert await bench.stored() == []


async def test_rule_2_a_unit_is_one_transaction(bench: Bench) -> None:
    await bench.connection.mqsc("DEFINE QLOCAL(R) DEFPSIST(YES)")
    await bench.queue.put(b"A")
    bench.store.written.clear()
    async with bench.connection.unit_of_work():
        await bench.queue.get(options=MQGMO.SYNCPOINT)
        for number in range(10):
            await bench.connection.put1("Q" if number % 2 else "R", b"%d" % number)
    (mark, unit) = bench.store.written
    assert (len(mark.hardened), len(unit.inserts), len(unit.removals)) == (1, 10, 1)


async def test_rule_2_a_unit_larger_than_a_batch_is_not_split(bench: Bench) -> None:
    async with bench.connection.unit_of_work():
        await asyncio.gather(*(bench.queue.put(b"A") for _ in range(5000)))
    (unit,) = bench.store.written
    assert len(unit.inserts) == 5000


async def test_what_gathers_while_a_write_runs_goes_into_the_next_transaction(bench: Bench) -> None:
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        tasks.create_task(bench.queue.put(b"first"))
        await bench.store.wait_held()
        for number in range(100):
            tasks.create_task(bench.queue.put(b"%d" % number))
        await bench.until(lambda: bench.depth == 101)
        bench.store.release()
    assert [len(rows.inserts) for rows in bench.store.written] == [1, 100]


async def test_a_batch_has_a_bound(bench: Bench) -> None:
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        tasks.create_task(bench.queue.put(b"first"))
        await bench.store.wait_held()
        for _ in range(4000):
            tasks.create_task(bench.queue.put(b"A"))
        async with bench.manager.connect() as other:
            for _ in range(999):
                tasks.create_task(other.put1("Q", b"A"))
            await bench.until(lambda: bench.depth == 5000)
            bench.store.release()
            await bench.idle()
    assert [len(rows.inserts) for rows in bench.store.written] == [1, 4096, 903]


async def test_what_a_batch_removes_counts_in_its_bound(bench: Bench) -> None:
    await bench.queue.put_many([b"A"] * 5000)
    bench.store.written.clear()
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        tasks.create_task(bench.queue.get())
        await bench.store.wait_held()
        for _ in range(4999):
            tasks.create_task(bench.queue.get())
        await bench.until(lambda: bench.depth == 0)
        bench.store.release()
        await bench.idle()
    assert [len(rows.removals) for rows in bench.store.written] == [1, 4096, 903]


async def test_rule_3_calls_of_one_connection_settle_in_their_order(bench: Bench) -> None:
    settled: list[str] = []

    async def put(name: str, persistence: int) -> None:
        await bench.queue.put(name.encode(), persistence=persistence)
        settled.append(name)

    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        for name, persistence in (("A", 1), ("B", 0), ("C", 1), ("D", 0)):
            tasks.create_task(put(name, persistence))
        await bench.store.wait_held()
        async with bench.manager.connect() as other:
            await other.put1("Q", b"E", persistence=0)  # another connection has nothing to wait for
            assert settled == []
            queue = await other.open("Q", ALL)
            assert (await queue.get()).data == b"E"
            bench.store.release()
            await bench.until(lambda: len(settled) == 4)
    assert settled == ["A", "B", "C", "D"]
    assert await drained(bench) == [b"A", b"B", b"C", b"D"]


async def test_rule_3_a_get_waits_for_the_puts_of_its_own_connection(bench: Bench) -> None:
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        putting = tasks.create_task(bench.queue.put(b"A"))
        await bench.store.wait_held()
        getting = tasks.create_task(bench.queue.get())
        await asyncio.sleep(0)
        bench.store.release()
        await putting
        assert (await getting).data == b"A"


async def test_rule_4_a_get_under_syncpoint_needs_no_write_without_hardenbo(bench: Bench) -> None:
    await bench.connection.mqsc("ALTER QLOCAL(Q) NOHARDENBO")
    await bench.queue.put(b"A")
    bench.store.hold()
    assert (await bench.queue.get(options=MQGMO.SYNCPOINT)).data == b"A"
    assert bench.store.held == 0
    bench.store.release()
    await bench.connection.commit()


async def test_nonpersistent_messages_are_never_in_the_store(bench: Bench) -> None:
    bench.store.hold()  # nobody waits for it
    await bench.queue.put(b"A", persistence=0)
    await bench.queue.put(b"B", options=MQPMO.SYNCPOINT, persistence=0)
    await bench.connection.commit()
    assert (await bench.queue.get()).data == b"A"
    await bench.queue.get(options=MQGMO.SYNCPOINT)
    await bench.connection.backout()
    assert (await bench.queue.get()).data == b"B"
    assert (bench.store.held, bench.transactions) == (0, 0)
    bench.store.release()


async def test_rule_10_the_high_water_mark_is_stored_though_nothing_else_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.core.identifiers.RESERVED_AHEAD", 10)
    for _ in range(20):
        last = await bench.queue.put(b"A", persistence=0)
    await bench.idle()
    _, high_water = await bench.store.load_objects()
    number = bench.manager.core.ids.number_of(last.md.msg_id)
    assert number is not None
    assert high_water > number


# From hand to hand


async def test_rule_5_a_put_that_meets_a_waiting_get_is_not_written(bench: Bench) -> None:
    async with bench.manager.connect() as other, asyncio.TaskGroup() as tasks:
        queue = await other.open("Q", ALL)
        getting = tasks.create_task(queue.get(wait=5))
        await bench.until(lambda: bench.waiting == 1)
        writes = bench.store.writes
        result = await bench.queue.put(b"A")
        assert getting.done()
        message = await getting
        assert (message.data, message.md.msg_id, message.md.persistence) == (b"A", result.md.msg_id, 1)
        assert (bench.store.writes, bench.depth, await bench.stored()) == (writes, 0, [])
        assert await reason_of(queue.get()) == MQRC.NO_MSG_AVAILABLE


@pytest.mark.parametrize(
    "options",
    [MQGMO.SYNCPOINT, MQGMO.SYNCPOINT_IF_PERSISTENT, MQGMO.BROWSE_FIRST, MQGMO.BROWSE_FIRST | MQGMO.LOCK],
)
async def test_rule_5_is_not_for_gets_that_may_leave_the_message_on_its_queue(bench: Bench, options: MQGMO) -> None:
    async with bench.manager.connect() as other, asyncio.TaskGroup() as tasks:
        queue = await other.open("Q", ALL)
        getting = tasks.create_task(queue.get(options=options, wait=5))
        await bench.until(lambda: bench.waiting == 1)
        if options & MQGMO.BROWSE_FIRST:
            tasks.create_task(reason_of(bench.queue.get(wait=5)))
            await bench.until(lambda: bench.waiting == 2)
        bench.store.hold()
        putting = tasks.create_task(bench.queue.put(b"A"))
        await bench.store.wait_held()
        assert not getting.done()
        bench.store.release()
        await putting
        assert (await getting).data == b"A"
        await other.commit()
        await queue.close()
        await bench.queue.put(b"B")


async def test_rule_5_waits_while_anything_else_is_on_its_way_to_the_store(bench: Bench) -> None:
    await bench.connection.mqsc("DEFINE QLOCAL(R) DEFPSIST(YES)")
    async with bench.manager.connect() as other, asyncio.TaskGroup() as tasks:
        queue = await other.open("Q", ALL)
        getting = tasks.create_task(queue.get(wait=5))
        await bench.until(lambda: bench.waiting == 1)
        bench.store.hold()
        tasks.create_task(other.put1("R", b"A"))
        await bench.store.wait_held()
        putting = tasks.create_task(bench.queue.put(b"B"))
        await bench.until(lambda: bench.depth == 1)
        assert not getting.done()
        assert not putting.done()
        bench.store.release()
        assert (await getting).data == b"B"
        await putting
    assert [len(rows.inserts) for rows in bench.store.written[-3:]] == [1, 1, 0]


async def test_rule_5_a_getter_that_has_gone_has_the_message_put_before_the_put_is_acknowledged(bench: Bench) -> None:
    async with bench.manager.connect() as other, asyncio.TaskGroup() as tasks:
        queue = await other.open("Q", ALL)
        getting = tasks.create_task(queue.get(wait=5))
        await bench.until(lambda: bench.waiting == 1)
        bench.store.hold()
        putting = tasks.create_task(bench.queue.put(b"A"))
        await bench.until(lambda: bench.waiting == 0)
        getting.cancel()
        await bench.store.wait_held()
        assert getting.cancelled()
        assert not putting.done()
        bench.store.release()
        await putting
        assert await bench.stored() == [(b"A", 1, 0)]


# A full store


async def test_rule_6_a_put_that_finds_no_room_is_undone(bench: Bench) -> None:
    bench.store.fail_next(StoreFullError("full"))
    assert await reason_of(bench.queue.put(b"A")) == MQRC.STORAGE_MEDIUM_FULL
    assert (bench.depth, await bench.stored()) == (0, [])
    await bench.queue.put(b"B")
    assert await drained(bench) == [b"B"]


async def test_rule_6_a_commit_that_finds_no_room_backs_out(bench: Bench) -> None:
    await bench.connection.mqsc("ALTER QLOCAL(Q) NOHARDENBO")
    await bench.queue.put(b"A")
    await bench.queue.get(options=MQGMO.SYNCPOINT)
    await bench.queue.put(b"B", options=MQPMO.SYNCPOINT)
    await bench.queue.put(b"C", options=MQPMO.SYNCPOINT, persistence=0)
    bench.store.fail_next(StoreFullError("full"))
    assert await reason_of(bench.connection.commit()) == MQRC.BACKED_OUT
    assert await drained(bench) == [b"A"]


async def test_rule_6_the_whole_batch_is_undone_and_the_manager_lives_on(bench: Bench) -> None:
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        first = tasks.create_task(reason_of(bench.queue.put(b"A")))
        await bench.store.wait_held()
        bench.store.fail_next(StoreFullError("full"))
        others = [tasks.create_task(reason_of(bench.queue.put(b"%d" % number))) for number in range(5)]
        await bench.until(lambda: bench.depth == 6)
        bench.store.release()
        assert [await first] + [await each for each in others] == [MQRC.NONE] + [MQRC.STORAGE_MEDIUM_FULL] * 5
    await bench.queue.put(b"B")
    assert await drained(bench) == [b"A", b"B"]


async def test_rule_6_removals_beside_a_refused_put_are_written(bench: Bench) -> None:
    await bench.queue.put(b"A")
    async with bench.manager.connect() as other, asyncio.TaskGroup() as tasks:
        queue = await other.open("Q", ALL)
        bench.store.hold()
        first = tasks.create_task(reason_of(bench.queue.put(b"first")))
        await bench.store.wait_held()
        bench.store.fail_next(StoreFullError("full"))
        putting = tasks.create_task(reason_of(bench.queue.put(b"B")))
        getting = tasks.create_task(queue.get())
        await bench.until(lambda: bench.depth == 2)
        bench.store.release()
        assert [await first, await putting] == [MQRC.NONE, MQRC.STORAGE_MEDIUM_FULL]
        assert (await getting).data == b"A"
    assert [data for data, *_ in await bench.stored()] == [b"first"]


async def test_rule_6_later_calls_of_a_connection_fall_with_its_put(bench: Bench) -> None:
    await bench.connection.mqsc("ALTER QLOCAL(Q) NOHARDENBO")
    await bench.queue.put(b"A")
    await bench.queue.get(options=MQGMO.SYNCPOINT)
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        first = tasks.create_task(reason_of(bench.queue.put(b"first")))
        await bench.store.wait_held()
        bench.store.fail_next(StoreFullError("full"))
        putting = tasks.create_task(reason_of(bench.queue.put(b"B")))
        committing = tasks.create_task(reason_of(bench.connection.commit()))
        light = tasks.create_task(reason_of(bench.queue.put(b"C", persistence=0)))
        await bench.until(lambda: bench.depth == 3)
        bench.store.release()
        assert await first == MQRC.NONE
        assert await putting == await light == MQRC.STORAGE_MEDIUM_FULL
        assert await committing == MQRC.BACKED_OUT
    assert await drained(bench) == [b"A", b"first"]


async def test_rule_6_what_was_submitted_behind_the_batch_falls_with_it(bench: Bench) -> None:
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        bench.store.fail_next(StoreFullError("full"))
        putting = tasks.create_task(reason_of(bench.queue.put(b"A")))
        await bench.store.wait_held()
        later = tasks.create_task(reason_of(bench.queue.put(b"B")))
        async with bench.manager.connect() as other:
            others = tasks.create_task(reason_of(other.put1("Q", b"C")))
            await bench.until(lambda: bench.depth == 3)
            bench.store.release()
            assert [await putting, await later, await others] == [MQRC.STORAGE_MEDIUM_FULL] * 2 + [MQRC.NONE]
    assert await drained(bench) == [b"C"]


async def test_rule_6_a_commit_that_finds_no_room_is_a_backout_that_counts(bench: Bench) -> None:
    await bench.queue.put(b"A")
    await bench.queue.get(options=MQGMO.SYNCPOINT)
    assert await bench.stored() == [(b"A", 0, 1)]
    await bench.queue.put(b"B", options=MQPMO.SYNCPOINT)
    bench.store.fail_next(StoreFullError("full"))
    assert await reason_of(bench.connection.commit()) == MQRC.BACKED_OUT
    assert await bench.stored() == [(b"A", 1, 0)]
    assert (await bench.queue.get()).md.backout_count == 1


async def test_rule_6_what_is_called_before_the_refusal_is_answered_falls_with_it(bench: Bench) -> None:
    await bench.queue.put(b"A")
    async with bench.manager.connect() as other, bench.manager.connect() as third, asyncio.TaskGroup() as tasks:
        queue = await other.open("Q", ALL)
        bench.store.hold()
        tasks.create_task(third.put1("Q", b"first"))
        await bench.store.wait_held()
        refused = tasks.create_task(reason_of(bench.queue.put(b"B")))
        removing = tasks.create_task(queue.get())
        await bench.until(lambda: bench.manager.journal.waiting == 2)
        bench.store.fail_next(StoreFullError("full"))
        bench.store.release()
        bench.store.hold(after=2)
        await bench.store.wait_held()  # what only removes, written again
        later = tasks.create_task(reason_of(bench.queue.put(b"C")))
        tasks.create_task(third.put1("Q", b"D"))
        await bench.until(lambda: bench.manager.journal.waiting == 2)
        assert bench.store.held == 1  # one batch at a time, that one included
        bench.store.release()
        assert [await refused, await later] == [MQRC.STORAGE_MEDIUM_FULL] * 2
        assert (await removing).data == b"A"
    await bench.queue.put(b"E")
    assert await drained(bench) == [b"first", b"D", b"E"]


async def test_rule_6_a_get_whose_removal_finds_no_room_gives_the_message_back(bench: Bench) -> None:
    await bench.queue.put(b"A")
    bench.store.fail_next(StoreFullError("full"))
    assert await reason_of(bench.queue.get()) == MQRC.STORAGE_MEDIUM_FULL
    bench.store.fail_next(StoreFullError("full"))
    assert await reason_of(bench.queue.get(options=MQGMO.SYNCPOINT)) == MQRC.STORAGE_MEDIUM_FULL
    await bench.connection.commit()
    message = await bench.queue.get()
    assert (message.data, message.md.backout_count) == (b"A", 0)


async def test_rule_6_a_backout_needs_no_room(bench: Bench) -> None:
    await bench.queue.put(b"A")
    await bench.queue.get(options=MQGMO.SYNCPOINT)
    bench.store.fail_next(StoreFullError("full"))
    await reason_of(bench.connection.backout())
    assert (await bench.queue.get()).data == b"A"


async def test_rule_6_a_backout_for_which_there_is_no_room_at_all_counts_once(bench: Bench) -> None:
    await bench.queue.put(b"A")
    await bench.queue.get(options=MQGMO.SYNCPOINT)
    for _ in range(2):
        bench.store.fail_next(StoreFullError("full"))
    assert await reason_of(bench.connection.backout()) == MQRC.STORAGE_MEDIUM_FULL
    message = await bench.queue.get(options=MQGMO.BROWSE_FIRST)
    assert (message.data, message.md.backout_count) == (b"A", 1)


async def test_rule_6_what_falls_together_is_answered_in_its_order(bench: Bench) -> None:
    answered: list[str] = []

    async def refused(name: str, call: Awaitable[object]) -> None:
        assert await reason_of(call) != MQRC.NONE
        answered.append(name)

    await bench.queue.put(b"A", options=MQPMO.SYNCPOINT)
    bench.store.fail_next(StoreFullError("full"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(refused("commit", bench.connection.commit()))
        tasks.create_task(refused("put", bench.queue.put(b"B")))
    assert answered == ["commit", "put"]


async def test_rule_6_a_command_that_finds_no_room_changes_nothing(bench: Bench) -> None:
    for command in ("DEFINE QLOCAL(R)", "ALTER QLOCAL(Q) MAXDEPTH(1)", "DEFINE QLOCAL(Q) REPLACE MAXDEPTH(1)"):
        bench.store.fail_next(StoreFullError("full"))
        (reply,) = await bench.connection.mqsc(command)
        assert (reply.ok, reply.code) == (False, "AMQ8101S")
    await bench.queue.put(b"A")
    await bench.queue.close()
    for command in ("CLEAR QLOCAL(Q)", "DELETE QLOCAL(Q) PURGE"):
        bench.store.fail_next(StoreFullError("full"))
        (reply,) = await bench.connection.mqsc(command)
        assert (reply.ok, reply.code) == (False, "AMQ8101S")
    assert bench.depth == 1
    assert "R" not in bench.manager.core.objects.queues
    async with bench.connection.open("Q", ALL) as queue:
        assert (await queue.get()).data == b"A"


async def test_rule_10_a_mark_that_finds_no_room_fails_no_unit_that_writes_nothing_itself(bench: Bench) -> None:
    outcomes: list[Exception | None] = []
    bench.manager.core.ids.low_at = 0
    bench.store.fail_next(StoreFullError("full"))
    bench.manager.journal.submit(Rows(), outcomes.append)
    await bench.idle()
    assert (outcomes, bench.store.refused) == ([None], 1)


async def test_rule_10_a_mark_that_found_no_room_is_written_with_the_next_batch() -> None:
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        bench.manager.core.ids.low_at = 0  # a million numbers later
        store.fail_next(StoreFullError("full"))
        store.fail_next(StoreFullError("full"), after=2)
        assert await reason_of(bench.queue.put(b"A")) == MQRC.STORAGE_MEDIUM_FULL
        await bench.queue.put(b"B")
        assert store.written[-1].high_water > 0


# A store that fails


@pytest.mark.parametrize("lose", [True, False], ids=["lost", "written"])
async def test_rule_7_a_failing_store_breaks_connections_and_stops_the_manager(lose: bool) -> None:
    store = FaultStore(MemoryStore())
    async with opened(store) as bench, asyncio.TaskGroup() as tasks:
        other = bench.manager.connect()
        queue = await other.open("Q", ALL)
        calls = [bench.queue.put(b"A"), bench.connection.commit(), queue.get(wait=float("inf")), queue.put(b"B")]
        store.fail_next(StoreFailedError("no answer"), lose=lose)
        outcomes = [tasks.create_task(reason_of(call)) for call in calls]
        error = await bench.manager.stopped()
        assert isinstance(error, StoreFailedError)
        assert [await each for each in outcomes] == [
            MQRC.CONNECTION_BROKEN,
            MQRC.NONE,  # there was nothing to commit
            MQRC.CONNECTION_BROKEN,
            MQRC.CONNECTION_BROKEN,
        ]
        for call in (queue.put(b"C"), queue.get(), other.commit()):
            assert await reason_of(call) == MQRC.CONNECTION_BROKEN
        with pytest.raises(MQError) as caught:
            bench.manager.connect()
        assert caught.value.reason == MQRC.Q_MGR_STOPPING
    async with opened(store) as bench:
        assert await drained(bench) == ([] if lose else [b"A", b"B"])


async def test_rule_7_a_store_that_fails_by_itself_stops_the_manager() -> None:
    store = AtOnce()
    async with opened(FaultStore(store)) as bench:
        other = bench.manager.connect()
        waiting = asyncio.ensure_future(reason_of((await other.open("Q", ALL)).get(wait=float("inf"))))
        await bench.until(lambda: bench.waiting == 1)
        error = StoreFailedError("the directory is gone")
        store.failed(error)
        assert await bench.manager.stopped() is error
        assert await waiting == MQRC.CONNECTION_BROKEN
        assert await reason_of(bench.queue.put(b"A")) == MQRC.CONNECTION_BROKEN
        assert bench.transactions == 0


async def test_rule_7_what_is_durable_after_the_store_has_failed_is_not_acknowledged() -> None:
    store = AtOnce()
    async with opened(FaultStore(store)) as bench:
        outcomes: list[Exception | None] = []
        bench.store.hold(written=True)
        bench.manager.journal.submit(Rows(removals=[1]), outcomes.append)
        await bench.store.wait_held()
        error = StoreFailedError("the directory is gone")
        store.failed(error)
        bench.store.release()
        await bench.idle()
        assert outcomes == [error]


async def test_rule_13_damaged_data_is_told_to_those_who_read_it_and_stops_nothing() -> None:
    class Damaged(MemoryStore):
        def read(self, ids: object, done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
            damaged = DataDamagedError([2], "evermq-1.db: the data of message 2 is not what was put")
            asyncio.get_running_loop().call_soon(done, {1: b"A"}, damaged)

    async with opened(FaultStore(Damaged())) as bench:
        reported: list[tuple[dict[int, bytes], Exception | None]] = []
        bench.manager.journal.read([1, 2], lambda bodies, error: reported.append((bodies, error)))
        await bench.idle()
        ((bodies, error),) = reported
        assert bodies == {1: b"A"}
        assert isinstance(error, DataDamagedError)
        await bench.queue.put(b"B")
        assert bench.manager.journal.error is None


async def test_rule_7_nothing_is_written_after_a_failure(bench: Bench) -> None:
    bench.store.fail_next(StoreFailedError("no answer"))
    await asyncio.gather(*(reason_of(bench.connection.put1("Q", b"%d" % number)) for number in range(3)))
    await bench.idle()
    assert bench.transactions == 0


async def test_rule_7_what_could_not_be_written_is_neither_there_nor_gone(bench: Bench) -> None:
    queue = bench.manager.core.objects.queues["Q"]
    await bench.queue.put(b"A", options=MQPMO.SYNCPOINT)
    bench.store.fail_next(StoreFailedError("no answer"))
    assert await reason_of(bench.connection.commit()) == MQRC.CONNECTION_BROKEN
    assert (queue.depth, queue.uncommitted) == (1, 1)


async def test_rule_7_a_get_that_cannot_read_its_message_is_told_so() -> None:
    class Unreadable(MemoryStore):
        def read(self, ids: object, done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
            asyncio.get_running_loop().call_soon(done, {}, StoreFailedError("the disk does not answer"))

    async with opened(FaultStore(Unreadable()), body_bytes=0) as bench:
        await bench.queue.put(b"A")
        for options in (MQGMO.BROWSE_FIRST, MQGMO.SYNCPOINT):
            assert await reason_of(bench.queue.get(options=options)) == MQRC.CONNECTION_BROKEN
        assert isinstance(await bench.manager.stopped(), StoreFailedError)


async def test_rule_7_leaving_a_connection_that_broke_with_a_unit_of_work_is_no_commit(bench: Bench) -> None:
    async with bench.manager.connect() as idle:  # which loses nothing
        with pytest.raises(MQError) as caught:
            async with bench.manager.connect() as other:
                await other.put1("Q", b"A", options=MQPMO.SYNCPOINT)
                bench.store.fail_next(StoreFailedError("no answer"))
                assert await reason_of(bench.queue.put(b"B")) == MQRC.CONNECTION_BROKEN
        assert caught.value.reason == MQRC.CONNECTION_BROKEN
        assert await reason_of(idle.commit()) == MQRC.CONNECTION_BROKEN


async def test_a_manager_that_stops_tells_those_who_wait() -> None:
    async with asyncio.TaskGroup() as tasks:
        async with opened() as bench:
            other = bench.manager.connect()
            queue = await other.open("Q", ALL)
            waiting = tasks.create_task(reason_of(queue.get(wait=float("inf"))))
            await bench.until(lambda: bench.manager.core.objects.queues["Q"].waiters.count == 1)
        assert await waiting == MQRC.Q_MGR_STOPPING
        assert await reason_of(queue.put(b"A")) == MQRC.Q_MGR_STOPPING


async def test_what_was_submitted_when_the_manager_ends_is_still_written() -> None:
    store = FaultStore(MemoryStore())
    async with asyncio.TaskGroup() as tasks, opened(store) as bench:
        for number in range(10):
            tasks.create_task(reason_of(bench.queue.put(b"%d" % number)))
        await asyncio.sleep(0)
    async with opened(store) as bench:
        assert await drained(bench) == [b"%d" % number for number in range(10)]


# Backout counts and marks


async def test_rule_8_a_backout_is_visible_when_its_count_is_durable(bench: Bench) -> None:
    await bench.queue.put(b"A")
    await bench.queue.get(options=MQGMO.SYNCPOINT)
    async with bench.manager.connect() as other, asyncio.TaskGroup() as tasks:
        queue = await other.open("Q", ALL)
        bench.store.hold()
        backing_out = tasks.create_task(bench.connection.backout())
        await bench.store.wait_held()
        assert await reason_of(queue.get(options=MQGMO.BROWSE_FIRST)) == MQRC.NO_MSG_AVAILABLE
        bench.store.release()
        await backing_out
        assert (await queue.get(options=MQGMO.BROWSE_FIRST)).md.backout_count == 1
        assert await bench.stored() == [(b"A", 1, 0)]


async def test_rule_8_a_hardened_get_is_marked_before_it_is_answered(bench: Bench) -> None:
    await bench.queue.put(b"A")
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        getting = tasks.create_task(bench.queue.get(options=MQGMO.SYNCPOINT))
        await bench.store.wait_held()
        assert not getting.done()
        bench.store.release()
        await getting
    assert await bench.stored() == [(b"A", 0, 1)]
    await bench.connection.backout()
    assert await bench.stored() == [(b"A", 1, 0)]
    await bench.queue.get()
    assert await bench.stored() == []


async def test_rule_8_a_message_found_marked_counts_one_backout_more() -> None:
    class Dying(MemoryStore):
        """A store of a process that is killed: what is written later does not reach it."""

        dead = False

        def submit(self, rows: Rows, done: Done) -> bool:
            return super().submit(Rows() if self.dead else rows, done)

    inner = Dying()
    async with opened(FaultStore(inner)) as bench:
        for data in (b"A", b"B", b"C"):
            await bench.queue.put(data)
        await bench.queue.get(options=MQGMO.SYNCPOINT)
        await bench.queue.get(options=MQGMO.SYNCPOINT | MQGMO.NO_WAIT)
        inner.dead = True
    inner.dead = False
    for _ in range(2):  # the count is durable by the first start, and not raised by the second
        async with opened(FaultStore(inner)) as bench:
            found = [await bench.queue.get(options=MQGMO.BROWSE_NEXT) for _ in range(3)]
            assert [(each.data, each.md.backout_count) for each in found] == [(b"A", 1), (b"B", 1), (b"C", 0)]
            assert await bench.stored() == [(b"A", 1, 0), (b"B", 1, 0), (b"C", 0, 0)]


async def test_rule_8_of_a_mark_that_found_no_room_nothing_is_taken_back(bench: Bench) -> None:
    """Also journal rule 6: the message is there again at once, and no count is written."""
    await bench.queue.put(b"A")
    before = bench.transactions
    bench.store.fail_next(StoreFullError("full"))
    assert await reason_of(bench.queue.get(options=MQGMO.SYNCPOINT)) == MQRC.STORAGE_MEDIUM_FULL
    bench.store.hold()
    assert (await bench.queue.get(options=MQGMO.BROWSE_FIRST)).data == b"A"
    bench.store.release()
    await bench.idle()
    assert bench.transactions == before
    assert await bench.stored() == [(b"A", 0, 0)]


async def test_rule_8_nonpersistent_and_unhardened_gets_are_not_marked(bench: Bench) -> None:
    await bench.queue.put(b"A", persistence=0)
    await bench.queue.get(options=MQGMO.SYNCPOINT)
    assert bench.transactions == 0


# Expiry


async def test_rule_9_an_expired_message_leaves_the_store_outside_any_unit(bench: Bench) -> None:
    await bench.queue.put(b"A", MessageDescriptor(expiry=10))
    await bench.queue.put(b"B")
    clock = bench.manager.clock
    await clock.advance(2)  # type: ignore[attr-defined]
    assert (await bench.queue.get(options=MQGMO.SYNCPOINT)).data == b"B"
    await bench.connection.backout()
    await bench.idle()
    assert await bench.stored() == [(b"B", 1, 0)]
