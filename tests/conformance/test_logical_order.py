"""Getting and browsing in logical order (semantics 6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from broker.mqi import MQGMO, MQMF, MQMO, MQOO, MQPMO, MQRC
from tests.conformance.expect import fails, name_of, reason_of
from tests.conformance.grouping import (
    ALL_MSGS,
    ALL_SEGMENTS,
    COMPLETE,
    FIRST,
    IN_LOGICAL_ORDER,
    LMIG,
    LO,
    LSEG,
    MIG,
    NEXT,
    NO_GROUP,
    SEG,
    SYNC,
    Y,
    Z,
    browse_all,
    data_of,
    group_statuses,
    place,
    places,
    put_figure,
    segment_statuses,
    take,
    take_all,
)

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

G, H = name_of("G"), name_of("H")

Placed: TypeAlias = tuple[bytes, int, bytes, int, int]  # data, flags, group, sequence number, offset


# The figures


async def test_t6_1_gets_in_logical_order_bring_group_after_group(system: System, queue: Queue) -> None:
    await put_figure(queue)
    messages = await take_all(queue)
    assert data_of(messages) == IN_LOGICAL_ORDER
    assert group_statuses(messages) == " GGLLGL "
    assert segment_statuses(messages) == "   SL   "
    assert places(messages) == [(1, 0), (1, 0), (2, 0), (3, 0), (3, 4), (1, 0), (2, 0), (1, 0)]
    assert system.depth() == 0


async def test_t6_2_gets_without_it_bring_them_as_they_lie(queue: Queue) -> None:
    await put_figure(queue)
    physical = [b"A", b"Y1", b"Z2", b"Y2", b"Y3s1", b"Y3s2", b"Z1", b"B"]
    assert data_of(await take_all(queue, MQGMO.NONE)) == physical


async def test_t6_1_and_t6_2_a_browse_brings_them_in_the_same_orders(queue: Queue) -> None:
    await put_figure(queue)
    assert await browse_all(queue) == IN_LOGICAL_ORDER
    assert await browse_all(queue, MQGMO.NONE) == [b"A", b"Y1", b"Z2", b"Y2", b"Y3s1", b"Y3s2", b"Z1", b"B"]
    assert data_of(await take_all(queue)) == IN_LOGICAL_ORDER


async def test_t6_3_a_group_without_its_first_message_is_passed_over(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    ids = await put_figure(queue)
    await take(other_queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"Y1"])
    assert data_of(await take_all(queue)) == [b"A", b"Z1", b"Z2", b"B"]
    assert system.depth() == 3


async def test_t6_4_a_group_that_was_begun_waits_for_its_next_message(queue: Queue, other_queue: Queue) -> None:
    ids = await put_figure(queue)
    assert data_of([await take(queue), await take(queue)]) == [b"A", b"Y1"]
    await take(other_queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"Y2"])
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue)
    await place(other_queue, b"Y2 again", MIG, Y, 2)
    assert (await take(queue)).data == b"Y2 again"


async def test_t6_5_all_of_a_group_is_got_under_syncpoint_or_none_of_it(connection: Connection, queue: Queue) -> None:
    await put_figure(queue)
    await take(queue)
    await take(queue, LO | SYNC)
    for options in (LO, LO | MQGMO.NO_SYNCPOINT):
        with fails(MQRC.INCONSISTENT_UOW):
            await take(queue, options)
    await connection.commit()
    assert (await take(queue, LO | SYNC)).data == b"Y2"


async def test_t6_6_a_get_without_logical_order_leaves_the_group_with_a_warning(queue: Queue) -> None:
    ids = await put_figure(queue)
    assert data_of([await take(queue), await take(queue)]) == [b"A", b"Y1"]
    left = await take(queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"B"])
    assert (left.data, left.reason) == (b"B", MQRC.INCOMPLETE_GROUP)
    assert (await take(queue)).data == b"Z1"


async def test_t6_7_match_options_do_not_choose_inside_a_group(queue: Queue) -> None:
    await put_figure(queue)
    await take(queue)
    await take(queue)
    with fails(MQRC.MATCH_OPTIONS_ERROR):
        await take(queue, LO, MQMO.MATCH_GROUP_ID, group_id=Z)
    assert (await take(queue, LO, MQMO.MATCH_GROUP_ID, group_id=Y)).data == b"Y2"


async def test_t6_8_a_browse_keeps_to_one_order(queue: Queue) -> None:
    await put_figure(queue)
    for first, next in ((FIRST | LO, NEXT), (FIRST, NEXT | LO)):
        assert (await take(queue, first)).data == b"A"
        with fails(MQRC.INCONSISTENT_BROWSE):
            await take(queue, next)
    found = [await take(queue, FIRST | LO), *[await take(queue, NEXT | LO) for _ in range(7)]]
    assert data_of(found) == IN_LOGICAL_ORDER
    assert group_statuses(found) == " GGLLGL "


async def test_t6_9_a_backout_returns_to_where_the_unit_of_work_began(connection: Connection, queue: Queue) -> None:
    await put_figure(queue)
    await take(queue)
    assert data_of([await take(queue, LO | SYNC), await take(queue, LO | SYNC)]) == [b"Y1", b"Y2"]
    await connection.backout()
    message = await take(queue, LO | SYNC)
    assert (message.data, message.md.backout_count) == (b"Y1", 1)


@pytest.mark.parametrize(("gets", "reason"), [(1, MQRC.NONE), (2, MQRC.INCOMPLETE_GROUP), (4, MQRC.INCOMPLETE_MSG)])
@pytest.mark.parametrize("browse", [False, True])
async def test_t6_10_closing_warns_of_what_gets_left_open(queue: Queue, gets: int, reason: MQRC, browse: bool) -> None:
    await put_figure(queue)
    for _ in range(gets):
        await take(queue, LO | (NEXT if browse else 0))
    assert await queue.close() == (MQRC.NONE if browse else reason)


# Table 6.1: what the next call looks for. Each row has a message that it must not be misled by.

ROWS_OF_6_1: dict[str, tuple[list[Placed], list[Placed]]] = {
    "nothing open": ([], [(b"stray", MIG, H, 2, 0), (b"next", 0, NO_GROUP, 1, 0)]),
    "a logical message open": (
        [(b"1234", SEG, G, 1, 0)],
        [(b"A", 0, NO_GROUP, 1, 0), (b"far", LSEG, G, 1, 9), (b"other", LSEG, H, 1, 4), (b"next", LSEG, G, 1, 4)],
    ),
    "a group open": (
        [(b"1", MIG, G, 1, 0)],
        [(b"A", 0, NO_GROUP, 1, 0), (b"3", LMIG, G, 3, 0), (b"2b", MIG | LSEG, G, 2, 1), (b"next", MIG, G, 2, 0)],
    ),
    "both open": (
        [(b"1234", MIG | SEG, G, 1, 0)],
        [(b"A", 0, NO_GROUP, 1, 0), (b"2", LMIG, G, 2, 0), (b"next", MIG | LSEG, G, 1, 4)],
    ),
}


@pytest.mark.parametrize("browse", [False, True], ids=["get", "browse"])
@pytest.mark.parametrize("row", ROWS_OF_6_1)
async def test_table_6_1_what_is_open_says_which_message_comes_next(
    queue: Queue, other_queue: Queue, row: str, browse: bool
) -> None:
    before, behind = ROWS_OF_6_1[row]
    options = LO | (NEXT if browse else 0)
    for message in before:
        await place(other_queue, *message)
    for message in before:
        assert (await take(queue, options)).data == message[0]
    for message in behind:
        await place(other_queue, *message)
    assert (await take(queue, options)).data == b"next"


async def test_table_6_1_without_logical_order_match_options_say_it_whatever_is_open(queue: Queue) -> None:
    await put_figure(queue)
    await take(queue)
    await take(queue)
    item = MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER | MQMO.MATCH_OFFSET
    found = await take(queue, MQGMO.NONE, item, group_id=Y, msg_seq_number=3, offset=4)
    assert found.data == b"Y3s2"


async def test_a_group_stands_where_its_first_message_stands(queue: Queue) -> None:
    """Priorities of later members move nothing."""
    for data, flags, group_id, number, priority in (
        (b"G1", MIG, G, 1, 2),
        (b"A", 0, NO_GROUP, 1, 5),
        (b"G2", LMIG, G, 2, 9),
        (b"H1", MIG, H, 1, 7),
        (b"H2", LMIG, H, 2, 0),
    ):
        await place(queue, data, flags, group_id, number, priority=priority)
    assert data_of(await take_all(queue)) == [b"H1", b"H2", b"A", b"G1", b"G2"]


@pytest.mark.parametrize("hidden", ["uncommitted", "got", "locked"])
async def test_a_group_whose_first_message_is_hidden_is_invisible(
    connection: Connection, queue: Queue, other: Connection, other_queue: Queue, hidden: str
) -> None:
    await place(other_queue, b"G1", MIG, G, 1, options=MQPMO.SYNCPOINT if hidden == "uncommitted" else 0)
    await place(queue, b"G2", LMIG, G, 2)
    if hidden == "got":
        await take(other_queue, SYNC)
    elif hidden == "locked":
        await take(other_queue, FIRST | MQGMO.LOCK)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue)
    await (other.commit() if hidden == "uncommitted" else other.backout() if hidden == "got" else other_queue.close())
    assert data_of(await take_all(queue)) == [b"G1", b"G2"]


async def test_a_waiting_get_is_given_just_the_message_that_comes_next(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    await place(other_queue, b"G1", MIG, G, 1)
    await take(queue)
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(take(queue, wait=5))
        await system.waiting("Q", 1)
        for data, number in ((b"G3", 3), (b"G2", 2)):
            assert not getting.done()
            await place(other_queue, data, MIG, G, number)
        assert (await getting).data == b"G2"


# Table 6.2: what a call leaves open. MQCLOSE tells.

STATES_AFTER = [
    (0, 0, MQRC.NONE),
    (SEG, 0, MQRC.INCOMPLETE_MSG),
    (LSEG, 0, MQRC.NONE),
    (MIG, 0, MQRC.INCOMPLETE_GROUP),
    (MIG | LSEG, 0, MQRC.INCOMPLETE_GROUP),
    (MIG | SEG, 0, MQRC.INCOMPLETE_MSG),
    (LMIG | SEG, 0, MQRC.INCOMPLETE_MSG),
    (LMIG, 0, MQRC.NONE),
    (LMIG | LSEG, 0, MQRC.NONE),
    (SEG, COMPLETE, MQRC.NONE),
    (MIG | SEG, COMPLETE, MQRC.INCOMPLETE_GROUP),
    (LMIG | SEG, COMPLETE, MQRC.NONE),
]


@pytest.mark.parametrize(("flags", "options", "reason"), STATES_AFTER)
async def test_table_6_2_flags_of_the_message_say_what_is_open(
    queue: Queue, other_queue: Queue, flags: int, options: int, reason: MQRC
) -> None:
    await place(other_queue, b"1234", flags, G if flags else NO_GROUP)
    if options & COMPLETE:
        await place(other_queue, b"5678", flags & ~SEG | LSEG, G, 1, 4)
    await take(queue, LO | options)
    assert await queue.close() == reason


async def test_table_6_2_a_get_without_logical_order_replaces_the_state(queue: Queue) -> None:
    await put_figure(queue)
    found = await take(queue, MQGMO.NONE, MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER, group_id=Y, msg_seq_number=2)
    assert found.data == b"Y2"
    assert data_of([await take(queue), await take(queue), await take(queue)]) == [b"Y3s1", b"Y3s2", b"A"]


async def test_table_6_2_gets_and_browses_have_states_of_their_own(queue: Queue) -> None:
    await put_figure(queue)
    assert data_of([await take(queue, NEXT | LO), await take(queue, NEXT | LO)]) == [b"A", b"Y1"]
    assert (await take(queue)).data == b"A"
    assert (await take(queue, NEXT | LO)).data == b"Y2"
    assert (await take(queue)).data == b"Y1"
    assert data_of([await take(queue, NEXT | LO), await take(queue)]) == [b"Y3s1", b"Y2"]


async def test_table_6_2_a_call_that_fails_leaves_the_state(queue: Queue) -> None:
    await put_figure(queue)
    await take(queue)
    await take(queue)
    with fails(MQRC.TRUNCATED_MSG_FAILED):
        await take(queue, max_length=1)
    with fails(MQRC.MATCH_OPTIONS_ERROR):
        await take(queue, LO, MQMO.MATCH_MSG_SEQ_NUMBER, msg_seq_number=3)
    truncated = await take(queue, LO | MQGMO.ACCEPT_TRUNCATED_MSG, max_length=1)
    assert (truncated.data, truncated.length, truncated.reason) == (b"Y", 2, MQRC.TRUNCATED_MSG_ACCEPTED)
    assert (await take(queue)).data == b"Y3s1"


# Table 6.3: consistency


async def test_table_6_3_an_open_message_is_named_before_an_open_group(queue: Queue) -> None:
    ids = await put_figure(queue)
    for _ in range(4):
        await take(queue)
    left = await take(queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"B"])
    assert (left.data, left.reason) == (b"B", MQRC.INCOMPLETE_MSG)


async def test_table_6_3_a_get_that_happens_to_go_on_is_no_departure(queue: Queue) -> None:  # B2
    ids = await put_figure(queue)
    await take(queue)
    await take(queue)
    found = await take(queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"Y2"])
    assert (found.data, found.reason) == (b"Y2", MQRC.NONE)


async def test_table_6_3_going_on_outside_the_unit_of_work_is_a_warning(queue: Queue) -> None:
    ids = await put_figure(queue)
    await take(queue)
    await take(queue, LO | SYNC)
    found = await take(queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"Y2"])
    assert (found.data, found.reason) == (b"Y2", MQRC.INCONSISTENT_UOW)


async def test_table_6_3_after_a_get_without_logical_order_there_is_no_warning(queue: Queue) -> None:
    ids = await put_figure(queue)
    for data in (b"Y1", b"B"):
        found = await take(queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[data])
        assert (found.data, found.reason) == (data, MQRC.NONE)


async def test_table_6_3_logical_order_goes_on_with_a_group_begun_without_it(queue: Queue) -> None:
    ids = await put_figure(queue)
    await take(queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"Z1"])
    assert data_of([await take(queue), await take(queue)]) == [b"Z2", b"A"]


async def test_table_6_3_a_browse_asks_nothing_of_the_gets(queue: Queue) -> None:
    await put_figure(queue)
    await take(queue)
    await take(queue, LO | SYNC)
    browsed = [await take(queue, options) for options in (FIRST, NEXT, FIRST | LO)]
    assert [(message.data, message.reason) for message in browsed] == [(b"Z2", 0), (b"Y2", 0), (b"Z1", 0)]
    assert (await take(queue, LO | SYNC)).data == b"Y2"


@pytest.mark.parametrize(
    ("match", "fits", "differs"),
    [
        (MQMO.MATCH_MSG_ID, {"msg_id": b"Y2"}, {"msg_id": b"B"}),
        (MQMO.MATCH_CORREL_ID, {"correl_id": NO_GROUP}, {"correl_id": name_of("C")}),
        (MQMO.MATCH_GROUP_ID, {"group_id": Y}, {"group_id": Z}),
        (MQMO.MATCH_GROUP_ID, {"group_id": NO_GROUP}, {"group_id": Z}),
        (MQMO.MATCH_MSG_SEQ_NUMBER, {"msg_seq_number": 2}, {"msg_seq_number": 1}),
        (MQMO.MATCH_OFFSET, {"offset": 0}, {"offset": 4}),
        (MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID, {}, {"msg_id": b"Z1"}),
    ],
)
async def test_table_6_3_match_options_must_agree_with_the_message_that_comes_next(
    queue: Queue, match: int, fits: dict[str, Any], differs: dict[str, Any]
) -> None:
    ids = await put_figure(queue)
    await take(queue)
    await take(queue)
    with fails(MQRC.MATCH_OPTIONS_ERROR):
        await take(queue, LO, match, **_with_ids(differs, ids))
    assert (await take(queue, LO, match, **_with_ids(fits, ids))).data == b"Y2"


def _with_ids(wanted: dict[str, Any], ids: dict[bytes, bytes]) -> dict[str, Any]:
    """Messages named by their data become MsgIds."""
    return {field: ids.get(value, value) if isinstance(value, bytes) else value for field, value in wanted.items()}


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize(
    ("match", "wanted"),
    [(MQMO.MATCH_MSG_SEQ_NUMBER, {"msg_seq_number": 2}), (MQMO.MATCH_OFFSET, {"offset": 4})],
)
async def test_table_6_3_nothing_but_a_first_message_can_begin(
    queue: Queue, match: int, wanted: dict[str, Any], filled: bool
) -> None:  # B3
    if filled:
        await put_figure(queue)
    with fails(MQRC.MATCH_OPTIONS_ERROR):
        await take(queue, LO, match, **wanted)


async def test_table_6_3_match_options_choose_the_group_to_begin(queue: Queue) -> None:
    await put_figure(queue)
    item = MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER | MQMO.MATCH_OFFSET
    assert (await take(queue, LO, item, group_id=Z, msg_seq_number=1, offset=0)).data == b"Z1"
    assert (await take(queue)).data == b"Z2"


async def test_table_6_3_closing_does_not_warn_after_a_get_without_logical_order(queue: Queue) -> None:
    ids = await put_figure(queue)
    await take(queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"Y1"])
    assert await queue.close() == MQRC.NONE


async def test_table_6_3_closing_a_queue_open_for_browse_only_does_not_warn(connection: Connection) -> None:
    queue = await connection.open("Q", MQOO.BROWSE | MQOO.OUTPUT)
    await put_figure(queue)
    for _ in range(4):
        await take(queue, NEXT | LO)
    assert await queue.close() == MQRC.NONE


async def test_table_6_3_a_group_may_be_got_in_several_units_of_work(connection: Connection, queue: Queue) -> None:
    await put_figure(queue)
    found = []
    for _ in range(8):
        found.append((await take(queue, LO | SYNC)).data)
        await connection.commit()
    assert found == IN_LOGICAL_ORDER


async def test_table_6_3_a_backout_leaves_browses_and_what_was_got_outside(
    connection: Connection, queue: Queue
) -> None:
    await put_figure(queue)
    await queue.put(b"C", options=MQPMO.SYNCPOINT)
    assert data_of([await take(queue), await take(queue)]) == [b"A", b"Y1"]
    assert data_of([await take(queue, NEXT | LO), await take(queue, NEXT | LO)]) == [b"Z1", b"Z2"]
    await connection.backout()
    assert (await take(queue, NEXT | LO)).data == b"B"
    assert (await take(queue)).data == b"Y2"


async def test_syncpoint_if_persistent_must_agree_with_the_group_too(queue: Queue) -> None:
    for number, persistence in ((1, 1), (2, 0)):
        await place(queue, b"%d" % number, MIG, G, number, persistence=persistence)
    if_persistent = LO | MQGMO.SYNCPOINT_IF_PERSISTENT
    assert (await take(queue, if_persistent)).data == b"1"
    with fails(MQRC.INCONSISTENT_UOW):
        await take(queue, if_persistent)
    assert (await take(queue, LO | SYNC)).data == b"2"


# Table 6.4: browsing


async def test_table_6_4_browse_first_begins_anew_and_its_failure_changes_nothing(queue: Queue) -> None:  # B11
    await put_figure(queue)
    assert data_of([await take(queue, FIRST | LO), await take(queue, NEXT | LO)]) == [b"A", b"Y1"]
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue, FIRST | LO, MQMO.MATCH_GROUP_ID, group_id=G)
    assert (await take(queue, NEXT | LO)).data == b"Y2"
    assert (await take(queue, FIRST | LO)).data == b"A"


@pytest.mark.parametrize("options", [MQGMO.NONE, LO])
async def test_table_6_4_the_first_browse_may_have_either_order(queue: Queue, options: int) -> None:
    await put_figure(queue)
    assert (await take(queue, NEXT | options)).data == b"A"


async def test_table_6_4_behind_a_group_the_browse_goes_on_from_where_the_group_began(queue: Queue) -> None:  # B10
    for message in (
        (b"G1", MIG, G, 1, 0),
        (b"H1", MIG, H, 1, 0),
        (b"G2", LMIG, G, 2, 0),
        (b"H2", LMIG, H, 2, 0),
        (b"A", 0, NO_GROUP, 1, 0),
    ):
        await place(queue, *message)
    assert await browse_all(queue) == [b"G1", b"G2", b"H1", b"H2", b"A"]


async def test_table_6_4_looking_again_moves_nothing(queue: Queue) -> None:
    for message in (
        (b"G1", MIG, G, 1, 0),
        (b"A", 0, NO_GROUP, 1, 0),
        (b"G2", LMIG, G, 2, 0),
    ):
        await place(queue, *message)
    assert data_of([await take(queue, FIRST | LO), await take(queue, NEXT | LO)]) == [b"G1", b"G2"]
    assert (await take(queue, MQGMO.BROWSE_MSG_UNDER_CURSOR | LO)).data == b"G2"
    assert (await take(queue, NEXT | LO)).data == b"A"


async def test_table_6_4_the_place_outlives_the_message(queue: Queue, other_queue: Queue) -> None:
    ids = await put_figure(queue)
    for _ in range(2):
        await take(queue, NEXT | LO)
    for data in (b"A", b"Y1"):
        await take(other_queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[data])
    rest = data_of(await take_all(queue, NEXT | LO))
    assert rest == [b"Y2", b"Y3s1", b"Y3s2", b"Z1", b"Z2", b"B"]


async def test_table_6_4_a_missing_message_leaves_cursor_and_group(queue: Queue, other_queue: Queue) -> None:
    ids = await put_figure(queue)
    for _ in range(2):
        await take(queue, NEXT | LO)
    await take(other_queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"Y2"])
    for _ in range(2):
        with fails(MQRC.NO_MSG_AVAILABLE):
            await take(queue, NEXT | LO)
    assert (await take(queue, MQGMO.BROWSE_MSG_UNDER_CURSOR | LO)).data == b"Y1"
    await place(other_queue, b"Y2 again", MIG, Y, 2)
    assert (await take(queue, NEXT | LO)).data == b"Y2 again"


async def test_table_6_4_a_group_completed_behind_the_browse_is_missed(queue: Queue, other_queue: Queue) -> None:
    for message in ((b"G1", MIG, G, 1), (b"H1", MIG, H, 1), (b"H2", LMIG, H, 2)):
        await place(other_queue, *message)
    options = ALL_MSGS | LO
    assert (await take(queue, FIRST | options)).data == b"H1"
    await place(other_queue, b"G2", LMIG, G, 2)
    assert data_of(await take_all(queue, NEXT | options)) == [b"H2"]
    assert await browse_all(queue, options) == [b"G1", b"G2", b"H1", b"H2"]


@pytest.mark.parametrize(("options", "left"), [(COMPLETE, 0), (MQGMO.NONE, 1)])
async def test_table_6_4_a_whole_message_has_the_cursor_on_its_first_segment(
    system: System, queue: Queue, options: int, left: int
) -> None:
    await place(queue, b"1234", SEG, G)
    await place(queue, b"5678", LSEG, G, 1, 4)
    browsed = await take(queue, FIRST | LO | COMPLETE)
    assert (browsed.data, browsed.md.offset, browsed.segment_status) == (b"12345678", 0, "L")
    got = await take(queue, MQGMO.MSG_UNDER_CURSOR | options)
    assert got.data == (b"12345678" if options else b"1234")
    assert system.depth() == left


async def test_table_6_4_a_get_under_the_cursor_sets_where_the_gets_stand(queue: Queue) -> None:
    await put_figure(queue)
    assert data_of([await take(queue), await take(queue)]) == [b"A", b"Y1"]
    assert data_of([await take(queue, FIRST | LO), await take(queue, NEXT | LO)]) == [b"Z1", b"Z2"]
    await take(queue, FIRST | LO)
    assert (await take(queue, MQGMO.MSG_UNDER_CURSOR | LO)).data == b"Z1"
    assert (await take(queue)).data == b"Z2"


# Incomplete and unusual groups


@pytest.mark.parametrize("options", [ALL_SEGMENTS, COMPLETE, ALL_MSGS])
async def test_a_stray_segment_does_not_hide_a_complete_message(queue: Queue, options: int) -> None:
    """Segments that no walk from offset 0 to the last one meets are left where they are."""
    for data, flags, offset in ((b"0123", SEG, 0), (b"stray", SEG, 2), (b"4567", LSEG, 4)):
        await place(queue, data, flags, G, 1, offset)
    assert (await take(queue, LO | options)).data == (b"01234567" if options & COMPLETE else b"0123")


@pytest.mark.parametrize("options", [ALL_SEGMENTS, COMPLETE, ALL_MSGS])
async def test_overlapping_segments_that_leave_a_gap_are_no_message(queue: Queue, options: int) -> None:
    for data, flags, offset in ((b"0123", SEG, 0), (b"2345", SEG, 2), (b"89", LSEG, 8)):
        await place(queue, data, flags, G, 1, offset)
    assert await reason_of(take(queue, LO | options)) == MQRC.NO_MSG_AVAILABLE


async def test_a_message_behind_the_last_does_not_make_a_group_incomplete(queue: Queue) -> None:
    for flags, number in ((MIG, 1), (LMIG, 2), (MIG, 5)):
        await place(queue, b"%d" % number, flags, G, number)
    assert data_of(await take_all(queue, LO | ALL_MSGS)) == [b"1", b"2"]


@pytest.mark.parametrize("options", [MQGMO.NONE, LO])
async def test_of_two_messages_in_one_place_the_first_is_used(queue: Queue, options: int) -> None:  # B19
    for data, flags, number in ((b"1", MIG, 1), (b"2", LMIG, 2), (b"2 again", LMIG, 2)):
        await place(queue, data, flags, G, number)
    assert data_of(await take_all(queue))[:2] == [b"1", b"2"]
    assert data_of(await take_all(queue, MQGMO.NONE)) == [b"2 again"]


async def test_messages_that_may_be_segmented_are_not_grouped(queue: Queue) -> None:
    for data in (b"A", b"B"):
        await place(queue, data, MQMF.SEGMENTATION_ALLOWED, G)
    assert data_of(await take_all(queue, LO | COMPLETE | ALL_MSGS)) == [b"A", b"B"]
