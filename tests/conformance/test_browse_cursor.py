"""The browse cursor while the queue changes under it (semantics 8).

T8.1 to T8.9 as they stand there are in `test_put_get_browse.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMO, MQOO, MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, browsed, drained, fails, name_of, reason_of
from tests.conformance.grouping import data_of, take, take_all

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

FIRST, NEXT = MQGMO.BROWSE_FIRST, MQGMO.BROWSE_NEXT
AGAIN, UNDER_CURSOR = MQGMO.BROWSE_MSG_UNDER_CURSOR, MQGMO.MSG_UNDER_CURSOR


async def put_all(queue: Queue, *messages: tuple[bytes, int]) -> None:
    for data, priority in messages:
        await queue.put(data, MessageDescriptor(priority=priority))


async def test_t8_1_any_new_message_of_a_fifo_queue_is_behind_the_cursor(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO)")
    await put_all(queue, (b"A", 1), (b"B", 1))
    assert data_of(await take_all(queue, NEXT)) == [b"A", b"B"]
    await put_all(queue, (b"C", 9), (b"D", 0))
    assert data_of(await take_all(queue, NEXT)) == [b"C", b"D"]


@pytest.mark.parametrize("step", [FIRST, NEXT])
async def test_the_first_browse_begins_with_what_is_first_then(queue: Queue, step: MQGMO) -> None:  # B9
    await put_all(queue, (b"A", 3), (b"B", 8))
    assert (await take(queue, step)).data == b"B"


async def test_t8_6_several_cursors_go_their_own_ways(connection: Connection, queue: Queue, other_queue: Queue) -> None:
    handles = [queue, other_queue, await connection.open("Q", MQOO.BROWSE)]
    await put_all(queue, (b"A", 5), (b"B", 5), (b"C", 5))
    for count, handle in enumerate(handles, 1):
        assert [(await take(handle, NEXT)).data for _ in range(count)] == [b"A", b"B", b"C"][:count]
    await put_all(queue, (b"D", 9), (b"E", 5))
    assert (await take(queue, UNDER_CURSOR)).data == b"A"
    rests = [data_of(await take_all(handle, NEXT)) for handle in handles]
    assert rests == [[b"B", b"C", b"E"], [b"C", b"E"], [b"E"]]
    assert [await browsed(handle) for handle in handles] == [[b"D", b"B", b"C", b"E"]] * 3


async def test_t8_8_messages_put_in_the_order_of_arrival_keep_their_rank(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO) DEFPRTY(4)")
    await put_all(queue, (b"A", 9), (b"B", 0))
    await system.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(PRIORITY)")
    await put_all(queue, (b"C", 5), (b"D", 4), (b"E", 3))
    assert await browsed(queue) == await drained(queue) == [b"C", b"A", b"B", b"D", b"E"]


async def test_t8_8_another_default_priority_breaks_the_order_of_arrival(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO) DEFPRTY(4)")
    await put_all(queue, (b"A", 9))
    await system.mqsc("ALTER QLOCAL(Q) DEFPRTY(6)")
    await put_all(queue, (b"B", 0))
    await system.mqsc("ALTER QLOCAL(Q) DEFPRTY(2)")
    await put_all(queue, (b"C", 9))
    found = await take_all(queue, 0)
    assert [(message.data, message.md.priority) for message in found] == [(b"B", 0), (b"A", 9), (b"C", 9)]


async def test_t8_8_a_change_of_the_sequence_moves_no_cursor(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) DEFPRTY(4)")
    await put_all(queue, (b"A", 6), (b"B", 4), (b"C", 2))
    assert [(await take(queue, NEXT)).data for _ in range(2)] == [b"A", b"B"]
    await system.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO)")
    await put_all(queue, (b"D", 9))
    assert data_of(await take_all(queue, NEXT)) == [b"D", b"C"]


async def test_positions_outlive_a_restart(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) DEFPRTY(4) DEFPSIST(YES)")
    await put_all(queue, (b"A", 2), (b"B", 6))
    await system.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(FIFO)")
    await put_all(queue, (b"C", 9), (b"D", 0))
    await system.restart()
    again = await (await system.connect("again")).open("Q", ALL)
    assert await drained(again) == [b"B", b"C", b"D", b"A"]


async def test_t8_3_a_get_that_is_backed_out_reappears_where_it_was(
    queue: Queue, other: Connection, other_queue: Queue
) -> None:
    await put_all(queue, (b"A", 5), (b"B", 5), (b"C", 5))
    await take(other_queue, MQGMO.SYNCPOINT)
    assert (await take(queue, NEXT)).data == b"B"
    await other.backout()
    assert data_of(await take_all(queue, NEXT)) == [b"C"]
    assert await browsed(queue) == [b"A", b"B", b"C"]


async def test_t8_4_the_message_under_the_cursor_may_come_back(
    queue: Queue, other: Connection, other_queue: Queue
) -> None:
    await put_all(queue, (b"A", 5), (b"B", 5))
    await take(queue, NEXT)
    await take(other_queue, MQGMO.SYNCPOINT)
    for options in (AGAIN, UNDER_CURSOR):
        with fails(MQRC.NO_MSG_UNDER_CURSOR):
            await take(queue, options)
    await other.backout()
    assert (await take(queue, UNDER_CURSOR)).data == b"A"


async def test_t8_4_the_message_under_the_cursor_may_expire(system: System, queue: Queue) -> None:
    await queue.put(b"A", MessageDescriptor(expiry=10))
    await put_all(queue, (b"B", 0))
    await take(queue, NEXT)
    await system.pass_time(2)
    assert await reason_of(take(queue, AGAIN)) == MQRC.NO_MSG_UNDER_CURSOR
    assert (await take(queue, NEXT)).data == b"B"


async def test_the_place_of_a_message_got_under_the_cursor_is_kept(queue: Queue) -> None:
    await put_all(queue, (b"A", 5), (b"B", 5), (b"C", 5))
    assert [(await take(queue, NEXT)).data for _ in range(2)] == [b"A", b"B"]
    await take(queue, UNDER_CURSOR)
    assert [await reason_of(take(queue, each)) for each in (AGAIN, UNDER_CURSOR)] == [MQRC.NO_MSG_UNDER_CURSOR] * 2
    assert data_of(await take_all(queue, NEXT)) == [b"C"]


async def test_gets_do_not_move_the_cursor_and_failures_do_not_either(queue: Queue) -> None:
    await put_all(queue, (b"A", 5), (b"B", 5), (b"C", 5))
    await take(queue, NEXT)
    await take(queue, 0, MQMO.MATCH_MSG_ID)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue, FIRST, MQMO.MATCH_CORREL_ID, correl_id=name_of("none"))
    with fails(MQRC.OPTIONS_ERROR):
        await take(queue, NEXT | MQGMO.SYNCPOINT)
    assert (await take(queue, NEXT)).data == b"B"


async def test_a_get_under_the_cursor_is_under_syncpoint_where_asked(
    system: System, connection: Connection, queue: Queue
) -> None:
    await put_all(queue, (b"A", 5), (b"B", 5))
    await take(queue, NEXT)
    await take(queue, NEXT)
    assert (await take(queue, UNDER_CURSOR | MQGMO.SYNCPOINT)).data == b"B"
    assert system.depth() == 1
    await connection.backout()
    assert (await take(queue, AGAIN)).md.backout_count == 1


async def test_a_put_under_syncpoint_is_missed_by_a_browse_that_is_past_it(
    connection: Connection, queue: Queue, other: Connection, other_queue: Queue
) -> None:
    await other_queue.put(b"A", MessageDescriptor(priority=5), MQPMO.SYNCPOINT)
    await put_all(queue, (b"B", 5))
    assert (await take(queue, NEXT)).data == b"B"
    await other.commit()
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue, NEXT)
    fresh = await connection.open("Q", MQOO.BROWSE)
    assert data_of(await take_all(fresh, NEXT)) == [b"A", b"B"]
