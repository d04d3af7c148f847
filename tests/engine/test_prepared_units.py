"""Prepared units: staged durably, published exactly once, and unseen before (`docs/rules/claims.md`)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.interface.claims.claims import Winner
from broker.interface.port import answer
from broker.mqi import (
    MQGMO,
    MQMF,
    MQMO,
    MQOO,
    MQPMO,
    MQRC,
    MQRO,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
)
from broker.mqi.layouts import folders, rfh2
from broker.mqi.layouts.layouts import MQXQH
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFullError
from broker.testing import FaultStore, VirtualClock
from tests.engine.bench import opened, reason_of
from tests.engine.writer import Row, Writer, rows_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.core.message.rows import MessageRow
    from broker.core.queues.queue import LocalQueue
    from tests.engine.bench import Bench

NONE = MQRC.NO_MSG_AVAILABLE


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as found:
        yield found


def writer(bench: Bench, sink: str = "S", query: str | None = "query") -> Writer:
    return Writer(bench.manager.converse("writer"), sink, query)


def queue_of(bench: Bench, name: str = "Q") -> LocalQueue:
    return bench.manager.core.objects.queues[name]


def starts(bench: Bench) -> int:
    """TriggerPendingCount."""
    return queue_of(bench).pending_starts


async def later(bench: Bench, seconds: float) -> None:
    clock = bench.manager.clock
    assert isinstance(clock, VirtualClock)
    await clock.advance(seconds)


def names_of(bench: Bench) -> list[str]:
    """The units that there are."""
    return sorted(unit.name.text for unit in bench.manager.core.sinks.units.values())


async def got(bench: Bench) -> list[bytes]:
    """All that gets bring."""
    found = []
    while True:
        try:
            found.append((await bench.queue.get()).data)
        except MQError as error:
            assert error.reason == NONE
            return found


# What others see of it: the table of claims rule 1


async def test_what_is_staged_is_seen_when_it_is_published(bench: Bench) -> None:
    """K1, K6."""
    sink = writer(bench)
    winner = await sink.stage(0, ["A", "B"])
    assert (bench.depth, queue_of(bench).prepared) == (2, 2)
    assert await reason_of(bench.queue.get()) == NONE
    assert await reason_of(bench.queue.get(options=MQGMO.BROWSE_FIRST)) == NONE
    assert await sink.publish(0, winner) == (2, False)
    assert (bench.depth, queue_of(bench).prepared) == (2, 0)
    assert await got(bench) == [b"A", b"B"]


async def test_a_publish_wakes_a_get_that_waits(bench: Bench) -> None:
    """K1."""
    sink = writer(bench)
    waiting = asyncio.ensure_future(bench.queue.get(wait=60))
    await bench.until(lambda: bench.waiting == 1)
    winner = await sink.stage(0, ["A"])
    assert not waiting.done()
    await sink.publish(0, winner)
    assert (await waiting).data == b"A"


async def test_expiry_counts_from_the_stage_and_is_judged_once_it_is_available(bench: Bench) -> None:
    """K5."""
    await bench.connection.mqsc("DEFINE QLOCAL(R)")
    sink = writer(bench)
    winner = await sink.stage(0, rows_of(["A"], expiry=600, report=MQRO.EXPIRATION, reply_to_q="R"))
    await later(bench, 3600)
    await bench.idle()
    assert (bench.depth, queue_of(bench, "R").depth) == (1, 0)
    assert await sink.publish(0, winner) == (1, False)
    assert await got(bench) == []
    await bench.idle()
    assert (bench.depth, queue_of(bench, "R").depth) == (0, 1)


async def test_put_inhibited_refuses_the_stage_and_not_the_publish(bench: Bench) -> None:
    """K9, K65."""
    sink = writer(bench)
    winner = await sink.stage(0, ["A"])
    await bench.connection.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")
    assert await reason_of(sink.stage(0, ["B"], 1)) == MQRC.PUT_INHIBITED
    await sink.publish(0, winner)
    assert await got(bench) == [b"A"]


async def test_rank_and_length_are_judged_at_the_stage(bench: Bench) -> None:
    """K10."""
    sink = writer(bench)
    winner = await sink.stage(0, rows_of(["LOW"], priority=1) + rows_of(["HIGH"], priority=9))
    await bench.connection.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO) MAXMSGL(1) MAXDEPTH(1)")
    await sink.publish(0, winner)
    assert await got(bench) == [b"HIGH", b"LOW"]


async def test_a_prepared_segment_is_no_part_of_its_message(bench: Bench) -> None:
    """K12."""
    group = b"G" * 24
    md = MessageDescriptor(group_id=group, msg_flags=MQMF.SEGMENT)
    last = MessageDescriptor(group_id=group, msg_flags=MQMF.LAST_SEGMENT, offset=1)
    await bench.queue.put(b"1", md)
    sink = writer(bench)
    winner = await sink.stage(0, [Row(b"2", md=last)])
    waiting = asyncio.ensure_future(bench.queue.get(options=MQGMO.COMPLETE_MSG, wait=60))
    await bench.until(lambda: bench.waiting == 1)
    await sink.publish(0, winner)
    assert (await waiting).data == b"12"


async def test_a_confirmation_carries_data_that_is_only_on_disk() -> None:
    """K67."""
    async with opened(body_bytes=0) as bench:
        await bench.connection.mqsc("DEFINE QLOCAL(R)")
        sink = writer(bench)
        bodies = [f"{number:04}" for number in range(300)]
        winner = await sink.stage(0, rows_of(bodies, report=MQRO.COA_WITH_FULL_DATA, reply_to_q="R"))
        await sink.publish(0, winner)
        async with bench.connection.open("R", MQOO.INPUT_SHARED) as replies:
            assert [(await replies.get()).data.decode() for _ in bodies] == bodies


async def test_the_confirmation_of_a_message_whose_data_is_damaged_has_no_data() -> None:
    """K67."""
    async with opened(body_bytes=0) as bench:
        await bench.connection.mqsc("DEFINE QLOCAL(R)")
        sink = writer(bench)
        winner = await sink.stage(0, rows_of("AB", report=MQRO.COA_WITH_FULL_DATA, reply_to_q="R"))
        bench.store.damage(b"A")
        await sink.publish(0, winner)
        async with bench.connection.open("R", MQOO.INPUT_SHARED) as replies:
            assert [(await replies.get()).data for _ in range(2)] == [b"", b"B"]


async def test_the_depth_rises_at_the_stage_and_messages_come_at_the_publish(bench: Bench) -> None:
    """K14."""
    await bench.connection.mqsc(
        "ALTER QMGR PERFMEV(ENABLED)\nALTER QLOCAL(Q) MAXDEPTH(4) QDEPTHHI(50) QDPHIEV(ENABLED) QDPMAXEV(ENABLED)"
    )
    events = queue_of(bench, "SYSTEM.ADMIN.PERFM.EVENT")
    sink = writer(bench)
    winner = await sink.stage(0, "ABCD")
    await bench.idle()
    assert events.depth == 1
    gauge = bench.manager.core.events._gauges[queue_of(bench)]
    assert (gauge.highest, gauge.enqueued) == (4, 0)
    assert await reason_of(sink.stage(0, "E", 1)) == MQRC.Q_FULL
    await bench.idle()
    assert events.depth == 2
    await sink.publish(0, winner)
    assert gauge.enqueued == 4


async def test_every_counts_each_message_at_the_publish(bench: Bench) -> None:
    """K18."""
    await bench.connection.mqsc("DEFINE PROCESS(P) APPLICID('x')\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
    sink = writer(bench)
    winner = await sink.stage(0, "ABC")
    assert starts(bench) == 0
    await sink.publish(0, winner)
    assert starts(bench) == 3


async def test_first_is_judged_at_the_publish(bench: Bench) -> None:
    await bench.connection.mqsc("DEFINE PROCESS(P) APPLICID('x')\nDEFINE QLOCAL(F) TRIGGER TRIGTYPE(FIRST) PROCESS(P)")
    sink = writer(bench)
    winner = await sink.stage(0, [Row(b"A", "F"), Row(b"B", "F")])
    assert queue_of(bench, "F").pending_starts == 0
    await sink.publish(0, winner)
    assert queue_of(bench, "F").pending_starts == 1
    queue_of(bench, "F").pending_starts = 0
    await sink.publish(1, await sink.stage(1, [Row(b"C", "F")]))
    assert queue_of(bench, "F").pending_starts == 0
    async with bench.connection.open("F", MQOO.INPUT_SHARED) as queue:
        for _ in range(3):
            await queue.get()
    await sink.publish(2, await sink.stage(2, [Row(b"D", "F"), Row(b"E", "F")]))
    assert queue_of(bench, "F").pending_starts == 1


# What is kept over a restart


@pytest.fixture
def store() -> FaultStore:
    return FaultStore(MemoryStore())


async def test_units_outlive_a_restart_and_are_published_then(store: FaultStore) -> None:
    """K11."""
    async with opened(store) as bench:
        winner = await writer(bench).stage(0, rows_of("AB") + rows_of("N", persistence=0) + rows_of("C"))
        await bench.queue.put(b"BEFORE")
    async with opened(store) as bench:
        assert (bench.depth, queue_of(bench).prepared) == (5, 4)
        await bench.queue.put(b"BETWEEN")
        assert await writer(bench).publish(0, winner) == (4, False)
    async with opened(store) as bench:
        assert await got(bench) == [b"BEFORE", b"BETWEEN", b"A", b"B", b"C"]


async def test_a_nonpersistent_message_is_kept_until_it_is_published(store: FaultStore) -> None:
    """Claims rule 1.4."""
    async with opened(store) as bench:
        winner = await writer(bench).stage(0, rows_of("NM", persistence=0))
    async with opened(store) as bench:
        await writer(bench).publish(0, winner)
        assert [(await bench.queue.get(options=MQGMO.BROWSE_NEXT)).data for _ in range(2)] == [b"N", b"M"]
        assert await bench.stored() == []
    async with opened(store) as bench:
        assert bench.depth == 0


async def test_an_orderly_stop_keeps_published_nonpersistent_messages_at_their_places(store: FaultStore) -> None:
    """K37."""
    async with opened(store) as bench:
        await bench.connection.mqsc("ALTER QLOCAL(Q) NPMCLASS(HIGH)")
        sink = writer(bench)
        winner = await sink.stage(0, rows_of("N", persistence=0))
        await bench.queue.put(b"O", MessageDescriptor(persistence=0))
        await sink.publish(0, winner)
    async with opened(store) as bench:
        assert await got(bench) == [b"O", b"N"]


async def test_a_published_message_keeps_its_place_and_its_identifier(store: FaultStore) -> None:
    async with opened(store) as bench:
        sink = writer(bench)
        winner = await sink.stage(0, "AB")
        await bench.queue.put(b"O")
        await sink.publish(0, winner)
        before = [(await bench.queue.get(options=MQGMO.BROWSE_NEXT)).md.msg_id for _ in range(3)]
    async with opened(store) as bench:
        after = [(await bench.queue.get(options=MQGMO.BROWSE_NEXT)).md.msg_id for _ in range(3)]
        assert after == before
        options = GetMessageOptions(match_options=MQMO.MATCH_MSG_ID)
        assert (await bench.queue.get(MessageDescriptor(msg_id=before[2]), options)).data == b"B"


async def test_a_get_that_nobody_took_puts_a_published_message_back_at_its_place(store: FaultStore) -> None:
    async with opened(store) as bench:
        sink = writer(bench)
        winner = await sink.stage(0, "A")
        await bench.queue.put(b"O")
        await sink.publish(0, winner)
        await bench.queue.get()
        port = bench.manager.converse()
        hobj = (await answer(port.open(ObjectDescriptor(object_name="Q"), MQOO.INPUT_SHARED))).hobj
        call = port.get(hobj, None, GetMessageOptions(), None)
        assert (await call).data == b"A"
        call.abandon()
        await bench.queue.put(b"P")
        await bench.idle()
    async with opened(store) as bench:
        assert await got(bench) == [b"A", b"P"]


async def test_a_start_discards_what_a_decided_batch_has_left(store: FaultStore) -> None:
    """K52: the losers of a publish that was durable, and nobody lived to discard."""
    async with opened(store) as bench:
        sink = writer(bench)
        winner = await sink.stage(0, "A")
        await sink.stage(0, ["LOSER"], attempt=1)
        store.hold(after=2)
        assert await sink.publish(0, winner) == (1, False)
        left = dict(store.inner._messages), dict(store.inner._objects)  # type: ignore[attr-defined]
        assert len(left[0]) == 2
    again = MemoryStore()
    again._messages, again._objects = left
    async with opened(FaultStore(again)) as bench:
        assert (await got(bench), names_of(bench)) == ([b"A"], [])
        assert await bench.stored() == []
        assert await writer(bench).publish(0, winner) == (0, True)


@pytest.mark.parametrize("lost", [slice(1), slice(2, 3), slice(3)])
async def test_a_start_discards_a_unit_that_lacks_messages(store: FaultStore, lost: slice) -> None:
    """K52."""
    async with opened(store) as bench:
        winner = await writer(bench).stage(0, "ABC")
    rows: dict[int, MessageRow] = store.inner._messages  # type: ignore[attr-defined]
    for id in sorted(rows)[lost]:
        del rows[id]
    async with opened(store) as bench:
        assert (bench.depth, names_of(bench), await bench.stored()) == (0, [], [])
        assert await reason_of(writer(bench).publish(0, winner)) == MQRC.UOW_CANCELED


async def test_staging_goes_on_after_a_restart_in_the_middle_of_a_group(store: FaultStore) -> None:
    """K52, K62."""
    ordered = MQPMO.LOGICAL_ORDER
    rows = rows_of("12", msg_flags=MQMF.MSG_IN_GROUP) + rows_of("3", msg_flags=MQMF.LAST_MSG_IN_GROUP)
    async with opened(store) as bench:
        sink = writer(bench)
        await sink.piece(sink.unit(0), rows[:2], options=ordered)
    async with opened(store) as bench:
        sink = writer(bench)
        await sink.piece(sink.unit(0), rows[2:], 2, options=ordered, last=True)
        await sink.publish(0, Winner(sink.unit(0), 3))
        options = MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE
        found = [await bench.queue.get(options=options) for _ in range(3)]
        assert [(message.data, message.md.msg_seq_number) for message in found] == [(b"1", 1), (b"2", 2), (b"3", 3)]


# Pieces


async def test_a_piece_that_comes_again_is_not_put_again(bench: Bench) -> None:
    """K19, K53."""
    sink = writer(bench)
    unit = sink.unit(0)
    for _ in range(2):
        await sink.piece(unit, rows_of("AB"))
        await sink.piece(unit, rows_of("C"), 2, last=True)
        await sink.piece(unit, [], 3, last=True)
    assert bench.depth == 3
    assert await sink.publish(0, Winner(unit, 3)) == (3, False)
    assert await got(bench) == [b"A", b"B", b"C"]


async def test_a_piece_that_comes_again_while_it_is_on_its_way_is_told_what_came_of_it(bench: Bench) -> None:
    """K19: from another connection, as after a cut line."""
    first, again = writer(bench), writer(bench)
    unit = first.unit(0)
    bench.store.fail_next(StoreFullError("full"))
    calls = [asyncio.ensure_future(reason_of(each.piece(unit, rows_of("A")))) for each in (first, again)]
    assert await asyncio.gather(*calls) == [MQRC.STORAGE_MEDIUM_FULL, MQRC.NONE]
    assert bench.depth == 1
    assert await first.publish(0, Winner(unit, 1)) == (1, False)


async def test_a_piece_without_its_predecessor_is_refused(bench: Bench) -> None:
    sink = writer(bench)
    assert await reason_of(sink.piece(sink.unit(0), rows_of("B"), 1)) == MQRC.UOW_CANCELED
    await sink.piece(sink.unit(0), rows_of("A"), last=True)
    assert await reason_of(sink.piece(sink.unit(0), rows_of("B"), 1)) == MQRC.OPERATION_NOT_ALLOWED
    assert bench.depth == 1


async def test_a_piece_on_its_way_counts_and_leaves_nothing_when_it_is_refused(bench: Bench) -> None:
    """K6."""
    sink = writer(bench)
    unit = sink.unit(0)
    await sink.piece(unit, rows_of("A"))
    bench.store.fail_next(StoreFullError("full"))
    bench.store.hold()
    call = asyncio.ensure_future(reason_of(sink.piece(unit, rows_of("BC") + rows_of("N", persistence=0), 1, last=True)))
    await bench.store.wait_held()
    assert bench.depth == 4
    bench.store.release()
    assert (await call, bench.depth, queue_of(bench).bytes) == (MQRC.STORAGE_MEDIUM_FULL, 1, 1)
    await sink.piece(unit, rows_of("DE"), 1, last=True)
    await sink.publish(0, Winner(unit, 3))
    assert await got(bench) == [b"A", b"D", b"E"]


async def test_the_first_piece_of_a_unit_that_is_refused_leaves_no_unit(bench: Bench) -> None:
    bench.store.fill()
    sink = writer(bench)
    assert await reason_of(sink.stage(0, "A")) == MQRC.STORAGE_MEDIUM_FULL
    assert (bench.depth, names_of(bench), bench.manager.core.sinks.by_name) == (0, [], {})
    bench.store.make_room()
    await sink.publish(0, await sink.stage(0, "A"))
    assert await got(bench) == [b"A"]


async def test_a_refused_piece_takes_its_place_in_the_group_back(bench: Bench) -> None:
    """K62."""
    sink, ordered = writer(bench), MQPMO.LOGICAL_ORDER
    unit = sink.unit(0)
    await sink.piece(unit, rows_of("1", msg_flags=MQMF.MSG_IN_GROUP), options=ordered)
    bench.store.fill()
    more = rows_of("2", msg_flags=MQMF.MSG_IN_GROUP), 1
    assert await reason_of(sink.piece(unit, *more, options=ordered)) == MQRC.STORAGE_MEDIUM_FULL
    bench.store.make_room()
    await sink.piece(unit, rows_of("2", msg_flags=MQMF.LAST_MSG_IN_GROUP), 1, options=ordered, last=True)
    await sink.publish(0, Winner(unit, 2))
    found = [await bench.queue.get() for _ in range(2)]
    assert [message.md.msg_seq_number for message in found] == [1, 2]
    assert found[0].md.group_id == found[1].md.group_id


async def test_a_group_that_is_left_open_is_refused_at_the_last_piece(bench: Bench) -> None:
    """K62."""
    sink, ordered = writer(bench), MQPMO.LOGICAL_ORDER
    rows = rows_of("1", msg_flags=MQMF.MSG_IN_GROUP)
    assert await reason_of(sink.piece(sink.unit(0), rows, last=True, options=ordered)) == MQRC.INCOMPLETE_GROUP
    assert bench.depth == 0
    await sink.piece(sink.unit(0), rows, options=ordered)
    assert await reason_of(sink.publish(0, Winner(sink.unit(0), 1))) == MQRC.INCOMPLETE_GROUP
    segment = rows_of("1", msg_flags=MQMF.SEGMENT)
    assert await reason_of(sink.piece(sink.unit(0, 1), segment, last=True, options=ordered)) == MQRC.INCOMPLETE_MSG


async def test_a_group_that_is_spread_over_units_is_complete_at_the_publish(bench: Bench) -> None:
    """K62."""
    sink, group = writer(bench), b"G" * 24
    winners = []
    for number, flags in ((1, MQMF.MSG_IN_GROUP), (2, MQMF.LAST_MSG_IN_GROUP)):
        md = MessageDescriptor(group_id=group, msg_seq_number=number, msg_flags=flags)
        winners.append(await sink.stage(0, [Row(b"%d" % number, md=md)], number))
    waiting = asyncio.ensure_future(bench.queue.get(options=MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE, wait=60))
    await bench.until(lambda: bench.waiting == 1)
    await sink.publish(0, *winners)
    assert (await waiting).data == b"1"


# What is checked of the messages


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (Row(q_name="NONE"), MQRC.UNKNOWN_OBJECT_NAME),
        (Row(q_name="A B"), MQRC.UNKNOWN_OBJECT_NAME),
        (Row(b"A" * 11, "SHORT"), MQRC.MSG_TOO_BIG_FOR_Q),
        (Row(md=MessageDescriptor(expiry=0)), MQRC.EXPIRY_ERROR),
        (Row(md=MessageDescriptor(priority=-2)), MQRC.PRIORITY_ERROR),
        (Row(md=MessageDescriptor(persistence=3)), MQRC.PERSISTENCE_ERROR),
        (Row(md=MessageDescriptor(report=MQRO.COA)), MQRC.MISSING_REPLY_TO_Q),
        (Row(md=MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP, msg_seq_number=0)), MQRC.MSG_SEQ_NUMBER_ERROR),
        (Row(properties=b"no folder"), MQRC.RFH_ERROR),
        (Row(properties=b"\x04\0\0\0<usr"), MQRC.RFH_FORMAT_ERROR),
        (Row(q_name="SYSTEM.DEFAULT.MODEL.QUEUE"), MQRC.Q_TYPE_ERROR),
    ],
)
async def test_each_message_passes_the_checks_of_a_put(bench: Bench, row: Row, reason: MQRC) -> None:
    """Claims rule 3.2."""
    await bench.connection.mqsc("DEFINE QLOCAL(SHORT) MAXMSGL(10)")
    sink = writer(bench)
    for rows in ([row], [*rows_of("A"), row]):
        assert await reason_of(sink.stage(0, rows)) == reason
        assert (bench.depth, names_of(bench)) == (0, [])


async def test_persistent_messages_are_not_for_temporary_dynamic_queues(bench: Bench) -> None:
    """Claims rule 3.2."""
    sink = writer(bench)
    async with bench.connection.open("SYSTEM.DEFAULT.MODEL.QUEUE", MQOO.INPUT_SHARED) as queue:
        refused = sink.stage(0, [Row(q_name=queue.name, md=MessageDescriptor(persistence=1))])
        assert await reason_of(refused) == MQRC.PERSISTENT_NOT_ALLOWED
        winner = await sink.stage(0, [Row(q_name=queue.name), Row(b"A")])
        gone = queue_of(bench, queue.name)
    assert await sink.publish(0, winner) == (2, False)
    assert (gone.depth, gone.prepared) == (0, 0)
    assert await got(bench) == [b"A"]


async def test_names_lead_through_aliases_and_to_other_queue_managers(bench: Bench) -> None:
    await bench.connection.mqsc(
        "DEFINE QALIAS(ALIAS) TARGET(Q) DEFPRTY(7)\nDEFINE QLOCAL(QM2) USAGE(XMITQ) DEFPSIST(YES)\n"
        "DEFINE QREMOTE(FAR) RNAME(THERE) RQMNAME(QM2)"
    )
    sink = writer(bench)
    await sink.publish(0, await sink.stage(0, [Row(b"A", "ALIAS"), Row(b"B", "FAR"), Row(b"C", "FAR")]))
    message = await bench.queue.get()
    assert (message.data, message.md.priority) == (b"A", 7)
    async with bench.connection.open("QM2", MQOO.INPUT_SHARED) as waiting:
        found = [await waiting.get() for _ in range(2)]
    headers = [MQXQH.from_bytes(each.data, "little") for each in found]
    assert [(each.remote_q_name, each.remote_q_mgr_name) for each in headers] == [("THERE", "QM2")] * 2
    assert [each.data[-1:] for each in found] == [b"B", b"C"]
    assert len({each.md.msg_id for each in headers}) == 2


async def test_a_message_is_cut_where_it_allows_that(store: FaultStore) -> None:
    rows = [Row(b"A" * 16 + b"B" * 16 + b"C", md=MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED)), Row(b"D")]
    async with opened(store) as bench:
        await bench.connection.mqsc(
            "ALTER QLOCAL(Q) MAXMSGL(16)\nDEFINE PROCESS(P) APPLICID('x')\n"
            "ALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)"
        )
        sink = writer(bench)
        await sink.publish(0, await sink.stage(0, rows))
        assert (bench.depth, starts(bench)) == (4, 2)
        winner = await sink.stage(1, rows)
    async with opened(store) as bench:
        await writer(bench).publish(1, winner)
        found = [(await bench.queue.get(options=MQGMO.COMPLETE_MSG)).data for _ in range(4)]
        assert found == [rows[0].data, b"D"] * 2


async def test_properties_come_with_their_message(bench: Bench) -> None:
    packed = rfh2.pack(folders.encode({"colour": "red", "size": 3}))
    sink = writer(bench)
    winner = await sink.stage(0, [Row(b"A", properties=packed), Row(b"B")])
    await sink.publish(0, winner)
    found = [await bench.queue.get() for _ in range(2)]
    assert [dict(message.properties) for message in found] == [{"colour": "red", "size": 3}, {}]


async def test_properties_are_bounded(bench: Bench) -> None:
    await bench.connection.mqsc("ALTER QMGR MAXPROPL(10)")
    packed = rfh2.pack(folders.encode({"colour": "red"}))
    assert await reason_of(writer(bench).stage(0, [Row(properties=packed)])) == MQRC.PROPERTIES_TOO_BIG


async def test_the_context_is_that_of_the_connection_and_of_the_stage(bench: Bench) -> None:
    sink = Writer(bench.manager.converse("spark", "someone"))
    winner = await sink.stage(0, rows_of("A", put_appl_name="another", user_identifier="x", put_date="19990101"))
    before = bench.manager.core.ids.stamp(bench.manager.clock.time())
    await later(bench, 3600)
    await sink.publish(0, winner)
    md = (await bench.queue.get()).md
    assert (md.put_appl_name, md.user_identifier, (md.put_date, md.put_time)) == ("spark", "someone", before)


async def test_definitions_that_change_while_a_piece_is_checked_count(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.core.prepared.staging.MESSAGES_A_STEP", 1)
    sink = writer(bench)
    stage = asyncio.ensure_future(reason_of(sink.stage(0, rows_of(["A"] * 4000))))
    await asyncio.sleep(0)
    await bench.connection.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")
    assert (await stage, bench.depth) == (MQRC.PUT_INHIBITED, 0)


async def test_twenty_thousand_messages_take_no_memory(bench: Bench) -> None:
    """K51."""
    async with opened(FaultStore(MemoryStore()), body_bytes=64 * 1024) as small:
        await small.connection.mqsc("ALTER QMGR MAXUMSGS(10)\nALTER QLOCAL(Q) MAXDEPTH(999999999)")
        sink = writer(small)
        unit = sink.unit(0)
        for first in range(0, 20_000, 4000):
            await sink.piece(unit, rows_of([b"A" * 100] * 4000), first)
            assert small.manager.bodies.bytes <= 64 * 1024
        entries = small.manager.core.sinks.units[next(iter(small.manager.core.sinks.units))].entries
        assert sum(entry.data is not None for entry in entries) <= 656
        await sink.publish(0, Winner(unit, 20_000))
        assert small.depth == 20_000
        assert (await small.queue.get()).data == b"A" * 100
