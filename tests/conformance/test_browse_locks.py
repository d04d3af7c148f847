"""Locks: a browse that keeps its message to itself (semantics 5.5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import MQError
from broker.mqi import MQGMO, MQMO, MQOO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, drained, fails, name_of, reason_of
from tests.conformance.grouping import (
    COMPLETE,
    FIRST,
    LO,
    NEXT,
    SYNC,
    data_of,
    put_all,
    put_group,
    put_segments,
    take,
    take_all,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import Connection, Message, Queue
    from tests.conformance.system import System

X = name_of("X")
AGAIN = MQGMO.BROWSE_MSG_UNDER_CURSOR
UNDER_CURSOR = MQGMO.MSG_UNDER_CURSOR
LOCK = MQGMO.LOCK
UNLOCK = MQGMO.UNLOCK
ACCEPT = MQGMO.ACCEPT_TRUNCATED_MSG


async def test_t5_7_a_locked_message_is_seen_by_its_handle_only(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await put_all(queue, b"A", b"B")
    assert (await take(other_queue, FIRST)).data == b"A"
    second = await connection.open("Q", ALL)
    assert (await take(queue, FIRST | LOCK)).data == b"A"
    assert (await take(second, FIRST)).data == b"B"
    for options in (AGAIN, UNDER_CURSOR):
        with fails(MQRC.NO_MSG_UNDER_CURSOR):
            await take(other_queue, options)
    assert (await take(other_queue, 0)).data == b"B"
    assert (await take(queue, UNDER_CURSOR)).data == b"A"


async def test_table_5_5_a_handle_has_one_lock(queue: Queue, other_queue: Queue) -> None:
    await put_all(queue, b"A", b"B", b"C")
    assert [(await take(queue, NEXT | LOCK)).data for _ in range(2)] == [b"A", b"B"]
    assert data_of(await take_all(other_queue, 0)) == [b"A", b"C"]


async def test_table_5_5_a_get_that_selects_the_message_releases_the_lock(queue: Queue, other_queue: Queue) -> None:
    await put_all(queue, b"A", b"B")
    await take(queue, FIRST | LOCK)
    assert (await take(queue, 0)).data == b"A"
    assert (await take(queue, UNLOCK)).reason == MQRC.NO_MSG_LOCKED
    await take(queue, NEXT | LOCK)
    assert await drained(other_queue) == []


async def test_table_5_5_a_get_that_selects_another_keeps_it(queue: Queue, other_queue: Queue) -> None:
    await put_all(queue, b"A")
    await queue.put(b"B", MessageDescriptor(correl_id=X))
    await take(queue, FIRST | LOCK)
    assert (await take(queue, 0, MQMO.MATCH_CORREL_ID, correl_id=X)).data == b"B"
    assert await drained(other_queue) == []
    assert (await take(queue, UNLOCK)).reason == MQRC.NONE
    assert await drained(other_queue) == [b"A"]


async def test_table_5_5_a_message_got_and_backed_out_is_not_locked(
    connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    await put_all(queue, b"A")
    await take(queue, FIRST | LOCK)
    await take(queue, UNDER_CURSOR | SYNC)
    await connection.backout()
    assert await drained(other_queue) == [b"A"]


KEPT, RELEASED = True, False
STEPS: list[tuple[str, int, int | None, int, bool]] = [
    ("a browse", NEXT, None, MQRC.NONE, RELEASED),
    ("a browse from the start", FIRST, None, MQRC.NONE, RELEASED),
    ("a browse that is cut", NEXT | ACCEPT, 1, MQRC.TRUNCATED_MSG_ACCEPTED, RELEASED),
    ("a browse that does not fit", NEXT, 1, MQRC.TRUNCATED_MSG_FAILED, KEPT),
    ("a browse that is refused", NEXT | SYNC, None, MQRC.OPTIONS_ERROR, KEPT),
    ("a browse of another order", NEXT | LO, None, MQRC.INCONSISTENT_BROWSE, KEPT),
    ("the same message with LOCK", AGAIN | LOCK, None, MQRC.NONE, KEPT),
    ("the same message without", AGAIN, None, MQRC.NONE, RELEASED),
    ("the same message, not fitting", AGAIN, 1, MQRC.TRUNCATED_MSG_FAILED, KEPT),
    ("the same message, cut, with LOCK", AGAIN | LOCK | ACCEPT, 1, MQRC.TRUNCATED_MSG_ACCEPTED, KEPT),
    ("UNLOCK", UNLOCK, None, MQRC.NONE, RELEASED),
    ("UNLOCK that is refused", UNLOCK | NEXT, None, MQRC.OPTIONS_ERROR, KEPT),
    ("a get that does not fit", 0, 1, MQRC.TRUNCATED_MSG_FAILED, KEPT),
]


@pytest.mark.parametrize(
    ("options", "max_length", "reason", "kept"), [step[1:] for step in STEPS], ids=[s[0] for s in STEPS]
)
async def test_table_5_5_what_keeps_a_lock_and_what_releases_it(
    queue: Queue, other_queue: Queue, options: int, max_length: int | None, reason: MQRC, kept: bool
) -> None:
    await put_all(queue, b"AA", b"BB")
    await take(queue, FIRST | LOCK)
    try:
        outcome = (await take(queue, options, max_length=max_length)).reason
    except MQError as error:
        outcome = error.reason
    assert outcome == reason
    assert await drained(other_queue) == ([b"BB"] if kept else [b"AA", b"BB"])


async def test_table_5_5_a_browse_that_finds_nothing_releases_the_lock(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    await put_all(queue, b"A")
    await take(queue, FIRST | LOCK)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue, NEXT)
    assert (await take(other_queue, FIRST | LOCK)).data == b"A"
    async with asyncio.TaskGroup() as tasks:
        browsing = tasks.create_task(take(other_queue, NEXT | LOCK, wait=float("inf")))
        await system.waiting("Q", 1)
        assert (await take(queue, 0)).data == b"A"
        await queue.put(b"B")
        assert (await browsing).data == b"B"
    assert await drained(queue) == []


async def test_table_5_5_a_locked_segment_makes_its_message_incomplete(queue: Queue, other_queue: Queue) -> None:
    await put_segments(queue, X, b"a", b"b")
    await take(queue, FIRST | LOCK)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(other_queue, COMPLETE)
    assert (await take(other_queue, 0)).data == b"b"


async def test_table_5_5_a_whole_message_is_locked_whole(system: System, queue: Queue, other_queue: Queue) -> None:
    await put_segments(queue, X, b"a", b"b", b"c")
    assert (await take(queue, FIRST | LOCK | COMPLETE)).data == b"abc"
    assert (await drained(other_queue), system.depth()) == ([], 3)
    assert (await take(queue, UNDER_CURSOR | COMPLETE)).data == b"abc"
    assert system.depth() == 0


@pytest.mark.parametrize("how", ["close", "disconnect", "cut"])
async def test_table_5_5_the_end_of_a_handle_releases_its_lock(system: System, queue: Queue, how: str) -> None:
    leaving = await system.connect("leaving")
    handle = await leaving.open("Q", ALL)
    await put_all(queue, b"A")
    await take(handle, FIRST | LOCK)
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(queue.get(wait=float("inf")))
        await system.waiting("Q", 1)
        if how == "cut":
            system.cut(leaving)
        else:
            await (handle.close() if how == "close" else leaving.disconnect())
        assert (await getting).data == b"A"


async def test_table_5_5_a_released_message_goes_to_who_waits_for_it(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    await put_all(queue, b"A")
    await take(queue, FIRST | LOCK)
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(other_queue.get(wait=float("inf")))
        await system.waiting("Q", 1)
        await take(queue, UNLOCK)
        assert (await getting).data == b"A"


async def test_a_browse_with_lock_waits_among_those_that_take_messages(
    system: System, connection: Connection, queue: Queue, beside_queue: Queue
) -> None:
    browser = await connection.open("Q", MQOO.BROWSE)
    putter = await system.connect("putter", connection)
    async with asyncio.TaskGroup() as tasks:
        locking = tasks.create_task(take(queue, NEXT | LOCK, wait=float("inf")))
        await system.waiting("Q", 1)
        browsing = tasks.create_task(take(browser, NEXT, wait=float("inf")))
        await system.waiting("Q", 2)
        getting = tasks.create_task(beside_queue.get(wait=float("inf")))
        await system.waiting("Q", 3)
        await putter.put1("Q", b"A")
        assert [(await locking).data, (await browsing).data] == [b"A", b"A"]
        await putter.put1("Q", b"B")
        assert (await getting).data == b"B"


async def test_a_browse_that_had_to_wait_does_not_lose_the_lock_made_meanwhile(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    await put_all(queue, b"A")
    await take(queue, FIRST)
    async with asyncio.TaskGroup() as tasks:
        browsing = tasks.create_task(take(queue, NEXT, wait=float("inf")))
        await system.waiting("Q", 1)
        await take(queue, FIRST | LOCK)
        await put_all(other_queue, b"B")
        assert (await browsing).data == b"B"
    await queue.close()
    assert await drained(other_queue) == [b"A", b"B"]


async def test_a_lock_that_moves_on_is_released_like_the_first(queue: Queue, other_queue: Queue) -> None:
    await put_all(queue, b"A", b"B")
    await take(queue, FIRST | LOCK)
    await take(queue, NEXT | LOCK)
    await queue.close()
    assert await drained(other_queue) == [b"A", b"B"]


async def test_a_lock_is_released_where_gets_are_inhibited(system: System, queue: Queue, other_queue: Queue) -> None:
    await put_all(queue, b"A")
    await take(queue, FIRST | LOCK)
    await system.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    await take(queue, UNLOCK)
    await system.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
    assert await drained(other_queue) == [b"A"]


async def lock_while_waiting(
    system: System,
    queue: Queue,
    options: int,
    max_length: int | None = None,
    correl_id: bytes | None = None,
    of_a: bytes = bytes(24),
) -> asyncio.Task[Message]:
    """A get with these options waits on a queue that holds A, with this CorrelId; meanwhile its handle has browsed A
    with LOCK.
    """
    await queue.put(b"A", MessageDescriptor(correl_id=of_a))
    await take(queue, FIRST)
    match = MQMO.NONE if correl_id is None else MQMO.MATCH_CORREL_ID
    get = take(queue, options, match, wait=float("inf"), max_length=max_length, correl_id=correl_id or bytes(24))
    waiting = asyncio.create_task(get)
    await system.waiting("Q", 1)
    assert (await take(queue, FIRST | LOCK)).data == b"A"
    return waiting


RELEASES = [
    ("a browse", NEXT, None, MQRC.NONE, RELEASED),
    ("a browse with LOCK", NEXT | LOCK, None, MQRC.NONE, RELEASED),
    ("a browse that is cut", NEXT | LOCK | ACCEPT, 1, MQRC.NONE, RELEASED),
    ("a browse that does not fit", NEXT | LOCK, 1, MQRC.TRUNCATED_MSG_FAILED, KEPT),
]


@pytest.mark.parametrize(
    ("options", "max_length", "reason", "kept"), [each[1:] for each in RELEASES], ids=[e[0] for e in RELEASES]
)
async def test_table_5_5_a_browse_that_waited_does_to_a_lock_made_meanwhile_what_any_browse_does(
    system: System, queue: Queue, other_queue: Queue, options: int, max_length: int | None, reason: MQRC, kept: bool
) -> None:
    waiting = await lock_while_waiting(system, queue, options, max_length)
    await put_all(other_queue, b"BB")
    assert await reason_of(waiting) == reason
    locked_now = [b"A"] if kept else [b"BB"] if options & LOCK else []
    assert await drained(other_queue) == [body for body in (b"A", b"BB") if body not in locked_now]
    await take(queue, UNLOCK)
    assert await drained(other_queue) == locked_now


async def test_table_5_5_a_get_that_waited_keeps_a_lock_made_meanwhile(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    waiting = await lock_while_waiting(system, queue, 0, correl_id=X)
    await other_queue.put(b"B", MessageDescriptor(correl_id=X))
    assert (await waiting).data == b"B"
    assert await drained(other_queue) == []
    await take(queue, UNLOCK)
    assert await drained(other_queue) == [b"A"]


@pytest.mark.parametrize("how", ["UNLOCK", "close", "disconnect"])
async def test_table_5_5_whatever_ends_a_lock_frees_what_a_waiting_browse_had_locked_before(
    system: System, how: str
) -> None:
    await system.mqsc("DEFINE QLOCAL(Q)")
    leaving, other = await system.connect("leaving"), await system.connect("other")
    handle, other_queue = await leaving.open("Q", ALL), await other.open("Q", ALL)
    waiting = await lock_while_waiting(system, handle, NEXT | LOCK)
    await put_all(other_queue, b"B")
    assert (await waiting).data == b"B"
    if how == "UNLOCK":
        await take(handle, UNLOCK)
    else:
        await (handle.close() if how == "close" else leaving.disconnect())
    assert await drained(other_queue) == [b"A", b"B"]


async def test_table_5_5_what_a_browse_that_waited_releases_goes_to_who_waits_for_it(
    system: System, queue: Queue, other: Connection, other_queue: Queue
) -> None:
    waiting = await lock_while_waiting(system, queue, NEXT | LOCK, of_a=X)
    async with asyncio.TaskGroup() as tasks:  # who waits asks for A: another member might be given B first
        getting = tasks.create_task(take(other_queue, 0, MQMO.MATCH_CORREL_ID, wait=float("inf"), correl_id=X))
        await system.waiting("Q", 2)
        await other.put1("Q", b"B")
        assert ((await waiting).data, (await getting).data) == (b"B", b"A")


async def test_table_5_5_a_browse_that_does_not_fit_locks_nothing(queue: Queue, other_queue: Queue) -> None:
    await put_all(queue, b"AA")
    with fails(MQRC.TRUNCATED_MSG_FAILED):
        await take(queue, FIRST | LOCK, max_length=1)
    assert (await take(queue, UNLOCK)).reason == MQRC.NO_MSG_LOCKED
    assert await drained(other_queue) == [b"AA"]


@pytest.mark.parametrize("order", [0, LO], ids=["physical", "logical"])
@pytest.mark.parametrize("whole", [MQGMO.ALL_MSGS_AVAILABLE, MQGMO.ALL_SEGMENTS_AVAILABLE], ids=lambda each: each.name)
async def test_table_5_5_only_the_message_that_is_browsed_is_locked_not_what_had_to_be_there_with_it(
    queue: Queue, other_queue: Queue, whole: int, order: int
) -> None:
    put = put_group if whole == MQGMO.ALL_MSGS_AVAILABLE else put_segments
    await put(queue, X, b"a", b"b", b"c")
    assert (await take(queue, FIRST | LOCK | whole | order)).data == b"a"
    assert await drained(other_queue) == [b"b", b"c"]
    await queue.close()
    assert await drained(other_queue) == [b"a"]


WHOLES = [
    ("a group", put_group, MQGMO.ALL_MSGS_AVAILABLE),
    ("a group in order", put_group, MQGMO.ALL_MSGS_AVAILABLE | LO),
    ("a segmented message", put_segments, MQGMO.ALL_SEGMENTS_AVAILABLE),
    ("a segmented message in order", put_segments, MQGMO.ALL_SEGMENTS_AVAILABLE | LO),
    ("a complete message", put_segments, COMPLETE),
]


@pytest.mark.parametrize(("put", "options"), [each[1:] for each in WHOLES], ids=[each[0] for each in WHOLES])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_table_5_5_what_a_handle_has_locked_is_there_for_its_own_gets(
    queue: Queue, other_queue: Queue, number: int, put: Callable[..., Awaitable[None]], options: int
) -> None:
    await put(queue, X, b"a", b"b", b"c")
    for _ in range(number):
        await take(queue, NEXT | LOCK)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(other_queue, options)
    got = (await take(queue, options | SYNC)).data
    assert got == (b"abc" if options & COMPLETE else b"a")
    locked = b"abc"[number - 1]  # still, unless it was got
    assert await drained(other_queue) == [bytes([each]) for each in b"abc" if each != locked and each not in got]
