"""The schema of a group: made when its first member joins."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncpg

VERSION: Final = "1"
"""Of the tables. A group that has another was made by another version of EverMQ."""


OLDEST: Final = 150000
"""The oldest PostgreSQL that does: 15."""


class UnsuitableError(Exception):
    """The database will not do for a group; the text says why, and what to do."""


class WrongVersionError(UnsuitableError):
    """The tables of the group are those of another version."""


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


ROOMS: Final = (
    "transactions",
    "announcements",
    "members",
    "recovery",
    "tags",
    "definitions",
    "structures",
    "units",
    "puts",
    "keys",
    "delays",
    "gets",
    "locks",
    "returns",
    "deliveries",
    "expiry",
    "claims",
    "sinks",
    "triggering",
    "commands",
)
"""The files of functions, in an order in which each finds what it is made of."""


async def check_database(session: asyncpg.Connection, member: str) -> None:
    """Refuse a database that could lose what was acknowledged, or that is not reached as it must be. `member`: what
    the session was told on its way in. Raises UnsuitableError.
    """
    found = dict(await session.fetch(_SETTINGS))
    if int(found["server_version_num"]) < OLDEST:
        raise UnsuitableError(f"PostgreSQL {found['server_version']} is too old: a group needs 15 or newer")
    for name, good, why in _DEMANDS:
        if found[name] not in good:
            raise UnsuitableError(f"the database has {name}={found[name]}: {why}")
    told, standby = await session.fetchrow("SELECT current_setting('evermq.member', true), pg_is_in_recovery()")
    if told != member:
        raise UnsuitableError(
            "the settings of a session do not reach the database: connect to PostgreSQL itself, or to a pool that "
            "gives each client a session of its own"
        )
    if standby:
        raise UnsuitableError(
            "the database is a standby, which takes no changes: name the primary in the dsn, or all hosts and "
            "target_session_attrs=read-write"
        )


async def ensure(session: asyncpg.Connection, schema: str) -> None:
    """Make the tables of a group unless they are there. Members that come at the same time wait for one another.

    `schema` is made from a checked name (`QueueSharingGroup.schema`).
    """
    async with session.transaction():
        await session.execute("SELECT pg_advisory_xact_lock(hashtext($1))", schema)
        await session.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        await session.execute(f"SET LOCAL search_path TO {schema}")
        if await session.fetchval("SELECT to_regclass('properties')") is None:
            await session.execute(_sql("tables", "1"))
            for room in ROOMS:
                await session.execute(_sql("functions", room))
            await session.execute("INSERT INTO properties VALUES ('version', $1)", VERSION)
            await session.execute("INSERT INTO alive DEFAULT VALUES")
        found = await session.fetchval("SELECT value FROM properties WHERE name = 'version'")
    if found != VERSION:
        raise WrongVersionError(f"the tables in {schema} are of version {found}, this EverMQ has version {VERSION}")


def _sql(folder: str, name: str) -> str:
    """The text of a file in `sql`."""
    return (files("broker.sharing") / "sql" / folder / f"{name}.sql").read_text(encoding="utf-8")
