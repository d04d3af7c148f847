"""DISPLAY THREAD and RESOLVE INDOUBT: units of work whose outcome is not known here, or whose member is gone
(queue-sharing 4).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from broker.mqi import MQPMO, MQRC, MessageDescriptor
from tests.conformance.expect import ALL, fails
from tests.sharing.members import Members
from tests.sharing.test_mixed_units import BACKED_OUT, COMMITTED, open_unit, outcomes_of
from tests.sharing.test_outcomes import Commit
from tests.sharing.test_units import drain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

PERSISTENT = MessageDescriptor(persistence=1)
DISPLAY = "DISPLAY THREAD(*) TYPE(INDOUBT)"


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)")
        yield members


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    with patch("broker.sharing.database.database.SETTLE_SECONDS", 0.0):
        yield


async def replies(members: Members, text: str, name: str = "QM1") -> list[str]:
    async with members[name].connect("runmqsc") as connection:
        return [reply.text for reply in await connection.mqsc(text)]


async def in_doubt(members: Members) -> str:
    """Leave a unit of QM1 in doubt, with its database away; its id."""
    program = await members.connect("QM1")
    await open_unit(program)
    cut = Commit(members.lines["QM1"], lost=False, held=True)
    committing = asyncio.ensure_future(program.commit())
    await cut.seen.wait()
    await members.lines["QM1"].cut()
    with fails(MQRC.OUTCOME_PENDING):
        await committing
    (id,) = members["QM1"].core.branches.by_id
    return str(id)


async def test_a_unit_in_doubt_is_listed_with_what_it_has_on_private_queues(members: Members) -> None:
    id = await in_doubt(members)
    async with members["QM1"].connect("runmqsc") as connection:
        (reply,) = await connection.mqsc(DISPLAY)
    (figures,) = reply.attributes
    assert {**figures, "AGE": 0} == {
        "THREAD": id, "TYPE": "INDOUBT", "SINK": "", "BATCH": 0, "UOWSTATE": "IN_DOUBT", "MSGS": 2, "BYTES": 6,
        "AGE": 0, "QUEUES": "OWN 2", "DATABASE": "", "RESOLVER": "",
    }  # fmt: skip
    await members.lines["QM1"].mend()
    await outcomes_of(members["QM1"]).learn_all()
    await members.clock.rest()
    assert [text[:8] for text in await replies(members, DISPLAY)] == ["AMQ8147E"]
    program = await members.connect("QM1")
    await drain(program, "Q"), await drain(program, "OWN")


@pytest.mark.parametrize("commit", [True, False], ids=["COMMIT", "BACKOUT"])
async def test_an_administrator_may_end_a_private_half_and_is_told_when_the_group_says_otherwise(
    members: Members, commit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    id = await in_doubt(members)
    (text,) = await replies(members, f"RESOLVE INDOUBT('{id}') ACTION({'COMMIT' if commit else 'BACKOUT'})")
    assert text == f"EMQ0005I: EverMQ unit {id} resolved: 1 message removed."
    program = await members.connect("QM1")
    assert await drain(program, "OWN") == (COMMITTED if commit else BACKED_OUT)["OWN"]
    with caplog.at_level(logging.ERROR, "broker.sharing.units.outcomes"):
        await members.lines["QM1"].mend()
        await outcomes_of(members["QM1"]).learn_all()
        await members.clock.rest()
    assert [f"unit={id}" in text for text in caplog.messages if "torn" in text] == [True] * (not commit)
    assert await drain(program, "Q") == COMMITTED["Q"]


async def test_s4_2_the_units_of_a_peer_that_is_gone_are_listed_and_backed_out_by_command(members: Members) -> None:
    program = await members.connect("QM1")
    await (await program.open("Q", ALL)).put(b"in flight", PERSISTENT, MQPMO.SYNCPOINT)
    id = await members.group.value("SELECT id FROM unit_of_work")
    backout = f"RESOLVE INDOUBT('{id}') ACTION(BACKOUT)"
    assert [text[:8] for text in await replies(members, f"{DISPLAY} QMNAME(QM1)")] == ["CSQV435I"]
    assert await replies(members, f"{backout} QMNAME(QM1)") == ["CSQV435I: QMNAME(QM1) is active, command ignored."]
    await members.group.rows(
        "INSERT INTO member (name, state, recoverer, lease_until, instance)"
        " VALUES ('QM9', 'RECOVERING', 'QM8', clock_timestamp() + interval '1 hour', gen_random_uuid())"
    )
    for table in ("unit_of_work", "held"):
        await members.group.rows(f"UPDATE {table} SET member = 'QM9'")  # as if QM1 had been that member
    (shown,) = await replies(members, f"{DISPLAY} QMNAME(QM9)")
    assert (f"THREAD({id})" in shown, "UOWSTATE(ACTIVE)" in shown, "QUEUES(Q 1)" in shown) == (True, True, True), shown
    (refused,) = await replies(members, f"RESOLVE INDOUBT('{id}') ACTION(COMMIT) QMNAME(QM9)")
    assert refused.startswith("AMQ8425E")
    assert await replies(members, f"{backout} QMNAME(QM9)") == [
        f"EMQ0005I: EverMQ unit {id} of QM9 resolved: BACKED_OUT."
    ]
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0
    with fails(MQRC.BACKED_OUT):
        await program.commit()
    members.group.forgive("units of work")  # of QM9, which never asks for it


async def test_a_name_that_is_no_unit_or_no_member_is_told(members: Members) -> None:
    assert [text[:8] for text in await replies(members, f"{DISPLAY} QMNAME(QM9)")] == ["AMQ8147E"]
    unknown = "RESOLVE INDOUBT('00000000-0000-0000-0000-000000000000') ACTION(COMMIT)"
    assert [text[:8] for text in await replies(members, unknown)] == ["AMQ8147E"]
