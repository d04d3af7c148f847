"""No message is held in a unit of work that has no row: the database does not let it be, and where it is all the same
the next recovery of its member frees it (queue-sharing rules 10.3.3 and 10.3.4).
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import UUID

import asyncpg
import pytest

from broker.mqi import MQGMO, MQRC
from broker.mqi.errors import MQError
from broker.sharing.database.errors import OutcomeUnknownError
from tests.conformance.expect import ALL, drained, fails
from tests.sharing.members import Members
from tests.sharing.test_group_command import group_command
from tests.sharing.test_membership import _joined, eager, manager_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.sharing.database import GroupDatabase

pytestmark = pytest.mark.postgres

__all__ = ["eager"]

UNIT = UUID(int=1)

_MEMBER = (
    "INSERT INTO member (name, epoch, state, lease_until, instance) "
    "VALUES ($1, 2, 'ACTIVE', clock_timestamp() - interval '1 minute', gen_random_uuid())"
)
_HELD = (
    "INSERT INTO held (queue, place, persistent, state, kind, unit, member, epoch, msg_id, msg_flags, descriptor, "
    "length, body, put_by) VALUES ('Q', $1, true, 1, $2, $3, $4, 1, 'm', 0, '', 0, '', $4)"
)
_STATES = "SELECT place, state, unit, backout_count FROM all_messages ORDER BY place"


async def leave(group: GroupDatabase, member: str, *kinds: int) -> None:
    """A member has had two lives, the first of which holds messages of these kinds, in a unit that has no row."""
    session = await group.session()
    await session.execute(_MEMBER, member)
    await session.execute("INSERT INTO queue VALUES ('Q')")
    await session.execute("INSERT INTO share VALUES ('Q', $1, 0, $2)", member, sum(kind != 2 for kind in kinds))
    for place, kind in enumerate(kinds, 1):
        await session.execute(_HELD, place, kind, UNIT, member)
    await session.execute("INSERT INTO put_key VALUES ('Q', 'key', $1, 2, 'm', '', NULL)", UNIT)
    await session.close()


# Lives


@pytest.fixture
async def members(group: GroupDatabase) -> AsyncIterator[Members]:
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)\nALTER QMGR CFCONLOS(TOLERATE)")
        yield members


@pytest.mark.parametrize("options", [MQGMO.SYNCPOINT, MQGMO.SYNCPOINT | MQGMO.COMPLETE_MSG])
async def test_a_get_of_unknown_outcome_does_not_lock_its_member_out(members: Members, options: int) -> None:
    """It goes back as soon as there are sessions for it: in the next life there are none before the recovery."""
    program = await members.connect("QM1")
    queue = await program.open("Q", ALL)
    for body in (b"1", b"2"):
        await queue.put(body)
    membership, returns = members.member("QM1").membership, members.member("QM1").returned
    database = members.member("QM1").database
    transact, recover = database.transact_at_once, membership._recover

    async def lose_the_answer(*arguments: Any) -> None:
        await transact(*arguments)
        raise OutcomeUnknownError("the database cannot be reached")

    async def recover_at_last(claimed: int) -> None:
        with suppress(MQError):
            await returns.settle()
        await recover(claimed)

    with (
        patch("broker.sharing.gets.returned.ReturnedMessages._try_later"),
        patch.object(membership, "_recover", recover_at_last),
    ):
        with patch.object(database, "transact_at_once", lose_the_answer), fails(MQRC.CF_NOT_AVAILABLE):
            await queue.get(options=options)
        assert await members.group.value("SELECT count(*) FROM held WHERE kind = 2") == 1
        (before,) = returns.pending
        membership._life_is_over("the test says so")
        await until(lambda: _joined(members, "QM1"))
    assert before not in returns.pending
    assert await drained(await (await members.connect("QM1")).open("Q", ALL)) == [b"1", b"2"]


async def test_calls_have_no_sessions_before_the_recovery_is_over(members: Members) -> None:
    membership, database = members.member("QM1").membership, members.member("QM1").database
    recover, seen = membership._recover, []

    async def look(session: Any) -> Any:
        return await session.fetchval("SELECT 1")

    async def recovered(claimed: int) -> None:
        with fails(MQRC.CF_NOT_AVAILABLE):
            await database.look_again(look)
        await recover(claimed)
        with fails(MQRC.CF_NOT_AVAILABLE):
            await database.transact(look, lambda: None)
        seen.append(claimed)

    with patch.object(membership, "_recover", recovered):
        membership._life_is_over("the test says so")
        await until(lambda: _joined(members, "QM1"))
    assert seen == [database.epoch]
    assert await database.look_again(look) == 1


async def test_a_recovery_at_a_join_is_made_again_where_its_session_is_lost(members: Members) -> None:
    program = await members.connect("QM1")
    queue = await program.open("Q", ALL)
    await queue.put(b"1")
    await queue.get(options=MQGMO.SYNCPOINT)
    membership, line = members.member("QM1").membership, members.lines["QM1"]
    lives, cuts = membership.lives, iter(range(2))

    def cut(piece: bytes) -> bytes | None:
        return None if b"FROM recover(" in piece and next(cuts, None) is not None else piece

    line.to_server = cut
    membership._life_is_over("the test says so")
    await until(lambda: _joined(members, "QM1"))
    assert next(cuts, None) is None
    assert membership.lives == lives + 1
    with fails(MQRC.BACKED_OUT):
        await program.commit()
    assert await drained(queue) == [b"1"]


# Statements


_OF_THE_NEXT_LIFE: dict[str, tuple[str, list[Any]]] = {
    "give_back_unclaimed": ("give_back_unclaimed('QM1', 2, $1, NULL, '{}', $1)", [[UNIT]]),
    "commit_units": ("commit_units('QM1', 2, $1)", [[UNIT]]),
    "back_out_units": ("back_out_units('QM1', 2, $1)", [[UNIT]]),
    "return_deliveries": ("return_deliveries('QM1', 2, $1, 'Q', '{1}', '{0}', '{0}', '{NULL}')", [UNIT]),
}


@pytest.mark.parametrize("name", _OF_THE_NEXT_LIFE)
async def test_a_statement_of_the_next_life_ends_no_unit_of_the_last(group: GroupDatabase, name: str) -> None:
    group.forgive("units of work", "messages not at rest", "keys in units of work")
    await leave(group, "QM1", 2)
    session = await group.session(**{"evermq.member": "QM1", "evermq.epoch": "2"})
    await session.execute("INSERT INTO unit_of_work (id, member, epoch) VALUES ($1, 'QM1', 1)", UNIT)
    statement, arguments = _OF_THE_NEXT_LIFE[name]
    await session.fetchval(f"SELECT {statement}", *arguments)
    await session.close()
    assert await group.rows("SELECT state, epoch FROM unit_of_work") == [{"state": "ACTIVE", "epoch": 1}]
    assert await group.rows(_STATES) == [{"place": 1, "state": 2, "unit": UNIT, "backout_count": 0}]


@pytest.mark.parametrize("state", ["COMMITTED", "BACKED_OUT"])
async def test_a_unit_that_is_decided_does_not_begin_again(group: GroupDatabase, state: str) -> None:
    group.forgive("units of work")
    session = await group.session(**{"evermq.member": "QM1"})
    await session.execute("INSERT INTO unit_of_work (id, member, epoch, state) VALUES ($1, 'QM1', 1, $2)", UNIT, state)
    with pytest.raises(asyncpg.PostgresError, match="is over"):
        await session.execute("SELECT join_unit('QM1', 1, $1, NULL)", UNIT)
    await session.close()


# The check of the database


_WRONG = {
    "its row goes": "DELETE FROM unit_of_work",
    "it is committed without them": "UPDATE unit_of_work SET state = 'COMMITTED'",
    "it is backed out without them": "UPDATE unit_of_work SET state = 'BACKED_OUT'",
}


@pytest.mark.parametrize("wrong", _WRONG)
@pytest.mark.parametrize("kind", [0, 2])
async def test_the_database_lets_no_unit_end_without_its_messages(group: GroupDatabase, wrong: str, kind: int) -> None:
    session = await group.session()
    await session.execute("INSERT INTO queue VALUES ('Q')")
    await session.execute("INSERT INTO unit_of_work (id, member, epoch) VALUES ($1, 'QM1', 1)", UNIT)
    await session.execute(_HELD, 1, kind, UNIT, "QM1")
    with pytest.raises(asyncpg.PostgresError, match=f"unit of work {UNIT} would leave messages of Q behind"):
        await session.execute(_WRONG[wrong])
    await session.execute("BEGIN; " + _WRONG[wrong] + "; DELETE FROM held; COMMIT")
    await session.execute("DELETE FROM unit_of_work")
    await session.close()


# Recovery


_FREED = [{"place": 1, "state": 1, "unit": None, "backout_count": 1}]


async def test_what_is_held_in_no_unit_is_freed_by_the_next_join_of_its_member(
    group: GroupDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    await leave(group, "QM1", 2, 0)
    async with manager_of(group):
        assert await group.rows(_STATES) == _FREED
        assert await group.value("SELECT depth_of('Q')") == 1
        assert await group.rows("SELECT * FROM put_key") == []
        assert await group.value("SELECT epoch FROM member WHERE name = 'QM1'") == 3
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "held in no unit of work" in record.message
    assert "member=QM1 by=QM1 epoch=3 messages=2" in record.message


async def test_and_by_a_peer_where_it_does_not_come_again(
    group: GroupDatabase, eager: None, caplog: pytest.LogCaptureFixture
) -> None:
    await leave(group, "QM9", 2, 0)
    async with manager_of(group):
        await until(lambda: _is(group, "SELECT state = 'INACTIVE' FROM member WHERE name = 'QM9'"))
        assert await group.rows(_STATES) == _FREED
        assert await group.value("SELECT depth_of('Q')") == 1
    assert [each for each in caplog.records if "member=QM9 by=QM1" in each.message and each.levelno == logging.ERROR]


@pytest.mark.parametrize("decided", ["COMMITTED", "BACKED_OUT"])
async def test_what_is_in_a_unit_that_is_over_is_freed_too(group: GroupDatabase, decided: str) -> None:
    group.forgive("units of work")
    await leave(group, "QM1", 2, 0)
    session = await group.session()
    await session.execute(
        "INSERT INTO unit_of_work (id, member, epoch, state) VALUES ($1, 'QM1', 1, $2)", UNIT, decided
    )
    await session.close()
    async with manager_of(group):
        assert await group.rows(_STATES) == _FREED


async def test_much_is_freed(group: GroupDatabase) -> None:
    await leave(group, "QM1", *[2] * 45, *[0] * 45)
    async with manager_of(group):
        assert await group.value("SELECT count(*) FROM message WHERE state = 1") == 45
        assert await group.value("SELECT depth_of('Q')") == 45


async def _is(group: GroupDatabase, question: str) -> bool:
    return bool(await group.value(question))


# The status


async def test_the_status_of_the_group_shows_what_breaks_the_invariants(
    group: GroupDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.forgive("messages not at rest", "keys in units of work", "breaches")
    await leave(group, "QM9", 2, 2, 0)
    session = await group.session()
    await session.execute("UPDATE share SET n = 4")
    await session.close()
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_NAME", group.name)
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_DSN", group.dsn)
    reported = json.loads(group_command("status --json").out)["breaches"]
    assert [(each["what"], each["queue"], each["member"], each["kind"], each["rows"]) for each in reported] == [
        ("depth is 4", "Q", None, None, 1),
        ("held in no active unit of work", "Q", "QM9", 0, 1),
        ("held in no active unit of work", "Q", "QM9", 2, 2),
    ]
    said = group_command("status").out
    assert f"broken on Q: held in no active unit of work, 2 times from 1 on, of QM9 in unit of work {UNIT}" in said
