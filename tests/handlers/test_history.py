"""The history of a queue: a record of what has become of each message (transactions rule 6.1), at deliveries."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError, QueueManager
from broker.core.calls.puts import sending
from broker.core.deliveries.history import RecordPlace
from broker.mqi import MQGMO, MQMF, MQMO, MQOO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from broker.mqi.delivery_fields import NOT_RETURNED, Became, Outcome, Returned, Settled, Settlement
from broker.mqi.history import HistoryRecord, history_q_name, read_record
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock
from tests.handlers.desk import FAILURE, TERMS, Desk, desk, settle
from tests.handlers.held_writes import until_held

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker import Message
    from broker.mqi.delivery_fields import ServiceOptions

KEPT = TERMS._replace(history="Q.HISTORY", history_span=3600.0)
CALLS_MAX = 28
"""The calls of Python functions that a record may cost."""

HISTORY = "DEFINE QLOCAL(Q.HISTORY) MAXDEPTH(999999999) DEFPSIST(YES)\nALTER QLOCAL(DEAD) MAXDEPTH(5000)"


async def kept(d: Desk, queue: str = "Q.HISTORY") -> list[Message]:
    """The records that are on a history, as messages."""
    async with d.connection.open(queue, MQOO.BROWSE) as source:
        return [message async for message in source.messages(options=MQGMO.BROWSE_NEXT)]


async def records(d: Desk) -> list[HistoryRecord]:
    return [read_record(message.data) for message in await kept(d)]


async def ids_of(d: Desk, queue: str = "Q") -> list[bytes]:
    async with d.connection.open(queue, MQOO.BROWSE) as source:
        return [message.md.msg_id async for message in source.messages(options=MQGMO.BROWSE_NEXT)]


async def end(d: Desk, outcome: Outcome, terms: ServiceOptions = KEPT, **fields: Any) -> Settled:
    """A message is taken, handled for 2 seconds, and settled so."""
    async with d.worker(terms) as worker:
        (taken,) = await worker.take()
        await d.clock.advance(2)
        (settled,) = await settle(worker, outcome, taken, **{"ran": 2.0, **fields})
        return settled


async def test_d6_1_what_has_succeeded_is_recorded_with_the_commit() -> None:
    async with desk(HISTORY) as d:
        put_at = d.clock.time()
        await d.put("order")
        (msg_id,) = await ids_of(d)
        await d.clock.advance(5)
        await end(d, Outcome.DONE, value=Returned(b'{"price":40}'))
        (message,) = await kept(d)
        assert read_record(message.data)._asdict() == {
            **HistoryRecord("Q", "tests:handler", "worker", "succeeded", 1)._asdict(),
            "put": pytest.approx(put_at, abs=0.01),
            "began": pytest.approx(put_at + 5),
            "ended": pytest.approx(put_at + 7),
            "waited": pytest.approx(5, abs=0.01),
            "ran": 2.0,
            "value": {"price": 40},
        }
        md = message.md
        assert (md.correl_id, md.format, md.coded_char_set_id, md.persistence) == (msg_id, "MQSTR", 1208, 1)
        assert md.expiry == 36_000
        assert json.loads(message.data)["value"] == {"price": 40}
        assert d.depth() == 0
        await d.clock.advance(3601)
        assert await kept(d) == []


@pytest.mark.parametrize(
    ("outcome", "fields", "record"),
    [
        (Outcome.REJECTED, {"feedback": 70_000}, ("rejected", 1, "rejected", 70_000)),
        (Outcome.UNREADABLE, {}, ("unreadable", 1, "unreadable", 2110)),
    ],
)
async def test_d6_1_what_nobody_can_handle_is_recorded_with_its_dead_letter(
    outcome: Outcome, fields: dict[str, Any], record: tuple[object, ...]
) -> None:
    async with desk(HISTORY) as d:
        await d.put("order")
        (msg_id,) = await ids_of(d)
        assert (await end(d, outcome, **fields)).became == Became.DEAD
        (message,) = await kept(d)
        found = read_record(message.data)
        assert (found.outcome, found.attempts, found.why, found.reason) == record
        assert (found.exception, found.error, found.ran) == ("ValueError", "no such order", 2.0)
        assert message.md.correl_id == msg_id
        assert d.depth("DEAD") == 1


async def test_d6_1_a_message_that_fails_is_recorded_once_when_its_attempts_are_used_up() -> None:
    async with desk(HISTORY) as d:
        await d.put("order")
        for attempt in (1, 2, 3):
            assert await records(d) == []
            await end(d, Outcome.FAILED, timed_out=attempt == 3)
            await d.clock.advance(1)
        (found,) = await records(d)
        assert (found.outcome, found.attempts, found.why, found.reason) == ("dead_lettered", 3, "timed_out", 2362)
        assert found.failure == "ValueError: no such order"
        assert found.began == pytest.approx(found.ended - 2)


async def test_d6_1_what_expires_after_an_attempt_is_recorded_and_what_had_none_is_not() -> None:
    async with desk(HISTORY) as d:
        await d.put("tried", md=MessageDescriptor(expiry=100))
        (msg_id,) = await ids_of(d)
        await end(d, Outcome.LATER, seconds=60.0)
        await d.put("never tried", md=MessageDescriptor(expiry=100))
        await d.clock.advance(120)
        (message,) = await kept(d)
        found = read_record(message.data)
        assert (found.outcome, found.attempts, found.why, found.reason) == ("expired", 1, "later", 258)
        assert (message.md.correl_id, found.handler, found.worker) == (msg_id, "tests:handler", "worker")
        assert found.ran == 2.0


async def test_d6_1_what_expires_while_its_handler_fails_is_recorded() -> None:
    async with desk(HISTORY) as d:
        await d.put("order", md=MessageDescriptor(expiry=10))
        assert (await end(d, Outcome.FAILED)).became == Became.EXPIRED
        await d.clock.advance(0)
        (found,) = await records(d)
        assert (found.outcome, found.error) == ("expired", "no such order")


async def test_d6_1_crashes_are_recorded_with_the_dead_letter_alone() -> None:
    async with desk(HISTORY) as d:
        await d.put("poison")
        for _ in range(2):
            connection = d.manager.connect("worker")
            async with connection, connection.deliveries("Q", options=KEPT._replace(attempts=2)) as worker:
                await worker.take()
                connection.port.break_()
            await d.clock.advance(1)
        async with d.worker(KEPT._replace(attempts=2)):
            await d.clock.advance(1)
        (found,) = await records(d)
        assert (found.outcome, found.why, found.attempts, d.depth("DEAD")) == ("dead_lettered", "crashed", 2, 1)


async def test_d6_1_what_is_returned_or_comes_later_is_not_recorded() -> None:
    async with desk(HISTORY) as d:
        await d.put("order")
        await end(d, Outcome.RETURNED)
        await end(d, Outcome.LATER, seconds=1.0)
        assert await kept(d) == []
        await d.clock.advance(2)
        await end(d, Outcome.DONE)
        (found,) = await records(d)
        assert (found.outcome, found.attempts) == ("succeeded", 1)


async def test_d6_1_a_dead_letter_that_is_held_is_recorded_when_it_is_there() -> None:
    async with desk(HISTORY + "\nALTER QLOCAL(DEAD) PUT(DISABLED)") as d:
        await d.put("order")
        assert (await end(d, Outcome.REJECTED)).became == Became.HELD
        assert await kept(d) == []
        await d.connection.mqsc("ALTER QLOCAL(DEAD) PUT(ENABLED)", check=True)
        await d.clock.advance(70)
        (found,) = await records(d)
        assert (found.outcome, found.handler, found.ran) == ("rejected", "tests:handler", 2.0)


async def test_d6_1_a_batch_has_a_record_for_each_and_no_value() -> None:
    async with desk(HISTORY) as d:
        await d.put("1", "2", "3")
        ids = await ids_of(d)
        async with d.worker(KEPT._replace(batch=3)) as worker:
            (taken,) = await worker.take()
            settlement = Settlement(taken.id, Outcome.DONE, failed=((1, FAILURE),), value=Returned(b"[1]"))
            await worker.settle([settlement])
        found = await kept(d)
        assert [message.md.correl_id for message in found] == [ids[0], ids[2]]
        assert [(each.outcome, each.value) for each in await records(d)] == [("succeeded", None)] * 2


async def test_d6_1_a_group_has_one_record_by_its_first_msg_id() -> None:
    async with desk(HISTORY) as d:
        async with d.connection.unit_of_work(), d.connection.open("Q", MQOO.OUTPUT) as queue:
            for number in range(3):
                flags = MQMF.LAST_MSG_IN_GROUP if number == 2 else MQMF.MSG_IN_GROUP
                md = MessageDescriptor(version=2, msg_flags=flags)
                await queue.put(b"part", md, MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER)
        ids = await ids_of(d)
        grouped = KEPT._replace(groups=True, attempts=2)
        await end(d, Outcome.FAILED, grouped)
        await d.clock.advance(2)
        await end(d, Outcome.FAILED, grouped)
        (message,) = await kept(d)
        assert message.md.correl_id == ids[0]
        assert read_record(message.data).outcome == "dead_lettered"
        assert d.depth("DEAD") == 3


async def test_d6_1_the_key_is_the_value_that_orders_the_messages() -> None:
    async with desk(HISTORY) as d:
        await d.put("1", properties={"customer": "anna"})
        await d.put("2")
        for _ in range(2):
            await end(d, Outcome.DONE, KEPT._replace(order_by="customer"))
        assert [each.key for each in await records(d)] == ["anna", None]


async def test_d6_1_a_value_too_long_or_no_json_is_told_by_its_type_and_length() -> None:
    async with desk(HISTORY) as d:
        await d.put("1", "2", "3", "4")
        short = KEPT._replace(history_value=10)
        await end(d, Outcome.DONE, short, value=Returned(b'"0123456789"', "str"))
        await end(d, Outcome.DONE, short, value=Returned(b"", "set", 3))
        await end(d, Outcome.DONE, short, value=Returned(b"null"))
        await end(d, Outcome.DONE, short, value=Returned(b"1,2"))  # what a worker says is no JSON of ours
        found = [(each.value, each.value_type, each.value_length) for each in await records(d)]
        assert found == [(None, "str", 12), (None, "set", 3), (None, "", 0), (None, "", 0)]


async def test_d6_1_a_nonpersistent_message_has_a_nonpersistent_record() -> None:
    async with desk(HISTORY) as d:
        await d.put("order", persistence=0)
        await end(d, Outcome.DONE)
        (message,) = await kept(d)
        assert message.md.persistence == 0


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("DEFINE QLOCAL(Q.HISTORY) PUT(DISABLED)", "PUT(DISABLED)"),
        ("DEFINE QLOCAL(Q.HISTORY) MAXDEPTH(1)", "MAXDEPTH is 1"),
        ("DEFINE QLOCAL(Q.HISTORY) MAXMSGL(10)", "MAXMSGL"),
        ("", "Q.HISTORY"),
    ],
)
async def test_d6_5_the_work_stands_where_the_record_cannot_be_put(
    definition: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with desk(definition) as d:
        await d.put("1", "2", "3")
        if "MAXDEPTH" in definition:
            await d.put("in the way", queue="Q.HISTORY")
        for outcome in (Outcome.DONE, Outcome.REJECTED, Outcome.DONE):
            assert (await end(d, outcome)).became in (Became.GONE, Became.DEAD)
        assert (d.depth(), d.depth("DEAD")) == (0, 1)
        assert (d.counts()["history_lost"], d.counts()["succeeded"]) == (3, 2)
        lines = [each.getMessage() for each in caplog.records if "history lost" in each.getMessage()]
        assert len(lines) == 1
        assert why in lines[0]


async def test_d6_5_the_work_stands_where_the_disk_has_no_room_for_the_record() -> None:
    store = FaultStore(MemoryStore())
    async with desk(HISTORY, store=store) as d:
        await d.put("1", "2")
        store.fill()
        async with d.worker(KEPT) as worker:
            taken = await worker.take(2)
            settled = await settle(worker, Outcome.DONE, *taken)
        assert [each.became for each in settled] == [Became.GONE, Became.GONE]
        assert (d.depth(), d.counts()["history_lost"], d.counts()["succeeded"]) == (0, 2, 2)
        store.make_room()
        assert await kept(d) == []


async def test_d6_5_what_needs_room_anyway_is_recorded_when_there_is_some() -> None:
    store = FaultStore(MemoryStore())
    async with desk(HISTORY, store=store) as d:
        await d.put("1", "2")
        async with d.worker(KEPT) as worker:
            first, second = await worker.take(2)
            connection = await worker.connect(first)
            await connection.put1("OUT", b"reply", persistence=1)
            store.fill()
            assert [each.became for each in await settle(worker, Outcome.DONE, first)] == [Became.DELAYED]
            await settle(worker, Outcome.REJECTED, second)
            store.make_room()
            await d.clock.advance(2)
            (again,) = await worker.take(2)
            await settle(worker, Outcome.DONE, again)
        assert sorted(each.outcome for each in await records(d)) == ["rejected", "succeeded"]
        assert (d.depth(), d.depth("DEAD"), d.counts()["history_lost"]) == (0, 1, 0)


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.REJECTED, Outcome.UNREADABLE, Outcome.LATER])
async def test_d6_1_killed_at_each_write_there_is_one_record_or_the_message(outcome: Outcome, *, written: bool) -> None:
    """`LATER`: the message expires before it comes again."""
    seen = set()
    for number in range(1, 20):
        inner, clock = MemoryStore(), VirtualClock()
        async with desk(HISTORY, store=inner, clock=clock):
            pass
        store = FaultStore(inner)
        store.hold(after=number, written=written)
        whole = await until_held(store, _handled(store, clock, outcome))
        async with QueueManager.open(name="QM1", store=inner, clock=clock) as manager, manager.connect() as connection:
            d = Desk(manager, connection, clock)
            await clock.advance(1)
            found = d.depth(), [each.outcome for each in await records(d)]
            seen.add((found[0], *found[1]))
        if whole:
            break
    assert whole, "there are more writes"
    ends = {Outcome.DONE: "succeeded", Outcome.FAILED: "dead_lettered", Outcome.LATER: "expired"}
    end = ends.get(outcome, outcome.name.lower())
    assert seen <= {(0,), (1,), (0, end)}  # (0,): it was not put yet
    assert {(1,), (0, end)} <= seen
    assert found == (0, [end])


async def _handled(store: FaultStore, clock: VirtualClock, outcome: Outcome) -> None:
    opened = QueueManager.open(name="QM1", store=store, clock=clock)
    async with opened as manager, manager.connect("test") as connection:
        d = Desk(manager, connection, clock)
        expiring = MessageDescriptor(expiry=100 if outcome is Outcome.LATER else -1)
        await d.put("order", md=expiring)
        await end(d, outcome, KEPT._replace(attempts=1), seconds=60.0)
        if outcome is Outcome.LATER:
            await clock.advance(120)


async def test_d6_4_one_of_many_records_is_found_by_one_look_and_takes_little_room() -> None:
    async with desk(HISTORY) as d, d.connection.open("Q.HISTORY", MQOO.BROWSE) as queue:
        calls = []
        for count in (10, 2000):
            async with d.worker(KEPT) as worker:
                while d.depth("Q.HISTORY") < count:
                    await d.put(*["order"] * 100)
                    await settle(worker, Outcome.DONE, *await worker.take(100))
            middle = (await ids_of_records(d))[count // 2]
            by_id = GetMessageOptions(options=MQGMO.BROWSE_FIRST.value, match_options=MQMO.MATCH_CORREL_ID.value)
            await queue.get(MessageDescriptor(correl_id=middle), by_id)
            with counted() as made:
                await queue.get(MessageDescriptor(correl_id=middle), by_id)
            calls.append(made[0])
        assert calls[0] == calls[1] > 0
        shelf = d.manager.core.objects.queues["Q.HISTORY"].shelf
        found = list(shelf.entries.values())
        assert {type(each).__name__ for each in found} == {"ExpiringEntry"}
        assert len({id(each.packed_md) for each in found}) < len(found) / 50
        assert len({id(each.deadline) for each in found}) < len(found) / 50


async def ids_of_records(d: Desk) -> list[bytes]:
    return [message.md.correl_id for message in await kept(d)]


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count the calls of Python."""
    made = [0]

    def profile(_: object, event: str, __: object) -> None:
        made[0] += event == "call"

    sys.setprofile(profile)
    try:
        yield made
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.REJECTED])
async def test_the_names_of_finished_steps_are_recorded(outcome: Outcome) -> None:
    async with desk(HISTORY) as d:
        await d.put("order")
        async with d.worker(KEPT) as worker:
            (taken,) = await worker.take()
            await worker.step(taken, "charge", b"1")
            await worker.step(taken, "ship", b"2")
            await settle(worker, outcome, taken)
        (found,) = await records(d)
        assert found.steps == ("charge", "ship")


