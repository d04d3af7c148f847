"""Match options in groups and segments, with tokens, by position (semantics 7).

Identifiers alone are told in `test_selection.py`.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQGMO, MQMF, MQMO, MQRC, GetMessageOptions, MessageDescriptor
from tests.conformance.expect import fails, name_of, reason_of
from tests.conformance.grouping import LO, MIG, Y, Z, data_of, place, put_figure, take, take_all

if TYPE_CHECKING:
    from broker import Queue
    from tests.conformance.system import System

A, B, C = name_of("A"), name_of("B"), name_of("C")


async def test_t7_1_fields_count_where_their_option_is_given(queue: Queue) -> None:
    for data, correl_id in ((b"M1", A), (b"M2", B)):
        await queue.put(data, MessageDescriptor(correl_id=correl_id))
    assert (await take(queue, MQGMO.BROWSE_FIRST, MQMO.MATCH_CORREL_ID, correl_id=B)).data == b"M2"
    assert (await take(queue, MQGMO.BROWSE_FIRST, MQMO.MATCH_CORREL_ID)).data == b"M1"
    assert (await take(queue, MQGMO.BROWSE_FIRST, MQMO.NONE, correl_id=C)).data == b"M1"


async def test_t7_2_one_option_that_does_not_match_is_enough(queue: Queue) -> None:
    await queue.put(b"M1", MessageDescriptor(msg_id=A, correl_id=B))
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue, 0, MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID, msg_id=A, correl_id=C)


async def test_t7_3_a_segment_is_matched_by_its_offset(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(64)")
    await queue.put(bytes(150), MessageDescriptor(msg_flags=MQMF.SEGMENTATION_ALLOWED))
    segment = await take(queue, 0, MQMO.MATCH_OFFSET, offset=64)
    assert (segment.md.offset, segment.md.msg_flags, system.depth()) == (64, 0x03, 2)


@pytest.mark.parametrize("match", [0x40, 0x41, 0x8000_0000])
@pytest.mark.parametrize("options", [0, LO, MQGMO.BROWSE_FIRST])
async def test_t7_3_undefined_bits_are_refused(queue: Queue, match: int, options: MQGMO) -> None:
    await queue.put(b"A")
    with fails(MQRC.MATCH_OPTIONS_ERROR):
        await take(queue, options, match)


async def test_t7_4_logical_order_goes_on_from_what_was_matched(queue: Queue) -> None:
    await put_figure(queue)
    chosen = MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER
    assert (await take(queue, 0, chosen, group_id=Y, msg_seq_number=2)).data == b"Y2"
    with fails(MQRC.MATCH_OPTIONS_ERROR):
        await take(queue, LO, chosen, group_id=Y, msg_seq_number=2)
    assert (await take(queue, LO)).data == b"Y3s1"


async def test_t7_5_match_options_choose_the_group_to_begin_with(queue: Queue) -> None:
    await put_figure(queue)
    assert (await take(queue, LO, MQMO.MATCH_GROUP_ID, group_id=Z)).data == b"Z1"
    assert (await take(queue, LO)).data == b"Z2"


async def test_t7_6_version_1_of_the_structure_matches_both_identifiers(queue: Queue) -> None:
    await queue.put(b"A")
    with fails(MQRC.NO_MSG_AVAILABLE):
        await queue.get(MessageDescriptor(msg_id=A), GetMessageOptions(version=1, match_options=MQMO.NONE))


FIELDS: dict[MQMO, tuple[str, Any, Any]] = {
    MQMO.MATCH_MSG_ID: ("msg_id", A, B),
    MQMO.MATCH_CORREL_ID: ("correl_id", B, C),
    MQMO.MATCH_GROUP_ID: ("group_id", Y, Z),
    MQMO.MATCH_MSG_SEQ_NUMBER: ("msg_seq_number", 3, 4),
    MQMO.MATCH_OFFSET: ("offset", 7, 8),
}


@pytest.mark.parametrize("wrong", [None, *FIELDS], ids=repr)
async def test_table_7_all_options_given_must_match(queue: Queue, wrong: MQMO | None) -> None:
    right = {name: value for name, value, _ in FIELDS.values()}
    await queue.put(b"A", MessageDescriptor(msg_flags=MIG | MQMF.SEGMENT, **right))
    asked = right if wrong is None else right | {FIELDS[wrong][0]: FIELDS[wrong][2]}
    for count in range(1, 6):
        for given in combinations(FIELDS, count):
            match = MQMO(sum(given))
            expected = MQRC.NO_MSG_AVAILABLE if wrong in given else MQRC.NONE
            assert await reason_of(take(queue, MQGMO.BROWSE_FIRST, match, **asked)) == expected, match


async def test_table_7_numbers_have_no_wildcard(queue: Queue) -> None:
    await place(queue, b"A", MIG | MQMF.SEGMENT, Y, 2, 5)
    for match in (MQMO.MATCH_MSG_SEQ_NUMBER, MQMO.MATCH_OFFSET):
        with fails(MQRC.NO_MSG_AVAILABLE):
            await take(queue, 0, match)
    every = MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID | MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_TOKEN
    assert (await take(queue, 0, every)).data == b"A"


async def test_table_7_gets_under_the_cursor_look_at_no_field(queue: Queue) -> None:
    await queue.put(b"A")
    await take(queue, MQGMO.BROWSE_FIRST)
    every = MQMO(0x1F)
    for options in (MQGMO.BROWSE_MSG_UNDER_CURSOR, MQGMO.MSG_UNDER_CURSOR):
        message = await take(queue, options, every, msg_id=C, correl_id=C, group_id=C, msg_seq_number=0, offset=9)
        assert message.data == b"A"


async def test_table_7_a_token_is_matched_with_the_identifiers_only(queue: Queue) -> None:
    await queue.put(b"A", MessageDescriptor(msg_id=A))
    await queue.put(b"B", MessageDescriptor(msg_id=B))
    token = [await take(queue, MQGMO.BROWSE_NEXT) for _ in range(2)][1].token
    match = MQMO.MATCH_MSG_TOKEN | MQMO.MATCH_GROUP_ID | MQMO.MATCH_OFFSET | MQMO.MATCH_MSG_ID

    async def wanted(msg_id: bytes) -> bytes:
        gmo = GetMessageOptions(match_options=match, msg_token=token)
        return (await queue.get(MessageDescriptor(msg_id=msg_id, group_id=Y, offset=3), gmo)).data

    with fails(MQRC.NO_MSG_AVAILABLE):
        await wanted(A)
    assert await wanted(B) == b"B"


async def test_table_7_a_whole_message_is_matched_by_its_first_segment(queue: Queue) -> None:
    first = await place(queue, b"a", MQMF.SEGMENT, Y, 1, 0)
    second = await place(queue, b"b", MQMF.LAST_SEGMENT, Y, 1, 1)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue, MQGMO.COMPLETE_MSG, MQMO.MATCH_MSG_ID, msg_id=second.md.msg_id)
    message = await take(queue, MQGMO.COMPLETE_MSG, MQMO.MATCH_MSG_ID, msg_id=first.md.msg_id)
    assert message.data == b"ab"


async def test_the_order_of_the_queue_decides_among_those_that_match(queue: Queue) -> None:
    for data, priority in ((b"low", 1), (b"high", 8), (b"middle", 4)):
        await place(queue, data, MIG, Y, 2, priority=priority)
    match = GetMessageOptions(match_options=MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER)
    found = [await queue.get(MessageDescriptor(group_id=Y, msg_seq_number=2), match) for _ in range(3)]
    assert data_of(found) == [b"high", b"middle", b"low"]
    assert await take_all(queue, 0) == []
