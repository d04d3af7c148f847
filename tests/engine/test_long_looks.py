"""Gets that have to look at many messages, and many expired messages: others are served meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError, QueueManager
from broker.core.explain.findings import LOOKS_AT_ONCE as EXPLAINED_AT_ONCE
from broker.core.message.entry import Entry
from broker.core.queues.queue import LocalQueue
from broker.core.queues.shelf.selection import EXPIRED_AT_ONCE
from broker.core.queues.shelf.shelf import Shelf
from broker.core.queues.shelf.views import LOOKS_AT_ONCE
from broker.engine.admin.figures import QUEUES_AT_ONCE
from broker.engine.calls.room import Room
from broker.engine.expiry_scan import EXPIRY_SCAN_INTERVAL
from broker.engine.jobs.slices import SLICE_STEPS
from broker.mqi import MQGMO, MQMF, MQMO, MQOO, MQRC, GetMessageOptions, MessageDescriptor, ObjectDescriptor
from broker.testing import VirtualClock
from tests.engine.bench import ALL, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from broker import Connection, Queue
    from broker.engine.conversation import Conversation
    from broker.interface import Call

MESSAGES = 4000
A = b"A".ljust(24)
FOR_ALL = ALL | MQOO.CO_OP
QUEUES = 200


class Loaded:
    """A queue manager with many messages on Q, all of CorrelId A."""

    def __init__(self, manager: QueueManager, clock: VirtualClock, connection: Connection) -> None:
        self.manager = manager
        self.clock = clock
        self.connection = connection

    @property
    def q(self) -> LocalQueue:
        return self.manager.core.objects.queues["Q"]

    async def open(self, selector: str = "") -> Queue:
        return await self.connection.open(ObjectDescriptor(object_name="Q", selection_string=selector), FOR_ALL)


async def turns_until(condition: Callable[[], bool]) -> None:
    """Let the others run until something is so: a few turns of the event loop."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it has not come about")