async def test_d6_6_a_record_has_nothing_of_the_body() -> None:
    async with desk(HISTORY) as d:
        await d.put("sEcReT order", properties={"colour": "sEcReT"})
        await d.put("sEcReT order")
        await end(d, Outcome.DONE)
        await end(d, Outcome.REJECTED)
        for message in await kept(d):
            assert b"sEcReT" not in message.data
            assert message.properties == {}


async def test_a_queue_without_a_history_loads_nothing_of_it_and_is_written_as_before() -> None:
    async with desk() as d:
        await d.put("order")
        await end(d, Outcome.FAILED, TERMS)
        (entry,) = d.manager.core.objects.queues["Q"].shelf.entries.values()
        assert entry.handling is not None
        assert entry.handling.failure is not None
        assert entry.handling.failure.history is None
        assert len(entry.handling.failure.fields()) == 17


async def test_what_is_to_be_recorded_of_a_failure_is_kept_over_a_restart() -> None:
    store, clock = MemoryStore(), VirtualClock()
    async with desk(HISTORY, store=store, clock=clock) as d:
        await d.put("order", md=MessageDescriptor(expiry=1000))
        await end(d, Outcome.FAILED, KEPT._replace(backoff=(500.0,)))
    async with (
        QueueManager.open(name="QM1", clock=clock, store=store) as manager,
        manager.connect("test") as connection,
    ):
        await clock.advance(300)
        (found,) = await records(Desk(manager, connection, clock))
        assert (found.outcome, found.error, found.ran) == ("expired", "no such order", 2.0)


