"""Units of work on shared and private queues are all or nothing, wherever they break off (queue-sharing 4 and 10.3)."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager, QueueSharingGroup
from broker.core.queues.unit import IN_DOUBT
from broker.mqi import MQGMO, MQPMO, MQRC, MessageDescriptor
from broker.sharing.members.group_member import GroupMember
from tests.conformance.expect import ALL, fails
from tests.sharing.members import Members
from tests.sharing.steps import Break, Step
from tests.sharing.test_units import drain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker import Connection
    from broker.sharing.units.outcomes import Outcomes
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

PERSISTENT = MessageDescriptor(persistence=1)
COMMITTED = {"Q": [(b"new", 0)], "OWN": [(b"new", 0)]}
BACKED_OUT = {"Q": [(b"old", 1)], "OWN": [(b"old", 1)]}


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nDEFINE QLOCAL(OWN)")
        yield members


async def open_unit(program: Connection) -> None:
    """Get one message and put one, under syncpoint, on each of both queues."""
    for q_name in ("Q", "OWN"):
        queue = await program.open(q_name, ALL)
        await queue.put(b"old", PERSISTENT)
        await queue.get(options=MQGMO.SYNCPOINT)
        await queue.put(b"new", PERSISTENT, MQPMO.SYNCPOINT)


def outcome_of(step: Step) -> dict[str, list[tuple[bytes, int]]]:
    """Return what both queues hold when the member has crashed at a step."""
    return COMMITTED if step.committed else BACKED_OUT


def outcomes_of(manager: QueueManager) -> Outcomes:
    assert isinstance(manager.sharing, GroupMember)
    return manager.sharing.units.outcomes


async def found(program: Connection) -> dict[str, list[tuple[bytes, int]]]:
    return {q_name: await drain(program, q_name) for q_name in ("Q", "OWN")}


async def test_s4_1_a_member_that_is_killed_before_the_commit_leaves_neither_half(members: Members) -> None:
    program = await members.connect("QM1")
    shared, own = await program.open("Q", ALL), await program.open("OWN", ALL)
    await shared.put(b"shared", PERSISTENT, MQPMO.SYNCPOINT)
    await own.put(b"private", PERSISTENT, MQPMO.SYNCPOINT)
    await members.crash("QM1")
    await members.start("QM1")
    assert await found(await members.connect("QM1")) == {"Q": [], "OWN": []}
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


@pytest.mark.parametrize("step", Step)
async def test_s10_2_a_member_that_crashes_between_two_rules_ends_both_halves_alike(
    members: Members, step: Step
) -> None:
    program = await members.connect("QM1")
    await open_unit(program)
    at = Break(members["QM1"], step)
    committing = asyncio.ensure_future(program.commit())
    await at.crash(members, "QM1")
    await asyncio.gather(committing, return_exceptions=True)
    await members.start("QM1")
    assert await found(await members.connect("QM1")) == outcome_of(step)
    await members.clock.rest()
    assert members["QM1"].core.branches.by_id == {}


@pytest.mark.parametrize("step", Step)
async def test_s10_2_a_member_that_is_killed_between_two_rules_ends_both_halves_alike(
    group: GroupDatabase, tmp_path: Path, step: Step
) -> None:
    arguments = (group.dsn, group.name, str(tmp_path / "data"), step.name)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.sharing.killed", *arguments)
    assert await asyncio.wait_for(process.wait(), 30) == -signal.SIGKILL
    joined = QueueSharingGroup(group.name, group.dsn)
    async with (
        QueueManager.open(name="QM1", data=tmp_path / "data", group=joined) as manager,
        manager.connect("after") as program,
    ):
        assert await found(program) == outcome_of(step)


async def test_a_half_stays_in_doubt_over_restarts_while_nothing_says_what_became_of_its_unit(
    members: Members,
) -> None:
    program = await members.connect("QM1")
    await open_unit(program)
    at = Break(members["QM1"], Step.DECIDED)
    committing = asyncio.ensure_future(program.commit())
    await at.crash(members, "QM1")
    await asyncio.gather(committing, return_exceptions=True)
    rows = await members.group.rows("SELECT * FROM unit_of_work")
    await members.group.rows("DELETE FROM unit_of_work")  # as where the database was restored from a backup
    for _ in range(2):
        await members.start("QM1")
        (half,) = members["QM1"].core.branches.by_id.values()
        assert half.unit.state == IN_DOUBT
        other = await members.connect("QM1")
        assert await drain(other, "OWN") == []
        await members.stop("QM1")
    (row,) = rows
    await members.group.rows(
        "INSERT INTO unit_of_work (id, member, epoch, state) VALUES ($1, 'QM1', 1, 'COMMITTED')", row["id"]
    )
    await members.start("QM1")
    assert await found(await members.connect("QM1")) == COMMITTED


async def test_what_is_in_doubt_keeps_its_place_its_delay_and_its_key(members: Members) -> None:
    program = await members.connect("QM1")
    own, shared = await program.open("OWN", ALL), await program.open("Q", ALL)
    await own.put(b"1", PERSISTENT, MQPMO.SYNCPOINT)
    await own.put(b"later", PERSISTENT, MQPMO.SYNCPOINT, delay=100)
    await own.put(b"keyed", PERSISTENT, MQPMO.SYNCPOINT, key="K", window=1000)
    await shared.put(b"shared", PERSISTENT, MQPMO.SYNCPOINT)
    other = await members.connect("QM1")
    await (await other.open("OWN", ALL)).put(b"2", PERSISTENT)
    at = Break(members["QM1"], Step.DECIDED)
    committing = asyncio.ensure_future(program.commit())
    await at.crash(members, "QM1")
    await asyncio.gather(committing, return_exceptions=True)
    await members.group.rows("ALTER TABLE unit_of_work RENAME TO hidden")
    await members.group.rows("CREATE VIEW unit_of_work AS SELECT * FROM hidden WHERE false")
    await members.group.rows("GRANT ALL ON unit_of_work TO evermq")
    manager = await members.start("QM1")
    again = await members.connect("QM1")
    queue = await again.open("OWN", ALL)
    assert (await queue.get(options=MQGMO.BROWSE_FIRST)).data == b"2"
    with fails(MQRC.OBJECT_IN_USE):
        await queue.put(b"keyed", PERSISTENT, key="K", window=1000)
    assert manager.core.objects.queues["OWN"].depth == 4
    await members.group.rows("DROP VIEW unit_of_work")
    await members.group.rows("ALTER TABLE hidden RENAME TO unit_of_work")
    await outcomes_of(manager).learn_all()
    await members.clock.rest()
    assert (await queue.put(b"keyed", PERSISTENT, key="K", window=1000)).duplicate
    assert [data for data, _ in await drain(again, "OWN")] == [b"1", b"keyed", b"2"]
    await members.clock.advance(101)
    assert [data for data, _ in await drain(again, "OWN")] == [b"later"]
    await drain(again, "Q")