@asynccontextmanager
async def loaded(md: MessageDescriptor) -> AsyncIterator[Loaded]:
    clock = VirtualClock()
    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) MAXDEPTH(100000)\nDEFINE QLOCAL(OTHER)")
        async with manager.connect() as putter, putter.open("Q", ALL) as queue:
            await queue.put_many(
                [b"%d" % number for number in range(MESSAGES)], replace(md, correl_id=A, persistence=0)
            )
        yield Loaded(manager, clock, connection)
        manager.core.check_invariants()


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the messages that had been judged for views at each turn of the event loop."""
    counts = [0]
    admits = Shelf.admits

    def counted(shelf: Shelf, entry: Entry, start: int, whole: int) -> bool:
        counts[0] += 1
        return admits(shelf, entry, start, whole)

    monkeypatch.setattr(Shelf, "admits", counted)
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", 10)
    return counts


GETS = [
    ("Root.MQMD.Priority = 9", 0, 0),
    ("", MQGMO.LOGICAL_ORDER, 0),
    ("", 0, MQMO.MATCH_MSG_SEQ_NUMBER),
    ("", 0, MQMO.MATCH_CORREL_ID | MQMO.MATCH_MSG_SEQ_NUMBER),
    ("", MQGMO.BROWSE_NEXT | MQGMO.UNMARKED_BROWSE_MSG, MQMO.MATCH_OFFSET),
]


@pytest.mark.parametrize("many", [False, True], ids=["get", "get_many"])
@pytest.mark.parametrize(("selector", "options", "match"), GETS)
async def test_others_put_and_get_while_a_get_looks_at_many_messages(
    monkeypatch: pytest.MonkeyPatch, selector: str, options: int, match: int, *, many: bool
) -> None:
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", 5)
    grouped = MessageDescriptor(msg_flags=int(MQMF.MSG_IN_GROUP), group_id=A, msg_seq_number=2)
    async with loaded(grouped) as long, long.manager.connect() as other:
        queue = await long.open(selector)
        md = MessageDescriptor(correl_id=A, msg_seq_number=3, offset=7)
        gmo = GetMessageOptions(options=options | MQGMO.NO_WAIT, match_options=match)
        call = queue.get_many(2, md, gmo) if many else queue.get(md, gmo)
        getting = asyncio.create_task(reason_of(call))
        behind = asyncio.create_task(reason_of(queue.put(b"behind")))
        turns = 0
        async with other.open("OTHER", ALL) as mine:
            while not getting.done():
                await mine.put(b"B", MessageDescriptor(persistence=0))
                assert (await mine.get()).data == b"B"
                assert getting.done() or not behind.done()  # the connection's later calls wait their turn
                turns += 1
                await asyncio.sleep(0)
        assert await getting == MQRC.NO_MSG_AVAILABLE
        assert await behind == MQRC.NONE
        assert turns > MESSAGES / LOOKS_AT_ONCE


async def test_a_message_that_comes_meanwhile_is_given_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", 5)
    async with loaded(MessageDescriptor(priority=4)) as long, long.manager.connect() as other:
        queue = await long.open("Root.MQMD.Persistence = 1")
        getting = [asyncio.create_task(queue.get(None, MQGMO.NO_WAIT)) for _ in range(3)]
        for _ in range(3):
            await asyncio.sleep(0)
        assert not getting[0].done()
        for data, priority in ((b"last", 0), (b"first", 9), (b"second", 4)):
            await other.put1("Q", data, MessageDescriptor(priority=priority, persistence=1))
        assert [(await each).data for each in getting] == [b"first", b"second", b"last"]


async def test_a_get_found_at_the_front_looks_no_further(judged: list[int]) -> None:
    async with loaded(MessageDescriptor()) as long:
        queue = await long.open()
        for number in range(10):
            assert (await queue.get(None, MQGMO.LOGICAL_ORDER)).data == b"%d" % number
        assert judged[0] <= 2 * LOOKS_AT_ONCE


async def test_a_get_that_waits_looks_first_and_is_woken_then() -> None:
    async with loaded(MessageDescriptor()) as long, long.manager.connect() as other:
        queue = await long.open()
        md = MessageDescriptor(msg_seq_number=2)
        gmo = GetMessageOptions(options=MQGMO.WAIT, match_options=MQMO.MATCH_MSG_SEQ_NUMBER, wait_interval=-1)
        getting = asyncio.create_task(queue.get(md, gmo))
        await turns_until(lambda: long.q.waiters.count > 0)
        assert not long.q.shelf.views
        wanted = MessageDescriptor(msg_flags=int(MQMF.LAST_MSG_IN_GROUP), group_id=A, msg_seq_number=2)
        await other.put1("Q", b"wanted", wanted)
        assert (await getting).data == b"wanted"


@pytest.mark.parametrize("end", ["cancel", "close the connection", "stop the queue manager"])
async def test_a_get_that_looks_may_end_in_the_middle(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", 5)
    async with loaded(MessageDescriptor()) as long:
        conversation = long.manager.converse()
        opened = conversation.open(ObjectDescriptor(object_name="Q"), int(ALL)).result()
        md = MessageDescriptor(msg_seq_number=2)
        gmo = GetMessageOptions(options=0, match_options=MQMO.MATCH_MSG_SEQ_NUMBER)
        call = conversation.get(opened.hobj, md, gmo, None)
        behind = conversation.get(opened.hobj, None, GetMessageOptions(), None)
        await asyncio.sleep(0)
        assert not call.done()
        if end == "cancel":
            call.cancel()
            for _ in range(3):  # nobody looks on
                await asyncio.sleep(0)
            assert behind.result().data == b"0"
        elif end == "close the connection":
            conversation.break_()
            for each in (call, behind):
                error = each.exception()
                assert getattr(error, "reason", None) == MQRC.CONNECTION_BROKEN
            assert not long.q.shelf.views
            assert not long.q.handles
    if end == "stop the queue manager":
        assert {getattr(each.exception(), "reason", None) for each in (call, behind)} == {MQRC.Q_MGR_STOPPING}


@pytest.mark.parametrize("whole", [0, MQGMO.ALL_MSGS_AVAILABLE])
async def test_many_expired_messages_before_the_first_are_discarded_in_steps(whole: int) -> None:
    async with loaded(MessageDescriptor(expiry=10)) as long, long.manager.connect() as other:
        await other.put1("Q", b"alive")
        await long.clock.advance(2)
        depths = [long.q.depth]
        getting = asyncio.create_task((await long.open()).get(None, MQGMO.NO_WAIT | whole))
        while not getting.done():
            await asyncio.sleep(0)
            depths.append(long.q.depth)
        assert (await getting).data == b"alive"
        bound = EXPIRED_AT_ONCE + 50 * SLICE_STEPS
        assert max(before - after for before, after in pairwise(depths)) <= bound
        assert long.q.depth == 0


async def test_the_search_for_expired_messages_gives_the_loop_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", 5)
    async with loaded(MessageDescriptor(expiry=10)) as long:
        depths: list[int] = []
        loop = asyncio.get_running_loop()

        def look() -> None:
            depths.append(long.q.depth)
            if long.q.depth:
                loop.call_soon(look)

        look()
        await long.clock.advance(EXPIRY_SCAN_INTERVAL)
        await turns_until(lambda: depths[-1] == 0)
        assert max(before - after for before, after in pairwise(depths)) <= 5 * 50
        async with long.connection.open("Q", ALL) as queue:
            await queue.put(b"A", MessageDescriptor(expiry=10))
        await long.clock.advance(EXPIRY_SCAN_INTERVAL)  # it is made again
        await turns_until(lambda: not long.q.depth)
        assert long.q.depth == 0


async def test_a_full_queue_takes_a_message_when_one_of_many_is_expired() -> None:
    async with loaded(MessageDescriptor(expiry=10)) as long:
        await long.connection.mqsc(f"ALTER QLOCAL(Q) MAXDEPTH({MESSAGES})")
        assert await reason_of(long.connection.put1("Q", b"A")) == MQRC.Q_FULL
        await long.clock.advance(2)
        depth = long.q.depth
        assert await reason_of(long.connection.put1("Q", b"A")) == MQRC.NONE
        assert depth - long.q.depth <= EXPIRED_AT_ONCE


def status(port: Conversation) -> Call[Any]:
    return port.status()


def explain(port: Conversation) -> Call[Any]:
    return port.explain("Q", None, None, None)


@pytest.fixture
async def many(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Loaded]:
    """With many messages in a group and many queues, both looked at in many slices."""
    monkeypatch.setattr("broker.engine.jobs.slices.SLICE_STEPS", 5)
    async with loaded(MessageDescriptor(msg_flags=int(MQMF.MSG_IN_GROUP), group_id=A)) as long:
        await long.connection.mqsc("\n".join(f"DEFINE QLOCAL(ONE.{number})" for number in range(QUEUES)))
        yield long


@pytest.mark.parametrize(
    ("look", "steps"), [(status, QUEUES / QUEUES_AT_ONCE), (explain, MESSAGES / EXPLAINED_AT_ONCE)]
)
async def test_others_put_and_get_while_a_call_looks_at_very_much(
    many: Loaded, look: Callable[[Conversation], Call[Any]], steps: float
) -> None:
    port = many.manager.converse()
    looking, behind = look(port), port.begin()
    turns = 0
    async with many.connection.open("OTHER", ALL) as mine:
        while not looking.done():
            assert not behind.done()  # the connection's later calls wait their turn
            await mine.put(b"B", MessageDescriptor(persistence=0))
            assert (await mine.get()).data == b"B"
            turns += 1
            await asyncio.sleep(0)
    assert turns >= steps / 5
    looking.result()
    assert behind.result() == 0
    port.break_()


async def test_a_status_in_slices_is_that_of_one_step(many: Loaded) -> None:
    found = await many.connection.status()
    at_once = many.manager.status()
    assert found == at_once
    assert list(found) == list(at_once)
    names = [queue["name"] for queue in found["queues"]]
    assert names == sorted(many.manager.core.objects.queues)


async def test_a_status_does_without_a_queue_that_is_deleted_meanwhile(many: Loaded) -> None:
    looking = asyncio.create_task(many.connection.status())
    async with many.manager.connect() as other:
        await other.mqsc("DELETE QLOCAL(ONE.99)\nDEFINE QLOCAL(ZZZ)")
        assert not looking.done()
    names = [queue["name"] for queue in (await looking)["queues"]]
    assert "ONE.99" not in names
    assert "ONE.98" in names


@pytest.mark.parametrize("change", ["get", "clear", "delete"])
async def test_a_queue_that_is_emptied_meanwhile_is_explained(many: Loaded, change: str) -> None:
    looking = asyncio.create_task(many.connection.explain("Q"))
    async with many.manager.connect() as other:
        if change == "get":
            async with other.open("Q", ALL) as queue:
                while many.q.depth:
                    await queue.get_many(1000)
        elif change == "clear":
            await other.mqsc("CLEAR QLOCAL(Q)")
        else:
            await other.mqsc("DELETE QLOCAL(Q) PURGE")
        assert all(finding.figures.get("messages", 0) <= MESSAGES for finding in (await looking).findings)


@pytest.mark.parametrize("look", [status, explain])
@pytest.mark.parametrize("end", ["cancel", "cut", "stop", "mistake"])
async def test_a_call_that_looks_at_very_much_may_end_in_the_middle(
    many: Loaded, look: Callable[[Conversation], Call[Any]], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if end == "mistake":
        monkeypatch.setattr("broker.core.explain.explaining.in_steps", wrong)
        monkeypatch.setattr("broker.core.start_leases.StartLeases.running", wrong)
    port = many.manager.converse()
    looking, behind = look(port), port.trigger_pending()
    await asyncio.sleep(0)
    assert end == "mistake" or not looking.done()
    reason = {"cut": MQRC.CONNECTION_BROKEN, "stop": MQRC.Q_MGR_STOPPING, "mistake": MQRC.UNEXPECTED_ERROR}.get(end)
    if end == "cancel":
        looking.cancel()
        for _ in range(3):  # nobody looks on
            await asyncio.sleep(0)
        assert behind.result().queues == []
    elif end == "stop":
        many.manager._end()
    elif end == "cut":
        port.break_()
    if reason is not None:
        await turns_until(looking.done)
        error = looking.exception()
        assert isinstance(error, MQError)
        assert error.reason == reason
        await turns_until(behind.done)
        assert (behind.exception() is None) == (end == "mistake")


def wrong(*_: object) -> Any:
    raise KeyError("injected")


async def test_room_for_what_a_call_looks_at_is_taken_first_and_its_answer_waits_for_none(many: Loaded) -> None:
    class Narrow(Room):
        taken = 0

        @property
        def congested(self) -> bool:
            return self.taken > 0

        def got(self, size: int) -> None:
            self.taken += size

        def wait(self, go_on: Callable[[], None]) -> None:
            """Nothing makes room again."""

    for look, least in ((status, 500 * QUEUES), (explain, 8 * MESSAGES)):
        room = Narrow()
        port = many.manager.converse(room=room)
        looking, behind = look(port), port.trigger_pending()
        assert not looking.done()
        assert room.taken == looking.held >= least
        await looking
        assert not behind.done()
        port.break_()
        assert behind.exception() is not None
