"""The SQL of a group has versions: a newer member replaces it, an older one goes on (docs/reference/versions.md)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from broker import MQError, QueueSharingGroup
from broker.clock import boottime
from broker.engine.shared_queues import GroupError
from broker.mqi import MQGMO, MQPMO, MQRC
from broker.sharing.database.database import Database
from broker.sharing.database.schema import (
    OLDEST,
    REBUILT,
    NoTablesError,
    SqlSet,
    UnsuitableError,
    WrongVersionError,
    ensure,
    released,
    upgrade,
)
from tests.conformance.expect import ALL, drained
from tests.sharing.members import Members
from tests.sharing.postgres import JUDGE
from tests.sharing.released import VERSIONS, ReleasedGroup, statements
from tests.sharing.test_membership import _joined, eager, manager_of, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import asyncpg

    from tests.sharing.database import GroupDatabase
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

__all__ = ["eager"]

_TABLE = "CREATE TABLE of_version_{0} (); ALTER TABLE member ADD COLUMN of_version_{0} integer"
_SAYS = "CREATE OR REPLACE FUNCTION says() RETURNS integer LANGUAGE sql AS $$ SELECT {} $$;"


def a_release(version: int, oldest: int = OLDEST, retired: tuple[str, ...] = ()) -> SqlSet:
    """A release after this one, in which `says()` says its version."""
    now = released()
    tables = now.tables + tuple(_TABLE.format(n) for n in range(now.version + 1, version + 1))
    return SqlSet(version, oldest, tables, now.functions + _SAYS.format(version), retired, now.rebuilt)


THIS = released().version
NEXT, LATER = a_release(THIS + 1), a_release(THIS + 2)


@pytest.fixture(params=[version for version in VERSIONS if version >= REBUILT])
async def old(request: pytest.FixtureRequest, postgres: Postgres) -> AsyncIterator[ReleasedGroup]:
    """A group that an older release has made."""
    async with ReleasedGroup(postgres, request.param) as group:
        yield group


@pytest.fixture
async def session(group: GroupDatabase) -> AsyncIterator[asyncpg.Connection]:
    session = await group.session()
    yield session
    await session.close()


@contextmanager
def of_release(sql: SqlSet) -> Iterator[None]:
    """Members that are started meanwhile are of this release."""
    with ExitStack() as stack:
        stack.enter_context(patch("broker.sharing.database.database.released", lambda: sql))
        yield


# Functions


async def test_a_newer_member_replaces_the_functions_of_the_group_at_its_join(group: GroupDatabase) -> None:
    with of_release(NEXT):
        async with Members(group):
            assert await group.value("SELECT says()") == NEXT.version
    with of_release(LATER):
        async with Members(group):
            assert await group.value("SELECT says()") == LATER.version
            assert await group.rows("SELECT * FROM properties ORDER BY name") == [
                {"name": "sql", "value": str(LATER.version)},
                {"name": "version", "value": str(OLDEST)},
            ]


async def test_functions_are_never_those_of_an_oldermanager_of(group: GroupDatabase) -> None:
    with of_release(NEXT):
        async with Members(group):
            pass
    async with Members(group) as members:
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        assert await group.value("SELECT says()") == NEXT.version
        assert await group.value("SELECT value FROM properties WHERE name = 'sql'") == str(NEXT.version)


async def test_members_that_come_at_the_same_time_replace_them_once(group: GroupDatabase) -> None:
    sessions = [await group.session() for _ in range(4)]
    await asyncio.gather(*[ensure(session, group.schema, NEXT) for session in sessions])
    for session in sessions:
        await session.close()
    assert await group.value("SELECT says()") == NEXT.version


# Tables


_TABLES = """
SELECT 'column' AS kind, format('%s.%s', relname, attname) AS name,
       format('%s %s %s', format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)) AS what
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE relnamespace = $1::text::regnamespace AND attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p')
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = $1
UNION ALL SELECT 'constraint', conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = $1::text::regnamespace
UNION ALL SELECT 'trigger', tgname, pg_get_triggerdef(t.oid) FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = tgrelid
    WHERE relnamespace = $1::text::regnamespace AND NOT tgisinternal