async def test_d6_1_a_record_ends_when_its_span_is_over_after_a_restart_too() -> None:
    store, clock = MemoryStore(), VirtualClock()
    async with desk(HISTORY, store=store, clock=clock) as d:
        await d.put("order")
        await end(d, Outcome.DONE, KEPT._replace(history_span=1000.0))
    async with (
        QueueManager.open(name="QM1", clock=clock, store=store) as manager,
        manager.connect("test") as connection,
    ):
        again = Desk(manager, connection, clock)
        (record,) = await kept(again)
        assert 9900 < record.md.expiry <= 10_010
        await clock.advance(1002)
        assert await kept(again) == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"history": "Q"}, MQRC.OPTIONS_ERROR),
        ({"history_span": 0.0}, MQRC.OPTIONS_ERROR),
        ({"history_span": 1e12}, MQRC.OPTIONS_ERROR),
        ({"history_value": 100_000}, MQRC.OPTIONS_ERROR),
    ],
)
async def test_a_history_that_cannot_be_kept_is_refused(fields: dict[str, Any], reason: MQRC) -> None:
    async with desk(HISTORY) as d, d.manager.connect("worker") as connection:
        with pytest.raises(MQError) as caught:
            async with connection.deliveries("Q", options=KEPT._replace(**fields)):
                pass
        assert caught.value.reason == reason


