"""MQGET with WAIT: when it is served, when it ends, who is served first (semantics 5.3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQIA, MQMO, MQOO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import ALL, drained, fails, name_of, reason_of

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

UNLIMITED = -1  # MQWI_UNLIMITED
X, Y, Z = name_of("X"), name_of("Y"), name_of("Z")


def wait(interval: int = UNLIMITED, options: MQGMO = MQGMO.WAIT) -> GetMessageOptions:
    return GetMessageOptions(options=MQGMO.WAIT | options, wait_interval=interval)


async def test_a_message_that_is_there_is_given_at_once(queue: Queue) -> None:
    await queue.put(b"A")
    assert (await queue.get(options=wait(60_000))).data == b"A"


async def test_a_wait_ends_with_the_message_that_comes(system: System, queue: Queue, other_queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(queue.get(options=wait()))
        await system.waiting("Q", 1)
        await system.pass_time(300)
        await other_queue.put(b"A")
        assert (await getting).data == b"A"
    assert system.depth() == 0


async def test_a_wait_ends_when_its_interval_is_over(system: System, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(reason_of(queue.get(options=wait(5_000))))
        await system.waiting("Q", 1)
        await system.clock.advance(4.999)
        await queue.inquire(MQIA.CURRENT_Q_DEPTH)
        assert not getting.done()
        await system.clock.advance(0.001)
        assert await getting == MQRC.NO_MSG_AVAILABLE
    await queue.put(b"A")
    assert await drained(queue) == [b"A"]


async def test_wait_in_seconds_is_a_convenience(system: System, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(reason_of(queue.get(wait=1.5)))
        await system.waiting("Q", 1)
        await system.clock.advance(1.5)
        assert await getting == MQRC.NO_MSG_AVAILABLE


@pytest.mark.parametrize("options", [wait(0), wait(0, MQGMO.BROWSE_FIRST)], ids=["get", "browse"])
async def test_an_interval_of_nothing_is_no_wait(queue: Queue, options: GetMessageOptions) -> None:
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(options=options)


async def test_t5_1_a_wait_interval_is_checked_with_wait_only(queue: Queue) -> None:
    with fails(MQRC.WAIT_INTERVAL_ERROR):
        await queue.get(options=wait(-2))
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(options=GetMessageOptions(wait_interval=-2))


async def test_t5_2_a_message_goes_to_the_getter_that_asked_for_it(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    async with asyncio.TaskGroup() as tasks:
        general = tasks.create_task(queue.get(options=wait()))
        await system.waiting("Q", 1)
        specific = tasks.create_task(queue.get(MessageDescriptor(correl_id=X), wait()))
        await system.waiting("Q", 2)
        await other_queue.put(b"for X", MessageDescriptor(correl_id=X))
        assert (await specific).data == b"for X"
        assert not general.done()
        await other_queue.put(b"for Y", MessageDescriptor(correl_id=Y))
        assert (await general).data == b"for Y"


async def test_t5_3_every_waiting_browser_is_served(system: System, queue: Queue, connection: Connection) -> None:
    second = await connection.open("Q", MQOO.BROWSE)
    async with asyncio.TaskGroup() as tasks:
        browsing = [
            tasks.create_task(handle.get(options=wait(options=MQGMO.BROWSE_NEXT))) for handle in (queue, second)
        ]
        await system.waiting("Q", 2)
        await queue.put(b"A")
        assert [(await each).data for each in browsing] == [b"A", b"A"]
    assert system.depth() == 1


async def test_browsers_and_one_getter_are_served(system: System, queue: Queue, connection: Connection) -> None:
    second = await connection.open("Q", MQOO.BROWSE)
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(queue.get(wait=float("inf")))
        await system.waiting("Q", 1)
        later = tasks.create_task(reason_of(queue.get(wait=5)))
        browsing = tasks.create_task(second.get(options=wait(options=MQGMO.BROWSE_FIRST)))
        await system.waiting("Q", 3)
        await queue.put(b"A")
        assert [(await first).data, (await browsing).data] == [b"A", b"A"]
        await system.clock.advance(5)
        assert await later == MQRC.NO_MSG_AVAILABLE


async def test_getters_are_served_in_the_order_in_which_they_came(system: System, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = []
        for number in range(5):
            getting.append(tasks.create_task(queue.get(wait=float("inf"))))
            await system.waiting("Q", number + 1)
        await asyncio.gather(*(queue.put(b"%d" % number) for number in range(5)))
        assert [(await each).data for each in getting] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_browse_waits_for_what_comes_behind_its_cursor(system: System, queue: Queue) -> None:
    await queue.put(b"A", MessageDescriptor(priority=5))
    await queue.get(options=MQGMO.BROWSE_NEXT)
    async with asyncio.TaskGroup() as tasks:
        browsing = tasks.create_task(queue.get(options=wait(options=MQGMO.BROWSE_NEXT)))
        await system.waiting("Q", 1)
        await queue.put(b"B", MessageDescriptor(priority=9))
        await queue.put(b"C", MessageDescriptor(priority=1))
        assert (await browsing).data == b"C"


async def test_gets_under_the_cursor_never_wait(queue: Queue) -> None:
    for step in (MQGMO.MSG_UNDER_CURSOR, MQGMO.BROWSE_MSG_UNDER_CURSOR):
        with fails(MQRC.NO_MSG_UNDER_CURSOR):
            await queue.get(options=wait(options=step))


async def test_a_get_that_waits_under_syncpoint_joins_the_unit_of_work(
    system: System, queue: Queue, connection: Connection, other_queue: Queue
) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(queue.get(options=wait(options=MQGMO.SYNCPOINT)))
        await system.waiting("Q", 1)
        await other_queue.put(b"A")
        assert (await getting).data == b"A"
    await connection.backout()
    assert (await other_queue.get()).md.backout_count == 1


async def test_a_waiting_get_holds_up_no_other_call(system: System, connection: Connection, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(queue.get(MessageDescriptor(correl_id=X), wait(options=MQGMO.SYNCPOINT)))
        await system.waiting("Q", 1)
        await queue.put(b"A")
        async with connection.unit_of_work():
            assert (await queue.get()).data == b"A"
        await queue.put(b"B", MessageDescriptor(correl_id=X))
        assert (await getting).data == b"B"


async def test_t5_4_inhibiting_gets_ends_the_waits(system: System, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(reason_of(queue.get(options=wait())))
        browsing = tasks.create_task(reason_of(queue.get(options=wait(options=MQGMO.BROWSE_NEXT))))
        await system.waiting("Q", 2)
        await system.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
        assert [await getting, await browsing] == [MQRC.GET_INHIBITED] * 2
    await queue.put(b"A")
    for options in (MQGMO.NO_WAIT, MQGMO.BROWSE_FIRST, wait()):
        with fails(MQRC.GET_INHIBITED):
            await queue.get(options=options)
    await system.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
    assert await drained(queue) == [b"A"]


async def test_quiescing_ends_the_waits_that_asked_for_it(system: System, connection: Connection, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(reason_of(queue.get(options=wait(options=MQGMO.FAIL_IF_QUIESCING))))
        others = tasks.create_task(queue.get(options=wait()))
        await system.waiting("Q", 2)
        quiescing = tasks.create_task(system.manager.quiesce(60))
        assert await asked == MQRC.Q_MGR_QUIESCING
        for options in (MQGMO.FAIL_IF_QUIESCING, wait(options=MQGMO.FAIL_IF_QUIESCING)):
            with fails(MQRC.Q_MGR_QUIESCING):
                await queue.get(options=options)
        with fails(MQRC.Q_MGR_QUIESCING):
            await connection.open("Q", ALL | MQOO.FAIL_IF_QUIESCING)
        with fails(MQRC.Q_MGR_QUIESCING):
            await connection.connect()
        with fails(MQRC.Q_MGR_QUIESCING):
            await queue.put(b"A", options=MQPMO.FAIL_IF_QUIESCING)
        await queue.put(b"B")
        assert (await others).data == b"B"
        assert not quiescing.done()
        await connection.disconnect()


async def test_quiescing_is_over_after_its_timeout(system: System, connection: Connection) -> None:
    async with asyncio.TaskGroup() as tasks:
        quiescing = tasks.create_task(system.manager.quiesce(30))
        await system.pass_time(29)
        assert not quiescing.done()
        await system.pass_time(1)
        await quiescing


async def test_closing_the_handle_ends_its_waits(system: System, connection: Connection, queue: Queue) -> None:
    second = await connection.open("Q", ALL)
    async with asyncio.TaskGroup() as tasks:
        ended = tasks.create_task(reason_of(queue.get(wait=float("inf"))))
        goes_on = tasks.create_task(second.get(wait=float("inf")))
        await system.waiting("Q", 2)
        await queue.close()
        assert await ended == MQRC.HOBJ_ERROR
        await second.put(b"A")
        assert (await goes_on).data == b"A"


async def test_disconnecting_ends_the_waits(system: System, connection: Connection, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        ended = tasks.create_task(reason_of(queue.get(wait=float("inf"))))
        await system.waiting("Q", 1)
        await connection.disconnect()
        assert await ended in (MQRC.HCONN_ERROR, MQRC.CONNECTION_BROKEN)
    with fails(MQRC.HCONN_ERROR):
        await queue.get()


async def test_a_cut_line_ends_the_waits(system: System, connection: Connection, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        ended = tasks.create_task(reason_of(queue.get(wait=float("inf"))))
        await system.waiting("Q", 1)
        system.cut(connection)
        assert await ended == MQRC.CONNECTION_BROKEN
    await system.waiting("Q", 0)


async def test_a_cancelled_wait_takes_no_message(system: System, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(queue.get(wait=float("inf")))
        await system.waiting("Q", 1)
        getting.cancel()
        await system.waiting("Q", 0)
    await queue.put(b"A")
    assert await drained(queue) == [b"A"]


async def test_a_timeout_of_the_program_ends_a_wait(system: System, queue: Queue) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await queue.get(wait=float("inf"))
    await system.waiting("Q", 0)
    await queue.put(b"A")
    assert await drained(queue) == [b"A"]


async def test_many_getters_each_find_their_reply(system: System, queue: Queue, other_queue: Queue) -> None:
    ids = [name_of(f"request {number}") for number in range(300)]
    async with asyncio.TaskGroup() as tasks:
        getting = [tasks.create_task(queue.get(MessageDescriptor(correl_id=id), wait())) for id in ids]
        await system.waiting("Q", len(ids))
        await asyncio.gather(*(other_queue.put(id, MessageDescriptor(correl_id=id)) for id in reversed(ids)))
        assert [(await each).data for each in getting] == ids


async def test_a_waiting_getter_matches_both_identifiers(system: System, queue: Queue) -> None:
    both = GetMessageOptions(
        options=MQGMO.WAIT, wait_interval=UNLIMITED, match_options=MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID
    )
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(queue.get(MessageDescriptor(msg_id=X, correl_id=Y), both))
        await system.waiting("Q", 1)
        for msg_id, correl_id in ((X, Z), (Z, Y), (X, Y)):
            await queue.put(msg_id + correl_id, MessageDescriptor(msg_id=msg_id, correl_id=correl_id))
        assert (await getting).data == X + Y


async def test_a_waiting_get_whose_buffer_is_too_small_fails_with_the_message(system: System, queue: Queue) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(reason_of(queue.get(options=wait(), max_length=2)))
        await system.waiting("Q", 1)
        await queue.put(b"ABC")
        assert await getting == MQRC.TRUNCATED_MSG_FAILED
    assert await drained(queue) == [b"ABC"]


async def test_an_expired_message_that_comes_back_wakes_nobody(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await queue.put(b"A", MessageDescriptor(expiry=10))
    await queue.get(options=MQGMO.SYNCPOINT)
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(reason_of(other_queue.get(wait=30)))
        await system.waiting("Q", 1)
        await system.pass_time(2)
        await connection.backout()
        await system.pass_time(28)
        assert await getting == MQRC.NO_MSG_AVAILABLE


async def test_iterating_gives_the_messages_as_they_come(system: System, queue: Queue, other_queue: Queue) -> None:
    await other_queue.put(b"A")
    found = []

    async def iterate() -> None:
        async for message in queue:
            found.append(message.data)  # noqa: PERF401  # the list is looked at meanwhile

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(iterate())
        await other_queue.put(b"B")
        await system.until(lambda: found == [b"A", b"B"])
        await system.waiting("Q", 1)
        await queue.close()


async def test_iterating_ends_with_the_error_that_stops_it(system: System, queue: Queue) -> None:
    async def iterate() -> None:
        async for _ in queue:
            raise AssertionError("there is no message")

    async with asyncio.TaskGroup() as tasks:
        iterating = tasks.create_task(reason_of(iterate()))
        await system.waiting("Q", 1)
        await system.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
        assert await iterating == MQRC.GET_INHIBITED


async def test_iterating_in_a_block_is_part_of_the_unit_of_work(connection: Connection, queue: Queue) -> None:
    for data in (b"A", b"B", b"C"):
        await queue.put(data)
    with pytest.raises(ZeroDivisionError):
        async with connection.unit_of_work():
            async for message in queue:
                if message.data == b"B":
                    raise ZeroDivisionError
    assert await drained(queue) == [b"A", b"B", b"C"]


async def test_leaving_an_iteration_leaves_the_rest(queue: Queue) -> None:
    for data in (b"A", b"B", b"C"):
        await queue.put(data)
    async for message in queue:
        if message.data == b"B":
            break
    assert await drained(queue) == [b"C"]
