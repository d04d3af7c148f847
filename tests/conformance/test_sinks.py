"""Which batch of a sink is published, exactly once, and what becomes of the rest, whoever keeps its queues (claims
rules 3.2 to 3.8).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.interface.claims.claims import Winner
from broker.mqi import MQGMO, MQMF, MQPMO, MQRC, MQRO, MessageDescriptor
from tests.conformance.expect import ALL, drained, fails, reason_of
from tests.engine.writer import Writer, rows_of

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


async def writer(system: System, query: str | None = "query", sink: str = "S") -> Writer:
    return Writer((await system.connect("writer")).port, sink, query)


async def gone(system: System) -> None:
    """The losers of a batch are discarded, which goes on after its answer, and there is nothing else."""
    await system.rest()
    await system.until(lambda: system.depth() == 0)


# The ledger


async def test_the_rules_of_the_ledger(system: System, queue: Queue) -> None:
    """K54, K56, K57: any batch at the first use, then each after the other."""
    sink, other, none = await writer(system), await writer(system, "other"), await writer(system, None)
    assert await sink.ledger() is None
    for batch in (5, 6):
        assert await sink.write(batch, "A") == (1, False)
        assert await sink.ledger() == ("query", batch)
    assert await sink.publish(6) == (0, True)
    assert await sink.piece(sink.unit(6, attempt=1), rows_of("B")) is True
    assert await reason_of(sink.publish(5)) == MQRC.UOW_COMMITTED
    assert await reason_of(sink.stage(5, "B")) == MQRC.UOW_COMMITTED
    assert await reason_of(sink.publish(8)) == MQRC.NO_DATA_AVAILABLE
    for each in (other, none):
        assert await reason_of(each.publish(7)) == MQRC.SUBSCRIPTION_IN_USE
        assert await reason_of(each.stage(7, "B")) == MQRC.SUBSCRIPTION_IN_USE
    assert await reason_of(sink.publish(7, Winner(sink.unit(7), 1))) == MQRC.UOW_CANCELED
    assert await sink.publish(7) == (0, False)
    assert await drained(queue) == [b"A", b"A"]


# The winners


async def test_a_winner_that_lacks_a_message_publishes_nothing(system: System, queue: Queue) -> None:
    """K54."""
    sink = await writer(system)
    whole = await sink.stage(0, "AB")
    short = await sink.stage(0, "C", 1)
    for rows in (0, 2):
        assert await reason_of(sink.publish(0, whole, short._replace(rows=rows))) == MQRC.UOW_CANCELED
    assert await reason_of(sink.publish(0, whole, Winner(sink.unit(0, 2), 1))) == MQRC.UOW_CANCELED
    assert (await drained(queue), await sink.ledger()) == ([], None)
    assert await sink.publish(0, whole, short) == (3, False)


async def test_each_winner_is_of_another_partition_and_of_this_batch(system: System, queue: Queue) -> None:
    sink = await writer(system)
    first, second = await sink.stage(0, "A", attempt=1), await sink.stage(0, "A", attempt=2)
    later_batch = await sink.stage(1, "B")
    other_sink = await (await writer(system, sink="T")).stage(0, "C")
    for winners in ((first, second), (first, later_batch), (first, other_sink)):
        assert await reason_of(sink.publish(0, *winners)) == MQRC.OPERATION_NOT_ALLOWED
    assert await drained(queue) == []
    assert await sink.discard(*(winner.unit for winner in (first, second, later_batch, other_sink))) == 4


async def test_partitions_are_published_in_their_order_whatever_that_of_the_stages(
    system: System, queue: Queue
) -> None:
    """K60."""
    sink = await writer(system)
    winners = [await sink.stage(0, [f"{partition}{index}" for index in range(3)], partition) for partition in (2, 0, 1)]
    await sink.publish(0, *winners)
    assert await drained(queue) == [b"%d%d" % (partition, index) for partition in range(3) for index in range(3)]


async def test_what_is_published_stands_behind_a_browse_cursor(system: System, queue: Queue) -> None:
    """K61."""
    sink = await writer(system)
    winner = await sink.stage(0, "BC")
    await queue.put(b"A")
    assert (await queue.get(options=MQGMO.BROWSE_NEXT)).data == b"A"
    await sink.publish(0, winner)
    assert [(await queue.get(options=MQGMO.BROWSE_NEXT)).data for _ in range(2)] == [b"B", b"C"]


async def test_a_group_of_one_partition_keeps_logical_order(system: System, queue: Queue) -> None:
    """K62."""
    sink = await writer(system)
    rows = rows_of("12", msg_flags=MQMF.MSG_IN_GROUP) + rows_of("3", msg_flags=MQMF.LAST_MSG_IN_GROUP) + rows_of("S")
    winners = [await sink.stage(0, rows, partition, options=MQPMO.LOGICAL_ORDER) for partition in range(2)]
    await sink.publish(0, *winners)
    options = MQGMO.LOGICAL_ORDER | MQGMO.ALL_MSGS_AVAILABLE
    assert [(await queue.get(options=options)).data for _ in range(8)] == [b"1", b"2", b"3", b"S"] * 2


async def test_confirmations_of_arrival_come_with_the_publish_and_not_before(
    system: System, connection: Connection, queue: Queue
) -> None:
    """K13, K67."""
    await system.mqsc("DEFINE QLOCAL(R)")
    replies = await connection.open("R", ALL)
    sink = await writer(system)
    unit = sink.unit(0)
    own_id = rows_of("C", report=MQRO.COA | MQRO.PASS_MSG_ID, reply_to_q="R", msg_id=b"M" * 24)
    await sink.piece(unit, rows_of("AB", report=MQRO.COA_WITH_FULL_DATA, reply_to_q="R") + own_id)
    await sink.piece(unit, rows_of("D"), 3)
    await system.rest()
    assert await drained(replies) == []
    await sink.publish(0, Winner(unit, 4))
    reports = [await replies.get() for _ in range(3)]
    assert await drained(replies) == []
    published = [await queue.get() for _ in range(4)]
    assert [message.data for message in published] == [b"A", b"B", b"C", b"D"]
    found = {report.md.correl_id: report for report in reports}
    of = [found[message.md.msg_id] for message in published[:3]]
    assert [report.data for report in of] == [b"A", b"B", b""]
    assert [report.md.feedback for report in of] == [259] * 3
    assert of[2].md.msg_id == b"M" * 24


# Twins, zombies and aborts


async def test_a_zombie_that_publishes_first_leaves_already_for_the_new_driver(system: System, queue: Queue) -> None:
    """K59."""
    zombie, driver = await writer(system), await writer(system)
    old = await zombie.stage(0, "AB", attempt=1)
    new = await driver.stage(0, "AB", attempt=2)
    assert await zombie.publish(0, old) == (2, False)
    assert await driver.publish(0, new) == (0, True)
    assert await drained(queue) == [b"A", b"B"]
    await gone(system)


async def test_two_drivers_that_decide_at_once_publish_one_batch(system: System, queue: Queue) -> None:
    """K59. Claims rule 1.2."""
    drivers = [await writer(system), await writer(system)]
    winners = [await driver.stage(0, "AB", attempt=number) for number, driver in enumerate(drivers)]
    calls = (driver.publish(0, winner) for driver, winner in zip(drivers, winners, strict=True))
    assert sorted(await asyncio.gather(*calls)) == [(0, True), (2, False)]
    assert await drained(queue) == [b"A", b"B"]
    await gone(system)


async def test_an_abort_takes_only_the_attempts_that_it_names(system: System, queue: Queue) -> None:
    """K55, K58."""
    sink = await writer(system)
    old, new = await sink.stage(0, "AB", attempt=1), await sink.stage(0, "AB", attempt=2)
    assert await sink.discard() == 0
    assert await sink.discard(old.unit, old.unit, sink.unit(0, attempt=9)) == 1
    await system.rest()
    assert system.depth() == 2
    assert await reason_of(sink.publish(0, old)) == MQRC.UOW_CANCELED
    assert await sink.publish(0, new) == (2, False)
    assert await sink.discard(new.unit) == 0
    assert await drained(queue) == [b"A", b"B"]


# Room


async def test_a_batch_that_never_fits_is_told_so(system: System, queue: Queue) -> None:
    """K64."""
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10)")
    sink = await writer(system)
    with fails(MQRC.Q_FULL) as refused:
        await sink.stage(0, "ABCDEFGHIJK")
    assert "never fits: it has 11 messages or more for Q, whose MAXDEPTH is 10" in str(refused.value)
    await sink.piece(sink.unit(0), rows_of("ABCDEFGH"))
    with fails(MQRC.Q_FULL) as refused:
        await sink.piece(sink.unit(0), rows_of("IJK"), 8)
    assert "never fits: it has 11" in str(refused.value)
    with fails(MQRC.Q_FULL) as refused:
        await sink.stage(0, "ABC", 1)
    assert "never fits: it has 11" in str(refused.value)
    await sink.discard(sink.unit(0))


async def test_a_full_queue_is_full_for_now(system: System, queue: Queue) -> None:
    """K64: with a getter it goes through."""
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10)")
    for body in "12345":
        await queue.put(body)
    sink = await writer(system)
    with fails(MQRC.Q_FULL) as refused:
        await sink.stage(0, "ABCDEFGH")
    assert "Q holds 5 messages, its MAXDEPTH is 10" in str(refused.value)
    for _ in range(3):
        await queue.get()
    assert await sink.publish(0, await sink.stage(0, "ABCDEFGH")) == (8, False)


async def test_expired_messages_make_room(system: System, queue: Queue) -> None:
    """K64."""
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)")
    for body in "12":
        await queue.put(body, MessageDescriptor(expiry=1))
    await system.pass_time(1)
    sink = await writer(system)
    await sink.stage(0, "AB")
    await sink.discard(sink.unit(0))
    await queue.put("1", MessageDescriptor(expiry=1))
    await system.pass_time(1)
    assert await sink.write(0, "A", "B") == (2, False)
    assert await drained(queue) == [b"A", b"B"]
