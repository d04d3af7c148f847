"""MsgFlags: what is kept, what is implied, what a getter is told (semantics 2)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGS, MQMF, MQPMO, MQRC, MQSEG, MQSS, MessageDescriptor
from tests.conformance.expect import drained, fails

if TYPE_CHECKING:
    from broker import Queue
    from tests.conformance.system import System

MIG, LMIG = MQMF.MSG_IN_GROUP, MQMF.LAST_MSG_IN_GROUP
SEG, LSEG, SEGOK = MQMF.SEGMENT, MQMF.LAST_SEGMENT, MQMF.SEGMENTATION_ALLOWED
LO = MQPMO.LOGICAL_ORDER


async def test_t2_1_the_last_message_is_in_the_group_too(queue: Queue) -> None:
    placed = await queue.put(b"A", MessageDescriptor(msg_flags=LMIG), LO)
    assert placed.md.msg_flags == 0x10
    message = await queue.get()
    assert (message.md.msg_flags, message.group_status, message.md.msg_seq_number) == (0x18, "L", 1)


async def test_t2_2_the_last_segment_may_be_empty(queue: Queue) -> None:
    await queue.put(b"", MessageDescriptor(msg_flags=LSEG), LO)
    message = await queue.get()
    assert (message.md.offset, message.md.msg_flags, message.segment_status) == (0, 0x06, "L")


@pytest.mark.parametrize("options", [LO, MQPMO.NONE])
async def test_t2_3_another_segment_may_not(system: System, queue: Queue, options: MQPMO) -> None:
    with fails(MQRC.SEGMENT_LENGTH_ZERO):
        await queue.put(b"", MessageDescriptor(msg_flags=SEG), options)
    assert system.depth() == 0
    assert (await queue.put(b"A", options=LO)).md.group_id == bytes(24)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (0x20, MQRC.MSG_FLAGS_ERROR),
        (0x800, MQRC.MSG_FLAGS_ERROR),
        (0x1000, MQRC.MSG_FLAGS_ERROR),
        (0x80000, MQRC.MSG_FLAGS_ERROR),
        (0x100000, MQRC.NONE),
        (0x80000000, MQRC.NONE),
        (0xFFF00000, MQRC.NONE),
    ],
)
async def test_t2_4_flags_to_come_are_kept_or_refused_by_their_mask(queue: Queue, flags: int, reason: MQRC) -> None:
    if reason:
        with fails(reason):
            await queue.put(b"A", MessageDescriptor(msg_flags=flags))
        assert await drained(queue) == []
    else:
        assert (await queue.put(b"A", MessageDescriptor(msg_flags=flags))).reason == MQRC.NONE
        assert (await queue.get()).md.msg_flags == flags


async def test_t2_5_a_message_that_may_be_cut_but_fits_is_whole(system: System, queue: Queue) -> None:
    await system.mqsc("ALTER QLOCAL(Q) MAXMSGL(100)")
    placed = await queue.put(b"A" * 10, MessageDescriptor(msg_flags=SEGOK))
    message = await queue.get()
    assert system.depth() == 0
    assert message.md.group_id == placed.md.group_id != bytes(24)
    assert (message.md.msg_flags, message.segmentation, message.segment_status) == (0x01, "A", " ")


GROUPS = {
    0: (0, MQGS.NOT_IN_GROUP),
    MIG: (MIG, MQGS.MSG_IN_GROUP),
    LMIG: (MIG | LMIG, MQGS.LAST_MSG_IN_GROUP),
    MIG | LMIG: (MIG | LMIG, MQGS.LAST_MSG_IN_GROUP),
}
SEGMENTS = {
    0: (0, MQSS.NOT_A_SEGMENT),
    SEG: (SEG, MQSS.SEGMENT),
    LSEG: (SEG | LSEG, MQSS.LAST_SEGMENT),
    SEG | LSEG: (SEG | LSEG, MQSS.LAST_SEGMENT),
}
ALLOWED = {0: (0, MQSEG.INHIBITED), SEGOK: (SEGOK, MQSEG.ALLOWED)}


@pytest.mark.parametrize("options", [LO, MQPMO.NONE], ids=["logical order", "no order"])
async def test_table_2_every_combination_is_valid_and_tells_the_getter_what_it_is(queue: Queue, options: MQPMO) -> None:
    for group, segment, allowed in product(GROUPS, SEGMENTS, ALLOWED):
        placed = await queue.put(b"A", MessageDescriptor(msg_flags=group | segment | allowed), options)
        assert placed.md.msg_flags == group | segment | allowed
        message = await queue.get()
        kept = GROUPS[group][0] | SEGMENTS[segment][0] | ALLOWED[allowed][0]
        assert message.md.msg_flags == kept
        reported = (message.group_status, message.segment_status, message.segmentation)
        assert reported == (GROUPS[group][1], SEGMENTS[segment][1], ALLOWED[allowed][1])
        if options:
            await finish(queue, int(kept))


async def finish(queue: Queue, flags: int) -> None:
    """Put what is missing of the logical message and the group, so that nothing is open."""
    group, segment = flags & (MIG | LMIG), flags & (SEG | LSEG)
    if segment == SEG:
        await queue.put(b"B", MessageDescriptor(msg_flags=group | LSEG), LO)
    if group == MIG:
        await queue.put(b"C", MessageDescriptor(msg_flags=LMIG), LO)
    await drained(queue)
