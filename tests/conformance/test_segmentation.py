"""Messages that the queue manager cuts into segments and puts together again (semantics 4)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQGMO, MQMF, MQMT, MQPMO, MQRC, MQRO, MessageDescriptor
from tests.conformance.expect import ALL, fails, name_of
from tests.conformance.grouping import take, take_all

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from tests.conformance.system import System

SEG, LSEG, SEGOK = MQMF.SEGMENT, MQMF.LAST_SEGMENT, MQMF.SEGMENTATION_ALLOWED
MIG, LMIG = MQMF.MSG_IN_GROUP, MQMF.LAST_MSG_IN_GROUP
LO, SYNC = MQPMO.LOGICAL_ORDER, MQPMO.SYNCPOINT
DATA = bytes(range(150))
X = name_of("X")


@pytest.fixture
async def narrow(system: System, queue: Queue) -> Queue:
    """QLOCAL(Q) with MAXMSGL(64), open for everything."""
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(64)")
    return queue


def may_cut(flags: int = 0, **fields: Any) -> MessageDescriptor:
    return MessageDescriptor(msg_flags=SEGOK | flags, **fields)


async def segments(queue: Queue) -> list[Message]:
    """All messages, browsed as they lie."""
    first = await take(queue, MQGMO.BROWSE_FIRST)
    return [first, *(await take_all(queue, MQGMO.BROWSE_NEXT))]


def places(messages: list[Message]) -> list[tuple[int, int, int]]:
    """Offsets, lengths and flags."""
    return [(each.md.offset, each.length, each.md.msg_flags) for each in messages]


async def test_t4_1_a_long_message_is_cut_where_it_allows_it(system: System, narrow: Queue) -> None:
    placed = await narrow.put(DATA, may_cut())
    found = await segments(narrow)
    assert places(found) == [(0, 64, 0x03), (64, 64, 0x03), (128, 22, 0x07)]
    assert {each.md.group_id for each in found} == {placed.md.group_id} != {bytes(24)}
    assert b"".join(each.data for each in found) == DATA
    assert system.depth() == 3


async def test_t4_2_segments_are_cut_at_multiples_of_16(system: System, queue: Queue) -> None:  # B5
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(100)")
    await queue.put(DATA, may_cut(original_length=7))
    assert [(each.length, each.md.original_length) for each in await segments(queue)] == [(96, 96), (54, 54)]


async def test_t4_3_a_long_message_is_refused_where_it_does_not(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(100)")
    with fails(MQRC.MSG_TOO_BIG_FOR_Q):
        await queue.put(DATA)
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(4194304)\nALTER QMGR MAXMSGL(32768)")
    with fails(MQRC.MSG_TOO_BIG_FOR_Q_MGR):
        await queue.put(bytes(40_000))
    assert system.depth() == 0
    await queue.put(bytes(40_000), may_cut())
    assert [each.length for each in await segments(queue)] == [32_768, 7_232]


async def test_t4_4_flags_of_the_group_are_on_every_segment(narrow: Queue) -> None:
    await narrow.put(b"A", MessageDescriptor(msg_flags=MIG), LO)
    await narrow.put(DATA, may_cut(LMIG), LO)
    found = (await segments(narrow))[1:]
    assert [(each.md.msg_seq_number, each.md.msg_flags) for each in found] == [(2, 0x1B), (2, 0x1B), (2, 0x1F)]


@pytest.mark.parametrize(
    ("persistence", "beside", "reason"),
    [
        (1, True, MQRC.UOW_NOT_AVAILABLE),
        (1, False, MQRC.NONE),
        (0, True, MQRC.NONE),
        (0, False, MQRC.NONE),
    ],
)
async def test_t4_5_a_persistent_message_needs_a_unit_of_work_of_its_own(
    system: System, connection: Connection, narrow: Queue, persistence: int, beside: bool, reason: MQRC
) -> None:  # B4
    if beside:
        await narrow.put(b"beside", options=SYNC)
    if reason:
        with fails(reason):
            await narrow.put(DATA, may_cut(), MQPMO.NO_SYNCPOINT, persistence=persistence)
    else:
        await narrow.put(DATA, may_cut(), MQPMO.NO_SYNCPOINT, persistence=persistence)
        assert len(await segments(narrow)) == 3
    assert system.depth() == beside + (0 if reason else 3)
    await connection.backout()
    assert system.depth() == (0 if reason else 3)


WITH_DATA = [
    (MQRO.COA, MQRO.COA_WITH_DATA, MQRO.COA_WITH_FULL_DATA),
    (MQRO.COD, MQRO.COD_WITH_DATA, MQRO.COD_WITH_FULL_DATA),
    (MQRO.EXCEPTION, MQRO.EXCEPTION_WITH_DATA, MQRO.EXCEPTION_WITH_FULL_DATA),
    (MQRO.EXPIRATION, MQRO.EXPIRATION_WITH_DATA, MQRO.EXPIRATION_WITH_FULL_DATA),
]


@pytest.mark.parametrize(("plain", "with_data", "with_full_data"), WITH_DATA, ids=repr)
async def test_t4_6_a_segment_without_the_first_bytes_asks_for_reports_without_data(
    narrow: Queue, connection: Connection, plain: MQRO, with_data: MQRO, with_full_data: MQRO
) -> None:
    for asked, kept in (
        (with_data, [with_data, with_data, plain]),
        (with_full_data, [with_full_data] * 3),
        (plain, [plain] * 3),
    ):
        await narrow.put(DATA, may_cut(report=asked, reply_to_q="REPLIES"), SYNC)
        await connection.commit()
        assert [each.md.report for each in await segments(narrow)] == kept
        await take(narrow, MQGMO.COMPLETE_MSG)


async def test_t4_7_the_segments_are_put_together_again(system: System, narrow: Queue) -> None:
    placed = await narrow.put(DATA, may_cut())
    message = await take(narrow, MQGMO.COMPLETE_MSG)
    assert (message.data, message.length, message.md.offset, message.segment_status) == (DATA, 150, 0, "L")
    assert (message.md.msg_id, message.md.msg_flags) == (placed.md.msg_id, 0x07)
    assert system.depth() == 0


@pytest.mark.parametrize(
    ("msg_type", "flags", "length", "original_length", "stored"),
    [
        (MQMT.REPORT, SEG, 10, 5, None),
        (MQMT.REPORT, SEG, 10, -1, None),
        (MQMT.REPORT, SEG, 10, 10, 10),
        (MQMT.REPORT, SEG, 10, 400, 400),
        (MQMT.REPORT, LSEG, 0, -1, None),
        (MQMT.REPORT, LSEG, 0, 0, 0),
        (MQMT.REPORT, LSEG, 10, 9, None),
        (MQMT.REPORT, 0, 10, 5, -1),
        (MQMT.REPORT, MIG, 10, 5, -1),
        (MQMT.DATAGRAM, SEG, 10, 5, 10),
        (MQMT.DATAGRAM, LSEG, 0, 5, 0),
        (MQMT.DATAGRAM, 0, 10, 5, -1),
        (MQMT.DATAGRAM, SEGOK, 10, 5, -1),
    ],
)
async def test_t4_8_original_length_is_that_of_the_segment(
    system: System, queue: Queue, msg_type: MQMT, flags: MQMF, length: int, original_length: int, stored: int | None
) -> None:
    md = MessageDescriptor(msg_type=msg_type, msg_flags=flags, original_length=original_length)
    if stored is None:
        with fails(MQRC.ORIGINAL_LENGTH_ERROR):
            await queue.put(bytes(length), md)
        assert system.depth() == 0
    else:
        assert (await queue.put(bytes(length), md)).md.original_length == stored
        assert (await queue.get()).md.original_length == stored


# Table 4.1: when a message is cut


@pytest.mark.parametrize(
    ("maxmsgl", "flags", "reason", "count"),
    [
        (150, 0, MQRC.NONE, 1),
        (150, SEGOK, MQRC.NONE, 1),
        (149, 0, MQRC.MSG_TOO_BIG_FOR_Q, 0),
        (149, SEGOK, MQRC.NONE, 2),
        (16, SEGOK, MQRC.NONE, 10),
        (15, SEGOK, MQRC.MSG_TOO_BIG_FOR_Q, 0),
        (0, SEGOK, MQRC.MSG_TOO_BIG_FOR_Q, 0),
    ],
)
async def test_table_4_1_length_and_limit_decide(
    system: System, queue: Queue, maxmsgl: int, flags: MQMF, reason: MQRC, count: int
) -> None:
    await system.mqsc(f"ALTER QLOCAL(Q) MAXMSGL({maxmsgl})")
    if reason:
        with fails(reason):
            await queue.put(DATA, MessageDescriptor(msg_flags=flags))
    else:
        await queue.put(DATA, MessageDescriptor(msg_flags=flags))
    assert system.depth() == count


async def test_table_4_1_the_limit_of_the_queue_manager_is_named_first(system: System, queue: Queue) -> None:  # B17
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(100)\nALTER QMGR MAXMSGL(32768)")
    with fails(MQRC.MSG_TOO_BIG_FOR_Q_MGR):
        await queue.put(bytes(40_000))


async def test_table_4_1_a_message_that_is_not_cut_has_a_group_all_the_same(queue: Queue) -> None:
    unrelated = [await queue.put(b"A", may_cut()) for _ in range(2)]
    assert len({each.md.group_id for each in unrelated} | {bytes(24)}) == 3
    again = await queue.put(b"A", unrelated[0].md)
    assert again.md.group_id == unrelated[0].md.group_id


# Table 4.2: what the segments are like


async def test_table_4_2_a_segment_that_is_cut_keeps_its_place(narrow: Queue) -> None:
    await narrow.put(b"0123456789", MessageDescriptor(msg_flags=SEG), LO)
    await narrow.put(bytes(100), may_cut(SEG), LO)
    await narrow.put(bytes(70), may_cut(LSEG), LO)
    assert places(await segments(narrow)) == [
        (0, 10, 0x02), (10, 64, 0x03), (74, 36, 0x03), (110, 64, 0x03), (174, 6, 0x07),
    ]  # fmt: skip
    assert (await take(narrow, MQGMO.COMPLETE_MSG)).length == 180


async def test_table_4_2_segments_differ_in_identifier_offset_and_flags_only(narrow: Queue) -> None:  # B6
    md = may_cut(priority=7, expiry=6000, feedback=5)
    md.msg_id, md.correl_id, md.format, md.appl_identity_data = X, X, "FORMAT", "identity"
    placed = await narrow.put(DATA, md)
    found = [each.md for each in await segments(narrow)]
    assert [each.msg_id == X for each in found] == [True, False, False]
    assert len({each.msg_id for each in found}) == 3
    for each in found[1:]:
        each.msg_id, each.offset, each.msg_flags, each.original_length = X, 0, 3, 64
    assert found[0] == found[1] == found[2]
    assert (placed.md.msg_flags, placed.md.offset, placed.md.msg_seq_number) == (SEGOK, 0, 1)
    assert (placed.md.msg_id, placed.md.group_id) == (X, found[0].group_id)


async def test_table_4_2_the_depth_is_checked_once(system: System, narrow: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    await narrow.put(DATA, may_cut())
    assert system.depth() == 3
    with fails(MQRC.Q_FULL):
        await narrow.put(b"A")


async def test_table_4_2_a_put_counts_one_however_many_segments_it_makes(
    system: System, connection: Connection, narrow: Queue
) -> None:
    await system.mqsc("ALTER QMGR MAXUMSGS(2)")
    for _ in range(2):
        await narrow.put(DATA, may_cut(), SYNC)
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
        await narrow.put(b"A", options=SYNC)
    await connection.commit()
    for _ in range(2):
        await take(narrow, MQGMO.COMPLETE_MSG | MQGMO.SYNCPOINT)
    await narrow.put(b"A")
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
        await take(narrow, MQGMO.SYNCPOINT)
    await connection.backout()
    assert system.depth() == 7


# Table 4.3: units of work


async def test_table_4_3_the_segments_of_a_put_are_in_the_unit_of_work(
    system: System, connection: Connection, narrow: Queue
) -> None:
    await narrow.put(DATA, may_cut(), SYNC)
    assert system.depth() == 3
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(narrow, 0)
    await connection.backout()
    assert system.depth() == 0


async def test_table_4_3_segments_outlive_a_restart(system: System, narrow: Queue) -> None:
    placed = await narrow.put(DATA, may_cut(), persistence=1)
    await system.restart()
    again = await (await system.connect("again")).open("Q", ALL)
    assert places(await segments(again)) == [(0, 64, 0x03), (64, 64, 0x03), (128, 22, 0x07)]
    message = await take(again, MQGMO.COMPLETE_MSG)
    assert (message.data, message.md.msg_id) == (DATA, placed.md.msg_id)


async def test_a_message_that_is_cut_wakes_one_getter_of_a_whole_message(
    system: System, narrow: Queue, other_queue: Queue
) -> None:
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(take(other_queue, MQGMO.COMPLETE_MSG, wait=float("inf")))
        await system.waiting("Q", 1)
        await narrow.put(DATA, may_cut())
        assert (await getting).data == DATA
    assert system.depth() == 0
