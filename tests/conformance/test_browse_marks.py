"""Browse marks: of a handle, and of the handles that co-operate (semantics 5.6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMO, MQOO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import ALL, browsed, drained, fails

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from tests.conformance.system import System

FIRST, AGAIN = MQGMO.BROWSE_FIRST, MQGMO.BROWSE_MSG_UNDER_CURSOR
HANDLE, CO_OP = MQGMO.BROWSE_HANDLE, MQGMO.BROWSE_CO_OP
UNMARKED = FIRST | MQGMO.UNMARKED_BROWSE_MSG


@pytest.fixture
async def members(connection: Connection, beside: Connection) -> list[Queue]:
    """Two co-operating handles of two programs."""
    return [await each.open("Q", ALL | MQOO.CO_OP) for each in (connection, beside)]


async def put_all(queue: Queue, *bodies: bytes) -> None:
    for data in bodies:
        await queue.put(data)


async def look(queue: Queue, options: MQGMO) -> bytes:
    """The data of the message browsed; nothing when there is none."""
    try:
        return (await queue.get(options=options)).data
    except Exception as error:
        assert getattr(error, "reason", None) == MQRC.NO_MSG_AVAILABLE
        return b""


async def by_token(queue: Queue, message: Message, options: MQGMO) -> Message:
    gmo = GetMessageOptions(options=options, match_options=MQMO.MATCH_MSG_TOKEN, msg_token=message.token)
    return await queue.get(options=gmo)


async def test_t5_10_each_message_is_browsed_once(queue: Queue) -> None:
    await put_all(queue, b"A", b"B", b"C")
    assert [await look(queue, HANDLE) for _ in range(4)] == [b"A", b"B", b"C", b""]
    await queue.put(b"D", MessageDescriptor(priority=9))
    assert [await look(queue, HANDLE) for _ in range(2)] == [b"D", b""]


async def test_marks_hide_nothing_from_who_does_not_ask_for_them(queue: Queue) -> None:
    await put_all(queue, b"A", b"B")
    await look(queue, HANDLE)
    assert await browsed(queue) == [b"A", b"B"]
    assert await drained(queue) == [b"A", b"B"]


async def test_each_handle_has_marks_of_its_own(queue: Queue, other_queue: Queue) -> None:
    await put_all(queue, b"A", b"B")
    assert [await look(handle, HANDLE) for handle in (queue, other_queue)] == [b"A", b"A"]


async def test_co_operating_handles_share_their_marks(members: list[Queue], queue: Queue) -> None:
    await put_all(queue, b"A", b"B", b"C")
    one, other = members
    assert [await look(handle, CO_OP) for handle in (one, other, one, other)] == [b"A", b"B", b"C", b""]
    assert await look(queue, HANDLE) == b"A"


async def test_a_co_operating_handle_minds_its_own_marks_too(members: list[Queue], queue: Queue) -> None:
    await put_all(queue, b"A", b"B", b"C")
    one, other = members
    assert [await look(one, HANDLE) for _ in range(2)] == [b"A", b"B"]
    assert await look(other, CO_OP) == b"A"
    assert await look(one, CO_OP) == b"C"
    assert await look(other, UNMARKED) == b"B"
    assert await look(one, UNMARKED) == b""


async def test_a_message_may_have_both_marks(members: list[Queue], queue: Queue) -> None:
    await put_all(queue, b"A")
    one, other = members
    await look(one, CO_OP | MQGMO.MARK_BROWSE_HANDLE)
    assert await look(other, UNMARKED) == b""
    await one.get(options=AGAIN | MQGMO.UNMARK_BROWSE_CO_OP)
    assert [await look(handle, UNMARKED) for handle in members] == [b"", b"A"]


async def test_an_interval_ends_the_marks_of_co_operating_handles(
    system: System, members: list[Queue], queue: Queue
) -> None:
    await put_all(queue, b"A", b"B")
    assert await look(members[0], CO_OP) == b"A"
    await look(queue, HANDLE)
    await system.pass_time(4)
    assert await look(members[1], CO_OP) == b"B"
    await system.pass_time(1)
    assert [await look(members[1], CO_OP) for _ in range(2)] == [b"A", b""]
    await system.pass_time(3600)
    assert await look(queue, UNMARKED) == b"B"


async def test_who_waits_for_an_unmarked_message_is_given_it_when_the_mark_ends(
    system: System, members: list[Queue], queue: Queue
) -> None:
    await put_all(queue, b"A", b"B")
    await look(members[0], CO_OP)
    await system.pass_time(1)
    await look(members[0], CO_OP)
    async with asyncio.TaskGroup() as tasks:
        waiting = []
        for number in (1, 2):
            waiting.append(tasks.create_task(members[1].get(options=CO_OP, wait=60)))
            await system.waiting("Q", number)
        await system.pass_time(3)
        assert not any(each.done() for each in waiting)
        await system.pass_time(1)
        assert (await waiting[0]).data == b"A"
        await system.pass_time(1)
        assert (await waiting[1]).data == b"B"


async def test_the_interval_is_an_attribute_of_the_queue_manager(
    system: System, members: list[Queue], queue: Queue
) -> None:
    await put_all(queue, b"A")
    await system.mqsc("ALTER QMGR MARKINT(NOLIMIT)")
    await look(members[0], CO_OP)
    await system.pass_time(10_000)
    assert await look(members[1], CO_OP) == b""
    await system.mqsc("ALTER QMGR MARKINT(100)")
    assert await look(members[1], CO_OP) == b"A"


@pytest.mark.parametrize(
    ("before", "now", "seconds"), [("NOLIMIT", "2000", 2), ("60000", "2000", 2), ("2000", "6000", 6)]
)
async def test_a_changed_interval_reaches_who_waits_already(
    system: System, members: list[Queue], queue: Queue, before: str, now: str, seconds: int
) -> None:
    await system.mqsc(f"ALTER QMGR MARKINT({before})")
    await put_all(queue, b"A")
    await look(members[0], CO_OP)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(members[1].get(options=CO_OP, wait=100))
        await system.waiting("Q", 1)
        await system.mqsc(f"ALTER QMGR MARKINT({now})")
        await system.pass_time(seconds - 1)
        assert not waiting.done()
        await system.pass_time(1.1)
        assert (await asyncio.wait_for(waiting, 60)).data == b"A"


async def test_a_mark_made_anew_lasts_anew(system: System, members: list[Queue], queue: Queue) -> None:
    await put_all(queue, b"A")
    await look(members[0], CO_OP)
    await system.pass_time(3)
    await members[0].get(options=AGAIN | MQGMO.MARK_BROWSE_CO_OP)
    await system.pass_time(3)
    assert await look(members[1], CO_OP) == b""
    await system.pass_time(2)
    assert await look(members[1], CO_OP) == b"A"


async def test_closing_takes_the_marks_of_the_handle_off(connection: Connection, queue: Queue) -> None:
    await put_all(queue, b"A")
    for _ in range(2):
        async with connection.open("Q", MQOO.BROWSE) as handle:
            assert [await look(handle, HANDLE) for _ in range(2)] == [b"A", b""]


async def test_the_last_co_operating_handle_takes_the_marks_with_it(
    connection: Connection, members: list[Queue], queue: Queue
) -> None:
    await put_all(queue, b"A", b"B")
    await look(members[0], CO_OP)
    await members[0].close()
    assert await look(members[1], CO_OP) == b"B"
    await members[1].close()
    again = await connection.open("Q", ALL | MQOO.CO_OP)
    assert await look(again, CO_OP) == b"A"


@pytest.mark.parametrize("mark", [HANDLE, CO_OP], ids=["handle", "co-operating"])
async def test_a_get_takes_the_marks_off_even_if_it_is_backed_out(
    connection: Connection, members: list[Queue], queue: Queue, mark: MQGMO
) -> None:
    await put_all(queue, b"A")
    await look(members[0], mark)
    await queue.get(options=MQGMO.SYNCPOINT)
    await connection.backout()
    assert [await look(members[0], mark) for _ in range(2)] == [b"A", b""]


async def test_a_mark_is_taken_off_the_message_asked_for(queue: Queue) -> None:
    await put_all(queue, b"A", b"B")
    first = await queue.get(options=HANDLE)
    await look(queue, HANDLE)
    assert (await by_token(queue, first, FIRST | MQGMO.UNMARK_BROWSE_HANDLE)).data == b"A"
    assert [await look(queue, HANDLE) for _ in range(2)] == [b"A", b""]
    await queue.get(options=AGAIN | MQGMO.UNMARK_BROWSE_HANDLE)
    assert await look(queue, UNMARKED) == b"A"


async def test_who_asks_for_a_marked_message_by_its_token_is_told(members: list[Queue], queue: Queue) -> None:
    await put_all(queue, b"A")
    message = await queue.get(options=HANDLE)
    with fails(MQRC.MSG_MARKED_BROWSE_CO_OP):
        await by_token(queue, message, UNMARKED)
    assert (await by_token(members[0], message, CO_OP)).data == b"A"
    with fails(MQRC.MSG_MARKED_BROWSE_CO_OP):
        await by_token(members[1], message, CO_OP)
    assert await drained(queue) == [b"A"]
    with fails(MQRC.NO_MSG_AVAILABLE):
        await by_token(queue, message, UNMARKED)


async def test_a_mark_that_nobody_needs_is_not_kept(system: System, members: list[Queue], queue: Queue) -> None:
    await put_all(queue, *([b"A"] * 20))
    for _ in range(20):
        await look(members[0], CO_OP | MQGMO.MARK_BROWSE_HANDLE)
    await drained(queue)
    core = system.manager.core.objects.queues["Q"]
    assert not any(handle.marked for handle in core.handles)
    assert core.browse_marks.oldest is None
