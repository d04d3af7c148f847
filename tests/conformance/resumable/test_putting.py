"""A group put over several units of work: scenarios S2 and S3 of semantics 15, through `broker.groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.groups import GroupPutter
from broker.mqi import MQGMO, MQOO, MQPER, MQRC
from tests.conformance.expect import ALL, fails
from tests.conformance.resumable.crashes import (
    NINE,
    SEGMENTS,
    TEN,
    CrashError,
    Form,
    crash,
    die,
    is_one_group,
    put_rest,
    status_of,
    whole_group,
)

if TYPE_CHECKING:
    from broker import Connection, Queue
    from tests.conformance.system import System

# S2: a group put over several units of work


@pytest.mark.parametrize("persistence", [MQPER.PERSISTENT, MQPER.NOT_PERSISTENT])
async def test_s2_a_group_is_put_over_three_units_of_work(
    system: System, program: Connection, other_queue: Queue, persistence: MQPER
) -> None:
    depths, reported = [], []
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, persistence=persistence) as putter:
        assert (putter.resumed_at, putter.group_id) == (0, None)
        for number in range(1, 10):
            result = await putter.put(b"%d" % number, last=number == 9)
            assert result.md.msg_seq_number == number
            if number % 3 == 0:
                depths.append(system.depth())
                reported.append([(offset, info.msg_seq_number) for offset, info in await status_of(system)])
        assert putter.group_id is None
    assert (depths, reported) == ([3, 6, 9], [[(0, 3)], [(0, 6)], []])
    found = await whole_group(other_queue)
    is_one_group(found, NINE)
    assert {message.md.persistence for message in found} == {persistence}


@pytest.mark.parametrize(
    ("dies_after", "kept", "depth"), [(0, 0, 0), (2, 0, 0), (3, 3, 3), (5, 3, 3), (6, 6, 6), (8, 6, 6), (9, 9, 9)]
)
async def test_s2_s3_a_putter_that_died_goes_on_behind_what_was_committed(
    system: System, program: Connection, other_queue: Queue, form: Form, dies_after: int, kept: int, depth: int
) -> None:
    async with (
        crash(system, program),
        GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter,
    ):
        for number in range(1, dies_after + 1):
            await putter.put(b"%d" % number, last=number == 9)
        die(system, program)
    assert system.depth() == depth
    left = await status_of(system)
    if form == "message":
        assert [info.msg_seq_number for _, info in left] == ([kept] if kept in (3, 6) else [])
    else:
        assert [(offset, info.msg_seq_number) for offset, info in left] == (
            [(0, 3), (28, 6)][: kept // 3] if kept < 9 else []
        )
    again = await system.connect("again")
    async with GroupPutter(again, "Q", "ST", messages_per_unit=3, status=form) as putter:
        assert putter.resumed_at == kept % 9
        if kept < 9:
            await put_rest(putter)
    assert await status_of(system) == []
    is_one_group(await whole_group(other_queue), NINE)
    assert system.depth() == 0


async def test_s2_a_backout_needs_no_restart(
    system: System, program: Connection, other_queue: Queue, form: Form
) -> None:
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
        for number in range(1, 6):
            await putter.put(b"%d" % number)
        assert await putter.backout() == 3
        assert system.depth() == 3
        await put_rest(putter)
    is_one_group(await whole_group(other_queue), NINE)


async def test_s2_a_backout_of_the_first_unit_leaves_nothing(
    system: System, program: Connection, other_queue: Queue, form: Form
) -> None:
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
        first = (await putter.put(b"wrong")).md.group_id
        assert await putter.backout() == 0
        assert (await putter.put(b"1")).md.group_id != first
        await putter.put(b"2", last=True)
    is_one_group(await whole_group(other_queue), [b"1", b"2"])


async def test_s2_an_exception_backs_the_last_unit_out(
    system: System, program: Connection, other_queue: Queue, form: Form
) -> None:
    with pytest.raises(CrashError):
        async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
            for number in range(1, 6):
                await putter.put(b"%d" % number)
            raise CrashError
    assert system.depth() == 3
    async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
        assert putter.resumed_at == 3
        await put_rest(putter)
    is_one_group(await whole_group(other_queue), NINE)


async def test_a_clean_end_keeps_what_was_put_and_the_next_putter_finishes_the_group(
    system: System, program: Connection, other_queue: Queue, form: Form
) -> None:
    for count in (2, 5, 9):
        async with GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter:
            for number in range(putter.resumed_at + 1, count + 1):
                await putter.put(b"%d" % number, last=number == 9)
        assert system.depth() == count
    is_one_group(await whole_group(other_queue), NINE)
    assert system.depth("ST") == 0


async def test_several_groups_in_turn_leave_no_status(
    system: System, program: Connection, other_queue: Queue, form: Form
) -> None:
    async with GroupPutter(program, "Q", "ST", messages_per_unit=2, status=form) as putter:
        for bodies in (TEN[:1], TEN[:2], TEN[:3], TEN[:4]):
            for body in bodies:
                await putter.put(body, last=body == bodies[-1])
            assert (await status_of(system), putter.group_id) == ([], None)
    found = await whole_group(other_queue)
    assert [message.data for message in found] == [b"1", b"1", b"2", b"1", b"2", b"3", b"1", b"2", b"3", b"4"]
    assert len({message.md.group_id for message in found}) == 4


async def test_a_unit_is_committed_early_when_it_is_asked_for(system: System, program: Connection, form: Form) -> None:
    async with GroupPutter(program, "Q", "ST", messages_per_unit=100, status=form) as putter:
        await putter.commit()
        await putter.put(b"1")
        await putter.commit()
        assert [info.msg_seq_number for _, info in await status_of(system)] == [1]
        await putter.put(b"2", last=True)
        assert await status_of(system) == []


async def test_what_else_is_done_under_syncpoint_goes_with_the_group(
    system: System, program: Connection, other: Connection, form: Form
) -> None:
    """A program that makes a group from the messages of another queue takes each of them once."""
    await system.mqsc("DEFINE QLOCAL(INPUT)")
    async with other.open("INPUT", ALL) as source:
        for body in NINE:
            await source.put(body, persistence=1)
    async with (
        crash(system, program),
        GroupPutter(program, "Q", "ST", messages_per_unit=3, status=form) as putter,
        program.open("INPUT", MQOO.INPUT_SHARED) as source,
    ):
        for _ in range(5):
            await putter.put((await source.get(options=MQGMO.SYNCPOINT)).data)
        die(system, program)
    again = await system.connect("again")
    async with (
        GroupPutter(again, "Q", "ST", messages_per_unit=3, status=form) as putter,
        again.open("INPUT", MQOO.INPUT_SHARED) as source,
    ):
        for number in range(putter.resumed_at + 1, 10):
            await putter.put((await source.get(options=MQGMO.SYNCPOINT)).data, last=number == 9)
    async with other.open("Q", ALL) as queue:
        is_one_group(await whole_group(queue), NINE)


# S3: the restart of the putter


async def test_s3_trap_c_a_group_is_gone_on_with_in_the_persistence_it_was_begun_with(
    system: System, program: Connection, form: Form
) -> None:
    async with GroupPutter(program, "Q", "ST", messages_per_unit=1, status=form, persistence=0) as putter:
        await putter.put(b"1")
    with fails(MQRC.INCONSISTENT_PERSISTENCE):
        await GroupPutter(program, "Q", "ST", messages_per_unit=1, status=form).__aenter__()
    assert system.manager.core.objects.queues["ST"].handles == set()
    async with GroupPutter(program, "Q", "ST", messages_per_unit=1, status=form, persistence=0) as putter:
        assert putter.resumed_at == 1
        await putter.put(b"2", last=True)


@pytest.mark.parametrize(("dies_after", "messages_per_unit"), [(1, 1), (4, 1), (1, 2), (3, 2), (5, 2), (6, 2)])
async def test_s3_a_putter_goes_on_between_the_segments_of_a_message(
    system: System, program: Connection, other_queue: Queue, form: Form, dies_after: int, messages_per_unit: int
) -> None:
    async with (
        crash(system, program),
        GroupPutter(program, "Q", "ST", messages_per_unit=messages_per_unit, status=form) as putter,
    ):
        for body, last, more in SEGMENTS[:dies_after]:
            await putter.put(body, last=last, more_segments=more)
        die(system, program)
    again = await system.connect("again")
    async with GroupPutter(again, "Q", "ST", messages_per_unit=messages_per_unit, status=form) as putter:
        committed = 6 if dies_after == 6 else dies_after - dies_after % messages_per_unit
        place = putter.resumed_at, putter.resumed_offset
        assert place == [(0, 0), (0, 4), (1, 0), (2, 0), (2, 1), (2, 3), (0, 0)][committed]
        for body, last, more in SEGMENTS[committed:]:
            await putter.put(body, last=last, more_segments=more)
    messages = [await other_queue.get(options=MQGMO.LOGICAL_ORDER | MQGMO.COMPLETE_MSG) for _ in range(3)]
    is_one_group(messages, [b"aaaabb", b"cc", b"deef"])
    assert (system.depth(), system.depth("ST")) == (0, 0)
