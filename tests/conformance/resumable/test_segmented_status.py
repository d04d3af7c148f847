"""The status of a group as segments of one message: the scenarios S6 and S7, through `broker.groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.groups import GroupPutter, StatusInfo
from broker.mqi import MQGMO, MQMF, MQOO, MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, fails
from tests.conformance.resumable.crashes import (
    NINE,
    G,
    crash,
    die,
    fill,
    is_one_group,
    put_rest,
    status_of,
    whole_group,
)

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System


async def test_s6_the_status_is_complete_and_got_with_the_last_unit(system: System, program: Connection) -> None:
    seen = []
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status="segments") as putter:
        for number in range(1, 10):
            await putter.put(b"%d" % number, last=number == 9)
            seen.append([(offset, info.msg_seq_number) for offset, info in await status_of(system)])
    assert seen == [[], [], [(0, 3)], [(0, 3)], [(0, 3)], [(0, 3), (28, 6)], [(0, 3), (28, 6)], [(0, 3), (28, 6)], []]


async def test_s6_before_the_last_unit_the_status_is_incomplete(
    system: System, program: Connection, other: Connection
) -> None:
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status="segments") as putter:
        for number in range(1, 7):
            await putter.put(b"%d" % number)
    async with other.open("ST", MQOO.INPUT_SHARED) as status:
        with fails(MQRC.NO_MSG_AVAILABLE):
            await status.get(options=MQGMO.COMPLETE_MSG)
    assert system.depth("ST") == 2


async def segments_put(connection: Connection, *parts: tuple[int, int]) -> None:
    """Segments of a status in logical order: sequence number told, flags."""
    async with connection.open("ST", ALL) as status:
        for number, flags in parts:
            md = MessageDescriptor(msg_flags=flags, persistence=1)
            await status.put(StatusInfo(G, number).to_bytes(), md, MQPMO.LOGICAL_ORDER)


async def test_s7_the_status_goes_on_where_its_segments_end(
    system: System, program: Connection, other: Connection
) -> None:
    await fill(other, range(1, 7), 0)
    await segments_put(other, (3, MQMF.SEGMENT), (6, MQMF.SEGMENT))
    async with GroupPutter(program, "Q", "ST", messages_per_unit=1, status="segments") as putter:
        assert (putter.resumed_at, putter.group_id) == (6, G)
        await putter.put(b"7")
        await putter.put(b"8")
        assert [(offset, info.msg_seq_number) for offset, info in await status_of(system)] == [
            (0, 3), (28, 6), (56, 7), (84, 8)
        ]  # fmt: skip
        await putter.put(b"9", last=True)
    assert system.depth("ST") == 0
    async with other.open("Q", ALL) as queue:
        is_one_group(await whole_group(queue), NINE)


async def test_s7_a_status_with_its_last_segment_only_lacks_its_removal(
    system: System, program: Connection, other: Connection
) -> None:
    await segments_put(other, (3, MQMF.SEGMENT), (6, MQMF.LAST_SEGMENT))
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status="segments") as putter:
        assert (putter.resumed_at, putter.group_id, system.depth("ST")) == (0, None, 0)


async def test_s7_the_crash_between_the_last_commit_and_the_removal_of_the_status(
    system: System, program: Connection, other_queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = program.commit

    async def last_words() -> MQRC | int:
        reason = await commit()
        if system.depth() == 9:
            die(system, program)
        return reason

    monkeypatch.setattr(program, "commit", last_words)
    async with (
        crash(system, program),
        GroupPutter(program, "Q", "ST", messages_per_unit=3, status="segments") as putter,
    ):
        await put_rest(putter)
    assert [offset for offset, _ in await status_of(system)] == [0, 28, 56]
    again = await system.connect("again")
    async with GroupPutter(again, "Q", "ST", messages_per_unit=3, status="segments") as putter:
        assert (putter.resumed_at, system.depth("ST")) == (0, 0)
    is_one_group(await whole_group(other_queue), NINE)
