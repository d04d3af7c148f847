"""Units of work on shared queues, and on shared and private ones together (queue-sharing 4)."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQFB, MQGMO, MQPMO, MQRC, MQRO, MessageDescriptor
from broker.mqi.layouts.layouts import MQDLH
from tests.conformance.expect import ALL, fails
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

PUT, GET = MQPMO.SYNCPOINT, MQGMO.SYNCPOINT
PERSISTENT = MessageDescriptor(persistence=1)


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)\nDEFINE QLOCAL(REPLIES)")
        await members.start("QM2")
        yield members


async def drain(connection: Connection, q_name: str) -> list[tuple[bytes, int]]:
    """All messages of a queue, with their backout counts."""
    found: list[tuple[bytes, int]] = []
    async with connection.open(q_name, ALL) as queue:
        while True:
            try:
                message = await queue.get()
            except Exception as error:
                assert getattr(error, "reason", None) == MQRC.NO_MSG_AVAILABLE, error
                return found
            found.append((bytes(message.data), message.md.backout_count))


async def test_a_unit_on_shared_and_private_queues_is_committed_in_one(members: Members) -> None:
    program, other = await members.connect("QM1"), await members.connect("QM1")
    shared, own = await program.open("Q", ALL), await program.open("OWN", ALL)
    await own.put(b"old", PERSISTENT)
    await shared.put(b"shared", PERSISTENT, PUT)
    await own.put(b"private", PERSISTENT, PUT)
    assert (await own.get(options=GET)).data == b"old"
    assert await drain(other, "Q") == []
    assert await drain(other, "OWN") == []
    await program.commit()
    assert await drain(await members.connect("QM2"), "Q") == [(b"shared", 0)]
    assert await drain(other, "OWN") == [(b"private", 0)]


async def test_a_unit_on_shared_and_private_queues_is_backed_out_in_one(members: Members) -> None:
    program = await members.connect("QM1")
    shared, own = await program.open("Q", ALL), await program.open("OWN", ALL)
    await own.put(b"own", PERSISTENT)
    await shared.put(b"shared", PERSISTENT)
    assert (await own.get(options=GET)).data == b"own"
    assert (await shared.get(options=GET)).data == b"shared"
    await shared.put(b"new", PERSISTENT, PUT)
    await own.put(b"new", PERSISTENT, PUT)
    await program.backout()
    assert await drain(await members.connect("QM2"), "Q") == [(b"shared", 1)]
    assert await drain(program, "OWN") == [(b"own", 1)]


async def test_uncommitted_gets_are_hidden_from_all_and_come_back_to_their_places(members: Members) -> None:
    program, peer = await members.connect("QM1"), await members.connect("QM2")
    shared, there = await program.open("Q", ALL), await peer.open("Q", ALL)
    for number in range(3):
        await shared.put(b"%d" % number)
    assert (await shared.get(options=GET)).data == b"0"
    assert (await there.get(options=MQGMO.BROWSE_FIRST)).data == b"1"
    await program.backout()
    assert (await there.get(options=MQGMO.BROWSE_FIRST)).data == b"0"
    assert await drain(peer, "Q") == [(b"0", 1), (b"1", 0), (b"2", 0)]


@pytest.mark.parametrize("orderly", [True, False], ids=["MQDISC", "a broken line"])
async def test_the_end_of_a_connection_ends_its_unit(members: Members, orderly: bool) -> None:
    with nullcontext() if orderly else fails(MQRC.CONNECTION_BROKEN):
        async with members["QM1"].connect("program") as program:
            shared, own = await program.open("Q", ALL), await program.open("OWN", ALL)
            await shared.put(b"shared", PERSISTENT, PUT)
            await own.put(b"own", PERSISTENT, PUT)
            if not orderly:
                for conversation in members["QM1"].conversations:
                    conversation.break_()
    await members.clock.rest()
    there = [(b"shared", 0)] if orderly else []
    assert await drain(await members.connect("QM2"), "Q") == there
    assert await drain(await members.connect("QM1"), "OWN") == [(b"own", 0)] * orderly


async def test_a_queue_manager_that_stops_backs_open_units_out(members: Members) -> None:
    await (await (await members.connect("QM2")).open("Q", ALL)).put(b"shared", PERSISTENT)
    connection = members["QM1"].connect("left open")
    await connection.__aenter__()
    queue, own = await connection.open("Q", ALL), await connection.open("OWN", ALL)
    await queue.get(options=GET)
    await queue.put(b"new", PERSISTENT, PUT)
    await own.put(b"new", PERSISTENT, PUT)
    await members.stop("QM1")
    assert await members.group.value("SELECT count(*) FROM unit_of_work") == 0
    assert await drain(await members.connect("QM2"), "Q") == [(b"shared", 1)]
    await members.start("QM1")
    assert await drain(await members.connect("QM1"), "OWN") == []


async def test_a_report_on_a_private_queue_stands_or_falls_with_the_shared_message(members: Members) -> None:
    program = await members.connect("QM1")
    shared = await program.open("Q", ALL)
    asking = MessageDescriptor(persistence=1, msg_type=1, report=2048, reply_to_q="REPLIES")  # MQRO_COD
    await shared.put(b"asks", asking)
    await shared.get(options=GET)
    await program.backout()
    assert await drain(program, "REPLIES") == []
    await shared.get(options=GET)
    await program.commit()
    await members.crash("QM1")
    await members.start("QM1")
    assert len(await drain(await members.connect("QM1"), "REPLIES")) == 1


@pytest.mark.parametrize("dead_q", ["DEAD", "OWN"])
@pytest.mark.parametrize("options", [GET, MQGMO.NO_SYNCPOINT])
async def test_a_report_on_delivery_for_a_shared_queue_that_is_full_is_a_dead_letter(
    members: Members, options: int, dead_q: str
) -> None:
    await members.mqsc(
        "DEFINE QLOCAL(FULL) QSGDISP(SHARED) MAXDEPTH(1)\nDEFINE QLOCAL(DEAD) QSGDISP(SHARED)\n"
        f"ALTER QMGR DEADQ({dead_q})"
    )
    program = await members.connect("QM1")
    shared = await program.open("Q", ALL)
    asks = MessageDescriptor(persistence=1, report=MQRO.COD, reply_to_q="FULL")
    msg_ids = [(await shared.put(b"asks", asks)).md.msg_id for _ in range(2)]
    for _ in msg_ids:
        await shared.get(options=options)
    await program.commit()
    await members.clock.rest()
    async with program.open("FULL", ALL) as replies, program.open(dead_q, ALL) as dead:
        report, letter = await replies.get(), await dead.get()
        assert [report.md.correl_id, letter.md.correl_id] == msg_ids
        header = MQDLH.from_bytes(letter.data)
        assert (header.reason, header.dest_q_name) == (MQRC.Q_FULL, "FULL")
        assert (letter.md.feedback, letter.md.persistence) == (MQFB.COD, 1)
        for queue in (replies, dead):
            with fails(MQRC.NO_MSG_AVAILABLE):
                await queue.get()


async def test_a_report_on_arrival_for_a_shared_queue_that_is_full_is_a_dead_letter_on_a_private_one(
    members: Members,
) -> None:
    await members.mqsc("DEFINE QLOCAL(FULL) QSGDISP(SHARED) MAXDEPTH(1)\nALTER QMGR DEADQ(OWN)")
    program = await members.connect("QM1")
    asks = MessageDescriptor(persistence=1, report=MQRO.COA, reply_to_q="FULL")
    for _ in range(2):
        await program.put1("Q", b"asks", asks, MQPMO.NO_SYNCPOINT)
    async with program.open("OWN", ALL) as dead:
        letter = await dead.get()
        assert MQDLH.from_bytes(letter.data).reason == MQRC.Q_FULL
    assert [data for data, _ in await drain(program, "Q")] == [b"asks"] * 2
    assert len(await drain(program, "FULL")) == 1


async def test_maxumsgs_counts_private_and_shared_calls_together(members: Members) -> None:
    await members.mqsc("ALTER QMGR MAXUMSGS(2)")
    program = await members.connect("QM1")
    shared, own = await program.open("Q", ALL), await program.open("OWN", ALL)
    await shared.put(b"1", options=PUT)
    await own.put(b"2", options=PUT)
    with fails(MQRC.SYNCPOINT_LIMIT_REACHED):
        await shared.put(b"3", options=PUT)
    await program.commit()
    assert await drain(program, "Q") == [(b"1", 0)]


async def test_a_put_that_failed_unheard_makes_the_unit_one_that_can_only_be_backed_out(members: Members) -> None:
    await members.mqsc("ALTER QLOCAL(OWN) MAXDEPTH(1)")
    program = await members.connect("QM1")
    shared, own = await program.open("Q", ALL), await program.open("OWN", ALL)
    await shared.put(b"1", options=PUT)
    await own.put(b"2", options=PUT)
    await own.put(b"3", options=PUT | MQPMO.ASYNC_RESPONSE)
    with fails(MQRC.BACKED_OUT):
        await program.commit()
    assert await drain(program, "Q") == await drain(program, "OWN") == []


async def test_the_rows_of_units_that_are_over_go_when_the_member_leaves(members: Members) -> None:
    program = await members.connect("QM1")
    shared = await program.open("Q", ALL)
    for _ in range(3):
        await shared.put(b"1", options=PUT)
        await program.commit()
    await members.stop("QM1")
    assert await members.group.value("SELECT count(*) FROM unit_of_work") == 0
    await drain(await members.connect("QM2"), "Q")


async def test_units_that_are_committed_together_are_two_statements_the_first_and_all_that_gather(
    members: Members,
) -> None:
    source = await (await members.connect("QM1")).open("Q", ALL)
    await source.put_many([b"%d" % number for number in range(20)], PERSISTENT)
    programs = [await members.connect("QM1") for _ in range(20)]
    for program in programs:
        await (await program.open("Q", ALL)).get(options=MQGMO.SYNCPOINT)
    figures = members.member("QM1").database.figures
    before = figures.transactions, figures.flushes
    await asyncio.gather(*(program.commit() for program in programs))
    assert (figures.transactions - before[0], figures.flushes - before[1]) == (2, 0)
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0
