"""Prepared units and sinks, however the queue manager is reached and wherever it keeps them (claims rule 3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.interface.claims.claims import UnitName, Winner
from broker.mqi import MQGMO, MQMF, MQPMO, MQRC, MQRO, MessageDescriptor
from broker.mqi.layouts import folders, rfh2
from tests.conformance.expect import ALL, drained, fails
from tests.engine.writer import Row, Writer, rows_of

if TYPE_CHECKING:
    import pytest

    from broker import Connection, Queue
    from tests.conformance.crashes import DurableSystem
    from tests.conformance.system import System


async def writer(system: System, query: str | None = "query") -> Writer:
    return Writer((await system.connect("writer")).port, query=query)


async def test_a_batch_is_staged_in_pieces_and_published(system: System, queue: Queue) -> None:
    """K1, K53."""
    sink = await writer(system)
    unit = sink.unit(0)
    for _ in range(2):
        assert await sink.piece(unit, rows_of("AB")) is False
        assert await sink.piece(unit, rows_of("C"), 2, last=True) is False
    assert await drained(queue) == []
    assert system.depth() == 3
    assert await sink.publish(0, Winner(unit, 3)) == (3, False)
    assert await sink.ledger() == ("query", 0)
    assert await drained(queue) == [b"A", b"B", b"C"]


async def test_each_field_of_a_message_comes_as_it_was_staged(system: System, connection: Connection) -> None:
    """K73."""
    await system.mqsc("DEFINE QLOCAL(Q2)")
    md = MessageDescriptor(
        msg_id=b"M" * 24, correl_id=b"C" * 24, group_id=b"G" * 24, msg_seq_number=3, msg_flags=MQMF.LAST_MSG_IN_GROUP,
        expiry=600, priority=7, persistence=1, format="FORMAT", reply_to_q="R", report=MQRO.PASS_MSG_ID,
    )  # fmt: skip
    packed = rfh2.pack(folders.encode({"colour": "red"}))
    sink = await writer(system)
    await sink.publish(0, await sink.stage(0, [Row(b"A", "Q2", md, packed), Row(b"", "Q2")]))
    queue = await connection.open("Q2", ALL)
    first, second = await queue.get(options=MQGMO.BROWSE_FIRST), await queue.get(options=MQGMO.BROWSE_NEXT)
    for name in ("msg_id", "correl_id", "group_id", "msg_seq_number", "expiry", "priority", "persistence", "format"):
        assert getattr(first.md, name) == getattr(md, name), name
    assert (first.data, dict(first.properties), first.md.reply_to_q) == (b"A", {"colour": "red"}, "R")
    assert (second.data, second.md.msg_id != bytes(24), second.md.put_appl_name) == (b"", True, "writer")


async def test_a_publish_wakes_a_get_that_waits(system: System, queue: Queue) -> None:
    """K1."""
    sink = await writer(system)
    waiting = asyncio.ensure_future(queue.get(wait=60))
    await system.waiting("Q", 1)
    winner = await sink.stage(0, "A")
    assert not waiting.done()
    await sink.publish(0, winner)
    assert (await waiting).data == b"A"


async def test_partitions_keep_their_order_and_groups_theirs(system: System, queue: Queue) -> None:
    """K60, K62."""
    sink, ordered = await writer(system), MQPMO.LOGICAL_ORDER
    rows = rows_of("12", msg_flags=MQMF.MSG_IN_GROUP) + rows_of("3", msg_flags=MQMF.LAST_MSG_IN_GROUP)
    winners = [await sink.stage(0, rows, partition, options=ordered) for partition in (2, 0, 1)]
    with fails(MQRC.INCOMPLETE_GROUP):
        await sink.stage(0, rows[:1], 3, options=ordered)
    await sink.publish(0, *winners)
    options = MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE
    found = [await queue.get(options=options) for _ in range(9)]
    assert [(each.data, each.md.msg_seq_number) for each in found] == [(b"1", 1), (b"2", 2), (b"3", 3)] * 3


async def test_a_writer_that_is_cut_off_leaves_what_was_answered(system: System, queue: Queue) -> None:
    """K52."""
    program = await system.connect("doomed")
    sink = Writer(program.port)
    winner = await sink.stage(0, "AB")
    system.cut(program)
    assert await (await writer(system)).publish(0, winner) == (2, False)
    assert await drained(queue) == [b"A", b"B"]


async def test_units_and_ledgers_outlive_a_restart(system: System, queue: Queue) -> None:
    """K11, K56."""
    sink = await writer(system)
    await sink.write(0, "A")
    winner = await sink.stage(
        1, rows_of("P", persistence=1) + rows_of("N", persistence=0) + rows_of("Q", persistence=1)
    )
    await queue.put(b"LAST", persistence=1)
    await system.restart()
    queue = await (await system.connect("again")).open("Q", ALL)
    sink = await writer(system)
    assert await sink.ledger() == ("query", 0)
    assert await sink.publish(1, winner) == (3, False)
    found = await drained(queue)
    assert found[-4:] == [b"LAST", b"P", b"N", b"Q"]


# A crash at each step


async def test_a_crash_keeps_what_was_answered_and_nothing_else(durable: DurableSystem) -> None:
    """K52: after each piece, and after the publish."""
    sink = await writer(durable)
    unit = sink.unit(0)
    await sink.piece(unit, rows_of("AB"))
    await durable.crash()
    sink = await writer(durable)
    assert durable.depth() == 2
    await sink.piece(unit, rows_of("C"), 2, last=True)
    await durable.crash()
    sink = await writer(durable)
    assert await sink.publish(0, Winner(unit, 3)) == (3, False)
    await durable.crash()
    sink = await writer(durable)
    assert await sink.publish(0, Winner(unit, 3)) == (0, True)
    queue = await (await durable.connect()).open("Q", ALL)
    assert await drained(queue) == [b"A", b"B", b"C"]


async def test_nonpersistent_messages_are_kept_over_a_crash_until_they_are_published(durable: DurableSystem) -> None:
    """Claims rule 1.4."""
    sink = await writer(durable)
    winner = await sink.stage(0, rows_of("N", persistence=0))
    await durable.crash()
    sink = await writer(durable)
    await sink.publish(0, winner)
    queue = await (await durable.connect()).open("Q", ALL)
    assert (await queue.get(options=MQGMO.BROWSE_FIRST)).data == b"N"
    await durable.crash()
    assert durable.depth() == 0


async def test_a_crash_while_losers_are_discarded_leaves_them_to_the_start(durable: DurableSystem) -> None:
    """K52, K55."""
    sink = await writer(durable)
    winners = [await sink.stage(0, [f"{partition}"] * 10, partition) for partition in range(3)]
    for attempt in range(1, 6):
        await sink.stage(0, ["LOSER"] * 50, attempt, attempt)
    await sink.publish(0, *winners)
    await durable.crash()
    assert not durable.manager.core.sinks.units
    queue = await (await durable.connect()).open("Q", ALL)
    assert await drained(queue) == [b"0"] * 10 + [b"1"] * 10 + [b"2"] * 10


async def test_the_unit_of_another_sink_is_not_touched(durable: DurableSystem) -> None:
    sink = await writer(durable)
    other = Writer(sink.port, "T")
    left = await other.stage(0, "B")
    await sink.write(0, "A")
    await durable.crash()
    sink = await writer(durable)
    other = Writer(sink.port, "T")
    assert await other.publish(0, left) == (1, False)
    assert left.unit == UnitName("T", 0, 0, bytes(16))


async def test_a_crash_between_two_slices_of_a_publication_keeps_all_of_it(
    durable: DurableSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K63."""
    monkeypatch.setattr("broker.core.prepared.publishing.SLICE", 2)
    sink = await writer(durable)
    winner = await sink.stage(0, "ABCDE")
    publish = asyncio.ensure_future(sink.publish(0, winner))
    queue = durable.manager.core.objects.queues["Q"]
    await durable.until(lambda: len(queue.shelf.available) > 0)
    assert queue.prepared == 3
    await durable.crash()
    await asyncio.gather(publish, return_exceptions=True)
    assert await drained(await (await durable.connect()).open("Q", ALL)) == [b"A", b"B", b"C", b"D", b"E"]
    assert await (await writer(durable)).publish(0, winner) == (0, True)
