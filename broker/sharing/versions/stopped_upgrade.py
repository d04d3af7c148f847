"""The upgrade of a group whose tables are made anew, while no member runs.

1.  Members are kept out: those of older releases by the version that the tables say is the oldest, those of this one by
    the row that tells of the upgrade. What a failed member may still have under way is ended.
2.  The new tables are made, in a schema aside, and everything but messages is copied.
3.  Messages are copied, slice by slice. What somebody holds is held by the same as before.
4.  The copies are compared with what they are copies of.
5.  Both schemas change places, and the old one goes.

Each step, and each slice, is one transaction, in which the progress is noted: whatever breaks off, the next command
goes on behind what was done last. The old tables are whole until the last step, so there is a way back until then.
"""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import asyncpg

from broker.sharing.database.schema import NoTablesError, UnsuitableError, WrongVersionError, become_owner, make_all
from broker.sharing.members.takeover import end_sessions
from broker.sharing.versions.progress import BEGUN, COMPARED, COPIED, MADE, Progress, UpgradePlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.sharing.database.schema import SqlSet

SLICE_MESSAGES: Final = 10_000
SLICE_BYTES: Final = 64_000_000

LOCK_MS: Final = 10_000
"""The time that the session of a command that was killed may have, to end what it was about."""

_ALONE: Final = """
SET statement_timeout = 0; SET lock_timeout = {0}; SELECT pg_advisory_lock(hashtext('{1}'), hashtext('upgrade'))
"""
_JOINS_WAIT: Final = "SELECT pg_advisory_xact_lock(hashtext($1))"
_LIVING: Final = """
SELECT name, state, recoverer, address, extract(epoch FROM lease_until - clock_timestamp())::double precision AS seconds
    FROM member WHERE state <> 'INACTIVE' AND lease_until > clock_timestamp() ORDER BY name
"""
_FAILED: Final = "SELECT name, epoch FROM member WHERE state <> 'INACTIVE' ORDER BY name"
_END: Final = """
UPDATE member SET epoch = epoch + 1, state = 'RECOVERING', recoverer = NULL, lease_until = clock_timestamp()
    WHERE state <> 'INACTIVE'
"""
"""The lives of members that have failed are over, as where a peer takes over; who joins first recovers them."""
_RIGHTS: Final = """
SELECT has_database_privilege(current_database(), 'CREATE') AS may_create, pg_has_role(nspowner, 'USAGE') AS owns,
       current_database() AS database, current_user AS owner FROM pg_namespace WHERE nspname = $1
"""
_SIZE: Final = """
SELECT (SELECT count(*) FROM message) AS messages, (SELECT count(*) FROM unit_of_work) AS units,
       (SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = $1::text::regnamespace
        AND relkind = 'r')::bigint AS bytes
"""
_OTHERS: Final = """
SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = $1::text::regnamespace
    AND relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT relname = ANY ($2)
UNION
SELECT pg_rewrite.ev_class::regclass::text FROM pg_depend JOIN pg_rewrite ON pg_rewrite.oid = objid
    JOIN pg_class AS used ON used.oid = refobjid
    WHERE classid = 'pg_rewrite'::regclass AND refclassid = 'pg_class'::regclass
    AND used.relnamespace = $1::text::regnamespace ORDER BY 1
"""
"""Tables and views of others in the schema, or on its tables: they would go with them."""
_OWN: Final = (
    "alive", "command", "connection_tag", "consumer", "handle", "lane", "member", "message", "message_nonpersistent",
    "message_persistent", "object", "prepared_unit", "properties", "published_unit", "put_key", "queue", "security",
    "security_object", "sink", "structure", "unit_of_work",
)  # fmt: skip
"""The tables of versions 1 and 2."""
_OLD: Final = re.compile(r"\bold\b(?=[.'])")


class LivingMemberError(UnsuitableError):
    """A member lives that the upgrade would shut out; the text names it."""


