"""Putting groups and segments: what is filled in, what is refused, what closing and backing out do (semantics 3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import pytest

from broker.mqi import MQMF, MQMT, MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, fails, name_of, reason_of
from tests.conformance.grouping import take_all

if TYPE_CHECKING:
    from broker import Connection, Queue
    from broker.interface.message import PutResult
    from tests.conformance.system import System

MIG, LMIG = MQMF.MSG_IN_GROUP, MQMF.LAST_MSG_IN_GROUP
SEG, LSEG, SEGOK = MQMF.SEGMENT, MQMF.LAST_SEGMENT, MQMF.SEGMENTATION_ALLOWED
LO, SYNC, PHYSICAL = MQPMO.LOGICAL_ORDER, MQPMO.SYNCPOINT, MQPMO.NONE
ZEROS = bytes(24)
X, RUBBISH = name_of("X"), name_of("rubbish")


async def put(
    queue: Queue, flags: int, data: bytes = b"A", options: int = LO, *, persistence: int = 0,
    group_id: bytes = ZEROS, number: int = 1, offset: int = 0,
) -> PutResult:  # fmt: skip
    md = MessageDescriptor(msg_flags=flags, group_id=group_id, msg_seq_number=number, offset=offset)
    return await queue.put(data, md, options, persistence=persistence)


def item(result: PutResult) -> tuple[bytes, int, int]:
    return result.md.group_id, result.md.msg_seq_number, result.md.offset


def place(result: PutResult) -> tuple[int, int]:
    return result.md.msg_seq_number, result.md.offset


async def physical(queue: Queue) -> list[tuple[int, int, int]]:
    """Sequence numbers, offsets and flags of all messages, removed in the order of the queue."""
    found = await take_all(queue, 0)
    return [(message.md.msg_seq_number, message.md.offset, message.md.msg_flags) for message in found]


# The cases


async def test_t3_1_a_group_is_numbered_from_1(queue: Queue) -> None:
    group = [await put(queue, flags) for flags in (MIG, MIG, LMIG)]
    assert len({result.md.group_id for result in group} | {ZEROS}) == 2
    assert item(await put(queue, 0)) == (ZEROS, 1, 0)
    assert await physical(queue) == [(1, 0, 0x08), (2, 0, 0x08), (3, 0, 0x18), (1, 0, 0)]


async def test_t3_2_a_group_is_finished_before_the_next_message(queue: Queue) -> None:
    await put(queue, MIG)
    with fails(MQRC.INCOMPLETE_GROUP):
        await put(queue, 0)
    assert place(await put(queue, LMIG, b"")) == (2, 0)
    assert item(await put(queue, 0)) == (ZEROS, 1, 0)


async def test_t3_3_segments_follow_each_other(queue: Queue) -> None:
    segments = [await put(queue, flags, bytes(size)) for flags, size in ((SEG, 10), (SEG, 20), (LSEG, 5))]
    assert len({result.md.group_id for result in segments} | {ZEROS}) == 2
    assert await physical(queue) == [(1, 0, 0x02), (1, 10, 0x02), (1, 30, 0x06)]


@pytest.mark.parametrize(("first", "second"), [(SEG, MIG | LSEG), (MIG | SEG, LMIG | LSEG), (MIG | SEG, 0)], ids=repr)
async def test_t3_4_a_logical_message_is_finished_before_anything_else(queue: Queue, first: MQMF, second: MQMF) -> None:
    # B24
    await put(queue, first)
    with fails(MQRC.INCOMPLETE_MSG):
        await put(queue, second)


async def test_t3_5_a_group_has_one_persistence(queue: Queue) -> None:
    await put(queue, MIG, persistence=0)
    with fails(MQRC.INCONSISTENT_PERSISTENCE):
        await put(queue, MIG, persistence=1)
    assert place(await put(queue, LMIG, persistence=0)) == (2, 0)


async def test_t3_5_a_group_is_put_under_syncpoint_or_not(queue: Queue) -> None:
    await put(queue, MIG, options=LO | SYNC)
    for options in (LO | MQPMO.NO_SYNCPOINT, LO):
        with fails(MQRC.INCONSISTENT_UOW):
            await put(queue, MIG, options=options)
    assert place(await put(queue, LMIG, options=LO | SYNC)) == (2, 0)


async def test_t3_6_a_put_without_logical_order_leaves_the_group_with_a_warning(queue: Queue) -> None:
    await put(queue, MIG)
    other = await put(queue, 0, options=PHYSICAL)
    assert (other.reason, other.md.group_id) == (MQRC.INCOMPLETE_GROUP, ZEROS)
    assert (await put(queue, 0)).reason == MQRC.NONE
    assert await physical(queue) == [(1, 0, 8), (1, 0, 0), (1, 0, 0)]


async def test_t3_7_logical_order_goes_on_with_a_group_begun_without_it(queue: Queue) -> None:
    first = await put(queue, MIG, options=PHYSICAL, number=5)
    assert first.md.group_id != ZEROS
    assert item(await put(queue, MIG)) == (first.md.group_id, 6, 0)
    with fails(MQRC.INCOMPLETE_GROUP):
        await put(queue, 0)


@pytest.mark.parametrize(
    ("flags", "options", "reason"),
    [
        (MIG, LO, MQRC.INCOMPLETE_GROUP),
        (MIG | SEG, LO, MQRC.INCOMPLETE_MSG),
        (SEG, LO, MQRC.INCOMPLETE_MSG),
        (LMIG, LO, MQRC.NONE),
        (MIG, PHYSICAL, MQRC.NONE),
    ],
    ids=repr,
)
async def test_t3_8_closing_warns_of_what_is_left_open(
    connection: Connection, flags: MQMF, options: MQPMO, reason: MQRC
) -> None:
    handle = await connection.open("Q", ALL)
    await put(handle, flags, options=options)
    assert await handle.close() == reason
    with fails(MQRC.HOBJ_ERROR):
        await handle.put(b"A")


async def test_t3_9_a_backout_returns_to_where_the_unit_of_work_began(connection: Connection, queue: Queue) -> None:
    for _ in range(2):
        await put(queue, MIG, options=LO | SYNC)
    await connection.commit()
    await put(queue, MIG, options=LO | SYNC)
    await connection.backout()
    assert place(await put(queue, LMIG, options=LO | SYNC)) == (3, 0)
    await connection.commit()
    assert await physical(queue) == [(1, 0, 8), (2, 0, 8), (3, 0, 0x18)]


async def test_t3_10_mqput1_has_no_order_and_disturbs_none(connection: Connection, queue: Queue) -> None:
    with fails(MQRC.OPTIONS_ERROR):
        await connection.put1("Q", b"A", options=LO)
    await put(queue, MIG)
    alone = await connection.put1("Q", b"A", MessageDescriptor(msg_flags=MIG, msg_seq_number=9))
    assert (alone.reason, place(alone)) == (MQRC.NONE, (9, 0))
    second = await put(queue, LMIG)
    assert (second.md.msg_seq_number, second.md.group_id != alone.md.group_id) == (2, True)


# Table 3.2: the values used

NEW, PREVIOUS = "new", "previous"


class Row(NamedTuple):
    """A row of the table: what is open before a put, its flags, and what the queue manager makes of it."""

    number: int
    opening: int  # flags of the put before, which leaves a group or logical message open; 0 for none
    flags: int
    group_id: str | bytes
    place: tuple[int, int]


IN_ORDER = [
    Row(1, 0, 0, ZEROS, (1, 0)),
    Row(2, 0, SEGOK, NEW, (1, 0)),
    Row(3, 0, SEG, NEW, (1, 0)),
    Row(3, 0, LSEG | SEGOK, NEW, (1, 0)),
    Row(4, SEG, SEG, PREVIOUS, (1, 3)),
    Row(4, SEG, LSEG | SEGOK, PREVIOUS, (1, 3)),
    Row(5, 0, MIG, NEW, (1, 0)),
    Row(5, 0, LMIG | SEG | SEGOK, NEW, (1, 0)),
    Row(6, MIG, MIG, PREVIOUS, (2, 0)),
    Row(6, MIG, LMIG | LSEG | SEGOK, PREVIOUS, (2, 0)),
    Row(6, MIG | LSEG, MIG, PREVIOUS, (2, 0)),
    Row(7, MIG | SEG, MIG | SEG, PREVIOUS, (1, 3)),
    Row(7, LMIG | SEG, LMIG | LSEG | SEGOK, PREVIOUS, (1, 3)),
]


@pytest.mark.parametrize("row", IN_ORDER, ids=repr)
async def test_table_3_2_logical_order_fills_in_the_fields_whatever_they_hold(queue: Queue, row: Row) -> None:
    before = (await put(queue, row.opening, b"abc")).md.group_id if row.opening else ZEROS
    result = await put(queue, row.flags, group_id=RUBBISH, number=77, offset=777)
    expected = {NEW: result.md.group_id, PREVIOUS: before, ZEROS: ZEROS}[row.group_id]
    assert item(result) == (expected, *row.place)
    assert (result.md.group_id not in (ZEROS, before, RUBBISH)) == (row.group_id == NEW)


AS_GIVEN = [
    Row(8, 0, 0, ZEROS, (1, 0)),
    Row(9, 0, SEGOK, X, (1, 0)),
    Row(10, 0, SEG, X, (1, 777)),
    Row(10, 0, LSEG | SEGOK, X, (1, 777)),
    Row(11, 0, MIG, X, (77, 0)),
    Row(11, 0, LMIG | SEGOK, X, (77, 0)),
    Row(12, 0, MIG | SEG, X, (77, 777)),
    Row(12, 0, LMIG | LSEG | SEGOK, X, (77, 777)),
]


@pytest.mark.parametrize("row", AS_GIVEN, ids=repr)
@pytest.mark.parametrize("opening", [0, SEG, MIG, MIG | SEG], ids=["nothing", "message", "group", "both"])
async def test_table_3_2_without_logical_order_the_fields_count_where_the_flags_say_so(
    connection: Connection, queue: Queue, row: Row, opening: MQMF
) -> None:
    for group_id in (X, ZEROS):
        await put(queue, opening, options=PHYSICAL)
        fields = {"group_id": group_id, "number": 77, "offset": 777}
        given = await put(queue, row.flags, options=PHYSICAL, **fields)  # type: ignore[arg-type]  # of these types
        md = MessageDescriptor(msg_flags=row.flags, group_id=group_id, msg_seq_number=77, offset=777)
        alone = await connection.put1("Q", b"A", md)
        for result in (given, alone):
            assert place(result) == row.place
            if row.group_id == ZEROS or group_id != ZEROS:
                assert result.md.group_id == row.group_id
            else:
                assert result.md.group_id not in (ZEROS, X)


async def test_table_3_2_a_report_about_a_segment_reaches_as_far_as_that(queue: Queue) -> None:
    report = MessageDescriptor(msg_type=MQMT.REPORT, msg_flags=SEG, original_length=40)
    assert (await queue.put(b"abc", report, LO)).md.original_length == 40
    assert place(await put(queue, LSEG, persistence=2)) == (1, 40)


async def test_table_3_2_the_data_of_the_put_counts_not_the_pieces_it_was_cut_into(
    system: System, queue: Queue
) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(64)")
    await put(queue, SEG | SEGOK, bytes(150))
    assert place(await put(queue, LSEG)) == (1, 150)


# Table 3.3: what may follow in logical order

OUTCOMES = [
    (MIG, 0, MQRC.INCOMPLETE_GROUP),
    (MIG, SEGOK, MQRC.INCOMPLETE_GROUP),
    (MIG, SEG, MQRC.INCOMPLETE_GROUP),
    (MIG, LSEG, MQRC.INCOMPLETE_GROUP),
    (MIG, MIG, MQRC.NONE),
    (MIG, LMIG, MQRC.NONE),
    (MIG, MIG | SEG, MQRC.NONE),
    (MIG, LMIG | LSEG, MQRC.NONE),
    (SEG, 0, MQRC.INCOMPLETE_MSG),
    (SEG, SEGOK, MQRC.INCOMPLETE_MSG),
    (SEG, MIG, MQRC.INCOMPLETE_MSG),
    (SEG, LMIG, MQRC.INCOMPLETE_MSG),
    (SEG, MIG | SEG, MQRC.INCOMPLETE_MSG),
    (SEG, LMIG | LSEG, MQRC.INCOMPLETE_MSG),
    (SEG, SEG, MQRC.NONE),
    (SEG, LSEG, MQRC.NONE),
    (MIG | SEG, 0, MQRC.INCOMPLETE_MSG),
    (MIG | SEG, MIG, MQRC.INCOMPLETE_MSG),
    (MIG | SEG, LMIG, MQRC.INCOMPLETE_MSG),
    (MIG | SEG, SEG, MQRC.INCOMPLETE_MSG),
    (MIG | SEG, LSEG, MQRC.INCOMPLETE_MSG),
    (MIG | SEG, LMIG | SEG, MQRC.INCOMPLETE_MSG),
    (MIG | SEG, LMIG | LSEG, MQRC.INCOMPLETE_MSG),
    (MIG | SEG, MIG | SEG, MQRC.NONE),
    (MIG | SEG, MIG | LSEG, MQRC.NONE),
    (LMIG | SEG, MIG | SEG, MQRC.INCOMPLETE_MSG),
    (LMIG | SEG, MIG | LSEG, MQRC.INCOMPLETE_MSG),
    (LMIG | SEG, LMIG, MQRC.INCOMPLETE_MSG),
    (LMIG | SEG, LMIG | SEG, MQRC.NONE),
    (LMIG | SEG, LMIG | LSEG, MQRC.NONE),
]
FINISHING = {int(MIG): LMIG, int(SEG): LSEG, int(MIG | SEG): MIG | LSEG, int(LMIG | SEG): LMIG | LSEG}


@pytest.mark.parametrize(("opening", "flags", "reason"), OUTCOMES, ids=repr)
async def test_table_3_3_what_is_open_says_what_may_follow(
    queue: Queue, opening: MQMF, flags: MQMF, reason: MQRC
) -> None:
    await put(queue, opening)
    assert await reason_of(put(queue, flags)) == reason
    if reason:
        assert place(await put(queue, FINISHING[int(opening)], b"")) == ((1, 1) if opening & SEG else (2, 0))


@pytest.mark.parametrize("opening", [MIG, SEG, MIG | SEG], ids=repr)
async def test_table_3_3_persistence_and_unit_of_work_stay_the_same(queue: Queue, opening: MQMF) -> None:
    await put(queue, opening, persistence=1)
    following = FINISHING[int(opening)]
    with fails(MQRC.INCONSISTENT_PERSISTENCE):
        await put(queue, following, persistence=0)
    with fails(MQRC.INCONSISTENT_UOW):
        await put(queue, following, persistence=1, options=LO | SYNC)
    assert (await put(queue, following, persistence=1)).reason == MQRC.NONE


async def test_table_3_3_an_incomplete_group_is_named_before_the_rest(queue: Queue) -> None:
    await put(queue, MIG, persistence=0)
    with fails(MQRC.INCOMPLETE_GROUP):
        await put(queue, 0, persistence=1, options=LO | SYNC)
    with fails(MQRC.INCONSISTENT_PERSISTENCE):
        await put(queue, MIG, persistence=1, options=LO | SYNC)


async def test_table_3_3_numbers_and_offsets_come_to_an_end(queue: Queue) -> None:
    await put(queue, MIG, options=PHYSICAL, number=999_999_999)
    with fails(MQRC.MSG_SEQ_NUMBER_ERROR):
        await put(queue, MIG)
    await put(queue, SEG, options=PHYSICAL, offset=999_999_998)
    assert place(await put(queue, LSEG, b"")) == (1, 999_999_999)


async def test_table_3_3_a_segment_behind_the_last_offset_is_refused(queue: Queue) -> None:
    for flags, reason in ((SEG, MQRC.MSG_TOO_BIG_FOR_Q), (SEG | SEGOK, MQRC.OFFSET_ERROR)):
        with fails(reason):
            await put(queue, flags, b"ab", options=PHYSICAL, offset=999_999_998)
    assert place(await put(queue, SEG, b"a", options=PHYSICAL, offset=999_999_998)) == (1, 999_999_998)


async def test_table_3_3_the_end_of_a_group_opens_another(queue: Queue) -> None:
    groups = [[(await put(queue, flags)).md.group_id for flags in (MIG, LMIG)] for _ in range(2)]
    assert groups[0][0] == groups[0][1] != groups[1][0] == groups[1][1]


async def test_table_3_3_a_put_that_fails_leaves_what_is_open(system: System, queue: Queue) -> None:
    await put(queue, MIG)
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(1)")
    with fails(MQRC.Q_FULL):
        await put(queue, MIG)
    await system.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10) PUT(DISABLED)")
    with fails(MQRC.PUT_INHIBITED):
        await put(queue, LMIG)
    await system.mqsc("ALTER QLOCAL(Q) PUT(ENABLED)")
    assert place(await put(queue, LMIG)) == (2, 0)


async def test_table_3_3_a_group_may_be_put_in_several_units_of_work(connection: Connection, queue: Queue) -> None:
    for number, flags in enumerate((MIG, MIG, LMIG), 1):
        assert place(await put(queue, flags, options=LO | SYNC)) == (number, 0)
        await connection.commit()


# Table 3.4: puts without logical order while something is open

WARNINGS = [
    (MIG, 0, MQRC.INCOMPLETE_GROUP),
    (MIG, SEG, MQRC.INCOMPLETE_GROUP),
    (MIG, MIG, MQRC.INCOMPLETE_GROUP),  # of another group
    (SEG, 0, MQRC.INCOMPLETE_MSG),
    (SEG, MIG, MQRC.INCOMPLETE_MSG),
    (SEG, LSEG, MQRC.INCOMPLETE_MSG),  # of another message
    (MIG | SEG, 0, MQRC.INCOMPLETE_MSG),
    (MIG | SEG, LMIG | LSEG, MQRC.INCOMPLETE_MSG),
]


@pytest.mark.parametrize(("opening", "flags", "reason"), WARNINGS, ids=repr)
@pytest.mark.parametrize("before", [LO, PHYSICAL], ids=["in order", "without order"])
async def test_table_3_4_a_put_that_does_not_fit_warns_where_logical_order_began(
    queue: Queue, before: MQPMO, opening: MQMF, flags: MQMF, reason: MQRC
) -> None:
    await put(queue, opening, options=before)
    result = await put(queue, flags, options=PHYSICAL)
    assert result.reason == (reason if before == LO else MQRC.NONE)
    assert len(await physical(queue)) == 2


async def test_table_3_4_a_put_that_fits_is_no_departure(queue: Queue) -> None:  # B2
    group_id = (await put(queue, MIG)).md.group_id
    result = await put(queue, MIG, options=PHYSICAL, group_id=group_id, number=2)
    assert result.reason == MQRC.NONE
    assert item(await put(queue, LMIG)) == (group_id, 3, 0)


@pytest.mark.parametrize("change", ["group_id", "number", "offset"])
async def test_table_3_4_fields_that_do_not_fit_are_a_departure(queue: Queue, change: str) -> None:
    group_id = (await put(queue, MIG | SEG, b"abc")).md.group_id
    fields = {"group_id": group_id, "number": 1, "offset": 3} | {change: X if change == "group_id" else 9}
    result = await put(queue, MIG | SEG, options=PHYSICAL, **fields)  # type: ignore[arg-type]  # of these types
    assert result.reason == MQRC.INCOMPLETE_MSG


async def test_table_3_4_what_is_incomplete_is_named_before_how_it_goes_on(queue: Queue) -> None:
    for number, expected in ((2, MQRC.INCONSISTENT_PERSISTENCE), (3, MQRC.INCOMPLETE_GROUP)):
        group_id = (await put(queue, MIG, persistence=0)).md.group_id
        result = await put(queue, LMIG, options=PHYSICAL, persistence=1, group_id=group_id, number=number)
        assert result.reason == expected
    group_id = (await put(queue, MIG, persistence=0)).md.group_id
    result = await put(queue, LMIG, options=SYNC, persistence=0, group_id=group_id, number=2)
    assert result.reason == MQRC.INCONSISTENT_UOW


async def test_table_3_4_the_state_is_that_of_the_last_put(connection: Connection, queue: Queue) -> None:
    await put(queue, MIG)
    assert (await put(queue, MIG, options=PHYSICAL, group_id=X, number=4)).reason == MQRC.INCOMPLETE_GROUP
    assert (await put(queue, 0, options=PHYSICAL)).reason == MQRC.NONE
    await put(queue, MIG, options=PHYSICAL, group_id=X, number=4)
    with fails(MQRC.INCOMPLETE_GROUP):
        await put(queue, 0)
    assert item(await put(queue, MIG)) == (X, 5, 0)
    assert await queue.close() == MQRC.INCOMPLETE_GROUP


# Table 3.5: close, disconnect, commit, backout, restart


async def test_table_3_5_closing_forgets_what_is_open_and_keeps_what_was_put(
    connection: Connection, queue: Queue
) -> None:
    handle = await connection.open("Q", ALL)
    await put(handle, MIG)
    assert await handle.close() == MQRC.INCOMPLETE_GROUP
    handle = await connection.open("Q", ALL)
    assert item(await put(handle, 0)) == (ZEROS, 1, 0)
    assert await physical(queue) == [(1, 0, 8), (1, 0, 0)]


async def test_table_3_5_disconnecting_does_not_warn(system: System, other_queue: Queue) -> None:  # B13
    leaving = await system.connect("leaving")
    handle = await leaving.open("Q", ALL)
    await put(handle, MIG, options=LO | SYNC)
    assert await leaving.disconnect() in (None, MQRC.NONE)
    assert await physical(other_queue) == [(1, 0, 8)]


async def test_table_3_5_each_handle_is_in_an_order_of_its_own(connection: Connection, queue: Queue) -> None:
    second = await connection.open("Q", ALL)
    for number in (1, 2):
        assert [place(await put(handle, MIG)) for handle in (queue, second)] == [(number, 0)] * 2


async def test_table_3_5_a_backout_restores_the_handles_that_the_unit_of_work_moved(
    connection: Connection, queue: Queue
) -> None:
    outside = await connection.open("Q", ALL)
    await put(outside, MIG)
    await put(queue, MIG, options=LO | SYNC)
    await put(queue, SEG | MIG, b"abc", options=LO | SYNC)
    await put(outside, MIG)
    await connection.backout()
    assert place(await put(outside, LMIG)) == (3, 0)
    assert place(await put(queue, LMIG)) == (1, 0)


async def test_table_3_5_a_backout_restores_what_a_put_without_logical_order_replaced(
    connection: Connection, queue: Queue
) -> None:
    group_id = (await put(queue, MIG, options=LO | SYNC)).md.group_id
    await connection.commit()
    assert (await put(queue, 0, options=SYNC)).reason == MQRC.INCOMPLETE_GROUP
    await connection.backout()
    assert item(await put(queue, LMIG, options=LO | SYNC)) == (group_id, 2, 0)


async def test_table_3_5_after_a_restart_a_group_goes_on_by_its_fields(system: System, queue: Queue) -> None:
    group_id = (await put(queue, MIG, persistence=1)).md.group_id
    await system.restart()
    again = await (await system.connect("again")).open("Q", ALL)
    await put(again, MIG, options=PHYSICAL, persistence=1, group_id=group_id, number=2)
    assert item(await put(again, LMIG, persistence=1)) == (group_id, 3, 0)
    assert await physical(again) == [(1, 0, 8), (2, 0, 8), (3, 0, 0x18)]


async def test_puts_in_flight_together_are_in_the_order_in_which_they_were_issued(queue: Queue) -> None:
    await asyncio.gather(*(put(queue, flags, persistence=1) for flags in (MIG, MIG, MIG, LMIG)))
    assert [number for number, _, _ in await physical(queue)] == [1, 2, 3, 4]
