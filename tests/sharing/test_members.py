"""Members in the process of a test: they share a clock with the database, fail, and come back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from broker import QueueManager
from broker.mqi import MQGMO, MQPMO, MQRC, GetMessageOptions
from tests.conformance.expect import ALL, fails, reason_of
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        await members.start("QM2")
        yield members


async def test_the_database_tells_the_time_of_the_virtual_clock(members: Members) -> None:
    before = await members.group.value("SELECT now_seconds()")
    await members.clock.advance(3600.25)
    assert before == members.clock.time() - 3600.25
    assert await members.group.value("SELECT now_seconds()") == members.clock.time()


async def test_time_waits_until_all_have_done_what_the_database_told_them(members: Members) -> None:
    getter, putter = await members.connect("QM1"), await members.connect("QM2")
    queue, other = await getter.open("Q", ALL), await putter.open("Q", ALL)
    waits = asyncio.ensure_future(queue.get(options=GetMessageOptions(options=MQGMO.WAIT, wait_interval=5000)))
    await members.clock.advance(4)
    putting = asyncio.ensure_future(other.put(b"at the last moment"))
    await members.clock.advance(2)
    assert putting.done()
    assert (await waits).data == b"at the last moment"


async def test_a_wait_ends_when_the_virtual_clock_says_so(members: Members) -> None:
    getter = await members.connect("QM1")
    queue = await getter.open("Q", ALL)
    waits = asyncio.ensure_future(queue.get(options=GetMessageOptions(options=MQGMO.WAIT, wait_interval=5000)))
    await members.clock.advance(4.9)
    assert not waits.done()
    await members.clock.advance(0.1)
    with fails(MQRC.NO_MSG_AVAILABLE):
        await waits


async def test_a_member_that_has_crashed_writes_nothing_any_more_and_starts_on_what_it_had(members: Members) -> None:
    await members.mqsc("DEFINE QLOCAL(OWN) DEFPSIST(YES)", "QM2")
    connection = await members.connect("QM2")
    queue, own = await connection.open("Q", ALL), await connection.open("OWN", ALL)
    await queue.put(b"shared")
    await own.put(b"private")
    await members.crash("QM2")
    assert members.running == ["QM1"]
    assert await reason_of(queue.put(b"of a dead program")) != MQRC.NONE
    await members.start("QM2")
    again = await members.connect("QM2")
    assert (await (await again.open("OWN", ALL)).get()).data == b"private"
    assert (await (await again.open("Q", ALL)).get()).data == b"shared"
    await members.clock.rest()  # its row goes after the answer
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


async def test_display_group_shows_the_members_to_any_of_them(members: Members) -> None:
    await members.start("QM3")
    await members.stop("QM3")
    program = await members.connect("QM1")
    await (await program.open("Q", ALL)).put(b"in a unit of work", options=MQPMO.SYNCPOINT)
    (reply,) = await members.mqsc("DISPLAY GROUP", "QM2")
    first, second, third = reply.attributes
    assert reply.code == "EMQ0018I"
    assert (first["QMNAME"], first["QSGNAME"], first["STATUS"]) == ("QM1", members.group.name, "ACTIVE")
    assert (first["EPOCH"], first["UOWS"], first["RECOVER"]) == (1, 1, "")
    assert first["HANDLES"] == 2  # the agent has one
    assert 0 < int(first["LEASE"]) <= members.lease
    assert first["ADDRESS"] == await members.group.value("SELECT address FROM member WHERE name = 'QM1'")
    started = await members.group.value("SELECT started FROM member WHERE name = 'QM1'")
    assert f"{first['STARTDA']} {first['STARTTI']}" == started.strftime("%Y-%m-%d %H.%M.%S")
    assert (second["QMNAME"], second["STATUS"], second["UOWS"]) == ("QM2", "ACTIVE", 0)
    assert (third["QMNAME"], third["STATUS"], third["LEASE"]) == ("QM3", "INACTIVE", 0)
    (reply,) = await members.mqsc("DISPLAY GROUP WHERE(UOWS GT 0) EPOCH")
    assert reply.attributes == ({"QMNAME": "QM1", "EPOCH": 1, "UOWS": 1},)
    await program.backout()


async def test_display_group_tells_of_a_member_that_has_failed(members: Members) -> None:
    with patch("broker.sharing.members.takeover.Takeover._recover"):
        await members.group.rows(
            "INSERT INTO member (name, state, epoch, lease_until, instance) "
            "VALUES ('QM9', 'ACTIVE', 3, clock_timestamp(), gen_random_uuid())"
        )
        (reply,) = await members.mqsc("DISPLAY GROUP WHERE(STATUS EQ FAILED) STATUS")
    assert reply.attributes == ({"QMNAME": "QM9", "STATUS": "FAILED"},)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("DISPLAY GROUP(QM1)", "AMQ8405I"),
        ("DISPLAY GROUP TYPE(X)", "AMQ8405I"),
        ("DISPLAY GROUP WHERE(STATUS EQ NONE)", "AMQ8147E"),
        ("DISPLAY GROUP CMDSCOPE(*)", "AMQ8425E"),
    ],
)
async def test_display_group_says_what_is_wrong(members: Members, text: str, code: str) -> None:
    async with members["QM1"].connect() as connection:
        (reply,) = await connection.mqsc(text)
    assert reply.code == code


async def test_display_group_without_a_group_says_so() -> None:
    async with QueueManager.open(name="QM1") as manager, manager.connect() as connection:
        (reply,) = await connection.mqsc("DISPLAY GROUP")
    assert (reply.code, reply.ok) == ("AMQ8425E", False)
