"""The SQL of a group: made when its first member joins, and brought up to date by a member that is newer.

It has versions (docs/reference/versions.md). Tables are made by migrations, one after the other; a function is replaced
as a whole, and keeps its name and signature for as long as a member of a release that calls it may join.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import asyncpg

from broker.sharing.members.display_group import ADMINISTRATOR

VERSION: Final = 3
"""Of the SQL of this release: `sql/tables` has its migrations, up to this number, and `sql/functions` its functions.
One higher in the first release that changes any of them.
"""

REBUILT: Final = 3
"""The version whose tables were made anew: a group with older ones is upgraded while no member runs
(`broker.sharing.versions`). `sql/tables` has its tables, and the migrations behind it.
"""

OLDEST: Final = 3
"""The oldest version whose members may join beside those of this release."""

RETIRED: Final[tuple[str, ...]] = ()
"""Functions that no version from `OLDEST` on calls, with the types of their arguments."""

POSTGRES_OLDEST: Final = 150000
"""The oldest PostgreSQL that does: 15."""

ROOMS: Final = (
    "transactions",
    "announcements",
    "depths",
    "holding",
    "members",
    "recovery",
    "tags",
    "definitions",
    "security",
    "structures",
    "units",
    "puts",
    "keys",
    "delays",
    "gets",
    "deliveries",
    "expiry",
    "claims",
    "sinks",
    "triggering",
    "commands",
)
"""The files of functions, in an order in which each finds what it is made of."""

_ATTEMPTS: Final = 20
"""Of an upgrade that the calls of members are in the way of."""

_UPGRADE_SETTINGS: Final = "SET LOCAL lock_timeout = '1s'; SET LOCAL synchronous_commit = 'on'"
"""It does not wait long for a table, since the calls of all members wait behind it."""


_SAME_RIGHTS: Final = """
DO $$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT made.relname AS name, privilege_type AS what, pg_get_userbyid(grantee) AS whom, grantee = 0 AS public
            FROM pg_class AS made, pg_class AS there, aclexplode(there.relacl)
            WHERE made.relnamespace = there.relnamespace AND made.relkind = 'r' AND made.relacl IS NULL
            AND there.oid = 'properties'::regclass AND grantee <> there.relowner
    LOOP
        EXECUTE format('GRANT %s ON %I TO %s', given.what, given.name,
                       CASE WHEN given.public THEN 'PUBLIC' ELSE quote_ident(given.whom) END);
    END LOOP;
