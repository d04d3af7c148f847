"""Groups that are put and got in one and in several units of work, and resumed (semantics 15, S1 to S5)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.mqi import MQGMO, MQIA, MQMO, MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, browsed, drained, fails, name_of, reason_of
from tests.conformance.grouping import (
    ALL_MSGS,
    COMPLETE,
    LMIG,
    LO,
    LSEG,
    MIG,
    SEG,
    SYNC,
    add,
    data_of,
    group_statuses,
    place,
    take,
    take_all,
)
from tests.conformance.status import Program, Status, status_in, status_of

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from tests.conformance.crashes import DurableSystem
    from tests.conformance.system import System

GROUP = (MIG, MIG, MIG, LMIG)
H = name_of("H")
ITEM = MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER


async def put_group(queue: Queue, count: int, *, commit: bool = True) -> bytes:
    """Put a group of numbered messages in one unit of work; its identifier."""
    for number in range(1, count + 1):
        put = await add(queue, LMIG if number == count else MIG, b"%d" % number)
    if commit:
        await queue._connection.commit()
    return put.md.group_id


async def times_out(system: System, queue: Queue, options: int, seconds: float) -> bool:
    """True if a get waits just so long in vain."""
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(reason_of(take(queue, options, wait=seconds)))
        await system.waiting("Q", 1)
        await system.clock.advance(seconds - 0.001)
        await queue.inquire(MQIA.CURRENT_Q_DEPTH)
        early = getting.done()
        await system.clock.advance(0.001)
        return await getting == MQRC.NO_MSG_AVAILABLE and not early


def numbers(messages: list[Message]) -> list[int]:
    return [message.md.msg_seq_number for message in messages]


# S1: a group in one unit of work

S1_GET = SYNC | ALL_MSGS | LO


async def test_s1_a_group_in_one_unit_of_work(
    system: System, connection: Connection, queue: Queue, other: Connection, other_queue: Queue
) -> None:
    put = [(await add(queue, flags)).md for flags in GROUP]
    assert [(md.group_id, md.msg_seq_number) for md in put] == [(put[0].group_id, number) for number in (1, 2, 3, 4)]
    assert await times_out(system, other_queue, S1_GET, 0.2)
    assert system.depth() == 4
    await connection.commit()
    got = [await take(other_queue, S1_GET, wait=0.2) for _ in range(4)]
    assert (numbers(got), group_statuses(got)) == ([1, 2, 3, 4], "GGGL")
    assert await times_out(system, other_queue, S1_GET, 0.2)
    await other.commit()
    assert system.depth() == 0


@pytest.mark.parametrize(("options", "got"), [(ALL_MSGS, []), (MQGMO.NONE, [1, 2])])
async def test_s1_variant_a_a_message_is_taken_before_the_first_get(
    system: System, queue: Queue, other: Connection, other_queue: Queue, options: int, got: list[int]
) -> None:
    await put_group(queue, 4)
    thief = await (await system.connect()).open("Q", ALL)
    assert (await take(thief, MQGMO.NONE, MQMO.MATCH_MSG_SEQ_NUMBER, msg_seq_number=3)).data == b"3"
    assert numbers(await take_all(other_queue, SYNC | LO | options)) == got


async def test_s1_variant_b_the_group_is_not_locked_by_its_first_get(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    await put_group(queue, 4)
    assert (await take(other_queue, S1_GET)).data == b"1"
    thief = await (await system.connect()).open("Q", ALL)
    await take(thief, MQGMO.NONE, MQMO.MATCH_MSG_SEQ_NUMBER, msg_seq_number=3)
    assert numbers(await take_all(other_queue, S1_GET)) == [2]


async def test_s1_variant_c_without_logical_order_completeness_is_asked_each_time(
    queue: Queue, other_queue: Queue
) -> None:
    await put_group(queue, 4)
    assert (await take(other_queue, SYNC | ALL_MSGS)).data == b"1"
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(other_queue, SYNC | ALL_MSGS)
    assert (await take(other_queue, SYNC)).data == b"2"


async def test_s1_variant_d_the_group_is_backed_out(
    system: System, connection: Connection, queue: Queue, other_queue: Queue
) -> None:
    before = await put_group(queue, 4, commit=False)
    await connection.backout()
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(other_queue, S1_GET)
    assert system.depth() == 0
    md = (await add(queue, MIG)).md
    assert md.group_id != before
    assert md.msg_seq_number == 1


async def test_s1_variant_d_a_group_backed_out_in_its_middle_begins_anew(connection: Connection, queue: Queue) -> None:
    before = (await add(queue, MIG)).md.group_id
    await connection.backout()
    md = (await add(queue, MIG)).md
    assert (md.group_id == before, md.msg_seq_number) == (False, 1)


async def test_s1_variant_e_two_groups_put_at_once_are_got_one_after_the_other(
    system: System, connection: Connection, queue: Queue, other: Connection, other_queue: Queue
) -> None:
    for flags in GROUP:
        await add(queue, flags, b"g")
        await add(other_queue, flags, b"h")
    await other.commit()
    await connection.commit()
    getter = await (await system.connect()).open("Q", ALL)
    got = await take_all(getter, LO | ALL_MSGS)
    assert (data_of(got), group_statuses(got)) == ([b"g"] * 4 + [b"h"] * 4, "GGGLGGGL")


# S2: a group put over several units of work


@pytest.fixture
async def putter(system: System, connection: Connection) -> Program:
    await system.mqsc("DEFINE QLOCAL(ST)")
    return await Program.start(connection)


async def statuses(queue: Queue) -> list[int]:
    """The sequence numbers on the status queue."""
    try:
        return [status_in(data).number for data in await browsed(queue)]
    except MQError as error:
        raise AssertionError from error


@pytest.mark.parametrize("get_first", [True, False])
async def test_s2_a_group_put_over_several_units_of_work(system: System, putter: Program, get_first: bool) -> None:
    seen = []
    for unit in (1, 2, 3):
        put = [await add(putter.queue, LMIG if number == 9 else MIG) for number in range(3 * unit - 2, 3 * unit + 1)]
        if get_first:
            old = await putter.old_status()
        if unit < 3:
            await putter.new_status(status_of(put[-1].md))
        if not get_first:
            old = await putter.old_status()
        assert old == (Status(put[0].md.group_id, 3 * unit - 3) if unit > 1 else None)
        await putter.connection.commit()
        seen.append((system.depth(), await statuses(putter.statuses)))
    assert seen == [(3, [3]), (6, [6]), (9, [])]


@pytest.mark.parametrize(("options", "after_each"), [(LO, [3, 3, 3]), (LO | ALL_MSGS, [0, 0, 9])])
async def test_s2_a_getter_may_begin_with_what_is_there(
    putter: Program, other_queue: Queue, options: int, after_each: list[int]
) -> None:
    got = []
    for unit in (1, 2, 3):
        for number in (1, 2, 3):
            await add(putter.queue, LMIG if (unit, number) == (3, 3) else MIG)
        await putter.connection.commit()
        got.append(len(await take_all(other_queue, options)))
    assert got == after_each


async def test_s2_a_backout_needs_no_restart(putter: Program) -> None:
    for _ in range(3):
        await add(putter.queue, MIG)
    await putter.connection.commit()
    before = (await add(putter.queue, MIG)).md
    await putter.connection.backout()
    again = (await add(putter.queue, MIG)).md
    assert (again.group_id, again.msg_seq_number) == (before.group_id, 4)


CRASHES_OF_S2 = [(1, 0, []), (2, 3, [3]), (3, 6, [6]), (0, 9, [])]
"""The unit of work in which the program dies (0: in none), the depth and the status after that."""


@pytest.mark.parametrize(("dies_in", "depth", "status"), CRASHES_OF_S2)
@pytest.mark.parametrize("end", ["crash", "cut"])
async def test_s2_and_s3_a_putter_that_died_goes_on_where_it_was(
    durable: DurableSystem, dies_in: int, depth: int, status: list[int], end: str
) -> None:
    putter = await Program.start(await durable.connect())
    await putter.put_group(9, 3, dies_in=dies_in)
    if end == "crash":
        await durable.crash()
    else:
        durable.cut(putter.connection)
        await durable.until(lambda: not durable.manager.core.objects.queues["Q"].uncommitted)
    putter = await Program.start(await durable.connect())
    assert (durable.depth(), await statuses(putter.statuses)) == (depth, status)
    if dies_in:
        await putter.put_group(9, 3)
    got = await take_all(putter.queue, LO | ALL_MSGS)
    assert (numbers(got), group_statuses(got)) == ([1, 2, 3, 4, 5, 6, 7, 8, 9], "GGGGGGGGL")
    assert len({message.md.group_id for message in got}) == 1
    assert await drained(putter.statuses) == []


@pytest.mark.parametrize(("units", "depth", "status"), [(1, 3, [3]), (2, 6, [6])])
async def test_t15_1_the_queue_manager_restarts_in_the_middle_of_a_group(
    durable: DurableSystem, units: int, depth: int, status: list[int]
) -> None:
    putter = await Program.start(await durable.connect())
    await putter.put_group(9, 3, dies_in=units + 1)
    await putter.connection.backout()
    await durable.restart()
    putter = await Program.start(await durable.connect())
    assert (durable.depth(), await statuses(putter.statuses)) == (depth, status)
    await putter.put_group(9, 3)
    assert numbers(await take_all(putter.queue, LO | ALL_MSGS)) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


# S3: the putter goes on with a group


async def begun(putter: Program) -> bytes:
    """Six messages of a group of nine are there, and nothing is open any more; the group."""
    connection = putter.connection
    for _ in range(6):
        put = await add(putter.queue, MIG)
    await putter.new_status(status_of(put.md))
    await connection.commit()
    await putter.queue.close()
    putter.queue = await connection.open("Q", ALL)
    return put.md.group_id


async def test_s3_the_first_put_is_without_logical_order(system: System, putter: Program, other_queue: Queue) -> None:
    group = await begun(putter)
    assert await putter.old_status() == Status(group, 6)
    first = await place(putter.queue, b"", MIG, group, 7, options=MQPMO.SYNCPOINT)
    assert (first.reason, first.md.group_id, first.md.msg_seq_number) == (MQRC.NONE, group, 7)
    rest = [(await add(putter.queue, flags)).md for flags in (MIG, LMIG)]
    assert [(md.group_id, md.msg_seq_number) for md in rest] == [(group, 8), (group, 9)]
    await putter.connection.commit()
    assert (system.depth(), system.depth("ST")) == (9, 0)
    got = await take_all(other_queue)
    assert (numbers(got), group_statuses(got)) == ([1, 2, 3, 4, 5, 6, 7, 8, 9], "GGGGGGGGL")


async def test_s3_trap_a_a_first_put_with_logical_order_begins_another_group(putter: Program) -> None:
    group = await begun(putter)
    md = MessageDescriptor(msg_flags=MIG, group_id=group, msg_seq_number=7)
    put = (await putter.queue.put(b"", md, MQPMO.SYNCPOINT | MQPMO.LOGICAL_ORDER)).md
    assert put.group_id != group
    assert put.msg_seq_number == 1


async def test_s3_trap_b_and_t15_3_the_status_not_counted_on_makes_a_second_message(
    system: System, putter: Program, other_queue: Queue
) -> None:  # B7
    group = await begun(putter)
    put = [await place(putter.queue, b"second", MIG, group, 6, options=MQPMO.SYNCPOINT)]
    put += [await add(putter.queue, flags) for flags in (MIG, LMIG)]
    assert [result.md.msg_seq_number for result in put] == [6, 7, 8]
    await putter.connection.commit()
    assert system.depth() == 9
    got = await take_all(other_queue)
    assert (numbers(got), group_statuses(got)) == ([1, 2, 3, 4, 5, 6, 7, 8], "GGGGGGGL")
    assert system.depth() == 1
    left = await take(other_queue, MQGMO.NONE)
    assert (left.data, left.md.group_id, left.md.msg_seq_number) == (b"second", group, 6)


async def test_s3_trap_c_persistence_is_compared_with_what_this_handle_put(putter: Program) -> None:
    group = await begun(putter)
    first = await place(putter.queue, b"", MIG, group, 7, options=MQPMO.SYNCPOINT, persistence=0)
    assert first.reason == MQRC.NONE
    md = MessageDescriptor(msg_flags=MIG, persistence=1)
    with fails(MQRC.INCONSISTENT_PERSISTENCE):
        await putter.queue.put(b"", md, MQPMO.LOGICAL_ORDER | MQPMO.SYNCPOINT)


async def test_s3_trap_d_so_is_the_unit_of_work(putter: Program) -> None:
    group = await begun(putter)
    await place(putter.queue, b"", MIG, group, 7, options=MQPMO.NO_SYNCPOINT)
    with fails(MQRC.INCONSISTENT_UOW):
        await add(putter.queue, MIG)


async def test_s3_segmented_variant_the_status_has_an_offset_too(putter: Program, other_queue: Queue) -> None:
    last = [await add(putter.queue, flags, data) for flags, data in ((MIG, b"1"), (MIG | SEG, b"123"))][-1].md
    await putter.connection.commit()
    await putter.queue.close()
    putter.queue = await putter.connection.open("Q", ALL)
    behind = last.offset + last.original_length
    place_of_it = (last.group_id, last.msg_seq_number, behind)
    await place(putter.queue, b"45", MIG | SEG, *place_of_it, options=MQPMO.SYNCPOINT)
    md = (await add(putter.queue, MIG | LSEG, b"6")).md
    assert (md.group_id, md.msg_seq_number, md.offset) == (last.group_id, 2, 5)
    await add(putter.queue, LMIG, b"3")
    await putter.connection.commit()
    assert data_of(await take_all(other_queue, LO | COMPLETE | ALL_MSGS)) == [b"1", b"123456", b"3"]


# S4: a group got over several units of work


async def test_s4_a_group_got_over_several_units_of_work(system: System, putter: Program, other_queue: Queue) -> None:
    group = await put_group(other_queue, 10)
    seen: list[tuple[list[int], str, list[int], int]] = []
    for count in (4, 4, 2):
        got = [await take(putter.queue, SYNC | LO | COMPLETE, wait=1) for _ in range(count)]
        old = await putter.old_status()
        assert old == (Status(group, numbers(got)[0] - 1) if seen else None)
        if got[-1].group_status == "G":
            await putter.new_status(status_of(got[-1].md))
        await putter.connection.commit()
        seen.append((numbers(got), got[-1].group_status, await statuses(putter.statuses), system.depth()))
    assert seen == [([1, 2, 3, 4], "G", [4], 6), ([5, 6, 7, 8], "G", [8], 2), ([9, 10], "L", [], 0)]


async def test_s4_a_backout_gets_the_same_messages_again(putter: Program, other_queue: Queue) -> None:
    await put_group(other_queue, 10)
    for _ in range(4):
        await take(putter.queue, SYNC | LO | COMPLETE)
    await putter.connection.commit()
    for _ in range(3):
        await take(putter.queue, SYNC | LO | COMPLETE)
    await putter.connection.backout()
    again = await take(putter.queue, SYNC | LO | COMPLETE)
    assert (again.md.msg_seq_number, again.md.backout_count) == (5, 1)


async def test_s4_a_message_in_no_group_is_a_unit_of_its_own(putter: Program, other_queue: Queue) -> None:
    await other_queue.put(b"alone")
    await put_group(other_queue, 2)
    assert group_statuses(await putter.get_group(4)) == " "
    assert numbers(await putter.get_group(4)) == [1, 2]


# S5: the getter goes on with a group

CRASHES_OF_S4 = [(1, 10, []), (2, 6, [4]), (3, 2, [8])]


@pytest.mark.parametrize(("dies_in", "depth", "status"), CRASHES_OF_S4)
@pytest.mark.parametrize("others_before", [False, True])
async def test_s4_and_s5_a_getter_that_died_goes_on_where_it_was(
    durable: DurableSystem, dies_in: int, depth: int, status: list[int], others_before: bool
) -> None:
    getter = await Program.start(await durable.connect())
    group = await put_group(getter.queue, 10)
    before = await getter.get_group(4, dies_in=dies_in)
    await durable.crash()
    getter = await Program.start(await durable.connect())
    assert (durable.depth(), await statuses(getter.statuses)) == (depth, status)
    if others_before:
        await durable.mqsc("ALTER QLOCAL(Q) MSGDLVSQ(PRIORITY)")
        for number, flags in ((1, MIG), (2, LMIG)):
            await place(getter.queue, b"h", flags, H, number, priority=9)
    if others_before and not status:
        assert numbers(await getter.get_group(4)) == [1, 2]
    got = await getter.get_group(4)
    assert numbers(got) == list(range(11 - depth, 11))
    assert {message.md.group_id for message in before + got} == {group}
    assert durable.depth("ST") == 0


@pytest.fixture
async def getter(putter: Program, other_queue: Queue) -> Program:
    """Four messages of a group of ten have been got, and nothing is open any more."""
    group = await put_group(other_queue, 10)
    await putter.new_status(Status(group, 4))
    await putter.connection.commit()
    for _ in range(4):
        await take(other_queue)
    return putter


async def test_s5_the_first_get_is_without_logical_order(system: System, getter: Program) -> None:
    old = await getter.old_status()
    assert old is not None
    first = await take(getter.queue, COMPLETE | SYNC, ITEM, wait=1, group_id=old.group_id, msg_seq_number=5)
    assert (first.data, first.group_status) == (b"5", "G")
    rest = [await take(getter.queue, LO | COMPLETE | SYNC) for _ in range(3)]
    assert numbers(rest) == [6, 7, 8]
    await getter.new_status(status_of(rest[-1].md))
    await getter.connection.commit()
    last = [await take(getter.queue, LO | COMPLETE | SYNC) for _ in range(2)]
    assert (numbers(last), group_statuses(last)) == ([9, 10], "GL")
    assert await getter.old_status() == Status(old.group_id, 8)
    await getter.connection.commit()
    assert (system.depth(), system.depth("ST")) == (0, 0)


async def test_s5_trap_a_logical_order_begins_with_a_first_message(getter: Program) -> None:
    old = await getter.old_status()
    assert old is not None
    with fails(MQRC.MATCH_OPTIONS_ERROR):
        await take(getter.queue, LO | COMPLETE | SYNC, ITEM, group_id=old.group_id, msg_seq_number=5)


@pytest.mark.parametrize("match", [ITEM, MQMO.MATCH_MSG_ID | MQMO.MATCH_CORREL_ID])
async def test_s5_trap_b_the_match_options_of_the_first_get_do_not_fit_the_next(getter: Program, match: int) -> None:
    old = await getter.old_status()
    assert old is not None
    first = await take(getter.queue, COMPLETE | SYNC, ITEM, group_id=old.group_id, msg_seq_number=5)
    md = first.md
    wanted: dict[str, Any] = {"group_id": md.group_id, "msg_seq_number": md.msg_seq_number, "msg_id": md.msg_id}
    with fails(MQRC.MATCH_OPTIONS_ERROR):
        await take(getter.queue, LO | COMPLETE | SYNC, match, **wanted)
    assert (await take(getter.queue, LO | COMPLETE | SYNC, MQMO.NONE, **wanted)).data == b"6"


async def test_s5_trap_c_the_next_get_must_be_in_the_unit_of_work(getter: Program) -> None:
    old = await getter.old_status()
    assert old is not None
    await take(getter.queue, COMPLETE | SYNC, ITEM, group_id=old.group_id, msg_seq_number=5)
    with fails(MQRC.INCONSISTENT_UOW):
        await take(getter.queue, LO | COMPLETE | MQGMO.NO_SYNCPOINT)


async def test_s5_trap_d_the_message_is_still_in_transit(system: System, getter: Program, other_queue: Queue) -> None:
    old = await getter.old_status()
    assert old is not None
    await take(other_queue)
    async with asyncio.TaskGroup() as tasks:
        wanted: dict[str, Any] = {"group_id": old.group_id, "msg_seq_number": 5}
        getting = tasks.create_task(reason_of(take(getter.queue, COMPLETE | SYNC, ITEM, wait=1, **wanted)))
        await system.waiting("Q", 1)
        await system.clock.advance(1)
        assert await getting == MQRC.NO_MSG_AVAILABLE
    await getter.connection.backout()
    assert await getter.old_status() == old


async def test_t15_2_no_group_is_split_between_getters_that_begin_at_its_first_message(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    groups = [await put_group(queue, 3) for _ in range(3)]
    third = await (await system.connect()).open("Q", ALL)
    owners: dict[bytes, set[Queue]] = {group: set() for group in groups}
    getters = [other_queue, third]
    while getters:
        getter = getters.pop(0)
        try:
            message = await take(getter, LO | ALL_MSGS)
        except MQError as error:
            assert error.reason == MQRC.NO_MSG_AVAILABLE
            continue
        owners[message.md.group_id].add(getter)
        getters.append(getter)
    assert [len(each) for each in owners.values()] == [1, 1, 1]
    assert system.depth() == 0
