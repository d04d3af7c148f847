"""No message is left in a unit of work that has no row: nobody would free it, and no recovery of its member would end
(queue-sharing rules 10.3.3 and 10.3.4).
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

from broker.engine.shared_queues import GroupError
from broker.mqi import MQGMO, MQRC
from broker.mqi.errors import MQError
from broker.sharing.database.errors import OutcomeUnknownError
from tests.conformance.expect import ALL, drained, fails
from tests.sharing.members import Members
from tests.sharing.released import ReleasedGroup
from tests.sharing.test_group_command import group_command
from tests.sharing.test_membership import _joined, eager, manager_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.sharing.database import GroupDatabase
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

__all__ = ["eager"]

UNIT, TOKEN = UUID(int=1), UUID(int=2)

_MEMBER = (
    "INSERT INTO member (name, epoch, state, lease_until, instance) "
    "VALUES ($1, 2, 'ACTIVE', clock_timestamp() - interval '1 minute', gen_random_uuid())"
)
_MESSAGE = (
    "INSERT INTO message (queue, place, persistent, state, unit, token, member, epoch, msg_id, descriptor, length, "
    "body, put_by) VALUES ('Q', $1, true, $2, $3, $4, $5, 1, 'm', '', 0, '', $5)"
)
_STATES = "SELECT place, state, unit, backout_count FROM message ORDER BY place"


async def leave(group: GroupDatabase, member: str, *states: int, unit: UUID | None = UNIT) -> None:
    """A member has had two lives, the first of which has left messages in these states, in a unit that has no row."""
    session = await group.session()
    await session.execute(_MEMBER, member)
    await session.execute("INSERT INTO queue VALUES ('Q', $1)", sum(state != 2 for state in states))
    for place, state in enumerate(states, 1):
        await session.execute(_MESSAGE, place, state, unit, TOKEN if state == 2 else None, member)
    await session.execute("INSERT INTO put_key VALUES ('Q', 'key', $1, 2, 'm', '', NULL)", unit)
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
        assert await members.group.value("SELECT count(*) FROM message WHERE state = 2 AND unit IS NOT NULL") == 1
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
        return None if b"recover_units" in piece and next(cuts, None) is not None else piece

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
    "return_tokens": ("return_tokens('QM1', 2, $2, $1, NULL, NULL)", [[UNIT], [TOKEN]]),
    "commit_unit": ("commit_unit($1)", [UNIT]),
    "commit_unit by itself": ("commit_unit(0, 2, $1)", [UNIT]),
    "commit_deliveries": ("commit_deliveries(0, 2, $1)", [[UNIT]]),
    "return_deliveries": ("return_deliveries(0, 2, $1, 'Q', '{1}', '{0}', '{0}', '{NULL}')", [UNIT]),
}


@pytest.mark.parametrize("name", _OF_THE_NEXT_LIFE)
async def test_a_statement_of_the_next_life_ends_no_unit_of_the_last(group: GroupDatabase, name: str) -> None:
    group.forgive("units of work", "messages not at rest", "keys in units of work", "messages in no unit of work")
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
    session = await group.session()
    await session.execute("INSERT INTO unit_of_work (id, member, epoch, state) VALUES ($1, 'QM1', 1, $2)", UNIT, state)
    with pytest.raises(asyncpg.PostgresError, match="is over"):
        await session.execute("SELECT begin_unit('QM1', 1, $1, NULL)", UNIT)
    await session.close()


# The check of the database


_WRONG = {
    "its row goes": "DELETE FROM unit_of_work",
    "it is committed without them": "UPDATE unit_of_work SET state = 'COMMITTED'",
    "it is backed out without them": "UPDATE unit_of_work SET state = 'BACKED_OUT'",
}


@pytest.mark.parametrize("wrong", _WRONG)
@pytest.mark.parametrize("state", [0, 2])
async def test_the_database_lets_no_unit_end_without_its_messages(group: GroupDatabase, wrong: str, state: int) -> None:
    session = await group.session()
    await session.execute("INSERT INTO queue VALUES ('Q', $1)", int(state != 2))
    await session.execute("INSERT INTO unit_of_work (id, member, epoch) VALUES ($1, 'QM1', 1)", UNIT)
    await session.execute(_MESSAGE, 1, state, UNIT, None, "QM1")
    with pytest.raises(asyncpg.PostgresError, match=f"unit of work {UNIT} would leave messages of Q behind"):
        await session.execute(_WRONG[wrong])
    await session.execute("BEGIN; " + _WRONG[wrong] + "; DELETE FROM message; UPDATE queue SET depth = 0; COMMIT")
    await session.execute("DELETE FROM unit_of_work")
    await session.close()


# Recovery


@pytest.fixture
async def old(postgres: Postgres) -> AsyncIterator[ReleasedGroup]:
    async with ReleasedGroup(postgres, 1) as group:
        yield group


_FREED = [{"place": 1, "state": 1, "unit": None, "backout_count": 1}]


async def test_what_a_member_of_the_first_release_has_left_so_is_freed_by_its_first_join(old: ReleasedGroup) -> None:
    """On the tables that the release has made, whose functions do not know it."""
    await leave(old, "QM1", 2, 0)
    async with manager_of(old):
        assert await old.rows(_STATES) == _FREED
        assert await old.value("SELECT depth FROM queue WHERE name = 'Q'") == 1
        assert await old.rows("SELECT * FROM put_key") == []
        assert await old.value("SELECT epoch FROM member WHERE name = 'QM1'") == 3


async def test_what_a_peer_of_the_first_release_has_left_so_is_freed_by_the_first_join_of_another(
    old: ReleasedGroup, eager: None
) -> None:
    await leave(old, "QM9", 2, 0)
    async with manager_of(old):
        await until(lambda: _is(old, "SELECT state = 'INACTIVE' FROM member WHERE name = 'QM9'"))
        assert await old.rows(_STATES) == _FREED
        assert await old.value("SELECT depth FROM queue WHERE name = 'Q'") == 1


@pytest.mark.parametrize("decided", ["COMMITTED", "BACKED_OUT"])
async def test_what_is_in_a_unit_that_is_over_is_freed_too(old: ReleasedGroup, decided: str) -> None:
    await leave(old, "QM1", 2, 0)
    session = await old.session()
    await session.execute(
        "INSERT INTO unit_of_work (id, member, epoch, state) VALUES ($1, 'QM1', 1, $2)", UNIT, decided
    )
    await session.close()
    async with manager_of(old):
        assert await old.rows(_STATES) == _FREED


async def test_more_than_a_transaction_frees_is_freed(group: GroupDatabase) -> None:
    await leave(group, "QM1", *[2] * 45, *[0] * 45)
    async with manager_of(group):
        assert await group.value("SELECT count(*) FROM message WHERE state = 1") == 45
        assert await group.value("SELECT depth FROM queue WHERE name = 'Q'") == 45
    session = await group.session()
    await session.execute("DELETE FROM message; UPDATE queue SET depth = 0")
    await session.close()


async def _is(group: GroupDatabase, question: str) -> bool:
    return bool(await group.value(question))


HELD = "1 message of Q in state 4"
"""No recovery knows what to do with it."""


async def test_a_recovery_that_makes_no_progress_tells_what_holds_it(
    group: GroupDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    group.forgive("messages not at rest", "keys in units of work")
    await leave(group, "QM1", 4, unit=None)
    with pytest.raises(GroupError, match=HELD):
        async with manager_of(group):
            pass
    (record,) = [each for each in caplog.records if "no progress" in each.message]
    assert record.levelno == logging.ERROR
    assert HELD in record.message
    assert "member=QM1" in record.message


async def test_of_a_peer_too(group: GroupDatabase, eager: None, caplog: pytest.LogCaptureFixture) -> None:
    group.forgive("messages not at rest", "keys in units of work")
    await leave(group, "QM9", 4, unit=None)
    async with manager_of(group):
        await until(lambda: _said(caplog, HELD))
        assert await group.value("SELECT state FROM member WHERE name = 'QM9'") == "RECOVERING"


async def _said(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return any(each.levelno == logging.ERROR and text in each.message for each in caplog.records)


# The status


async def test_the_status_of_the_group_shows_them(group: GroupDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    group.forgive("messages not at rest", "keys in units of work", "messages in no unit of work")
    await leave(group, "QM9", 2, 2, 0)
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_NAME", group.name)
    monkeypatch.setenv("EVERMQ_QUEUE_SHARING_GROUP_DSN", group.dsn)
    reported = json.loads(group_command("status --json").out)["stranded"]
    assert [(each["queue"], each["member"], each["state"], each["messages"]) for each in reported] == [
        ("Q", "QM9", 0, 1),
        ("Q", "QM9", 2, 2),
    ]
    assert f"2 messages of Q are in unit of work {UNIT} of QM9, which is over" in group_command("status").out
