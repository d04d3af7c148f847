"""Sinks: which batch is published, exactly once, by whom, and what becomes of the rest (claims rules 3.3 to 3.8)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.core.prepared import publishing, sinks
from broker.core.prepared.sink import KEYED
from broker.engine.conversation import Conversation
from broker.engine.jobs.jobs import Job
from broker.interface.batches.columns import pack, unpack
from broker.interface.claims.claims import UnitName, Winner
from broker.interface.port import Call, answer
from broker.mqi import MQMF, MQPMO, MQRC, MQRO, MessageDescriptor
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFullError
from broker.testing import FaultStore
from tests.engine.bench import opened, reason_of
from tests.engine.test_prepared_units import got, later, names_of, queue_of, writer
from tests.engine.writer import Row, frame, rows_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from broker.core.moment import Moment
    from broker.interface.port import Port
    from tests.engine.bench import Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as found:
        yield found


async def discarded(bench: Bench) -> None:
    """Let the losers go that a publish has left."""
    await bench.until(lambda: not names_of(bench))


# The ledger


async def test_the_ledger_holds_over_a_restart() -> None:
    """K56."""
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await writer(bench).write(0, "A")
    async with opened(store) as bench:
        sink = writer(bench)
        assert await sink.publish(0) == (0, True)
        assert await reason_of(writer(bench, query="other").publish(1)) == MQRC.SUBSCRIPTION_IN_USE
        assert await sink.write(1, "B") == (1, False)
    async with opened(store) as bench:
        assert await got(bench) == [b"A", b"B"]


async def test_a_stage_for_the_last_batch_is_told_published_and_keeps_nothing(bench: Bench) -> None:
    """K57."""
    sink = writer(bench)
    await sink.write(3, "A")
    written = bench.transactions
    assert await sink.piece(sink.unit(3, attempt=1), rows_of("B")) is True
    assert (bench.depth, bench.transactions) == (1, written)
    assert await reason_of(sink.stage(2, "B")) == MQRC.UOW_COMMITTED
    assert await reason_of(writer(bench, query="other").stage(4, "B")) == MQRC.SUBSCRIPTION_IN_USE
    assert names_of(bench) == []


async def test_a_stage_beside_the_publish_of_its_batch_waits_for_the_outcome(bench: Bench) -> None:
    """K57: a twin that is late. Claims rule 1.2."""
    sink, twin = writer(bench), writer(bench)
    winner = await sink.stage(0, "A")
    bench.store.hold()
    publish = asyncio.ensure_future(sink.publish(0, winner))
    await bench.store.wait_held()
    stage = asyncio.ensure_future(twin.piece(twin.unit(0, attempt=1), rows_of("B")))
    await asyncio.sleep(0)
    assert not stage.done()
    bench.store.release()
    assert (await publish, await stage) == ((1, False), True)
    assert names_of(bench) == []


async def test_a_stage_beside_a_publish_that_is_refused_goes_on(bench: Bench) -> None:
    """K32. Claims rule 1.2."""
    sink, twin = writer(bench), writer(bench)
    winner = await sink.stage(0, "A")
    bench.store.fail_next(StoreFullError("full"))
    bench.store.hold()
    publish = asyncio.ensure_future(reason_of(sink.publish(0, winner)))
    await bench.store.wait_held()
    stage = asyncio.ensure_future(twin.piece(twin.unit(0, attempt=1), rows_of("B")))
    bench.store.release()
    assert (await publish, await stage) == (MQRC.STORAGE_MEDIUM_FULL, False)
    assert len(names_of(bench)) == 2


async def test_published_already_is_not_said_of_a_publish_that_is_refused(bench: Bench) -> None:
    """K32."""
    sink, other = writer(bench), writer(bench)
    winner = await sink.stage(0, "A")
    bench.store.fill()
    calls = [reason_of(each.publish(0, winner)) for each in (sink, other)]
    assert await asyncio.gather(*calls) == [MQRC.STORAGE_MEDIUM_FULL] * 2
    assert (bench.depth, queue_of(bench).prepared, await got(bench)) == (1, 1, [])
    bench.store.make_room()
    assert await sink.publish(0, winner) == (1, False)
    assert await got(bench) == [b"A"]


async def test_a_ledger_asked_for_beside_a_publish_tells_what_came_of_it(bench: Bench) -> None:
    """Claims rule 1.2."""
    sink, other = writer(bench), writer(bench)
    winner = await sink.stage(0, "A")
    bench.store.hold()
    publish = asyncio.ensure_future(sink.publish(0, winner))
    await bench.store.wait_held()
    ledger = asyncio.ensure_future(other.ledger())
    bench.store.release()
    assert (await publish, await ledger) == ((1, False), ("query", 0))


async def test_a_publish_needs_no_room_once_the_sink_has_a_ledger(bench: Bench) -> None:
    """Claims rule 3.4."""
    sink = writer(bench)
    await sink.write(0, "A")
    winner = await sink.stage(1, "B")
    bench.store.fill()
    assert await sink.publish(1, winner) == (1, False)
    assert await got(bench) == [b"A", b"B"]


async def test_a_publish_with_confirmations_that_is_refused_leaves_none(bench: Bench) -> None:
    """K67."""
    await bench.connection.mqsc("DEFINE QLOCAL(R) DEFPSIST(YES)")
    sink = writer(bench)
    await sink.write(0, "A")
    winner = await sink.stage(1, rows_of("B", report=MQRO.COA, reply_to_q="R"))
    bench.store.fill()
    assert await reason_of(sink.publish(1, winner)) == MQRC.STORAGE_MEDIUM_FULL
    assert (queue_of(bench, "R").depth, queue_of(bench).prepared) == (0, 1)
    bench.store.make_room()
    await sink.publish(1, winner)
    assert (queue_of(bench, "R").depth, queue_of(bench).prepared) == (1, 0)


async def test_what_has_places_and_is_not_decided_yet_counts_as_about_to_appear(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a queue read by number would end behind it (K72)."""
    await bench.connection.mqsc("DEFINE QLOCAL(R) DEFPSIST(YES)")
    sink = writer(bench)
    winner = await sink.stage(0, rows_of("A", report=MQRO.COA, reply_to_q="R"))
    found: list[list[int]] = []
    report = publishing.Publishing.report

    def reported(publication: publishing.Publishing, *arguments: Any) -> None:
        found.append(bench.manager.core.sinks.places_to_appear())
        report(publication, *arguments)

    monkeypatch.setattr(publishing.Publishing, "report", reported)
    bench.store.fill()
    assert await reason_of(sink.publish(0, winner)) == MQRC.STORAGE_MEDIUM_FULL
    assert bench.manager.core.sinks.places_to_appear() == []
    bench.store.make_room()
    await sink.publish(0, winner)
    assert bench.manager.core.sinks.places_to_appear() == []
    (entry,) = queue_of(bench).shelf.entries.values()
    assert [len(each) for each in found] == [1, 1]
    assert found[1] == [entry.place]


