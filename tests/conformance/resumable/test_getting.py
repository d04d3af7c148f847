"""A group got over several units of work: the scenarios S4 and S5, through `broker.groups`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.groups import GroupGetter
from broker.mqi import MQMF, MQPMO, MQRC, MQSS, MessageDescriptor
from tests.conformance.expect import ALL, fails, name_of
from tests.conformance.resumable.crashes import (
    FORMS,
    SEGMENTS,
    TEN,
    CrashError,
    Form,
    H,
    crash,
    die,
    fill,
    is_one_group,
    rest_of,
    status_of,
)

if TYPE_CHECKING:
    from broker import Connection, Message
    from tests.conformance.system import System


@pytest.mark.parametrize("form", FORMS)
async def test_s4_a_group_is_got_over_three_units_of_work(
    system: System, program: Connection, other: Connection, form: Form
) -> None:
    await fill(other, range(10, 0, -1), 10)
    got, depths, reported = [], [], []
    async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
        assert getter.resumed_at == 0
        async for message in getter:
            got.append(message)
            depths.append(system.depth())
            reported.append([info.msg_seq_number for _, info in await status_of(system)])
        assert await status_of(system) == []
    is_one_group(got, TEN)
    assert depths == list(range(9, -1, -1))
    tells = {"message": ([4], [8]), "segments": ([4], [4, 8])}[form]
    assert reported == [[]] * 4 + [tells[0]] * 4 + [tells[1]] * 2
    assert system.depth() == 0


@pytest.mark.parametrize(("dies_at", "kept"), [(1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (10, 8), (11, 10)])
async def test_s4_s5_a_getter_that_died_goes_on_behind_what_was_committed(
    system: System, program: Connection, other: Connection, form: Form, dies_at: int, kept: int
) -> None:
    await fill(other, range(1, 11), 10)
    await fill(other, [1], 1, H)
    got = []
    async with (
        crash(system, program),
        GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter,
    ):
        async for message in getter:
            got.append(message)
            if len(got) == dies_at:
                die(system, program)
        die(system, program)
    assert system.depth() == 11 - kept
    left = [info.msg_seq_number for _, info in await status_of(system)]
    assert left == ([] if kept in (0, 10) else [4, 8][: kept // 4] if form == "segments" else [kept])
    await fill(other, [1], 1, name_of("before"))
    again = await system.connect("again")
    async with GroupGetter(again, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
        assert getter.resumed_at == kept % 10
        if kept < 10:
            rest = [message async for message in getter]
            is_one_group(got[:kept] + rest, TEN)
            assert [message.md.backout_count for message in rest] == [1] * (dies_at - kept) + [0] * (10 - dies_at)
        assert [message.data async for message in getter] == [b"1"]
        assert [message.data async for message in getter] == [b"1"]
        with fails(MQRC.NO_MSG_AVAILABLE):
            await anext(getter)
    assert (system.depth(), system.depth("ST")) == (0, 0)


async def test_s4_a_backout_gives_the_messages_of_the_unit_again(
    system: System, program: Connection, other: Connection, form: Form
) -> None:
    await fill(other, range(1, 11), 10)
    async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
        for _ in range(6):
            await anext(getter)
        assert await getter.backout() == 4
        rest = [(message.data, message.md.backout_count) async for message in getter]
    assert rest == [(b"5", 1), (b"6", 1), (b"7", 0), (b"8", 0), (b"9", 0), (b"10", 0)]
    assert system.depth() == 0


async def test_s4_a_message_in_no_group_is_committed_at_once(
    system: System, program: Connection, other: Connection, form: Form
) -> None:
    await other.put1("Q", b"alone", persistence=1)
    await fill(other, [1, 2], 2)
    async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
        assert [message.data async for message in getter] == [b"alone"]
        assert system.manager.core.objects.queues["Q"].uncommitted == 0
        assert [message.data async for message in getter] == [b"1", b"2"]
    assert system.depth("ST") == 0


async def test_a_clean_end_counts_the_last_message_as_dealt_with(
    system: System, program: Connection, other: Connection, form: Form
) -> None:
    await fill(other, range(1, 11), 10)
    got = []
    for count in (3, 6, 1):
        async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
            got += [await anext(getter) for _ in range(count)]
        assert system.depth() == 10 - len(got)
    is_one_group(got, TEN)
    assert system.depth("ST") == 0


async def test_an_exception_gives_the_last_unit_back(
    system: System, program: Connection, other: Connection, form: Form
) -> None:
    await fill(other, range(1, 11), 10)
    with pytest.raises(CrashError):
        async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
            for _ in range(6):
                await anext(getter)
            raise CrashError
    assert system.depth() == 6
    async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
        assert [message.data async for message in getter] == TEN[4:]


async def test_s5_trap_d_a_message_that_is_not_there_yet_leaves_the_status_as_it_is(
    system: System, program: Connection, other: Connection, form: Form
) -> None:
    await fill(other, [1, 2, 3, 4], 10)
    async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
        for _ in range(4):
            await anext(getter)
    before = await status_of(system)
    async with GroupGetter(program, "Q", "ST", messages_per_unit=4, status=form, wait=0) as getter:
        assert getter.resumed_at == 4
        with fails(MQRC.NO_MSG_AVAILABLE):
            await anext(getter)
        assert await status_of(system) == before
        await fill(other, [6, 5], 6)
        assert [message.data async for message in getter] == [b"5", b"6"]
    assert (system.depth(), system.depth("ST")) == (0, 0)


async def test_a_getter_waits_for_the_rest_of_its_group(
    system: System, program: Connection, other: Connection, form: Form
) -> None:
    async with GroupGetter(program, "Q", "ST", messages_per_unit=2, status=form) as getter:
        rest = asyncio.create_task(rest_of(getter), name="getter")
        for number in (1, 2, 3):
            await system.waiting("Q", 1)
            await fill(other, [number], 3)
        assert await rest == [b"1", b"2", b"3"]


async def test_a_group_is_left_alone_until_it_is_complete_where_that_is_asked_for(
    program: Connection, other: Connection, form: Form
) -> None:
    await fill(other, [1, 2], 3)
    await fill(other, [1], 1, H)
    async with GroupGetter(
        program, "Q", "ST", messages_per_unit=2, status=form, wait=0, complete_groups=True
    ) as getter:
        assert [message.md.group_id async for message in getter] == [H]
        with fails(MQRC.NO_MSG_AVAILABLE):
            await anext(getter)
        await fill(other, [3], 3)
        assert await rest_of(getter) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("dies_at", "messages_per_unit"), [(2, 1), (5, 1), (2, 2), (4, 2), (6, 2)])
async def test_a_getter_by_segment_goes_on_between_the_segments_of_a_message(
    system: System, program: Connection, other: Connection, form: Form, dies_at: int, messages_per_unit: int
) -> None:
    async with other.open("Q", ALL) as queue:
        for body, last, more in SEGMENTS:
            flags = (MQMF.LAST_MSG_IN_GROUP if last else MQMF.MSG_IN_GROUP) | (MQMF.SEGMENT if more else 0)
            if body in (b"bb", b"f"):
                flags |= MQMF.LAST_SEGMENT
            await queue.put(body, MessageDescriptor(msg_flags=flags), MQPMO.LOGICAL_ORDER)
    got = []
    async with (
        crash(system, program),
        GroupGetter(
            program, "Q", "ST", messages_per_unit=messages_per_unit, status=form, wait=0, by_segment=True
        ) as getter,
    ):
        async for message in getter:
            got.append(message.data)
            if len(got) == dies_at:
                die(system, program)
    kept = (dies_at - 1) // messages_per_unit * messages_per_unit
    again = await system.connect("again")
    async with GroupGetter(
        again, "Q", "ST", messages_per_unit=messages_per_unit, status=form, wait=0, by_segment=True
    ) as getter:
        assert (getter.resumed_at, getter.resumed_offset) == [(0, 0), (0, 4), (1, 0), (2, 0), (2, 1), (2, 3)][kept]
        rest = [message async for message in getter]
    assert got[:kept] + [message.data for message in rest] == [body for body, *_ in SEGMENTS]
    assert (rest[-1].segment_status, system.depth(), system.depth("ST")) == (MQSS.LAST_SEGMENT, 0, 0)


async def test_a_getter_that_was_in_a_message_must_go_on_by_segment(program: Connection, other: Connection) -> None:
    async with other.open("Q", ALL) as queue:
        for flags in (MQMF.SEGMENT, MQMF.LAST_SEGMENT):
            await queue.put(b"x", MessageDescriptor(msg_flags=flags), MQPMO.LOGICAL_ORDER)
    async with GroupGetter(program, "Q", "ST", messages_per_unit=1, wait=0, by_segment=True) as getter:
        await anext(getter)
    with pytest.raises(ValueError, match="by_segment=True"):
        async with GroupGetter(program, "Q", "ST", messages_per_unit=1, wait=0) as getter:
            await anext(getter)


async def test_segments_that_differ_are_got_by_segment(system: System, program: Connection, other: Connection) -> None:
    async with other.open("Q", ALL) as queue:
        for ccsid, flags in ((819, MQMF.SEGMENT), (1208, MQMF.LAST_SEGMENT)):
            md = MessageDescriptor(msg_flags=flags, coded_char_set_id=ccsid)
            await queue.put(b"x", md, MQPMO.LOGICAL_ORDER)
    with fails(MQRC.INCONSISTENT_CCSIDS):
        async with GroupGetter(program, "Q", "ST", messages_per_unit=1, wait=0) as getter:
            await anext(getter)
    assert system.depth() == 2
    async with GroupGetter(program, "Q", "ST", messages_per_unit=1, wait=0, by_segment=True) as getter:
        assert await rest_of(getter) == [b"x", b"x"]


async def test_t15_2_two_getters_split_no_group(system: System, program: Connection, other: Connection) -> None:
    await system.mqsc("DEFINE QLOCAL(ST.OTHER)")
    groups = [name_of(f"g{number}") for number in range(4)]
    for number in (3, 1, 2):
        for group_id in groups:
            await fill(other, [number], 3, group_id)
    async with (
        GroupGetter(program, "Q", "ST", messages_per_unit=2, wait=0, complete_groups=True) as one,
        GroupGetter(other, "Q", "ST.OTHER", messages_per_unit=2, wait=0, complete_groups=True) as two,
    ):
        got: list[list[Message]] = [[], []]
        for _ in range(6):
            for each, getter in zip(got, (one, two), strict=True):
                await _step(getter, each)
    assert [[m.md.group_id for m in each] for each in got] == [
        [groups[0]] * 3 + [groups[2]] * 3, [groups[1]] * 3 + [groups[3]] * 3
    ]  # fmt: skip


async def _step(getter: GroupGetter, got: list[Message]) -> None:
    """The next message, of the next group where one has ended."""
    try:
        got.append(await anext(getter))
    except StopAsyncIteration:
        got.append(await anext(getter))
