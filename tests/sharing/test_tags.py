"""Connection tags keep programs from running beside one another (queue-sharing 6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from broker import MQError, QueueManager
from broker.client import connect
from broker.config import LimitsConfig, ListenerConfig
from broker.interface.port import answer
from broker.mqi import MQCNO, MQGMO, MQPMO, MQRC, MessageDescriptor
from broker.server import Server
from tests.conformance.expect import ALL, fails
from tests.sharing.members import Members, lose_line
from tests.sharing.unclaimed import hold_up, returns_fail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import asyncpg

    from tests.sharing.database import GroupDatabase

PERSISTENT = MessageDescriptor(persistence=1)
SERIALIZE_QSG = MQCNO.SERIALIZE_CONN_TAG_QSG
SERIALIZE_Q_MGR = MQCNO.SERIALIZE_CONN_TAG_Q_MGR
RESTRICT_QSG = MQCNO.RESTRICT_CONN_TAG_QSG
RESTRICT_Q_MGR = MQCNO.RESTRICT_CONN_TAG_Q_MGR
TAG = b"T"


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, 2) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        yield members


async def refused(members: Members, name: str, options: int, tag: bytes = TAG) -> int:
    """Return the reason why a program cannot connect with a tag; 0 where it can, and then it has disconnected."""
    try:
        async with members[name].connect(options=options, conn_tag=tag):
            return 0
    except MQError as error:
        return error.reason


@pytest.mark.postgres
async def test_s6_1_a_tag_of_the_group_is_refused_to_others_until_its_user_disconnects(members: Members) -> None:
    async with members["QM1"].connect(options=SERIALIZE_QSG, conn_tag=TAG):
        assert await refused(members, "QM2", SERIALIZE_QSG) == MQRC.CONN_TAG_IN_USE
        assert await refused(members, "QM2", SERIALIZE_QSG, b"another") == 0
    assert await refused(members, "QM2", SERIALIZE_QSG) == 0
    async with members["QM1"].connect(options=SERIALIZE_Q_MGR, conn_tag=TAG):
        assert await refused(members, "QM2", SERIALIZE_Q_MGR) == 0
        assert await refused(members, "QM1", SERIALIZE_Q_MGR) == MQRC.CONN_TAG_IN_USE


@pytest.mark.postgres
async def test_s6_2_a_successor_is_refused_until_recovery_is_over_and_gets_the_first_message(members: Members) -> None:
    members.group.forgive("units of work")
    async with members["QM2"].connect() as program:
        queue = await program.open("Q", ALL)
        await queue.put(b"1", PERSISTENT)
        await queue.put(b"2", PERSISTENT)
    first = await members["QM1"].connect(options=SERIALIZE_QSG, conn_tag=TAG).__aenter__()
    assert (await (await first.open("Q", ALL)).get(options=MQGMO.SYNCPOINT)).data == b"1"
    await members.start("QM3")
    await members.crash("QM1")
    assert await refused(members, "QM2", SERIALIZE_QSG) == MQRC.CONN_TAG_IN_USE
    await members.end_lease("QM1")
    async with members["QM2"].connect(options=SERIALIZE_QSG, conn_tag=TAG) as second:
        assert (await (await second.open("Q", ALL)).get()).data == b"1"


@pytest.mark.postgres
async def test_s6_3_restrict_lets_the_same_process_share_a_tag_on_one_member(members: Members) -> None:
    async with members["QM1"].connect(options=RESTRICT_QSG, conn_tag=TAG):
        assert await refused(members, "QM1", RESTRICT_QSG) == 0
        assert await refused(members, "QM2", RESTRICT_QSG) == MQRC.CONN_TAG_IN_USE
        assert await refused(members, "QM2", RESTRICT_Q_MGR) == 0
        assert await refused(members, "QM1", SERIALIZE_QSG) == MQRC.CONN_TAG_IN_USE


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("options", "tag", "reason"),
    [
        (SERIALIZE_QSG | SERIALIZE_Q_MGR, TAG, MQRC.OPTIONS_ERROR),
        (RESTRICT_QSG | SERIALIZE_QSG, TAG, MQRC.OPTIONS_ERROR),
        (MQCNO.RECONNECT, TAG, MQRC.OPTIONS_ERROR),
        (SERIALIZE_QSG, b"", MQRC.CNO_ERROR),
        (SERIALIZE_QSG, bytes(128), MQRC.CNO_ERROR),
        (SERIALIZE_QSG, b"x" * 129, MQRC.CNO_ERROR),
        (SERIALIZE_QSG, b"mQ.mine", MQRC.CNO_ERROR),
        (SERIALIZE_QSG, b"x" * 128, 0),
        (MQCNO.HANDLE_SHARE_BLOCK, b"mQ.mine", 0),
    ],
)
async def test_s6_4_at_most_one_of_the_options_and_no_reserved_tag(
    members: Members, options: int, tag: bytes, reason: int
) -> None:
    assert await refused(members, "QM1", options, tag) == reason


@pytest.mark.postgres
async def test_trap_10_a_tag_is_free_after_the_backout_of_the_connection_that_was_cut(members: Members) -> None:
    member = members.member("QM1")
    async with members["QM2"].connect() as program:
        queue = await program.open("Q", ALL)
        await queue.put(b"1", PERSISTENT)
        await queue.put(b"2", PERSISTENT)
    first = await members["QM1"].connect(options=SERIALIZE_QSG, conn_tag=TAG).__aenter__()
    assert (await (await first.open("Q", ALL)).get(options=MQGMO.SYNCPOINT)).data == b"1"
    go_on, original = asyncio.Event(), member.units.back_out_unit

    async def late(*arguments: object) -> None:
        await go_on.wait()
        await original(*arguments)  # type: ignore[arg-type]

    with patch.object(member.units, "back_out_unit", late):
        lose_line(first)
        await members.clock.rest()
        assert await refused(members, "QM2", SERIALIZE_QSG) == MQRC.CONN_TAG_IN_USE
        row = await members.group.value("SELECT id FROM connection_tag WHERE starts_with(encode(tag, 'hex'), '5400')")
        session = await member.database.session("test")  # whoever lets it go too early
        assert await session.fetchval("SELECT release_tag('QM1', $1, $2)", member.database.epoch, row) is False
        await session.close()
        go_on.set()
        await members.clock.rest()
    async with members["QM2"].connect(options=SERIALIZE_QSG, conn_tag=TAG) as second:
        message = await (await second.open("Q", ALL)).get()
        assert (message.data, message.md.backout_count) == (b"1", 1)


async def cut_while_taking(members: Members, options: MQGMO, rival: asyncpg.Connection) -> None:
    """A program with the tag is cut off at QM1 while two messages are being taken for its get, which `rival` holds up
    until it is closed.
    """
    program = await members["QM1"].connect(options=SERIALIZE_QSG, conn_tag=TAG).__aenter__()
    waiting = asyncio.ensure_future((await program.open("Q", ALL)).get(wait=60, options=options))
    await members.clock.rest()
    async with members["QM2"].connect() as other, other.open("Q", ALL) as there:
        await hold_up(members, waiting, there, rival, b"1", b"2", md=PERSISTENT)
    lose_line(program)
    with fails(MQRC.CONNECTION_BROKEN):
        await waiting


async def got_by_successor(members: Members) -> list[bytes]:
    """Return what the next program with the tag gets first."""
    async with members["QM2"].connect(options=SERIALIZE_QSG, conn_tag=TAG) as second:
        queue = await second.open("Q", ALL)
        return [(await queue.get()).data, (await queue.get()).data]


@pytest.mark.postgres
async def test_trap_10_a_tag_is_free_after_what_is_being_taken_for_a_connection_that_is_cut(
    members: Members, rival: asyncpg.Connection
) -> None:
    await cut_while_taking(members, MQGMO.SYNCPOINT, rival)
    for _ in range(3):
        assert await refused(members, "QM2", SERIALIZE_QSG) == MQRC.CONN_TAG_IN_USE
    await rival.close()
    await members.clock.rest()
    assert await got_by_successor(members) == [b"1", b"2"]


@pytest.mark.postgres
async def test_trap_10_a_tag_is_free_when_what_nobody_took_is_back(members: Members, rival: asyncpg.Connection) -> None:
    """The database fails while a message goes back that was taken for a connection that was cut. (One that is taken
    outside syncpoint is not: its transaction is rolled back.)
    """
    await cut_while_taking(members, MQGMO.SYNCPOINT, rival)
    with returns_fail(members):
        await rival.close()
        await members.clock.rest()
        assert await refused(members, "QM2", SERIALIZE_QSG) == MQRC.CONN_TAG_IN_USE
    while members.member("QM1").returned.pending:
        await members.clock.rest()
    await members.clock.rest()
    assert await got_by_successor(members) == [b"1", b"2"]


@pytest.mark.postgres
async def test_a_unit_of_work_refers_to_the_tag_of_its_connection(members: Members) -> None:
    async with members["QM1"].connect(options=SERIALIZE_QSG, conn_tag=TAG) as program:
        queue = await program.open("Q", ALL)
        await queue.put(b"1", PERSISTENT, MQPMO.SYNCPOINT)
        assert await members.group.value("SELECT tag FROM unit_of_work") == TAG.ljust(128, b"\0")
        await program.commit()
        await queue.get(options=MQGMO.SYNCPOINT)
        units = await members.group.rows("SELECT tag FROM unit_of_work WHERE state = 'ACTIVE'")
        assert units == [{"tag": TAG.ljust(128, b"\0")}]
        await program.backout()
        await queue.get()


@pytest.mark.postgres
async def test_a_tag_cannot_be_used_while_the_database_is_away(members: Members) -> None:
    await members.lines["QM1"].cut()
    assert await refused(members, "QM1", SERIALIZE_QSG) == MQRC.CONN_TAG_NOT_USABLE
    await members.lines["QM1"].mend()
    assert await refused(members, "QM1", SERIALIZE_QSG) == 0


@pytest.mark.postgres
async def test_a_program_whose_tag_was_lost_with_the_group_is_cut_off(members: Members) -> None:
    await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)")
    program = await members["QM1"].connect(options=SERIALIZE_QSG, conn_tag=TAG).__aenter__()
    other = await members.connect("QM1")
    members.member("QM1").membership._life_is_over("a test says so")
    with fails(MQRC.CONNECTION_BROKEN):
        await program.open("Q", ALL)
    await other.open("SYSTEM.DEFAULT.LOCAL.QUEUE", ALL)


async def test_a_queue_manager_in_no_group_serializes_in_itself() -> None:
    async with QueueManager.open(name="QM1") as manager:
        async with manager.connect(options=SERIALIZE_Q_MGR, conn_tag=TAG):
            with fails(MQRC.CONN_TAG_IN_USE):
                await manager.connect(options=RESTRICT_Q_MGR, conn_tag=TAG).__aenter__()
        async with manager.connect(options=RESTRICT_Q_MGR, conn_tag=TAG):
            async with manager.connect(options=RESTRICT_Q_MGR, conn_tag=TAG):
                pass
            with fails(MQRC.CONN_TAG_IN_USE):
                await manager.connect(options=SERIALIZE_Q_MGR, conn_tag=TAG).__aenter__()
        async with manager.connect(options=SERIALIZE_Q_MGR, conn_tag=TAG):
            pass
        with fails(MQRC.OPTIONS_ERROR):
            await manager.connect(options=SERIALIZE_QSG, conn_tag=TAG).__aenter__()


async def test_over_the_wire_the_connections_of_one_line_are_of_one_process() -> None:
    async with (
        QueueManager.open(name="QM1") as manager,
        Server(manager, ListenerConfig(port=0), LimitsConfig()) as server,
    ):
        url = f"mq://{server.addresses[0]}"
        async with connect(url, options=RESTRICT_Q_MGR, conn_tag=TAG) as first:
            async with await first.connect() as second:
                assert await answer(second.port.serialize(int(RESTRICT_Q_MGR), TAG)) == 0
            with fails(MQRC.CONN_TAG_IN_USE):
                await connect(url, options=RESTRICT_Q_MGR, conn_tag=TAG).__aenter__()
        async with connect(url, options=SERIALIZE_Q_MGR, conn_tag=TAG, reconnect=True):
            with fails(MQRC.CONN_TAG_IN_USE):
                await connect(url, options=SERIALIZE_Q_MGR, conn_tag=TAG).__aenter__()
        async with connect(url, options=SERIALIZE_Q_MGR, conn_tag=TAG):
            pass


@pytest.mark.postgres
async def test_a_tag_that_was_taken_and_the_answer_lost_is_free_again(members: Members) -> None:
    members.lines["QM1"].to_client = lambda piece: None if b"SELECT 1" in piece else piece
    assert await refused(members, "QM1", SERIALIZE_QSG) == MQRC.CONN_TAG_NOT_USABLE
    members.lines["QM1"].to_client = None
    async with asyncio.timeout(60):
        while await refused(members, "QM2", SERIALIZE_QSG):
            await members.group.value("SELECT 1")