async def test_a_publish_that_breaks_off_leaves_neither_reports_nor_places(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.connection.mqsc("DEFINE QLOCAL(R)")
    sink = writer(bench)
    winner = await sink.stage(0, rows_of("A", report=MQRO.COA, reply_to_q="R"))
    with monkeypatch.context() as patch:
        patch.setattr(publishing.Publishing, "freeze", lambda *_: 1 / 0)
        assert await reason_of(sink.publish(0, winner)) == MQRC.UNEXPECTED_ERROR
    assert (queue_of(bench, "R").depth, bench.manager.core.sinks.places_to_appear()) == (0, [])
    assert await sink.publish(0, winner) == (1, False)
    assert queue_of(bench, "R").depth == 1


# The winners


async def test_of_two_attempts_one_is_published_and_the_other_goes(bench: Bench) -> None:
    """K55."""
    sink = writer(bench)
    await sink.stage(0, "AB", attempt=1)
    winner = await sink.stage(0, "AB", attempt=2)
    assert bench.depth == 4
    await sink.publish(0, winner)
    await discarded(bench)
    objects = bench.store.inner._objects  # type: ignore[attr-defined]
    assert [key for key in objects if key[0] in ("SINK", "UNIT")] == [("SINK", "S")]
    assert (bench.depth, await got(bench)) == (2, [b"A", b"B"])
    assert await bench.stored() == []


async def test_a_publish_takes_the_units_of_older_batches_with_it(bench: Bench) -> None:
    """Claims rule 3.4."""
    sink = writer(bench)
    await sink.stage(0, "OLD")
    ahead = await sink.stage(2, "N")
    await sink.write(1, "A")
    await bench.until(lambda: len(names_of(bench)) == 1)
    assert await sink.publish(2, ahead) == (1, False)
    assert await got(bench) == [b"A", b"N"]


async def test_two_drivers_that_publish_together_publish_once(bench: Bench) -> None:
    """K59. Claims rule 1.2."""
    drivers = [writer(bench), writer(bench)]
    winners = [await driver.stage(0, "AB", attempt=number) for number, driver in enumerate(drivers)]
    calls = (driver.publish(0, winner) for driver, winner in zip(drivers, winners, strict=True))
    assert await asyncio.gather(*calls) == [(2, False), (0, True)]
    assert await got(bench) == [b"A", b"B"]


async def test_an_abort_holds_the_data_of_the_others_alone(bench: Bench) -> None:
    """K58."""
    sink = writer(bench)
    old = await sink.stage(0, "AB", attempt=1)
    await sink.stage(0, "AB", attempt=2)
    held = bench.manager.bodies.bytes
    await sink.discard(old.unit)
    assert bench.manager.bodies.bytes == held - 2


async def test_a_publish_waits_for_a_piece_of_a_winner_that_is_on_its_way(bench: Bench) -> None:
    sink, driver = writer(bench), writer(bench)
    unit = sink.unit(0)
    bench.store.hold()
    stage = asyncio.ensure_future(sink.piece(unit, rows_of("A")))
    await bench.store.wait_held()
    publish = asyncio.ensure_future(driver.publish(0, Winner(unit, 1)))
    await asyncio.sleep(0)
    bench.store.release()
    assert (await stage, await publish) == (False, (1, False))


async def test_a_discard_waits_for_a_piece_that_is_on_its_way(bench: Bench) -> None:
    sink, driver = writer(bench), writer(bench)
    unit = sink.unit(0)
    bench.store.hold()
    stage = asyncio.ensure_future(sink.piece(unit, rows_of("A")))
    await bench.store.wait_held()
    discard = asyncio.ensure_future(driver.discard(unit))
    await asyncio.sleep(0)
    bench.store.release()
    assert (await stage, await discard) == (False, 1)
    assert (bench.depth, await bench.stored()) == (0, [])
    assert await reason_of(sink.piece(unit, rows_of("B"), 1)) == MQRC.UOW_CANCELED


async def test_a_publish_goes_on_when_its_driver_has_gone(bench: Bench) -> None:
    sink = writer(bench)
    winner = await sink.stage(0, "A")
    bench.store.hold()
    call = sink.port.publish("S", 0, "query", [winner])
    await bench.store.wait_held()
    assert isinstance(sink.port, Conversation)
    sink.port.break_()
    bench.store.release()
    assert await call == (1, False)
    assert await writer(bench).publish(0, winner) == (0, True)
    assert await got(bench) == [b"A"]


# Many messages


def each_slice(monkeypatch: pytest.MonkeyPatch, seen: Callable[[], None]) -> None:
    """Have something done when a slice of a publication has appeared."""
    show = publishing.Publishing.show

    def shown(publication: publishing.Publishing, moment: Moment) -> None:
        show(publication, moment)
        seen()

    monkeypatch.setattr(publishing.Publishing, "show", shown)


async def test_twelve_thousand_appear_in_order_in_slices(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """K63."""
    await bench.connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(999999999)")
    sink = writer(bench)
    winners = [await sink.stage(0, rows_of([b""] * 4000), partition) for partition in (1, 0, 2)]
    appeared: list[int] = []
    available = queue_of(bench).shelf.available
    each_slice(monkeypatch, lambda: appeared.append(len(available)))
    assert await sink.publish(0, *winners) == (12_000, False)
    assert appeared == [5000, 10_000, 12_000]
    entries = [queue_of(bench).shelf.entries[key] for key in available]
    assert [entry.number for entry in entries[:8000]] != sorted(entry.number for entry in entries[:8000])
    assert [entry.number for entry in entries[8000:]] == sorted(entry.number for entry in entries[8000:])
    assert all(after.place == before.place + 1 for before, after in pairwise(entries))


async def test_no_group_is_cut_by_a_slice(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims rule 3.5."""
    monkeypatch.setattr(publishing, "SLICE", 4)
    sink = writer(bench)
    rows = rows_of("S")
    for group, number, flags in (
        (b"G", 1, MQMF.MSG_IN_GROUP),
        (b"H", 1, MQMF.MSG_IN_GROUP),
        (b"G", 2, MQMF.LAST_MSG_IN_GROUP),
        (b"I", 1, MQMF.LAST_MSG_IN_GROUP),
        (b"H", 2, MQMF.LAST_MSG_IN_GROUP),
    ):
        rows.append(Row(md=MessageDescriptor(group_id=group * 24, msg_seq_number=number, msg_flags=flags)))
    winner = await sink.stage(0, [*rows, *rows_of("T")])
    appeared: list[int] = []
    available = queue_of(bench).shelf.available
    each_slice(monkeypatch, lambda: appeared.append(len(available)))
    await sink.publish(0, winner)
    assert appeared == [1, 6, 7]


async def test_until_all_have_appeared_the_queue_counts_them_as_prepared(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims rule 3.5."""
    monkeypatch.setattr(publishing, "SLICE", 1)
    sink = writer(bench)
    winner = await sink.stage(0, "ABC")
    seen = []

    def look() -> None:
        seen.append((queue_of(bench).prepared, len(names_of(bench))))
        bench.manager.core.check_invariants()

    each_slice(monkeypatch, look)
    await sink.publish(0, winner)
    assert seen == [(2, 1), (1, 1), (0, 0)]


async def test_a_queue_manager_that_ends_between_slices_has_all_at_its_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K63."""
    monkeypatch.setattr(publishing, "SLICE", 1)
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await bench.connection.mqsc("ALTER QLOCAL(Q) NPMCLASS(HIGH)")
        sink = writer(bench)
        winner = await sink.stage(0, rows_of("AB") + rows_of("N", persistence=0) + rows_of("C"))
        publish = sink.port.publish("S", 0, "query", [winner])
        await bench.until(lambda: queue_of(bench).prepared == 3)
        publish.cancel()
        await bench.manager.close()
    async with opened(store) as bench:
        assert await got(bench) == [b"A", b"B", b"N", b"C"]


async def test_a_unit_is_discarded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start does the rest of one that was discarded in part."""
    monkeypatch.setattr("broker.core.prepared.discarding.SLICE", 2)
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        sink = writer(bench)
        winner = await sink.stage(0, "ABCDE")
        store.hold(after=2)
        discard = asyncio.ensure_future(sink.discard(winner.unit))
        await store.wait_held()
        assert (bench.depth, len(await bench.stored())) == (3, 3)
        assert await reason_of(writer(bench).piece(winner.unit, rows_of("A"))) == MQRC.UOW_CANCELED
        inner = MemoryStore()
        inner._messages = dict(store.inner._messages)  # type: ignore[attr-defined]
        inner._objects = dict(store.inner._objects)  # type: ignore[attr-defined]
        store.release()
        assert (await discard, bench.depth, names_of(bench)) == (1, 0, [])
    async with opened(FaultStore(inner)) as bench:
        assert (bench.depth, names_of(bench), await bench.stored()) == (0, [], [])


async def test_a_unit_that_was_discarded_in_part_is_not_published(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K54."""
    monkeypatch.setattr("broker.core.prepared.discarding.SLICE", 2)
    sink = writer(bench)
    winner = await sink.stage(0, "ABCDE")
    bench.store.fail_next(StoreFullError("full"), after=2)
    assert await reason_of(sink.discard(winner.unit)) == MQRC.STORAGE_MEDIUM_FULL
    assert bench.depth == 3
    assert await reason_of(sink.publish(0, winner)) == MQRC.UOW_CANCELED
    assert await reason_of(sink.piece(winner.unit, rows_of("A"))) == MQRC.UOW_CANCELED
    assert (await sink.discard(winner.unit), bench.depth) == (1, 0)


async def test_more_winners_than_units_may_be_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.engine.claims.sink_calls.UNITS_MAX", 1)
    sink = writer(bench)
    winners = [Winner(sink.unit(0, partition), 0) for partition in range(2)]
    assert await reason_of(sink.publish(0, *winners)) == MQRC.SYNCPOINT_LIMIT_REACHED
    assert await reason_of(sink.discard(*(winner.unit for winner in winners))) == MQRC.SYNCPOINT_LIMIT_REACHED
    assert await sink.publish(0, *winners[:1]) == (0, False)


# Room and limits


async def test_prepared_units_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims rule 3.2."""
    monkeypatch.setattr("broker.core.prepared.staging.UNITS_MAX", 2)
    sink = writer(bench)
    bench.manager.core.sinks.bytes_max = 10
    await sink.stage(0, [b"12345"])
    assert await reason_of(sink.stage(0, [b"123456"], 1)) == MQRC.SYNCPOINT_LIMIT_REACHED
    await sink.stage(0, [b"12345"], 1)
    assert await reason_of(sink.stage(0, [b""], 2)) == MQRC.SYNCPOINT_LIMIT_REACHED
    await sink.piece(sink.unit(0, 1), rows_of([b""]), 0)
    await sink.discard(sink.unit(0))
    await sink.stage(0, [b"12345"], 2)


# What ends in time


async def test_an_orphan_is_discarded_when_nobody_has_touched_it_for_prepared_age(bench: Bench) -> None:
    """K66."""
    sink = writer(bench)
    orphan = await sink.stage(0, "A")
    await later(bench, 12 * 3600)
    await sink.piece(sink.unit(0, 1), rows_of("B"))
    await later(bench, 12 * 3600 + 60)
    await bench.until(lambda: len(names_of(bench)) == 1)
    assert await reason_of(sink.publish(0, orphan)) == MQRC.UOW_CANCELED
    await sink.piece(sink.unit(0, 1), rows_of("C"), 1)
    await later(bench, 23 * 3600)
    assert await sink.publish(0, Winner(sink.unit(0, 1), 2)) == (2, False)
    assert await got(bench) == [b"B", b"C"]


async def test_the_age_of_a_unit_goes_on_over_a_restart() -> None:
    """K66."""
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        began = bench.manager.clock.time()
        await writer(bench).stage(0, "A")
    async with opened(store) as bench:
        (unit,) = bench.manager.core.sinks.units.values()
        assert (unit.since, unit.touched) == (began, began)


async def test_a_key_makes_a_batch_happen_once_and_ends_in_time(bench: Bench) -> None:
    """Claims rule 3.3."""
    sink = writer(bench, "key", KEYED)
    winner = await sink.stage(0, "A")
    assert await sink.publish(0, winner) == (1, False)
    assert await writer(bench, "key", KEYED).publish(0) == (0, True)
    await later(bench, sinks.KEY_SECONDS - 3600)
    assert await sink.ledger() == (KEYED, 0)
    await later(bench, 3600 + 120)
    await bench.until(lambda: not bench.manager.core.sinks.by_name)
    assert await sink.ledger() is None
    assert ("SINK", "key") not in bench.store.inner._objects  # type: ignore[attr-defined]


async def test_the_oldest_keys_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims rule 3.3."""
    monkeypatch.setattr(sinks, "KEYS_MAX", 2)
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        for name in ("a", "b", "c"):
            await writer(bench, name, KEYED).publish(0)
            await later(bench, 1)
        assert await writer(bench, "a", KEYED).ledger() is None
    async with opened(store) as bench:
        await writer(bench, "d", KEYED).publish(0)
        ledgers = [await writer(bench, name, KEYED).ledger() for name in "bcd"]
        assert ledgers == [None, (KEYED, 0), (KEYED, 0)]


async def test_a_sink_without_a_query_remembers_for_a_while_what_it_has_published(bench: Bench) -> None:
    """K19: the answer to a publish may be lost."""
    sink = writer(bench, query=None)
    winner = await sink.stage(0, "AB")
    await sink.stage(0, "AB", attempt=1)
    assert await sink.publish(0, winner) == (2, False)
    assert await sink.publish(0, winner) == (0, True)
    assert await sink.piece(winner.unit, rows_of("AB")) is True
    await discarded(bench)
    assert (await sink.ledger(), await got(bench), bench.manager.core.sinks.by_name) == (None, [b"A", b"B"], {})


# An administrator


async def reset(bench: Bench, name: str) -> None:
    """RESET SINK, as a script does it."""
    call: Call[None] = Call()
    bench.manager.context.jobs.run(Job(bench.manager.sinks.reset(name, None), call, lambda: None))
    await answer(call)


async def test_a_sink_that_is_reset_belongs_to_the_query_that_publishes_next(bench: Bench) -> None:
    """Claims rule 3.1."""
    old, new = writer(bench), writer(bench, query="new")
    await old.write(7, "A")
    left = await old.stage(8, "B")
    await reset(bench, "S")
    assert (bench.depth, await new.ledger(), names_of(bench)) == (1, None, [])
    assert await reason_of(old.publish(8, left)) == MQRC.UOW_CANCELED
    assert await new.write(0, "C") == (1, False)
    assert await reason_of(old.stage(8, "B")) == MQRC.SUBSCRIPTION_IN_USE
    assert await got(bench) == [b"A", b"C"]


async def test_a_sink_that_is_not_there_cannot_be_reset(bench: Bench) -> None:
    with pytest.raises(MQError) as caught:
        await reset(bench, "NONE")
    assert caught.value.reason == MQRC.UNKNOWN_OBJECT_NAME


# What is given


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda port: port.sink(""), MQRC.OBJECT_NAME_ERROR),
        (lambda port: port.sink("S" * 49), MQRC.UNKNOWN_OBJECT_NAME),
        (lambda port: port.sink("S\n"), MQRC.OBJECT_NAME_ERROR),
        (lambda port: port.sink(1), MQRC.OBJECT_NAME_ERROR),
        (lambda port: port.publish("S", -1, None, []), MQRC.OPTIONS_ERROR),
        (lambda port: port.publish("S", 0, 1, []), MQRC.OPTIONS_ERROR),
        (lambda port: port.publish("S", 0, "q" * 2000, []), MQRC.OPTIONS_ERROR),
        (lambda port: port.publish("S", 0, None, [Winner(UnitName("S", 0, 0, b"short"), 1)]), MQRC.OPTIONS_ERROR),
        (lambda port: port.publish("S", 0, None, [Winner(UnitName("S", 0, 0, bytes(16)), -1)]), MQRC.OPTIONS_ERROR),
        (lambda port: port.discard([UnitName("S", True, 0, bytes(16))]), MQRC.OPTIONS_ERROR),
        (lambda port: stage(port, b"no frame"), MQRC.BUFFER_ERROR),
        (lambda port: stage(port, frame([]), options=MQPMO.SYNCPOINT), MQRC.OPTIONS_ERROR),
        (lambda port: stage(port, frame([]), first=-1), MQRC.OPTIONS_ERROR),
        (lambda port: stage(port, frame([Row()])[:-1]), MQRC.BUFFER_ERROR),
    ],
)
async def test_what_cannot_be_meant_is_refused(bench: Bench, call: Callable[[Port], Call[Any]], reason: MQRC) -> None:
    assert await reason_of(answer(call(bench.manager.converse()))) == reason


def stage(port: Port, rows: bytes, *, first: int = 0, options: int = 0) -> Call[Any]:
    return port.stage(UnitName("S", 0, 0, bytes(16)), None, first, rows, options=options, last=False)


async def test_a_descriptor_that_is_none_is_refused(bench: Bench) -> None:
    for packed in (b"", b"\x90", b"\xc1", b"\x01"):
        rows = frame([Row()])
        columns = unpack(rows)._replace(descriptors=[packed])
        assert await reason_of(answer(stage(bench.manager.converse(), pack(columns)))) == MQRC.MD_ERROR