UNION ALL SELECT 'sequence', sequencename, data_type::text FROM pg_sequences WHERE schemaname = $1
UNION ALL SELECT 'function', oid::regprocedure::text, prosrc FROM pg_proc WHERE pronamespace = $1::text::regnamespace
"""


async def made(group: GroupDatabase) -> set[tuple[str, ...]]:
    rows = await group.rows(_TABLES, group.schema)
    return {tuple(str(value).replace(group.schema, "evermq") for value in row.values()) for row in rows}


async def test_tables_that_were_migrated_are_as_those_that_are_made_new(
    old: ReleasedGroup, group: GroupDatabase
) -> None:
    session = await old.session()
    assert await upgrade(session, old.schema) == (old.version, THIS)
    assert await upgrade(session, old.schema) == (THIS, THIS)
    await session.close()
    assert await made(old) == await made(group)


async def test_every_migration_is_made_once_and_in_order(group: GroupDatabase, session: asyncpg.Connection) -> None:
    await ensure(session, group.schema, NEXT)
    await ensure(session, group.schema, LATER)
    await ensure(session, group.schema, LATER)
    found = await group.rows("SELECT tablename FROM pg_tables WHERE tablename LIKE 'of\\_version\\_%' ORDER BY 1")
    assert [row["tablename"] for row in found] == [f"of_version_{NEXT.version}", f"of_version_{LATER.version}"]


async def test_an_upgrade_that_fails_changes_nothing(group: GroupDatabase, session: asyncpg.Connection) -> None:
    before = await made(group)
    with pytest.raises(Exception, match="nonsense"):
        await upgrade(session, group.schema, replace(NEXT, functions="nonsense"))
    assert await made(group) == before


async def test_it_waits_for_no_call_for_long_and_is_made_again(
    group: GroupDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of all members wait behind it meanwhile."""
    session, rival = await group.session(), await group.session()
    await rival.execute("BEGIN; SELECT * FROM member")
    monkeypatch.setattr("broker.sharing.database.schema._UPGRADE_SETTINGS", "SET LOCAL lock_timeout = '10ms'")
    with pytest.raises(UnsuitableError, match="others hold them"):
        await upgrade(session, group.schema, NEXT)
    done = asyncio.ensure_future(upgrade(session, group.schema, NEXT))
    await asyncio.sleep(0)
    await rival.execute("ROLLBACK")
    assert await done == (THIS, NEXT.version)
    await session.close()
    await rival.close()


# The owner


@pytest.fixture
def user(group: GroupDatabase) -> Iterator[str]:
    """Of the database, who may use the tables of the group, and does not own them."""
    name = f"user_{group.name.lower()}"
    group.server.sql(f"CREATE ROLE {name} LOGIN")
    grants = [
        f"GRANT USAGE ON SCHEMA {group.schema} TO {name}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {group.schema} TO {name}",
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {group.schema} TO {name}",
    ]
    psql = group.server.psql(group.schema)
    for grant in grants:
        psql.rows(grant)
    yield name
    psql.rows(f"DROP OWNED BY {name}")
    psql.close()
    group.server.sql(f"DROP ROLE {name}")


async def test_a_member_that_does_not_own_them_is_refused_until_their_owner_has_upgraded(
    group: GroupDatabase, user: str
) -> None:
    group.dsn = group.server.dsn(user)
    with (
        of_release(NEXT),
        pytest.raises(GroupError, match=f"{user} does not own it.*evermq group upgrade --dsn.*owner, evermq"),
    ):
        async with manager_of(group):
            pass
    assert await group.value("SELECT value FROM properties WHERE name = 'sql'") == str(THIS)  # and nothing is changed
    session = await group.session()
    assert await upgrade(session, group.schema, NEXT) == (THIS, NEXT.version)
    await session.close()
    with of_release(NEXT):
        async with manager_of(group):
            assert await group.value("SELECT version FROM member WHERE name = 'QM1'") == NEXT.version


