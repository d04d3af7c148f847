"""CMDSCOPE: commands for other members of the group (queue-sharing 2)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.sharing.definitions.orders import ANSWER_SECONDS
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.mqi.replies import CommandReply
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, 2) as members:
        yield members
        assert await group.value("SELECT count(*) FROM command") == 0


async def replies(members: Members, text: str, name: str = "QM1") -> list[CommandReply]:
    async with members[name].connect("runmqsc") as connection:
        return await connection.mqsc(text)


async def test_a_command_is_run_by_the_member_that_it_names(members: Members) -> None:
    (reply,) = await replies(members, "DEFINE QLOCAL(Q) DESCR('it''s here') CMDSCOPE(QM2)")
    assert (reply.ok, reply.code, reply.text) == (
        True,
        "AMQ8006I",
        "EMQ0016I: EverMQ QM2 answers:\nAMQ8006I: IBM MQ queue created.",
    )
    (shown,) = await replies(members, "DISPLAY QLOCAL(Q) DESCR", "QM2")
    assert shown.attributes[0]["DESCR"] == "it's here"
    assert [reply.code for reply in await replies(members, "DISPLAY QLOCAL(Q)")] == ["AMQ8147E"]


async def test_each_member_answers_for_itself(members: Members) -> None:
    await members.start("QM3")
    await members.mqsc("DEFINE QLOCAL(Q)", "QM2")
    found = await replies(members, "DEFINE QLOCAL(Q) CMDSCOPE(*)", "QM3")
    assert [(reply.text.split("\n")[0], reply.code) for reply in found] == [
        ("EMQ0016I: EverMQ QM1 answers:", "AMQ8006I"),
        ("EMQ0016I: EverMQ QM2 answers:", "AMQ8150E"),
        ("EMQ0016I: EverMQ QM3 answers:", "AMQ8006I"),
    ]
    found = await replies(members, "DISPLAY QMGR CMDSCOPE(*)")
    assert [reply.attributes[0]["QMNAME"] for reply in found] == ["QM1", "QM2", "QM3"]


@pytest.mark.parametrize("scope", ["' '", "QM1"])
async def test_a_command_for_the_member_that_reads_it_is_run_there(members: Members, scope: str) -> None:
    (reply,) = await replies(members, f"DEFINE QLOCAL(Q) CMDSCOPE({scope})")
    assert (reply.code, reply.text) == ("AMQ8006I", "AMQ8006I: IBM MQ queue created.")


async def test_a_member_that_is_not_there_is_not_asked(members: Members) -> None:
    (reply,) = await replies(members, "DISPLAY QMGR CMDSCOPE(QM9)")
    assert (reply.code, reply.ok) == ("AMQ8147E", False)
    assert "QM9" in reply.text


@pytest.mark.parametrize("disposition", ["GROUP", "SHARED"])
async def test_what_belongs_to_the_group_is_not_for_another_member(members: Members, disposition: str) -> None:
    for scope in ("QM2", "*"):
        (reply,) = await replies(members, f"DEFINE QLOCAL(Q) QSGDISP({disposition}) CMDSCOPE({scope})")
        assert reply.code == "AMQ8425E"
    assert (await replies(members, f"DEFINE QLOCAL(Q) QSGDISP({disposition}) CMDSCOPE(QM1)"))[0].ok


async def test_a_member_that_does_not_answer_in_time_is_named_and_never_runs_the_command(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = members.member("QM2")
    monkeypatch.setattr(member.commands.orders, "notified", lambda: None)
    asking = asyncio.ensure_future(replies(members, "DEFINE QLOCAL(Q) CMDSCOPE(*)"))
    await members.clock.advance(ANSWER_SECONDS + 1)
    first, second = await asking
    assert first.code == "AMQ8006I"
    assert (second.ok, second.text) == (
        False,
        "EMQ0015E: EverMQ QM2 has not answered within 10 seconds: it is not run.",
    )
    monkeypatch.undo()
    member.commands.orders.notified()
    await members.clock.rest()
    assert (await replies(members, "DISPLAY QLOCAL(Q)", "QM2"))[0].code == "AMQ8147E"
