"""Status in segments, segmented messages in groups, and browsing groups (semantics 15, S6 to S10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError
from broker.mqi import MQGMO, MQMO, MQPMO, MQRC
from tests.conformance.expect import ALL, fails, name_of
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
    NO_GROUP,
    SEG,
    SYNC,
    Z,
    add,
    data_of,
    group_statuses,
    place,
    places,
    put_figure,
    segment_statuses,
    take,
    take_all,
)
from tests.conformance.status import Program, Status, status_in

if TYPE_CHECKING:
    from broker import Connection, Message, Queue
    from tests.conformance.crashes import DurableSystem
    from tests.conformance.system import System

G, W = name_of("G"), name_of("W")


def info(number: int) -> bytes:
    """StatusInfo of 28 bytes for the group of these scenarios."""
    return bytes(Status(G, number))


# S6: the status kept as segments of one message


@pytest.fixture
async def statuses(system: System, connection: Connection) -> Queue:
    await system.mqsc("DEFINE QLOCAL(ST)")
    return await connection.open("ST", ALL)


async def test_s6_the_status_is_one_message_that_the_last_unit_of_work_completes(
    system: System, connection: Connection, statuses: Queue
) -> None:
    put = []
    for unit, (flags, number) in enumerate(((SEG, 3), (SEG, 6), (LSEG, 9))):
        put.append((await add(statuses, flags, info(number))).md)
        await connection.commit()
        assert system.depth("ST") == unit + 1
        if flags == SEG:
            with fails(MQRC.NO_MSG_AVAILABLE):
                await take(statuses, COMPLETE)
    assert [(md.group_id, md.msg_seq_number, md.offset) for md in put] == [
        (put[0].group_id, 1, offset) for offset in (0, 28, 56)
    ]
    message = await take(statuses, COMPLETE)
    assert (message.length, message.segment_status, system.depth("ST")) == (84, "L", 0)
    assert [status_in(message.data[offset : offset + 28]).number for offset in (0, 28, 56)] == [3, 6, 9]


async def test_s6_the_last_segment_is_invisible_to_its_own_unit_of_work(
    connection: Connection, statuses: Queue
) -> None:  # B8
    for flags, number in ((SEG, 3), (LSEG, 6)):
        await add(statuses, flags, info(number))
        if flags == SEG:
            await connection.commit()
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(statuses, COMPLETE | SYNC)
    await connection.commit()
    assert (await take(statuses, COMPLETE | SYNC)).length == 56


async def test_s6_a_persistent_status_is_not_cleared_beside_an_open_unit_of_work(
    system: System, connection: Connection, statuses: Queue
) -> None:
    for flags, number in ((SEG, 3), (LSEG, 6)):
        await place(statuses, info(number), flags, G, 1, 0 if flags == SEG else 28, persistence=1)
    await connection.put1("Q", b"", options=MQPMO.SYNCPOINT)
    with fails(MQRC.UOW_NOT_AVAILABLE):
        await take(statuses, COMPLETE)
    assert system.depth("ST") == 2
    await connection.commit()
    assert (await take(statuses, COMPLETE)).length == 56


# S7: going on with a status in segments


async def put_units(program: Program, *, dies_in: int) -> None:
    """A group of nine in three units of work, the status in segments; all but the commit of one of them."""
    for unit in (1, 2, 3):
        for number in range(3 * unit - 2, 3 * unit + 1):
            put = await add(program.queue, LMIG if number == 9 else MIG, b"%d" % number)
        status = Status(put.md.group_id, put.md.msg_seq_number)
        await add(program.statuses, LSEG if unit == 3 else SEG, bytes(status))
        if unit == dies_in:
            return
        await program.connection.commit()


async def browse_statuses(statuses: Queue) -> list[Message]:
    """BROWSE_FIRST, then BROWSE_NEXT to the end, in logical order."""
    try:
        return [await take(statuses, FIRST | LO), *await take_all(statuses, NEXT | LO)]
    except MQError as error:
        assert error.reason == MQRC.NO_MSG_AVAILABLE
        return []


async def test_s7_a_crash_in_the_third_unit_of_work(durable: DurableSystem) -> None:
    await put_units(await Program.start(await durable.connect()), dies_in=3)
    await durable.crash()
    program = await Program.start(await durable.connect())
    found = await browse_statuses(program.statuses)
    assert [(message.md.offset, status_in(message.data).number) for message in found] == [(0, 3), (28, 6)]
    assert segment_statuses(found) == "SS"

    last = status_in(found[-1].data)
    await place(program.queue, b"7", MIG, last.group_id, 7, options=MQPMO.SYNCPOINT)
    for number in (8, 9):
        await add(program.queue, LMIG if number == 9 else MIG, b"%d" % number)
    md = found[-1].md
    end = md.offset + len(found[-1].data)
    first = await place(program.statuses, bytes(28), SEG, md.group_id, 1, end, MQPMO.SYNCPOINT)
    assert (first.reason, first.md.offset) == (MQRC.NONE, 56)
    second = (await add(program.statuses, LSEG, bytes(28))).md
    assert (second.group_id, second.offset) == (md.group_id, 84)
    await program.connection.commit()
    assert (await take(program.statuses, COMPLETE)).length == 112
    assert data_of(await take_all(program.queue, LO | ALL_MSGS)) == [b"%d" % number for number in range(1, 10)]


@pytest.mark.parametrize(("dies_in", "depth", "statuses"), [(1, 0, ""), (2, 3, "S"), (3, 6, "SS"), (0, 9, "SSL")])
async def test_s7_what_a_crash_leaves_says_how_to_go_on(
    durable: DurableSystem, dies_in: int, depth: int, statuses: str
) -> None:
    """Nothing: begin a group. S: go on behind it. L at the end: the group is finished, only the status must go."""
    await put_units(await Program.start(await durable.connect()), dies_in=dies_in)
    await durable.crash()
    program = await Program.start(await durable.connect())
    assert (durable.depth(), segment_statuses(await browse_statuses(program.statuses))) == (depth, statuses)
    if statuses.endswith("L"):
        assert (await take(program.statuses, COMPLETE)).length == 84
        assert durable.depth("ST") == 0


async def test_s7_trap_the_browse_keeps_its_order(connection: Connection, statuses: Queue) -> None:
    await add(statuses, SEG, info(3))
    await add(statuses, SEG, info(6))
    await connection.commit()
    await take(statuses, FIRST | LO)
    with fails(MQRC.INCONSISTENT_BROWSE):
        await take(statuses, NEXT)


# S8: segments inside a group

S8 = (MIG | SEG, MIG | SEG, MIG | LSEG, MIG | SEG, MIG | LSEG, MIG, LMIG | SEG, LMIG | SEG, LMIG | LSEG)


async def put_s8(queue: Queue, *, commit: bool = True) -> list[bytes]:
    """Four logical messages in nine physical ones of ten bytes; their MsgIds."""
    ids = [(await add(queue, flags, b"%d" % number * 10)).md.msg_id for number, flags in enumerate(S8)]
    if commit:
        await queue._connection.commit()
    return ids


async def test_s8_read_segment_by_segment(system: System, queue: Queue, other_queue: Queue) -> None:
    await put_s8(queue)
    got = await take_all(other_queue, LO | ALL_MSGS)
    assert places(got) == [(1, 0), (1, 10), (1, 20), (2, 0), (2, 10), (3, 0), (4, 0), (4, 10), (4, 20)]
    assert (group_statuses(got), segment_statuses(got)) == ("GGGGGGLLL", "SSLSL SSL")
    ends = [message for message in got if message.group_status == "L" and message.segment_status == "L"]
    assert ends == got[-1:]
    assert system.depth() == 0


async def test_s8_read_message_by_message(queue: Queue, other_queue: Queue) -> None:
    await put_s8(queue)
    got = await take_all(other_queue, LO | COMPLETE)
    assert [message.length for message in got] == [30, 20, 10, 30]
    assert (group_statuses(got), segment_statuses(got)) == ("GGGL", "LL L")
    assert got[0].data == b"0" * 10 + b"1" * 10 + b"2" * 10


async def test_s8_nothing_is_there_before_the_commit(system: System, queue: Queue, other_queue: Queue) -> None:
    await put_s8(queue, commit=False)
    for options in (LO, LO | ALL_MSGS, LO | COMPLETE):
        with fails(MQRC.NO_MSG_AVAILABLE):
            await take(other_queue, options)
    assert system.depth() == 9


@pytest.mark.parametrize(
    ("options", "got"),
    [(LO, [(1, 0), (1, 10), (1, 20), (2, 0)]), (LO | ALL_SEGMENTS, [(1, 0), (1, 10), (1, 20)]), (LO | ALL_MSGS, [])],
)
async def test_s8_a_segment_is_missing(
    queue: Queue, other_queue: Queue, options: int, got: list[tuple[int, int]]
) -> None:
    ids = await put_s8(queue)
    await take(queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[4])
    assert places(await take_all(other_queue, options)) == got


# S9: logical order against physical order


async def test_s9_a_browse_finds_the_last_message_of_a_group_before_its_first(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    ids = await put_figure(queue)
    found = [await take(other_queue, FIRST | LO)]
    while found[-1].data != b"Z2":
        found.append(await take(other_queue, NEXT | LO))
    assert data_of(found) == [b"A", b"Y1", b"Y2", b"Y3s1", b"Y3s2", b"Z1", b"Z2"]
    await take(queue, MQGMO.NONE, MQMO.MATCH_MSG_ID, msg_id=ids[b"Z1"])
    assert (await take(other_queue, MQGMO.BROWSE_MSG_UNDER_CURSOR | LO)).data == b"Z2"
    assert data_of(await take_all(other_queue, NEXT | LO)) == [b"B"]
    await queue.put(b"C")
    assert data_of(await take_all(other_queue, NEXT | LO)) == [b"C"]
    assert system.depth() == 8


# S10: the endless loop of a physical browse


async def put_s10(queue: Queue) -> None:
    for data, flags, group, number in ((b"Z2", LMIG, Z, 2), (b"Z1", MIG, Z, 1), (b"W1", LMIG, W, 1)):
        await place(queue, data, flags, group, number)


HEADS: dict[str, Any] = {"match": MQMO.MATCH_MSG_SEQ_NUMBER, "msg_seq_number": 1}
SECOND_OF_Z: dict[str, Any] = {
    "match": MQMO.MATCH_GROUP_ID | MQMO.MATCH_MSG_SEQ_NUMBER,
    "group_id": Z,
    "msg_seq_number": 2,
}


async def test_s10_one_handle_comes_to_the_same_group_again_and_again(queue: Queue) -> None:
    await put_s10(queue)
    assert (await take(queue, FIRST, **HEADS)).data == b"Z1"
    for _ in range(3):
        assert (await take(queue, FIRST, **SECOND_OF_Z)).data == b"Z2"
        assert (await take(queue, NEXT, **HEADS)).data == b"Z1"


async def test_s10_remedy_a_second_handle_browses_inside_the_groups(queue: Queue, other_queue: Queue) -> None:
    await put_s10(queue)
    assert (await take(queue, NEXT, **HEADS)).data == b"Z1"
    assert (await take(other_queue, FIRST, **SECOND_OF_Z)).data == b"Z2"
    assert (await take(queue, NEXT, **HEADS)).data == b"W1"
    with fails(MQRC.NO_MSG_AVAILABLE):
        await take(queue, NEXT, **HEADS)


async def test_s10_logical_order_comes_to_each_group_once(queue: Queue) -> None:
    await put_s10(queue)
    found = [await take(queue, FIRST | LO), *await take_all(queue, NEXT | LO)]
    assert data_of(found) == [b"Z1", b"Z2", b"W1"]
    assert NO_GROUP not in {message.md.group_id for message in found}