async def test_what_a_superuser_makes_belongs_to_the_owner_of_the_tables(group: GroupDatabase) -> None:
    session = await group.session(JUDGE)
    await upgrade(session, group.schema, NEXT)
    await session.close()
    assert await group.rows(
        "SELECT DISTINCT pg_get_userbyid(proowner) AS owner FROM pg_proc WHERE pronamespace = $1::text::regnamespace",
        group.schema,
    ) == [{"owner": "evermq"}]


async def test_without_tables_there_is_nothing_to_upgrade(postgres: Postgres, session: asyncpg.Connection) -> None:
    with pytest.raises(NoTablesError, match="evermq group init"):
        await upgrade(session, "evermq_none")


# Older members


async def test_only_a_member_below_the_oldest_version_is_refused_by_name(group: GroupDatabase) -> None:
    with of_release(a_release(THIS + 2, oldest=THIS + 1)):
        async with Members(group):
            pass
    with of_release(NEXT):
        async with Members(group):
            pass
    with pytest.raises(GroupError, match=f"takes members from version {THIS + 1} on; this EverMQ has version {THIS}"):
        async with manager_of(group):
            pass


async def test_a_retired_function_stays_until_no_older_member_is_left(
    group: GroupDatabase, session: asyncpg.Connection
) -> None:
    without = replace(released(), functions=a_release(THIS).functions)
    later = SqlSet(THIS + 1, THIS + 1, NEXT.tables, released().functions, ("says()",))
    is_there = "SELECT to_regprocedure('says()') IS NOT NULL"
    with of_release(later):
        async with Members(group):
            pass  # there is QM1, of the next release
    await session.execute(without.functions)
    await session.execute("UPDATE properties SET value = $1 WHERE name = 'version'", str(OLDEST))
    await session.execute("INSERT INTO member (name, instance, version) VALUES ('OLD', gen_random_uuid(), $1)", THIS)
    await ensure(session, group.schema, later)
    assert await group.value(is_there)  # it may come back
    await session.execute("UPDATE member SET state = 'ACTIVE' WHERE name = 'OLD'")
    await upgrade(session, group.schema, later)
    assert await group.value(is_there)  # it is in the group
    await ensure(session, group.schema, without)  # and may join again
    await session.execute("UPDATE member SET state = 'INACTIVE' WHERE name = 'OLD'")
    await upgrade(session, group.schema, later)
    assert not await group.value(is_there)
    with pytest.raises(WrongVersionError):
        await ensure(session, group.schema, without)


_SIGNATURES = """
SELECT oid::regprocedure::text AS name, pg_get_function_arguments(oid) AS arguments,
       pg_get_function_result(oid) AS result FROM pg_proc WHERE pronamespace = current_schema()::regnamespace ORDER BY 1
"""


async def test_a_released_function_keeps_its_name_and_its_signature(old: ReleasedGroup) -> None:
    session = await old.session()
    before = {row["name"]: tuple(row) for row in await session.fetch(_SIGNATURES)}
    await upgrade(session, old.schema)
    after = {row["name"]: tuple(row) for row in await session.fetch(_SIGNATURES)}
    await session.close()
    assert {name: after.get(name) for name in before} == before


async def test_the_statements_of_older_members_mean_what_they_did(old: ReleasedGroup) -> None:
    """Each takes and returns what it did, of a group that has been upgraded."""
    session = await old.session()
    before = [await _shape(session, statement) for statement in statements(old.version)]
    await upgrade(session, old.schema)
    await session.close()
    session = await old.session()
    after = [await _shape(session, statement) for statement in statements(old.version)]
    await session.close()
    assert after == before


async def _shape(session: asyncpg.Connection, statement: str) -> tuple[object, ...]:
    prepared = await session.prepare(statement)
    return statement, prepared.get_parameters(), [(each.name, each.type) for each in prepared.get_attributes()]


# Three members