class StoppedUpgrade:
    """The upgrade of the group `name` in a schema to the tables of `sql`, in a session of its own, which sees them.

    All of it raises UnsuitableError, with what to do in its text.
    """

    def __init__(self, session: asyncpg.Connection, name: str, schema: str, sql: SqlSet) -> None:
        self._session = session
        self._name = name
        self._schema = schema
        self._aside = f"{schema}_upgrade"
        self._sql = sql

    async def plan(self) -> UpgradePlan | None:
        """Return the plan; None where the tables are not older than those that were made anew."""
        if await self._session.fetchval("SELECT to_regclass($1)", f"{self._schema}.properties") is None:
            raise NoTablesError(self._schema)
        found = await self._version()
        if found >= self._sql.rebuilt:
            return None
        progress = await self._progress()
        await become_owner(self._session, self._schema, found, self._sql.version, "SET ROLE")
        await self._check_rights()
        await self._check_alone()
        if progress is None:
            await self._check_stopped()
        await self._session.execute("SET statement_timeout = 0")
        size = await self._session.fetchrow(_SIZE, self._schema)
        return UpgradePlan(
            schema=self._schema,
            before=found,
            after=self._sql.version,
            messages=size["messages"],
            units=size["units"],
            bytes=size["bytes"],
            copied=None if progress is None else progress.copied,
        )

    async def copy(self, report: Callable[[int, int], None]) -> None:
        """Do all but the last step, or what is left of it. `report` is called after each slice: how many messages have
        been copied, of how many.
        """
        await self._be_alone()
        progress = await self._progress() or await self._begin()
        if progress.step == BEGUN:
            progress = await self._make(progress)
        while progress.step == MADE:
            progress = await self._copy_slice(progress)
            report(progress.copied, progress.messages)
        if progress.step == COPIED:
            await self._compare(progress)

    async def end(self) -> None:
        """Take the last step, behind which there is no way back."""
        await self._be_alone()
        progress = await self._progress()
        if progress is None or progress.step != COMPARED:
            raise UnsuitableError(
                f"the messages in {self._schema} are not copied and compared yet: evermq group upgrade"
            )
        session, schema = self._session, self._schema
        async with session.transaction():
            await session.execute(_JOINS_WAIT, schema)
            await self._see_new_tables()
            await session.execute(self._text("end"))
            await session.execute(self._text("rights"))
            await session.execute(f"ALTER SCHEMA {schema} RENAME TO {schema}_before")
            await session.execute(f"ALTER SCHEMA {self._aside} RENAME TO {schema}")
            await session.execute(f"DROP SCHEMA {schema}_before CASCADE")

    async def undo(self) -> int:
        """Give the old tables back to members of their release: their version."""
        await self._be_alone()
        session, schema = self._session, self._schema
        if await session.fetchval("SELECT to_regclass($1)", f"{schema}.properties") is None:
            raise NoTablesError(schema)
        progress = await Progress.read(session, schema)
        if progress is None:
            raise UnsuitableError(
                f"no upgrade of {schema} is under way: behind its last step there is no way back, other than a backup "
                "of the database"
            )
        async with session.transaction():
            await session.execute(_JOINS_WAIT, schema)
            await session.execute(f"DROP SCHEMA IF EXISTS {self._aside} CASCADE")
            await session.execute(f"DELETE FROM {schema}.properties WHERE name = 'upgrade'")
            await session.execute(f"UPDATE {schema}.properties SET value = $1 WHERE name = 'version'", progress.oldest)
        return progress.before

    # Looking

    async def _version(self) -> int:
        known = await self._session.fetchval(f"SELECT value FROM {self._schema}.properties WHERE name = 'sql'")
        return int(known or 1)

    async def _progress(self) -> Progress | None:
        """The progress of an upgrade to this version, if one is under way. Raises WrongVersionError for another."""
        progress = await Progress.read(self._session, self._schema)
        if progress is not None and progress.after != self._sql.version:
            raise WrongVersionError(
                f"an upgrade of {self._schema} to version {progress.after} is under way, and this EverMQ has version "
                f"{self._sql.version}: go on with the release that has begun it, or take it back first by "
                "`evermq group upgrade --undo`"
            )
        return progress

    async def _check_rights(self) -> None:
        row = await self._session.fetchrow(_RIGHTS, self._schema)
        owner = row["owner"]
        if not row["may_create"]:
            raise UnsuitableError(
                f"{owner} may not make the schema {self._aside} for the new tables: "
                f"GRANT CREATE ON DATABASE {row['database']} TO {owner}"
            )
        if not row["owns"]:
            raise UnsuitableError(
                f"{owner} owns the tables, and not the schema that they are in: "
                f"ALTER SCHEMA {self._schema} OWNER TO {owner}"
            )

    async def _check_alone(self) -> None:
        others = [row["name"] for row in await self._session.fetch(_OTHERS, self._schema, _OWN)]
        if others:
            raise UnsuitableError(
                f"{', '.join(others)}: not EverMQ's, and would go with the old tables; drop them before, and make them "
                "again on the new ones"
            )

    async def _check_stopped(self) -> None:
        living = await self._session.fetchrow(_LIVING)
        if living is not None:
            recovered = f", and is being recovered by {living['recoverer']}" if living["state"] == "RECOVERING" else ""
            raise LivingMemberError(
                f"{living['name']} has a lease for {living['seconds']:.1f} s{recovered}: it lives, at "
                f"{living['address']}, or has failed just now. End all members, or wait that long"
            )

    # Steps

    async def _be_alone(self) -> None:
        """Keep out other upgrades of this group for as long as the session lasts, and work as the owner."""
        await become_owner(self._session, self._schema, await self._version(), self._sql.version, "SET ROLE")
        try:
            await self._session.execute(_ALONE.format(LOCK_MS, self._schema))
        except asyncpg.LockNotAvailableError as error:
            raise UnsuitableError(f"another upgrade of {self._schema} is under way just now") from error
        await self._session.execute("SET lock_timeout = '1s'")

    async def _begin(self) -> Progress:
        session, schema = self._session, self._schema
        async with session.transaction():
            await session.execute(_JOINS_WAIT, schema)
            await self._check_stopped()
            for row in await session.fetch(_FAILED):
                await end_sessions(session, self._name, row["name"], row["epoch"])
            await session.execute("SELECT FROM member ORDER BY name FOR UPDATE")  # waits for what they have under way
            await session.execute(_END)
            progress = Progress(
                before=await self._version(),
                after=self._sql.version,
                oldest=await session.fetchval("SELECT value FROM properties WHERE name = 'version'"),
                messages=await session.fetchval("SELECT count(*) FROM message"),
            )
            await session.execute("UPDATE properties SET value = $1 WHERE name = 'version'", str(self._sql.oldest))
            await progress.write(session, schema)
        return progress

    async def _make(self, progress: Progress) -> Progress:
        async with self._session.transaction():
            await make_all(self._session, self._aside, self._sql)
            await self._session.execute(self._text("definitions"))
            return await self._noted(progress, step=MADE)

    async def _copy_slice(self, progress: Progress) -> Progress:
        session = self._session
        async with session.transaction():
            await self._see_new_tables()
            await session.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
            behind = progress.queue, progress.place, progress.persistent
            last = await session.fetchrow(self._text("slice"), *behind, SLICE_MESSAGES, SLICE_BYTES)
            if last is None:
                return await self._noted(progress, step=COPIED)
            upto = last["queue"], last["place"], last["persistent"]
            await session.execute(self._text("messages"), *behind, *upto)
            await session.execute(self._text("held"), *behind, *upto)
            queue, place, persistent = upto
            copied = progress.copied + last["number"]
            return await self._noted(progress, queue=queue, place=place, persistent=persistent, copied=copied)

    async def _compare(self, progress: Progress) -> None:
        async with self._session.transaction():
            await self._see_new_tables()
            found = [row["difference"] for row in await self._session.fetch(self._text("compare"))]
            if found:
                raise UnsuitableError(
                    f"what was copied differs from what is there: {'; '.join(found)}. Nothing is lost: "
                    "`evermq group upgrade --undo`"
                )
            await self._noted(progress, step=COMPARED)

    async def _noted(self, progress: Progress, **changes: object) -> Progress:
        noted: Progress = replace(progress, **changes)  # type: ignore[arg-type]  # each a field, by its name
        await noted.write(self._session, self._schema)
        return noted

    async def _see_new_tables(self) -> None:
        await self._session.execute(f"SET LOCAL search_path TO {self._aside}")

    def _text(self, name: str) -> str:
        """A file of `sql/upgrade`, in which `old` is the schema of the old tables."""
        text = (files("broker.sharing") / "sql" / "upgrade" / f"{name}.sql").read_text(encoding="utf-8")
        return _OLD.sub(self._schema, text)
