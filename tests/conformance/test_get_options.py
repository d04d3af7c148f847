"""MQGMO options: what goes together, in which order it is checked, and truncation (semantics 5.2 and 5.4).

Waiting is told in `test_waiting.py`, locks in `test_browse_locks.py`, marks in `test_browse_marks.py`, whole messages
in `test_whole_messages.py`, CONVERT in `test_convert.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.mqi import MQGMO, MQMO, MQOO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import ALL, drained, fails, name_of, reason_of
from tests.conformance.grouping import (
    ALL_MSGS,
    ALL_SEGMENTS,
    COMPLETE,
    FIRST,
    LMIG,
    LO,
    MIG,
    NEXT,
    SYNC,
    place,
    put_all,
    put_segments,
    take,
)

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

X = name_of("X")
AGAIN, UNDER_CURSOR = MQGMO.BROWSE_MSG_UNDER_CURSOR, MQGMO.MSG_UNDER_CURSOR
LOCK, UNLOCK, ACCEPT = MQGMO.LOCK, MQGMO.UNLOCK, MQGMO.ACCEPT_TRUNCATED_MSG
IF_PERSISTENT = MQGMO.SYNCPOINT_IF_PERSISTENT
BROWSES = (FIRST, NEXT, AGAIN)
MARK, MARK_CO_OP = MQGMO.MARK_BROWSE_HANDLE, MQGMO.MARK_BROWSE_CO_OP
UNMARK, UNMARK_CO_OP = MQGMO.UNMARK_BROWSE_HANDLE, MQGMO.UNMARK_BROWSE_CO_OP
UNMARKED = MQGMO.UNMARKED_BROWSE_MSG
PROPERTIES = (
    MQGMO.PROPERTIES_FORCE_MQRFH2, MQGMO.NO_PROPERTIES, MQGMO.PROPERTIES_IN_HANDLE, MQGMO.PROPERTIES_COMPATIBILITY,
)  # fmt: skip


# Table 5.2: options that do not go together

CONFLICTS = [
    SYNC | MQGMO.NO_SYNCPOINT,
    SYNC | IF_PERSISTENT,
    MQGMO.NO_SYNCPOINT | IF_PERSISTENT,
    *(one | other for one in (*BROWSES, UNDER_CURSOR) for other in (*BROWSES, UNDER_CURSOR) if one < other),
    *(SYNC | other for other in (*BROWSES, UNLOCK)),
    *(SYNC | LOCK | browse for browse in BROWSES),
    *(IF_PERSISTENT | other for other in (*BROWSES, COMPLETE, UNLOCK)),
    MQGMO.MARK_SKIP_BACKOUT,
    MQGMO.MARK_SKIP_BACKOUT | SYNC,
    MQGMO.SET_SIGNAL,
    MQGMO.WAIT | MQGMO.SET_SIGNAL,
    LOCK,
    LOCK | UNDER_CURSOR,
    *(
        UNLOCK | other
        for other in (
            MQGMO.WAIT, *BROWSES, UNDER_CURSOR, ACCEPT, LO, COMPLETE, ALL_MSGS, ALL_SEGMENTS, LOCK,
            MQGMO.FAIL_IF_QUIESCING, MQGMO.CONVERT, MARK | FIRST,
        )
    ),
    MARK,
    MARK_CO_OP,
    UNMARKED,
    MARK | UNDER_CURSOR,
    MARK | UNMARK | FIRST,
    MARK_CO_OP | UNMARK_CO_OP | FIRST,
    MARK_CO_OP | FIRST,
    UNMARK_CO_OP | FIRST,
    *(
        FIRST | mark | other
        for mark in (MARK, UNMARK, UNMARKED)
        for other in (ALL_MSGS, ALL_SEGMENTS, COMPLETE, LOCK, LO)
    ),
    *(one | other for one in PROPERTIES for other in PROPERTIES if one < other),
    MQGMO(0x80000),
    MQGMO(0x20000000),
    MQGMO(0x80000000),
]  # fmt: skip


@pytest.mark.parametrize("options", CONFLICTS, ids=lambda options: f"{int(options):#x}")
async def test_table_5_2_options_that_do_not_go_together_are_refused(queue: Queue, options: MQGMO) -> None:  # B21
    await queue.put(b"A")
    with fails(MQRC.OPTIONS_ERROR):
        await queue.get(options=options)
    assert await drained(queue) == [b"A"]


async def test_table_5_2_co_operative_marks_need_a_handle_opened_for_them(connection: Connection, queue: Queue) -> None:
    await queue.put(b"A")
    handle = await connection.open("Q", ALL | MQOO.CO_OP)
    for options in (MARK_CO_OP | FIRST, UNMARK_CO_OP | FIRST):
        assert (await handle.get(options=options)).data == b"A"


async def test_table_5_2_a_whole_message_has_no_offset_to_match(queue: Queue) -> None:
    with fails(MQRC.OPTIONS_ERROR):
        await take(queue, COMPLETE, MQMO.MATCH_OFFSET)


async def test_t5_6_the_order_of_checks_tells_one_reason(queue: Queue) -> None:  # B1
    for options in (SYNC | FIRST, LOCK, UNLOCK | MQGMO.WAIT):
        assert await reason_of(queue.get(options=options)) == MQRC.OPTIONS_ERROR
    assert (await queue.get(options=UNLOCK)).reason == MQRC.NO_MSG_LOCKED
    assert (await queue.get(options=UNLOCK | MQGMO.NO_SYNCPOINT)).reason == MQRC.NO_MSG_LOCKED


@pytest.mark.parametrize("options", [*BROWSES, UNDER_CURSOR], ids=repr)
async def test_table_5_2_browsing_needs_a_handle_opened_for_it(connection: Connection, options: MQGMO) -> None:
    async with connection.open("Q", MQOO.INPUT_SHARED) as handle:
        with fails(MQRC.NOT_OPEN_FOR_BROWSE):
            await handle.get(options=options)


@pytest.mark.parametrize("options", [MQGMO.NONE, SYNC, UNDER_CURSOR], ids=repr)
async def test_table_5_2_removing_needs_a_handle_opened_for_it(connection: Connection, options: MQGMO) -> None:
    async with connection.open("Q", MQOO.BROWSE) as handle:
        with fails(MQRC.NOT_OPEN_FOR_INPUT):
            await handle.get(options=options)


@pytest.mark.parametrize("options", [LO, COMPLETE, ALL_MSGS, ALL_SEGMENTS], ids=repr)
async def test_table_5_2_groups_need_a_structure_that_knows_of_them(queue: Queue, options: MQGMO) -> None:
    with fails(MQRC.WRONG_GMO_VERSION):
        await queue.get(options=GetMessageOptions(options=options, version=1))


async def test_the_checks_of_a_get_come_in_one_order(system: System, connection: Connection, queue: Queue) -> None:
    """Each call has the faults of all that follow; the first is told (semantics 0.3)."""
    shared, browser = await connection.open("Q", MQOO.INPUT_SHARED), await connection.open("Q", MQOO.BROWSE)
    await place(queue, b"Y1", MIG, X)
    await take(queue, LO)
    await system.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
    old, wrong = MessageDescriptor(version=1), MessageDescriptor(msg_seq_number=0)
    waits: dict[str, Any] = {"wait_interval": -2, "match_options": MQMO.MATCH_MSG_SEQ_NUMBER}
    conflict = GetMessageOptions(options=MQGMO.WAIT | LO | SYNC | FIRST, **waits)
    lo = GetMessageOptions(options=MQGMO.WAIT | LO | SYNC, **waits)
    no_wait = GetMessageOptions(options=LO | SYNC, match_options=MQMO.MATCH_MSG_SEQ_NUMBER)
    faults = [
        (shared.get(old, conflict, max_length=-1), MQRC.OPTIONS_ERROR),
        (browser.get(old, lo, max_length=-1), MQRC.WRONG_MD_VERSION),
        (browser.get(wrong, lo, max_length=-1), MQRC.NOT_OPEN_FOR_INPUT),
        (queue.get(wrong, lo, max_length=-1), MQRC.BUFFER_LENGTH_ERROR),
        (queue.get(wrong, lo), MQRC.WAIT_INTERVAL_ERROR),
        (queue.get(wrong, no_wait), MQRC.GET_INHIBITED),
    ]
    assert [await reason_of(call) for call, _ in faults] == [reason for _, reason in faults]
    await system.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
    assert await reason_of(queue.get(wrong, no_wait)) == MQRC.MSG_SEQ_NUMBER_ERROR
    md = MessageDescriptor(msg_seq_number=7)
    assert await reason_of(queue.get(md, no_wait)) == MQRC.INCONSISTENT_UOW
    plain = GetMessageOptions(options=LO, match_options=MQMO.MATCH_MSG_SEQ_NUMBER)
    assert await reason_of(queue.get(md, plain)) == MQRC.MATCH_OPTIONS_ERROR
    await place(queue, b"Y2", LMIG, X, 2)
    assert (await take(queue)).data == b"Y2"


# Table 5.4: truncation

TRUNCATIONS = [
    (0, 20, MQRC.NONE, 2, b"A"),
    (ACCEPT, 20, MQRC.NONE, 2, b"A"),
    (ACCEPT, 9, MQRC.TRUNCATED_MSG_ACCEPTED, 2, b"A"),
    (ACCEPT, 0, MQRC.TRUNCATED_MSG_ACCEPTED, 2, b"A"),
    (0, 9, MQRC.TRUNCATED_MSG_FAILED, 3, b"A"),
    (NEXT, 20, MQRC.NONE, 3, b"B" * 20),
    (NEXT | ACCEPT, 9, MQRC.TRUNCATED_MSG_ACCEPTED, 3, b"B" * 20),
    (NEXT, 9, MQRC.TRUNCATED_MSG_FAILED, 3, b"A"),
    (FIRST, 9, MQRC.TRUNCATED_MSG_FAILED, 3, None),
]


@pytest.mark.parametrize(("options", "max_length", "reason", "depth", "cursor"), TRUNCATIONS)
async def test_table_5_4_a_buffer_that_is_too_short(
    system: System, queue: Queue, options: int, max_length: int, reason: MQRC, depth: int, cursor: bytes | None
) -> None:
    await put_all(queue, b"A", b"C")
    await queue.put(b"B" * 20, MessageDescriptor(correl_id=X))
    await take(queue, FIRST)
    try:
        message = await take(queue, options, MQMO.MATCH_CORREL_ID, max_length=max_length, correl_id=X)
    except MQError as error:
        assert (error.reason, MQRC.TRUNCATED_MSG_FAILED) == (reason, error.reason)
        message = error.message  # type: ignore[assignment]  # of 2080 it is what fitted
    assert (message.reason, message.data, message.length) == (reason, b"B" * min(20, max_length), 20)
    assert (message.md.correl_id, system.depth()) == (X, depth)
    if cursor is None:
        with fails(MQRC.NO_MSG_UNDER_CURSOR):
            await take(queue, AGAIN)
        assert (await take(queue, NEXT)).data == b"A"
    else:
        assert (await take(queue, AGAIN)).data == cursor


async def test_table_5_4_a_message_that_did_not_fit_locks_nothing_and_opens_nothing(
    queue: Queue, other_queue: Queue
) -> None:
    await place(queue, b"Y1" * 10, MIG, X)
    with fails(MQRC.TRUNCATED_MSG_FAILED):
        await take(queue, LO | SYNC, max_length=5)
    assert await queue.close() == MQRC.NONE
    with fails(MQRC.TRUNCATED_MSG_FAILED):
        await take(other_queue, FIRST | LOCK, max_length=5)
    assert (await take(other_queue, UNLOCK)).reason == MQRC.NO_MSG_LOCKED


async def test_table_5_4_the_length_is_that_of_the_whole_message(system: System, queue: Queue) -> None:
    await put_segments(queue, X, b"a" * 10, b"b" * 20, b"c" * 5)
    with fails(MQRC.TRUNCATED_MSG_FAILED) as caught:
        await take(queue, COMPLETE, max_length=34)
    part: Any = caught.value.message
    assert (part.length, part.data, system.depth()) == (35, b"a" * 10 + b"b" * 20 + b"c" * 4, 3)
    cut = await take(queue, COMPLETE | ACCEPT, max_length=12)
    assert (cut.length, cut.data, cut.reason, system.depth()) == (
        35, b"a" * 10 + b"bb", MQRC.TRUNCATED_MSG_ACCEPTED, 0,
    )  # fmt: skip