class Load:
    """A program that goes from member to member: it puts numbers in units of work, and gets them in others."""

    def __init__(self, members: Members) -> None:
        self.put: list[bytes] = []
        self.got: list[bytes] = []
        self.unknown: list[bytes] = []  # got in a unit of work whose end was not told
        self._members = members
        self._ends = False
        self.steps = dict.fromkeys(("QM1", "QM2", "QM3"), 0)

    async def run(self, name: str) -> None:
        """Work at a member until it ends, and again when it is there; unless it is over."""
        number = 0
        while not self._ends:
            await asyncio.sleep(0)
            if name not in self._members.running:
                continue
            with suppress(MQError):
                async with self._members[name].connect() as program:
                    queue = await program.open("Q", ALL)
                    while not self._ends and name in self._members.running:
                        number += 1
                        await self._step(program, queue, f"{name} {number}".encode())
                        self.steps[name] += 1

    async def _step(self, program: Any, queue: Any, body: bytes) -> None:
        await queue.put(body, options=MQPMO.SYNCPOINT)
        got = []
        try:
            got.append((await queue.get(options=MQGMO.SYNCPOINT)).data)
        except MQError as error:
            if error.reason != MQRC.NO_MSG_AVAILABLE:
                raise
        try:
            await program.commit()
        except MQError:
            self.unknown += got
            raise
        self.put.append(body)
        self.got += got

    async def goes_on(self) -> None:
        """Return when there has been work at all members that run."""
        before = dict(self.steps)
        await until(lambda: _all(self.steps[name] > before[name] + 2 for name in self._members.running))

    def end(self) -> None:
        self._ends = True


async def _all(each: Iterator[bool]) -> bool:
    return all(each)


async def test_a_rolling_upgrade_of_three_members_under_load_loses_nothing(group: GroupDatabase, eager: None) -> None:
    """Members of both releases are in the group, and one of the older joins again after a cut."""
    async with AsyncExitStack() as stack:
        members = await stack.enter_async_context(Members(group, 3))
        await members.mqsc("DEFINE QLOCAL(Q) QSGDISP(SHARED)")
        await members.mqsc("ALTER QMGR CFCONLOS(TOLERATE)", "QM3")
        load = Load(members)
        async with asyncio.TaskGroup() as tasks:
            for name in ("QM1", "QM2", "QM3"):
                tasks.create_task(load.run(name))
            await load.goes_on()
            for name in ("QM1", "QM2", "QM3"):
                await members.stop(name)
                with of_release(NEXT):
                    await members.start(name)
                assert await _versions(group) == {
                    each: NEXT.version if each <= name else THIS for each in ("QM1", "QM2", "QM3")
                }
                await load.goes_on()
                if name == "QM1":
                    await _cut_off(members, "QM3")
                    await load.goes_on()
            load.end()
        async with members["QM1"].connect() as program:
            load.got += await drained(await program.open("Q", ALL))
    assert len(load.got) == len(set(load.got))
    assert set(load.put) <= set(load.got) | set(load.unknown)
    assert len(load.unknown) <= 5  # one a member, each time that it ends


async def _cut_off(members: Members, name: str) -> None:
    """A life of a member ends, and it joins again, while there is load."""
    membership = members.member(name).membership
    lives = membership.lives
    await members.lines[name].cut()
    while membership.state == "joined":
        membership.lease.begin(boottime() - members.lease)  # its last renewal was so long ago
        await asyncio.sleep(0.01)
    await members.group.rows("UPDATE member SET lease_until = '-infinity' WHERE name = $1", name)
    await members.lines[name].mend()
    await until(lambda: _joined(members, name))
    assert membership.lives == lives + 1


async def _versions(group: GroupDatabase) -> dict[str, int]:
    return {row["name"]: row["version"] for row in await group.rows("SELECT name, version FROM member")}


async def test_sessions_say_of_which_version_their_member_is(group: GroupDatabase) -> None:
    session = await Database(QueueSharingGroup(group.name, group.dsn), "QM1").session("start")
    assert await session.fetchval("SELECT current_setting('evermq.version')") == str(THIS)
    await session.close()
