"""Asynchronous puts, and MQSTAT, which tells how they ended (semantics 14)."""

from __future__ import annotations

import pytest

from broker import Connection, Queue
from broker.interface.batches.async_puts import IN_FLIGHT_BYTES, AsyncStatus
from broker.mqi import MQCC, MQPMO, MQRC, MQSTAT, MessageDescriptor, MQError
from tests.conformance.expect import ALL, browsed, drained, fails, reason_of
from tests.conformance.system import System

ASYNC = MQPMO.ASYNC_RESPONSE
IN_UNIT = ASYNC | MQPMO.SYNCPOINT
VOLATILE = MessageDescriptor(persistence=0)
NOTHING = AsyncStatus()


async def test_t14_4_outcomes_are_counted_and_the_first_failure_is_told(
    system: System, connection: Connection, queue: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(2)")
    for _ in range(3):
        result = await queue.put(b"x", VOLATILE, ASYNC)
        assert result.reason == MQRC.NONE
    assert await connection.stat() == AsyncStatus(
        put_success_count=2, put_failure_count=1, completion=MQCC.FAILED, reason=MQRC.Q_FULL, object_name="Q"
    )
    assert await connection.stat() == NOTHING
    assert system.depth() == 2


async def test_a_warning_is_counted_as_one(connection: Connection, queue: Queue) -> None:
    await queue.put(b"x", MessageDescriptor(persistence=0, priority=99), ASYNC)
    await queue.put(b"x", VOLATILE, ASYNC)
    assert await connection.stat() == AsyncStatus(
        put_success_count=1,
        put_warning_count=1,
        completion=MQCC.WARNING,
        reason=MQRC.PRIORITY_EXCEEDS_MAXIMUM,
        object_name="Q",
    )


async def test_the_first_of_several_problems_is_told(connection: Connection, queue: Queue) -> None:
    await queue.put(b"x", MessageDescriptor(persistence=0, msg_type=99), ASYNC)
    await queue.put(b"x", MessageDescriptor(persistence=0, expiry=0), ASYNC)
    status = await connection.stat()
    assert (status.put_failure_count, status.reason) == (2, MQRC.MSG_TYPE_ERROR)


async def test_synchronous_puts_are_not_counted(connection: Connection, queue: Queue) -> None:
    await queue.put(b"x")
    assert await connection.stat() == NOTHING


async def test_asynchronous_puts_keep_their_order_with_other_calls(connection: Connection, queue: Queue) -> None:
    for number in range(50):
        await queue.put(str(number), VOLATILE, ASYNC)
    assert await drained(queue) == [str(number).encode() for number in range(50)]
    assert (await connection.stat()).put_success_count == 50


async def test_the_result_knows_what_the_caller_said(connection: Connection, queue: Queue) -> None:
    result = await queue.put(b"x", MessageDescriptor(persistence=0, correl_id=b"c" * 24), ASYNC)
    assert result.md == MessageDescriptor(persistence=0, correl_id=b"c" * 24)
    assert (await connection.stat()).put_success_count == 1


async def test_a_unit_of_work_is_committed_when_all_went_well(connection: Connection, queue: Queue) -> None:
    for data in (b"A", b"B"):
        await queue.put(data, options=IN_UNIT)
    assert await connection.commit() == MQRC.NONE
    assert await drained(queue) == [b"A", b"B"]
    assert (await connection.stat()).put_success_count == 2


async def test_a_unit_of_work_with_a_failure_is_backed_out_by_its_commit(
    system: System, connection: Connection, queue: Queue
) -> None:
    await queue.put(b"before")
    await queue.get(options=0x2)
    await queue.put(b"A", options=IN_UNIT)
    await queue.put(b"B", MessageDescriptor(msg_type=99), IN_UNIT)
    await queue.put(b"C", options=IN_UNIT)
    with fails(MQRC.BACKED_OUT) as caught:
        await connection.commit()
    assert caught.value.completion == MQCC.WARNING
    assert await browsed(queue) == [b"before"]
    assert await connection.commit() == MQRC.NONE
    status = await connection.stat()
    assert (status.put_success_count, status.put_failure_count, status.reason) == (2, 1, MQRC.MSG_TYPE_ERROR)


async def test_a_failure_that_was_all_of_the_unit_is_told_by_its_commit(connection: Connection, queue: Queue) -> None:
    await queue.put(b"x", MessageDescriptor(msg_type=99), IN_UNIT)
    assert await reason_of(connection.commit()) == MQRC.BACKED_OUT
    assert await connection.commit() == MQRC.NONE


async def test_a_backout_makes_good_for_a_failure(connection: Connection, queue: Queue) -> None:
    await queue.put(b"x", MessageDescriptor(msg_type=99), IN_UNIT)
    await connection.backout()
    await queue.put(b"A", options=IN_UNIT)
    assert await connection.commit() == MQRC.NONE
    assert await drained(queue) == [b"A"]


async def test_a_failure_outside_syncpoint_does_not_touch_the_unit(connection: Connection, queue: Queue) -> None:
    await queue.put(b"A", options=MQPMO.SYNCPOINT)
    await queue.put(b"B", MessageDescriptor(persistence=0, msg_type=99), ASYNC)
    assert await connection.commit() == MQRC.NONE
    assert await drained(queue) == [b"A"]


async def test_unit_of_work_raises_what_its_commit_does(connection: Connection, queue: Queue) -> None:
    with fails(MQRC.BACKED_OUT):
        async with connection.unit_of_work():
            await queue.put(b"A", options=ASYNC)
            await queue.put(b"B", MessageDescriptor(msg_type=99), ASYNC)
    assert await drained(queue) == []


async def test_a_disconnection_backs_a_failed_unit_out(system: System, queue: Queue) -> None:
    program = await system.connect("program")
    handle = await program.open("Q", ALL)
    await handle.put(b"A", options=IN_UNIT)
    await handle.put(b"B", MessageDescriptor(msg_type=99), IN_UNIT)
    assert await reason_of(program.disconnect()) == MQRC.BACKED_OUT
    assert await drained(queue) == []


async def test_a_persistent_put_outside_syncpoint_is_synchronous(connection: Connection, queue: Queue) -> None:
    with fails(MQRC.MSG_TYPE_ERROR):
        await queue.put(b"x", MessageDescriptor(persistence=1, msg_type=99), ASYNC)
    result = await queue.put(b"x", MessageDescriptor(persistence=1), ASYNC)
    assert result.md.msg_id != bytes(24)
    assert await connection.stat() == NOTHING


@pytest.mark.parametrize("persistent", [False, True])
async def test_the_queue_says_what_is_persistent(system: System, connection: Connection, persistent: bool) -> None:
    await system.mqsc(f"ALTER QLOCAL(Q) DEFPSIST({'YES' if persistent else 'NO'})")
    queue = await connection.open("Q", ALL)
    await queue.put(b"x", options=ASYNC)
    assert (await connection.stat()).put_success_count == (0 if persistent else 1)


async def test_the_queue_says_what_a_put_that_does_not_say_is(system: System, connection: Connection) -> None:
    await system.mqsc("ALTER QLOCAL(Q) DEFPRESP(ASYNC)")
    queue = await connection.open("Q", ALL)
    await queue.put(b"x", VOLATILE)
    assert (await connection.stat()).put_success_count == 1
    await queue.put(b"x", VOLATILE, MQPMO.SYNC_RESPONSE)
    assert await connection.stat() == NOTHING
    await queue.put(b"x", MessageDescriptor(msg_type=99), MQPMO.SYNCPOINT)
    assert await reason_of(connection.commit()) == MQRC.BACKED_OUT


async def test_both_responses_at_once_are_refused(connection: Connection, queue: Queue) -> None:
    with fails(MQRC.OPTIONS_ERROR):
        await queue.put(b"x", VOLATILE, MQPMO.SYNC_RESPONSE | ASYNC)


async def test_put1_may_be_asynchronous(connection: Connection, queue: Queue) -> None:
    await connection.put1("Q", b"A", VOLATILE, ASYNC)
    await connection.put1("NOT.THERE", b"B", VOLATILE, ASYNC)
    status = await connection.stat()
    assert (status.put_success_count, status.put_failure_count) == (1, 1)
    assert (status.reason, status.object_name) == (MQRC.UNKNOWN_OBJECT_NAME, "NOT.THERE")
    with fails(MQRC.UNKNOWN_OBJECT_NAME):
        await connection.put1("NOT.THERE", b"B", options=ASYNC)


async def test_what_is_under_way_is_bounded(connection: Connection, queue: Queue) -> None:
    data = bytes(IN_FLIGHT_BYTES // 4)
    for _ in range(20):
        await queue.put(data, VOLATILE, ASYNC)
        assert connection.async_puts._bytes <= IN_FLIGHT_BYTES
    assert (await connection.stat()).put_success_count == 20


async def test_a_broken_connection_ends_them(system: System, connection: Connection, queue: Queue) -> None:
    program = await system.connect("program")
    handle = await program.open("Q", ALL)
    await handle.put(b"x", VOLATILE, ASYNC)
    system.cut(program)
    with fails(MQRC.CONNECTION_BROKEN):
        await handle.put(b"x", VOLATILE, ASYNC)
    with pytest.raises(MQError):
        await program.commit()


async def test_other_kinds_of_status_are_refused(connection: Connection) -> None:
    with fails(MQRC.STAT_TYPE_ERROR):
        await connection.stat(MQSTAT.TYPE_RECONNECTION)
