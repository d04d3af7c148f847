"""Units of work (semantics 10)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor, PutMessageOptions
from tests.conformance.expect import ALL, browsed, drained, fails

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


async def put_all(queue: Queue, *bodies: bytes) -> None:
    for data in bodies:
        await queue.put(data)


async def test_t10_1_a_put_under_syncpoint_is_seen_when_it_is_committed(
    system: System, connection: Connection, queue: Queue
) -> None:
    for data in (b"A", b"B"):
        await queue.put(data, options=MQPMO.SYNCPOINT)
    assert system.depth() == 2
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(options=MQGMO.SYNCPOINT)
    assert await connection.commit() == MQRC.NONE
    assert await drained(queue) == [b"A", b"B"]


async def test_t10_2_a_backout_puts_a_message_back_in_its_place(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await put_all(queue, b"A", b"B", b"C")
    assert (await queue.get(options=MQGMO.SYNCPOINT)).data == b"A"
    assert (await other_queue.get()).data == b"B"
    assert await connection.backout() == MQRC.NONE
    assert [(m.data, m.md.backout_count) for m in (await other_queue.get(), await other_queue.get())] == [
        (b"A", 1),
        (b"C", 0),
    ]


async def test_t10_3_a_unit_of_work_is_bounded_by_maxumsgs(
    system: System, connection: Connection, queue: Queue
) -> None:
    await system.mqsc("ALTER QMGR MAXUMSGS(3)")
    for data in (b"A", b"B", b"C"):
        await queue.put(data, options=MQPMO.SYNCPOINT)
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
        await queue.put(b"D", options=MQPMO.SYNCPOINT)
    await connection.commit()
    assert await browsed(queue) == [b"A", b"B", b"C"]
    for _ in range(3):
        await queue.get(options=MQGMO.SYNCPOINT)
    await queue.put(b"D")
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
        await queue.get(options=MQGMO.SYNCPOINT)
    await connection.backout()
    assert system.depth() == 4


async def test_t10_4_disconnecting_commits(system: System, connection: Connection, other_queue: Queue) -> None:
    await connection.put1("Q", b"A", options=MQPMO.SYNCPOINT)
    await connection.disconnect()
    assert (await other_queue.get()).data == b"A"


async def test_t10_4_a_cut_line_backs_out(system: System, queue: Queue, connection: Connection) -> None:
    other = await system.connect()
    other_queue = await other.open("Q", ALL)
    await queue.put(b"A")
    await queue.get(options=MQGMO.SYNCPOINT)
    await queue.put(b"B", options=MQPMO.SYNCPOINT)
    system.cut(connection)
    message = await other_queue.get(wait=float("inf"))
    assert (message.data, message.md.backout_count) == (b"A", 1)
    assert await drained(other_queue) == []
    with fails(MQRC.CONNECTION_BROKEN):
        await queue.get()
    with fails(MQRC.CONNECTION_BROKEN):
        await connection.commit()


async def test_leaving_a_connection_by_an_exception_backs_out(connection: Connection, other_queue: Queue) -> None:
    with pytest.raises(ZeroDivisionError):
        async with await connection.connect("failing") as failing:
            await failing.put1("Q", b"A", options=MQPMO.SYNCPOINT)
            raise ZeroDivisionError
    with fails(MQRC.NO_MSG_AVAILABLE):
        await other_queue.get()


async def test_t10_5_closing_the_queue_does_not_end_the_unit_of_work(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await put_all(queue, b"A")
    await queue.get(options=MQGMO.SYNCPOINT)
    await queue.close()
    await connection.backout()
    assert (await other_queue.get()).md.backout_count == 1


async def test_t10_6_a_commit_wakes_the_getter_that_waits(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(other_queue.get(wait=10))
        await system.waiting("Q", 1)
        await queue.put(b"A", options=MQPMO.SYNCPOINT)
        await connection.status()
        assert not getting.done()
        await connection.commit()
        assert (await getting).data == b"A"


async def test_a_backout_wakes_the_getter_that_waits(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await put_all(queue, b"A")
    await queue.get(options=MQGMO.SYNCPOINT)
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(other_queue.get(wait=10))
        await system.waiting("Q", 1)
        await connection.backout()
        assert ((await getting).data, (await getting).md.backout_count) == (b"A", 1)


async def test_t10_8_a_backout_may_fill_a_queue_beyond_maxdepth(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    await put_all(queue, b"A")
    await queue.get(options=MQGMO.SYNCPOINT)
    await other_queue.put(b"B")
    await connection.backout()
    assert system.depth() == 2
    with fails(MQRC.Q_FULL):
        await queue.put(b"C")
    assert await drained(queue) == [b"A", b"B"]


async def test_a_unit_of_work_spans_queues(
    system: System, connection: Connection, queue: Queue, other: Connection
) -> None:
    await system.mqsc("DEFINE QLOCAL(R)")
    second = await connection.open("R", ALL)
    watched = await other.open("R", ALL)
    await put_all(queue, b"A")
    for outcome, found in ((connection.backout, []), (connection.commit, [b"a"])):
        message = await queue.get(options=MQGMO.SYNCPOINT)
        await second.put(message.data.lower(), options=MQPMO.SYNCPOINT)
        assert await browsed(watched) == []
        await outcome()
        assert await browsed(watched) == found
    assert system.depth("Q") == 0


async def test_calls_outside_syncpoint_are_not_backed_out(system: System, connection: Connection, queue: Queue) -> None:
    await put_all(queue, b"A")
    await queue.get()
    await queue.put(b"B", options=MQPMO.SYNCPOINT)
    await put_all(queue, b"C")
    await connection.backout()
    assert await drained(queue) == [b"C"]


async def test_each_backout_counts(connection: Connection, queue: Queue) -> None:
    await put_all(queue, b"A")
    for count in range(4):
        message = await queue.get(options=MQGMO.SYNCPOINT)
        assert (message.data, message.md.backout_count) == (b"A", count)
        assert (await connection.backout()) == MQRC.NONE


async def test_a_unit_of_work_of_many_messages_keeps_their_order(connection: Connection, queue: Queue) -> None:
    bodies = [b"%03d" % number for number in range(100)]
    for data in bodies:
        await queue.put(data, options=MQPMO.SYNCPOINT)
    await connection.commit()
    got = [(await queue.get(options=MQGMO.SYNCPOINT)).data for _ in range(60)]
    await connection.backout()
    assert got == bodies[:60]
    assert await browsed(queue) == bodies


@pytest.mark.parametrize("persistence", [0, 1])
async def test_syncpoint_if_persistent_joins_with_persistent_messages(
    connection: Connection, queue: Queue, persistence: int
) -> None:
    await queue.put(b"A", persistence=persistence)
    await queue.get(options=MQGMO.SYNCPOINT_IF_PERSISTENT)
    await connection.backout()
    assert await drained(queue) == [b"A"] * persistence


async def test_commit_and_backout_without_a_unit_of_work_do_nothing(connection: Connection) -> None:
    assert [await connection.commit(), await connection.backout()] == [MQRC.NONE, MQRC.NONE]


# unit_of_work()


async def test_a_block_commits_when_it_ends_well(system: System, connection: Connection, queue: Queue) -> None:
    await put_all(queue, b"A")
    async with connection.unit_of_work():
        await queue.put(b"B")
        await connection.put1("Q", b"C")
        assert (await queue.get()).data == b"A"
        with fails(MQRC.NO_MSG_AVAILABLE):
            await queue.get()
    assert await drained(queue) == [b"B", b"C"]


async def test_a_block_backs_out_when_an_exception_ends_it(connection: Connection, queue: Queue) -> None:
    await put_all(queue, b"A")
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work():
            await queue.put(b"B")
            await queue.get(options=GetMessageOptions())
            raise ZeroDivisionError
    message = await queue.get()
    assert (message.data, message.md.backout_count) == (b"A", 1)
    assert await drained(queue) == []


async def test_a_block_backs_out_when_it_is_cancelled(system: System, connection: Connection, queue: Queue) -> None:
    await put_all(queue, b"A")

    async def block() -> None:
        async with connection.unit_of_work():
            await queue.get()
            await queue.get(wait=float("inf"))

    async with asyncio.TaskGroup() as tasks:
        blocked = tasks.create_task(block())
        await system.waiting("Q", 1)
        blocked.cancel()
    message = await queue.get(wait=float("inf"))
    assert (message.data, message.md.backout_count) == (b"A", 1)


async def test_calls_of_a_block_may_name_what_they_want(connection: Connection, queue: Queue) -> None:
    await put_all(queue, b"A", b"B", b"C")
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work():
            await queue.put(b"D", options=PutMessageOptions(options=MQPMO.NO_SYNCPOINT))
            await queue.get(options=MQGMO.NO_SYNCPOINT)
            await queue.get(options=MQGMO.BROWSE_FIRST)
            raise ZeroDivisionError
    assert await drained(queue) == [b"B", b"C", b"D"]


async def test_a_block_wants_no_open_unit_of_work(connection: Connection, queue: Queue) -> None:
    await queue.put(b"A", options=MQPMO.SYNCPOINT)
    with fails(MQRC.UOW_IN_PROGRESS):
        await connection.unit_of_work().__aenter__()
    await put_all(queue, b"B")  # outside the unit of work, which is still open
    await connection.backout()
    assert await drained(queue) == [b"B"]


async def test_a_block_within_a_block_is_refused(connection: Connection, queue: Queue) -> None:
    async with connection.unit_of_work():
        with fails(MQRC.UOW_IN_PROGRESS):
            await connection.unit_of_work().__aenter__()
        await queue.put(b"A")
        with fails(MQRC.NO_MSG_AVAILABLE):
            await queue.get()
    assert await drained(queue) == [b"A"]


async def test_the_error_that_ends_a_block_is_not_hidden_by_a_broken_connection(
    system: System, connection: Connection, queue: Queue
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work():
            await queue.put(b"A")
            system.cut(connection)
            raise ZeroDivisionError
    with fails(MQRC.CONNECTION_BROKEN):
        await connection.unit_of_work().__aenter__()


async def test_begin_wants_no_open_unit_of_work(connection: Connection, queue: Queue) -> None:
    assert await connection.begin() == MQRC.NONE
    await queue.put(b"A", options=MQPMO.SYNCPOINT)
    with fails(MQRC.UOW_IN_PROGRESS):
        await connection.begin()


async def test_units_of_work_of_two_connections_do_not_meet(
    connection: Connection, queue: Queue, other: Connection, other_queue: Queue
) -> None:
    await put_all(queue, b"A", b"B", b"C")
    assert (await queue.get(options=MQGMO.SYNCPOINT)).data == b"A"
    assert (await other_queue.get(options=MQGMO.SYNCPOINT)).data == b"B"
    await connection.commit()
    await other.backout()
    assert await drained(queue) == [b"B", b"C"]


async def test_expiry_of_a_put_counts_from_the_put(system: System, connection: Connection, queue: Queue) -> None:  # B16
    await queue.put(b"A", MessageDescriptor(expiry=10), MQPMO.SYNCPOINT)
    await system.pass_time(2)
    await connection.commit()
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get()


async def test_a_put_through_another_handle_joins_the_same_unit_of_work(connection: Connection, queue: Queue) -> None:
    async with connection.open("Q", MQOO.OUTPUT) as output:
        await output.put(b"A", options=MQPMO.SYNCPOINT)
    await connection.put1("Q", b"B", options=MQPMO.SYNCPOINT)
    await connection.backout()
    assert await drained(queue) == []