END $$
"""
"""Gives those who may use the tables that there were the same rights on those that are new."""


class UnsuitableError(Exception):
    """The database will not do for a group; the text says why, and what to do."""


class WrongVersionError(UnsuitableError):
    """The SQL of the group is of a version that this release cannot work with."""


class NoTablesError(UnsuitableError):
    """The group has no tables yet."""

    def __init__(self, schema: str) -> None:
        super().__init__(f"there are no tables of the group in {schema}: evermq group init")


@dataclass(frozen=True, slots=True)
class SqlSet:
    """The SQL of one release. `tables[0]` makes the tables of version `rebuilt`, and `tables[n]` is the migration to
    version `rebuilt` + n. `retired` goes when no member before version `oldest` is left, which may not join from then
    on.
    """

    version: int
    oldest: int
    tables: tuple[str, ...]
    functions: str
    retired: tuple[str, ...] = ()
    rebuilt: int = 1


@cache
def released() -> SqlSet:
    """The SQL of this release."""
    tables = tuple(_text("tables", str(number)) for number in range(REBUILT, VERSION + 1))
    functions = "\n".join(_text("functions", room) for room in ROOMS)
    return SqlSet(VERSION, OLDEST, tables, functions, RETIRED, REBUILT)


def _text(folder: str, name: str) -> str:
    """A file of `sql`; a version that has changed functions only has no migration."""
    file = files("broker.sharing") / "sql" / folder / f"{name}.sql"
    return file.read_text(encoding="utf-8") if folder == "functions" or file.is_file() else ""


_SETTINGS: Final = (
    "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', "
    "'server_encoding', 'server_version', 'server_version_num')"
)
_DEMANDS: Final = (
    ("fsync", ("on",), "a crash would lose what was acknowledged; set fsync = on"),
    ("full_page_writes", ("on",), "a crash could damage what was acknowledged; set full_page_writes = on"),
    (
        "synchronous_commit",
        ("on", "remote_apply"),
        "a crash would lose what was acknowledged; each session asks for it to be on, so look for what forces it, such "
        "as a pool in between",
    ),
    ("server_encoding", ("UTF8",), "names and headers would not fit in; create a database with ENCODING 'UTF8'"),
)
"""Settings, the values that will do, and why others will not."""


async def check_database(session: asyncpg.Connection, member: str) -> None:
    """Refuse a database that could lose what was acknowledged, or that is not reached as it must be. `member`: what
    the session was told on its way in. Raises UnsuitableError.
    """
    found = dict(await session.fetch(_SETTINGS))
    if int(found["server_version_num"]) < POSTGRES_OLDEST:
        raise UnsuitableError(f"PostgreSQL {found['server_version']} is too old: a group needs 15 or newer")
    for name, good, why in _DEMANDS:
        if found[name] not in good:
            raise UnsuitableError(f"the database has {name}={found[name]}: {why}")
    reported, standby = await session.fetchrow("SELECT current_setting('evermq.member', true), pg_is_in_recovery()")
    if reported != member:
        raise UnsuitableError(
            "the settings of a session do not reach the database: connect to PostgreSQL itself, or to a pool that "
            "gives each client a session of its own"
        )
    if standby:
        raise UnsuitableError(
            "the database is a standby, which takes no changes: name the primary in the dsn, or all hosts and "
            "target_session_attrs=read-write"
        )


async def ensure(session: asyncpg.Connection, schema: str, sql: SqlSet | None = None) -> None:
    """Make the SQL of a group unless it is there, and replace it where it is older and the session's user owns it.
    Members that come at the same time wait for one another. `sql` is that of this release.

    `schema` is made from a checked name (`QueueSharingGroup.schema`). Raises UnsuitableError; WrongVersionError where
    the group takes members of newer releases only, or its tables can only be upgraded while no member runs.
    """
    await _repeat(_Upgrade(session, schema, sql or released()))


async def upgrade(session: asyncpg.Connection, schema: str, sql: SqlSet | None = None) -> tuple[int, int]:
    """Replace the SQL of a group that is there, as its owner; members that have left do not count as members of their
    old release any more. The versions before and after. Raises UnsuitableError, NoTablesError.
    """
    return await _repeat(_Upgrade(session, schema, sql or released(), by_hand=True))


async def _repeat(work: _Upgrade) -> tuple[int, int]:
    for _ in range(_ATTEMPTS):
        try:
            return await work.make()
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            continue
        except asyncpg.InsufficientPrivilegeError as error:
            raise UnsuitableError(
                f"{error}: let the owner of the tables in {work.schema} make them by `evermq group init --dsn DSN` "
                "and grant this user what docs/how-to/queue-sharing.md lists"
            ) from error
    raise UnsuitableError(
        f"the tables in {work.schema} cannot be changed, others hold them: look for a transaction that is open for "
        "long in pg_stat_activity"
    )


class _Upgrade:
    """One group, and the SQL that it is to have. `by_hand`: an administrator says so, and no member joins."""

    def __init__(self, session: asyncpg.Connection, schema: str, sql: SqlSet, *, by_hand: bool = False) -> None:
        self.schema = schema
        self._session = session
        self._sql = sql
        self._by_hand = by_hand

    async def make(self) -> tuple[int, int]:
        """Do all of it, in one transaction: the versions before and after."""
        session, schema = self._session, self.schema
        async with session.transaction():
            await session.execute("SELECT pg_advisory_xact_lock(hashtext($1))", schema)
            if await session.fetchval("SELECT to_regclass($1)", f"{schema}.properties") is None:
                if self._by_hand:
                    raise NoTablesError(schema)
                await make_all(session, schema, self._sql)
                return 0, self._sql.version
            await session.execute(f"SET LOCAL search_path TO {schema}")
            known = dict(await session.fetch("SELECT name, value FROM properties WHERE name IN ('version', 'sql')"))
            oldest = int(known["version"])  # as the first release reads it, which wants this to be 1
            found = int(known.get("sql", 1))
            if found < self._sql.rebuilt:
                await check_rebuilt(session, schema, self._sql)
            if self._sql.version < oldest:
                raise WrongVersionError(
                    f"the SQL in {schema} is of version {found}, and takes members from version {oldest} on; this "
                    f"EverMQ has version {self._sql.version}: install a newer one"
                )
            if found < self._sql.version:
                await become_owner(session, schema, found, self._sql.version)
                await session.execute(_UPGRADE_SETTINGS)
                await self._replace(found)
            if oldest < self._sql.oldest:
                await self._retire()
            return found, max(found, self._sql.version)

    async def _replace(self, found: int) -> None:
        session, sql = self._session, self._sql
        for migration in sql.tables[found - sql.rebuilt + 1 :]:
            await session.execute(migration)
        await session.execute(sql.functions)
        await session.execute(_SAME_RIGHTS)
        await session.execute(
            "INSERT INTO properties VALUES ('sql', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            str(sql.version),
        )

    async def _retire(self) -> None:
        """Let functions go that members before `oldest` call, if there are none any more; who has left may come back,
        unless an administrator says that it will not.
        """
        session, sql = self._session, self._sql
        older = await session.fetchval(
            "SELECT count(*) FROM member WHERE version < $1 AND name <> $2 AND NOT (state = 'INACTIVE' AND $3)",
            sql.oldest, ADMINISTRATOR, self._by_hand,
        )  # fmt: skip
        owns = await session.fetchval(
            "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = 'properties'::regclass"
        )
        if older or not owns:
            return
        for signature in sql.retired:
            await session.execute(f"DROP FUNCTION IF EXISTS {signature}")
        await session.execute("UPDATE properties SET value = $1 WHERE name = 'version'", str(sql.oldest))


async def check_rebuilt(session: asyncpg.Connection, schema: str, sql: SqlSet) -> None:
    """Raise WrongVersionError for the tables of a group that are older than those that were made anew."""
    known = dict(await session.fetch(f"SELECT name, value FROM {schema}.properties"))
    found = int(known.get("sql", 1))
    if found >= sql.rebuilt:
        return
    owner = await session.fetchval(
        "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = $1::text::regclass", f"{schema}.properties"
    )
    command = f"run `evermq group upgrade --dsn DSN` with a DSN of their owner, {owner}"
    if "upgrade" in known:
        raise WrongVersionError(
            f"an upgrade of {schema} is under way: {command} to end it, or with --undo to take it back"
        )
    raise WrongVersionError(
        f"the tables in {schema} are of version {found}, those of this EverMQ of version {sql.version}: end all "
        f"members, and {command}"
    )


async def make_all(session: asyncpg.Connection, schema: str, sql: SqlSet) -> None:
    """Make the tables and functions of a group, in a schema that is made unless it is there. The transaction sees them
    from then on.
    """
    if await session.fetchval("SELECT to_regnamespace($1)", schema) is None:
        await session.execute(f"CREATE SCHEMA {schema}")
    await session.execute(f"SET LOCAL search_path TO {schema}")
    for migration in filter(None, sql.tables):
        await session.execute(migration)
    await session.execute(sql.functions)
    properties = [("version", str(sql.oldest)), ("sql", str(sql.version))]
    await session.executemany("INSERT INTO properties VALUES ($1, $2)", properties)
    await session.execute("INSERT INTO alive DEFAULT VALUES")


async def become_owner(
    session: asyncpg.Connection, schema: str, found: int, wanted: int, how: str = "SET LOCAL ROLE"
) -> None:
    """Give what is made from now on to the owner of the tables, which are of version `found`. Raises UnsuitableError
    for others.
    """
    owner, owns, user, same = await session.fetchrow(
        "SELECT pg_get_userbyid(relowner), pg_has_role(relowner, 'USAGE'), current_user, "
        "pg_get_userbyid(relowner) = current_user FROM pg_class WHERE oid = $1::text::regclass",
        f"{schema}.properties",
    )
    if not owns:
        raise UnsuitableError(
            f"the SQL in {schema} is of version {found}, this EverMQ needs {wanted}, and {user} does not own it: run "
            f"`evermq group upgrade --dsn DSN` with a DSN of its owner, {owner}"
        )
    if not same:
        await session.execute(f"{how} {_quoted(owner)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
