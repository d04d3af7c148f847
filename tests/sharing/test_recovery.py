"""What a failed member has left: exactly one peer recovers it, in order, whoever fails meanwhile (queue-sharing 7)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import uuid4

import asyncpg
import pytest

from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, GetMessageOptions, MessageDescriptor
from broker.sharing.members import recovery
from broker.sharing.members.takeover import Takeover
from tests.conformance.expect import ALL, fails
from tests.sharing.members import Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Queue
    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

PERSISTENT = MessageDescriptor(persistence=1)
LOCK = MQGMO.BROWSE_FIRST | MQGMO.LOCK


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group, 3) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        group.forgive("units of work")  # those that a member asks for at its next start, which here never comes
        yield members


async def opened(members: Members, name: str) -> Queue:
    return await (await members.connect(name)).open("Q", ALL)


async def all_messages(queue: Queue) -> list[tuple[bytes, int]]:
    """Return what can be got now, with the backout counts."""
    return [(message.data, message.md.backout_count) for message in await queue.get_many(100)]


async def state_of(members: Members, name: str) -> str:
    state: str = await members.group.value("SELECT state FROM member WHERE name = $1", name)
    return state


async def session_of(members: Members, name: str, application_name: str = "") -> asyncpg.Connection:
    """A session as a member has them, on a line that stays when that of the member is cut."""
    epoch = members.member(name).database.epoch
    own = {"evermq.member": name, "evermq.epoch": str(epoch), "evermq.lane": "100"}
    application_name = application_name or f"{members.group.name}/{name}/{epoch}/calls"
    return await members.group.session(application_name=application_name, **own)


def lines(caplog: pytest.LogCaptureFixture, code: str) -> list[str]:
    """The messages with this code, without who says so."""
    return [record.message for record in caplog.records if record.message.startswith(code)]


async def test_s7_1_what_a_dead_member_held_is_there_again_and_what_it_had_not_committed_is_gone(
    members: Members,
) -> None:
    at_1, at_2 = await opened(members, "QM1"), await opened(members, "QM2")
    await at_1.put(b"got in flight", PERSISTENT)
    await at_1.put(b"locked", PERSISTENT)
    await at_2.get(options=MQGMO.SYNCPOINT)
    await at_2.get(options=LOCK)
    await at_2.put(b"committed", PERSISTENT)
    await at_2.put(b"put in flight", PERSISTENT, MQPMO.SYNCPOINT)
    await members.fail("QM2")
    assert await state_of(members, "QM2") == "INACTIVE"
    assert await all_messages(at_1) == [(b"got in flight", 1), (b"locked", 0), (b"committed", 0)]


async def test_s7_2_a_third_member_goes_on_where_the_recovering_peer_has_died(members: Members) -> None:
    for number in range(6):
        program = await opened(members, "QM3")
        await program.put(b"%d" % number, PERSISTENT)
        await program.get(options=MQGMO.SYNCPOINT)
        await program.put(b"never", PERSISTENT, MQPMO.SYNCPOINT)
    original, half_way = recovery._step, asyncio.Event()
    begun: list[str] = []

    async def stands_still(claim: recovery.Claim, transact: recovery.Transact) -> recovery.Recovered:
        if claim.member == "QM3" and claim.by in begun[:1]:
            await transact(lambda session: session.fetchval(recovery.STEP, *claim.arguments, 2))
            half_way.set()
            await asyncio.Event().wait()
        return await original(claim, transact)

    async def recorded(claim: recovery.Claim, transact: recovery.Transact) -> recovery.Recovered:
        if claim.member == "QM3" and not claim.own:
            begun.append(claim.by)
        return await stands_still(claim, transact)

    with patch.object(recovery, "_step", recorded):
        await members.crash("QM3")
        await members.group.rows("UPDATE member SET lease_until = '-infinity' WHERE name = 'QM3'")
        for name in ("QM1", "QM2"):
            members.member(name).membership.takeover.wake()
        await asyncio.wait_for(half_way.wait(), 60)
        assert await members.group.value("SELECT count(*) FROM unit_of_work WHERE state = 'ACTIVE'") == 4
        recoverer, third = begun[0], {"QM1": "QM2", "QM2": "QM1"}[begun[0]]
        assert await members.group.value("SELECT recoverer FROM member WHERE name = 'QM3'") == recoverer
        await members.fail(recoverer)
        await members.end_lease("QM3")
    assert await state_of(members, "QM3") == "INACTIVE"
    assert await all_messages(await opened(members, third)) == [(b"%d" % number, 1) for number in range(6)]


async def test_s7_3_of_two_members_that_see_it_at_once_exactly_one_recovers(
    members: Members, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    await (await opened(members, "QM3")).put(b"in flight", PERSISTENT, MQPMO.SYNCPOINT)
    caplog.clear()
    await members.crash("QM3")
    recover = Takeover._recover
    seen: set[Takeover] = set()
    both = asyncio.Event()

    async def recover_when_both_have_seen_it(self: Takeover, *failed: Any) -> None:
        seen.add(self)
        if len(seen) == 2:
            both.set()
        await both.wait()
        await recover(self, *failed)

    monkeypatch.setattr(Takeover, "_recover", recover_when_both_have_seen_it)
    await members.group.rows("UPDATE member SET lease_until = '-infinity' WHERE name = 'QM3'")
    await asyncio.gather(*(members.member(name).membership.takeover.look() for name in ("QM1", "QM2")))
    assert len(set(lines(caplog, "CSQE008I"))) == 2  # their own watch may have seen it too
    for code in ("CSQE011I", "CSQE013I", "CSQE012I", "CSQE014I"):
        assert len(lines(caplog, code)) == 1, code


async def test_a_member_alone_is_recovered_by_the_next_that_joins(members: Members) -> None:
    await (await opened(members, "QM1")).put(b"in flight", PERSISTENT, MQPMO.SYNCPOINT)
    for name in ("QM2", "QM3"):
        await members.stop(name)
    await members.crash("QM1")
    await members.end_lease("QM1")
    assert await state_of(members, "QM1") == "ACTIVE"
    await members.start("QM2")
    await members.end_lease("QM1")
    assert await state_of(members, "QM1") == "INACTIVE"
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


async def test_an_owner_that_is_back_finishes_itself_and_stops_the_peer_that_was_at_it(members: Members) -> None:
    program = await opened(members, "QM3")
    await program.put(b"got in flight", PERSISTENT)
    await program.get(options=MQGMO.SYNCPOINT)
    await members.crash("QM3")
    await members.group.rows(
        "UPDATE member SET state = 'RECOVERING', recoverer = 'QM2', epoch = epoch + 1 WHERE name = 'QM3'"
    )
    stale = await members.group.value("SELECT epoch FROM member WHERE name = 'QM3'")
    await members.start("QM3")
    assert await all_messages(await opened(members, "QM3")) == [(b"got in flight", 1)]
    await (await opened(members, "QM3")).put(b"of the new life", PERSISTENT, MQPMO.SYNCPOINT)
    epoch = members.member("QM2").database.epoch
    session = await members.group.session()
    with pytest.raises(asyncpg.PostgresError, match="is over"):
        await session.fetchrow("SELECT * FROM recover('QM2', $1, 'QM3', $2, 10, 100)", epoch, stale)
    with pytest.raises(asyncpg.PostgresError, match="is over"):
        await session.fetchval("SELECT end_recovery('QM2', $1, 'QM3', $2, 10)", epoch, stale)
    await session.close()
    assert await state_of(members, "QM3") == "ACTIVE"
    assert await members.group.value("SELECT count(*) FROM unit_of_work WHERE state = 'ACTIVE'") == 1


async def test_a_member_stays_in_the_group_when_the_owner_of_what_it_recovers_is_back(members: Members) -> None:
    original, database, membership = recovery._step, members.member("QM1").database, members.member("QM1").membership
    await members.group.rows(
        "INSERT INTO member (name, epoch, state, lease_until, instance) VALUES ('QM9', 1, 'ACTIVE', '-infinity', $1)",
        uuid4(),
    )

    async def owner_is_back(claim: recovery.Claim, transact: recovery.Transact) -> recovery.Recovered:
        if claim.by == "QM1":
            await members.group.rows(
                "UPDATE member SET epoch = epoch + 1, state = 'ACTIVE', recoverer = NULL WHERE name = 'QM9'"
            )
        return await original(claim, transact)

    epoch = database.epoch
    with patch.object(recovery, "_step", owner_is_back), fails(MQRC.CF_NOT_AVAILABLE):
        await membership.takeover.look()
    assert (membership.state, database.epoch) == ("joined", epoch)
    await members.group.rows("DELETE FROM member WHERE name = 'QM9'")


async def test_trap_9_what_stands_between_its_fence_and_its_insert_is_not_written_after_a_takeover(
    members: Members,
) -> None:
    between = await session_of(members, "QM2")
    await between.execute("BEGIN; SELECT enter(2)")  # and here the member is stopped
    await members.fail("QM2")
    assert await state_of(members, "QM2") == "INACTIVE"
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await between.execute("INSERT INTO queue VALUES ('LATE'); COMMIT")
    assert await members.group.value("SELECT count(*) FROM queue WHERE name = 'LATE'") == 0


async def test_trap_9_a_takeover_waits_for_a_session_that_it_cannot_end(members: Members) -> None:
    between = await session_of(members, "QM2", "that of another user")
    await between.execute("BEGIN; SELECT enter(2)")
    await members.crash("QM2")
    await members.group.rows("UPDATE member SET lease_until = '-infinity' WHERE name = 'QM2'")
    with fails(MQRC.CF_STRUC_IN_USE):
        await members.member("QM1").membership.takeover.look()
    assert await state_of(members, "QM2") == "ACTIVE"
    await between.execute("INSERT INTO queue VALUES ('IN TIME'); COMMIT")
    await members.end_lease("QM2")
    assert await state_of(members, "QM2") == "INACTIVE"
    with pytest.raises(asyncpg.PostgresError, match="is over"):
        await between.execute("BEGIN; SELECT enter(4)")
    await between.close()


async def test_a_message_got_outside_syncpoint_is_its_getters_whatever_becomes_of_the_member(members: Members) -> None:
    at_1, at_2 = await opened(members, "QM1"), await opened(members, "QM2")
    await at_1.put(b"delivered", PERSISTENT)
    assert (await at_2.get()).data == b"delivered"
    await members.fail("QM2")
    with fails(MQRC.NO_MSG_AVAILABLE):
        await at_1.get()
    assert await members.group.value("SELECT count(*) FROM all_messages") == 0


async def test_exclusive_input_of_a_dead_member_ends_with_its_recovery(members: Members) -> None:
    at_2, at_1 = await members.connect("QM2"), await members.connect("QM1")
    await at_2.open("Q", MQOO.INPUT_EXCLUSIVE)
    await members.crash("QM2")
    with fails(MQRC.OBJECT_IN_USE):
        await at_1.open("Q", MQOO.INPUT_SHARED)
    await members.end_lease("QM2")
    await at_1.open("Q", MQOO.INPUT_SHARED)


async def test_a_wait_at_a_peer_is_served_by_what_a_dead_member_had_got(members: Members) -> None:
    at_1, at_2 = await opened(members, "QM1"), await opened(members, "QM2")
    await at_1.put(b"back", PERSISTENT)
    await at_2.get(options=MQGMO.SYNCPOINT)
    waits = asyncio.ensure_future(at_1.get(options=GetMessageOptions(options=MQGMO.WAIT, wait_interval=60000)))
    await members.fail("QM2")
    assert (await asyncio.wait_for(waits, 60)).data == b"back"