def test_the_name_of_a_history_is_cut_to_what_a_name_may_have() -> None:
    assert history_q_name("QUOTES") == "QUOTES.HISTORY"
    assert history_q_name("Q" * 48) == "Q" * 40 + ".HISTORY"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"queue":"Q"}', b"NaN", b"[" * 100_000])
def test_what_is_no_record_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # json's own, or ours
        read_record(data)


async def test_d6_5_what_expires_on_a_full_disk_is_recorded_by_the_next_start() -> None:
    store, clock = FaultStore(MemoryStore()), VirtualClock()
    async with desk(HISTORY, store=store, clock=clock) as d:
        await d.put("order", md=MessageDescriptor(expiry=100))
        await end(d, Outcome.LATER, seconds=60.0)
        store.fill()
        await clock.advance(120)
        assert (d.depth(), await kept(d)) == (0, [])
        store.make_room()
    async with (
        QueueManager.open(name="QM1", clock=clock, store=store) as manager,
        manager.connect("test") as connection,
    ):
        await clock.advance(120)
        d = Desk(manager, connection, clock)
        assert ([each.outcome for each in await records(d)], d.depth()) == (["expired"], 0)


@pytest.mark.parametrize("more", ["", "MAXDEPTH(3)", "MAXMSGL(250)", "PUT(DISABLED)"])
async def test_d6_1_a_record_that_needs_no_check_is_as_one_that_is_checked(
    more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin of a fast path: what is put, lost and counted, with it and without."""
    seen: list[Any] = []
    checked: list[Any] = []
    join = sending.join

    def checking(*given: Any, **named: Any) -> None:
        checked[-1] += given[1].queue.name == "Q.HISTORY"
        join(*given, **named)

    monkeypatch.setattr(sending, "join", checking)
    for fast in (True, False):
        checked.append(0)
        if not fast:
            monkeypatch.setattr(RecordPlace, "open", property(lambda _: False, lambda _, __: None))
        async with desk(f"{HISTORY}\nALTER QLOCAL(Q.HISTORY) {more}" if more else HISTORY) as d:
            await d.put("1", "2", persistence=0)
            await d.put("3", "4", "5")
            for outcome in (Outcome.DONE, Outcome.REJECTED, Outcome.DONE, Outcome.DONE, Outcome.REJECTED):
                await end(d, outcome)
            found = [(each.data, each.md.put_time, each.md.expiry, each.md.persistence) for each in await kept(d)]
            counts = d.manager.core.objects.queues["Q.HISTORY"].counts
            figures = (counts.puts, counts.put_bytes, counts.last_put, d.counts()["history_lost"], d.depth("DEAD"))
            seen.append((found, figures))
    assert seen[0] == seen[1]
    assert checked == [{"": 0, "MAXDEPTH(3)": 2, "MAXMSGL(250)": 2, "PUT(DISABLED)": 5}[more], 5]


async def test_d6_5_a_history_is_as_its_definition_is_now() -> None:
    async with desk(HISTORY) as d:
        await d.put("1", "2", "3", "4")
        for change in ("MAXMSGL(50)", "MAXMSGL(4194304) PUT(DISABLED)", "PUT(ENABLED)"):
            await end(d, Outcome.DONE)
            await d.connection.mqsc(f"ALTER QLOCAL(Q.HISTORY) {change}", check=True)
        await end(d, Outcome.DONE)
        assert (len(await kept(d)), d.counts()["history_lost"]) == (2, 2)


@pytest.mark.parametrize("ran", [2.0, 1.000001, 0.0])
async def test_d6_1_the_instants_of_a_record_have_six_places(ran: float) -> None:
    async with desk(HISTORY) as d:
        await d.put("order")
        await d.clock.advance(0.25)
        await end(d, Outcome.DONE, ran=ran)
        ended = d.clock.time()
        (message,) = await kept(d)
        found = json.loads(message.data, parse_float=str)
        began = ended - ran
        assert (found["began"], found["ended"], found["ran"]) == (f"{began:.6f}", f"{ended:.6f}", f"{ran:.6f}")


async def test_d6_4_a_record_costs_few_calls() -> None:
    """Of the queue manager, from the settlement to its answer; over the best of some, since others work meanwhile."""
    calls = []
    async with desk(HISTORY) as d:
        for terms, value in ((TERMS, NOT_RETURNED), (KEPT, Returned(b'{"price":40}'))):
            best = 10_000
            for _ in range(5):
                await d.put("order")
                async with d.worker(terms) as worker:
                    (taken,) = await worker.take()
                    settlement = Settlement(taken.id, Outcome.DONE.value, ran=2.0, value=value)
                    with counted() as made:
                        await worker.settle([settlement])
                best = min(best, made[0])
            calls.append(best)
    assert calls[1] - calls[0] <= CALLS_MAX, calls
