"""Whole messages and groups: COMPLETE_MSG, ALL_MSGS_AVAILABLE, ALL_SEGMENTS_AVAILABLE (semantics 5.7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMF, MQPMO, MQRC
from tests.conformance.expect import drained, fails, name_of, reason_of
from tests.conformance.grouping import (
    ALL_MSGS,
    ALL_SEGMENTS,
    COMPLETE,
    FIRST,
    LMIG,
    LO,
    LSEG,
    MIG,
    NEXT,
    SEG,
    SYNC,
    data_of,
    place,
    put_all,
    put_segments,
    take,
    take_all,
)

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

X = name_of("X")
AGAIN = MQGMO.BROWSE_MSG_UNDER_CURSOR
UNDER_CURSOR = MQGMO.MSG_UNDER_CURSOR


async def test_t5_8_a_message_without_one_of_its_segments_is_not_there(system: System, queue: Queue) -> None:
    bodies = (b"aa", b"bb", b"cc", b"dd")
    await put_segments(queue, X, *bodies, missing=1)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue, COMPLETE)
    assert system.depth() == 3
    await place(queue, b"bb", SEG, X, 1, 2)
    assert (await take(queue, COMPLETE)).data == b"aabbccdd"
    assert system.depth() == 0


DIFFERENCES: list[tuple[list[dict[str, int]], MQRC]] = [
    ([{"coded_char_set_id": 819}, {"coded_char_set_id": 819}, {"coded_char_set_id": 1208}], MQRC.INCONSISTENT_CCSIDS),
    ([{"encoding": 0x111}, {"encoding": 0x111}, {"encoding": 0x222}], MQRC.INCONSISTENT_ENCODINGS),
    ([{}, {}, {"encoding": 0x111, "coded_char_set_id": 819}], MQRC.INCONSISTENT_CCSIDS),
]


@pytest.mark.parametrize(("fields", "reason"), DIFFERENCES, ids=["character set", "encoding", "both"])
@pytest.mark.parametrize("order", [0, LO], ids=["no order", "logical order"])
async def test_t5_9_segments_that_do_not_agree_are_got_in_part(
    system: System, queue: Queue, fields: list[dict[str, int]], reason: MQRC, order: MQGMO
) -> None:  # B26
    for number, (data, each) in enumerate(zip((b"aa", b"bb", b"cc"), fields, strict=True)):
        await place(queue, data, LSEG if number == 2 else SEG, X, 1, 2 * number, **each)
    for options in (COMPLETE | FIRST, COMPLETE | order):
        message = await take(queue, options)
        assert (message.data, message.reason, message.segment_status) == (b"aabb", reason, "S")
    assert system.depth() == 1
    rest = await take(queue, order)
    assert (rest.data, rest.md.offset, rest.segment_status, rest.reason) == (b"cc", 4, "L", MQRC.NONE)
    assert await queue.close() == MQRC.NONE


@pytest.mark.parametrize("options", [COMPLETE, ALL_SEGMENTS, ALL_MSGS])
async def test_table_5_7_a_message_in_no_group_is_got_as_always(queue: Queue, options: MQGMO) -> None:
    await put_all(queue, b"A", b"B")
    assert data_of(await take_all(queue, options)) == [b"A", b"B"]


WHOLES = [
    (COMPLETE, None, [b"ab", b"c"]),
    (COMPLETE, "a", [b"c"]),
    (COMPLETE, "c", [b"ab"]),
    (ALL_SEGMENTS, "a", [b"c"]),
    (ALL_SEGMENTS, "c", [b"a"]),
    (ALL_MSGS, None, [b"a"]),
    (ALL_MSGS, "b", []),
    (ALL_MSGS, "c", []),
    (ALL_MSGS | COMPLETE, None, [b"ab"]),
    (ALL_MSGS | COMPLETE, "c", []),
    (LO | COMPLETE, None, [b"ab", b"c"]),
    (LO | COMPLETE, "c", [b"ab"]),
    (LO | ALL_MSGS, None, [b"a", b"b", b"c"]),
    (LO | ALL_MSGS, "c", []),
    (LO | ALL_MSGS | COMPLETE, None, [b"ab", b"c"]),
    (LO | ALL_SEGMENTS, None, [b"a", b"b", b"c"]),
    (LO | ALL_SEGMENTS, "b", []),
    (LO | ALL_SEGMENTS, "c", [b"a", b"b"]),
]


@pytest.mark.parametrize(("options", "missing", "expected"), WHOLES)
async def test_table_5_7_what_must_be_there_before_a_get_begins(
    queue: Queue, options: MQGMO, missing: str | None, expected: list[bytes]
) -> None:
    """The group is a message of two segments, a and b, and a message c that is the last. Without logical order the
    options look at each message anew, so that they stop where what was got makes the rest incomplete.
    """
    for data, flags, number, offset in ((b"a", MIG | SEG, 1, 0), (b"b", MIG | LSEG, 1, 1), (b"c", LMIG, 2, 0)):
        if data.decode() != missing:
            await place(queue, data, flags, X, number, offset)
    assert data_of(await take_all(queue, options)) == expected


async def test_table_5_7_others_may_take_from_a_group_that_was_complete(queue: Queue, other_queue: Queue) -> None:
    for number, flags in ((1, MIG), (2, MIG), (3, LMIG)):
        await place(queue, b"%d" % number, flags, X, number)
    assert (await take(queue, LO | ALL_MSGS)).data == b"1"
    assert (await take(other_queue, 0)).data == b"2"
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue, LO | ALL_MSGS)


async def test_reassembly_takes_the_descriptor_of_the_first_and_the_order_of_offsets(queue: Queue) -> None:
    for data, flags, offset in ((b"cc", LMIG | LSEG, 4), (b"bb", LMIG | SEG, 2)):
        await place(queue, data, flags, X, 5, offset)
    first = await place(queue, b"aa", LMIG | SEG | MQMF.SEGMENTATION_ALLOWED, X, 5, feedback=9)
    message = await take(queue, COMPLETE)
    assert (message.data, message.length) == (b"aabbcc", 6)
    assert (message.md.msg_id, message.md.feedback, message.md.offset) == (first.md.msg_id, 9, 0)
    assert (message.md.msg_flags, message.md.msg_seq_number) == (0x1F, 5)
    assert (message.group_status, message.segment_status, message.segmentation) == ("L", "L", "A")


@pytest.mark.parametrize(
    ("persistence", "beside", "options", "reason"),
    [
        (1, True, COMPLETE, MQRC.UOW_NOT_AVAILABLE),
        (1, True, COMPLETE | SYNC, MQRC.NONE),
        (1, False, COMPLETE, MQRC.NONE),
        (0, True, COMPLETE, MQRC.NONE),
    ],
)
async def test_reassembly_of_a_persistent_message_needs_a_unit_of_work(
    system: System, connection: Connection, queue: Queue, persistence: int, beside: bool, options: MQGMO, reason: MQRC
) -> None:
    await system.mqsc(f"ALTER QLOCAL(Q) DEFPSIST({'YES' if persistence else 'NO'})")
    await put_segments(queue, X, b"a", b"b")
    if beside:
        await queue.put(b"beside", options=MQPMO.SYNCPOINT)
    assert await reason_of(take(queue, options)) == reason
    await connection.backout()
    assert system.depth() == (2 if reason or options & SYNC else 0)


async def test_reassembly_under_syncpoint_is_backed_out_whole(connection: Connection, queue: Queue) -> None:
    await put_segments(queue, X, b"a", b"b", b"c")
    for count in range(2):
        message = await take(queue, COMPLETE | SYNC)
        assert (message.data, message.md.backout_count) == (b"abc", count)
        await connection.backout()
    assert [message.md.backout_count for message in await take_all(queue, 0)] == [2, 2, 2]


async def test_reassembly_under_the_cursor_begins_with_the_first_segment(system: System, queue: Queue) -> None:
    await put_segments(queue, X, b"a", b"b", b"c")
    assert [(await take(queue, NEXT)).data for _ in range(2)] == [b"a", b"b"]
    for options in (AGAIN, UNDER_CURSOR):
        with fails(MQRC.INVALID_MSG_UNDER_CURSOR):
            await take(queue, options | COMPLETE)
    assert (await take(queue, AGAIN)).data == b"b"
    await take(queue, FIRST)
    assert (await take(queue, AGAIN | COMPLETE)).data == b"abc"
    assert (await take(queue, UNDER_CURSOR)).data == b"a"
    assert system.depth() == 2


async def test_reassembly_fills_what_a_short_report_leaves_out_with_zeros(queue: Queue) -> None:
    for flags, offset in ((SEG, 0), (LSEG, 6)):
        await place(queue, b"ab", flags, X, 1, offset, msg_type=4, original_length=6)
    message = await take(queue, COMPLETE)
    assert (message.data, message.length) == (b"ab\0\0\0\0ab\0\0\0\0", 12)


async def test_of_two_segments_at_one_offset_the_first_is_used_and_the_other_stays(queue: Queue) -> None:
    await put_segments(queue, X, b"a", b"b")
    await place(queue, b"x", LSEG, X, 1, 1)
    assert (await take(queue, COMPLETE)).data == b"ab"
    assert await drained(queue) == [b"x"]


async def test_a_getter_of_a_whole_group_waits_until_it_is_complete(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(take(other_queue, LO | ALL_MSGS, wait=float("inf")))
        await system.waiting("Q", 1)
        await place(queue, b"2", LMIG, X, 2)
        await queue.get(options=FIRST)
        assert not getting.done()
        await place(queue, b"1", MIG, X, 1)
        assert (await getting).data == b"1"
    assert (await take(other_queue, LO | ALL_MSGS)).data == b"2"


async def test_a_getter_in_the_middle_of_a_group_is_given_just_what_comes_next(
    system: System, queue: Queue, beside_queue: Queue
) -> None:
    await place(queue, b"1", MIG, X, 1)
    await take(beside_queue, LO)
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(take(beside_queue, LO, wait=float("inf")))
        await system.waiting("Q", 1)
        general = tasks.create_task(queue.get(wait=float("inf")))
        await system.waiting("Q", 2)
        await place(queue, b"2", LMIG, X, 2)
        assert (await getting).data == b"2"
        await queue.put(b"alone")
        assert (await general).data == b"alone"
