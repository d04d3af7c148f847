"""A group as an administrator sees it, who is no member: `evermq group`."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from broker.config import Config
from broker.engine.manager import QueueManager
from broker.engine.shared_queues import GroupError
from broker.sharing.database.database import Database
from broker.sharing.database.errors import LOST
from broker.sharing.database.schema import UnsuitableError, check_database, check_rebuilt, ensure, released, upgrade
from broker.sharing.members.display_group import ADMINISTRATOR, MEMBERS
from broker.sharing.versions.stopped_upgrade import StoppedUpgrade

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group import QueueSharingGroup
    from broker.sharing.versions.progress import UpgradePlan

_QUEUES: Final = """
SELECT name, depth_of(name) AS depth, (SELECT count(*) FROM handle WHERE handle.queue = queue.name) AS handles
    FROM queue ORDER BY name
"""
_OLDER: Final = "SELECT name, version FROM member WHERE version < $1 AND name <> $2 ORDER BY name"
_BREACHES: Final = """
SELECT what, queue, member, epoch, unit::text, kind, count(*) AS rows, min(place) AS first FROM breach
    GROUP BY what, queue, member, epoch, unit, kind ORDER BY what, queue, unit
"""
_OLDEST: Final = """
SELECT max(greatest(age(backend_xid), age(backend_xmin))) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_LOOK_SECONDS: Final = 0.2


class Administration:
    """The administration of a group through its database alone. Raises GroupError."""

    def __init__(self, group: QueueSharingGroup) -> None:
        self._group = group

    async def init(self) -> str:
        """Make the tables of the group, unless they are there, in a database that will do; where they are."""
        async with self._session() as session:
            try:
                await check_database(session, ADMINISTRATOR)
                await ensure(session, self._group.schema)
            except UnsuitableError as error:
                raise GroupError(str(error)) from error
        return self._group.schema

    async def plan_upgrade(self) -> UpgradePlan | None:
        """Return the plan of an upgrade for which all members must have ended; None where they need not."""
        async with self._upgrading() as upgrading:
            return await upgrading.plan()

    async def copy_upgraded(self, report: Callable[[int, int], None]) -> None:
        """Do all of such an upgrade but its last step, or go on with it. `report` is told after each slice how many
        messages have been copied, of how many.
        """
        async with self._upgrading() as upgrading:
            await upgrading.copy(report)

    async def end_upgrade(self) -> None:
        """Take the last step of such an upgrade: the new tables are the group's from then on."""
        async with self._upgrading() as upgrading:
            await upgrading.end()

    async def undo_upgrade(self) -> tuple[str, int]:
        """Take such an upgrade back: the schema, and the version that its tables have as before."""
        async with self._upgrading() as upgrading:
            return self._group.schema, await upgrading.undo()

    @asynccontextmanager
    async def _upgrading(self) -> AsyncIterator[StoppedUpgrade]:
        async with self._session() as session:
            try:
                await check_database(session, ADMINISTRATOR)
                yield StoppedUpgrade(session, self._group.name, self._group.schema, released())
            except UnsuitableError as error:
                raise GroupError(str(error)) from error
            except (asyncpg.PostgresError, *LOST) as error:
                raise GroupError(
                    f"the upgrade of {self._group.name} was broken off: {error}. Nothing is lost: give the command "
                    "again, and it goes on"
                ) from error

    async def upgrade(self) -> dict[str, Any]:
        """Bring the SQL of the group to the version of this release: where it is, which version it had and has, and
        the members that are of an older one still, by name.
        """
        async with self._session() as session:
            try:
                await check_database(session, ADMINISTRATOR)
                before, after = await upgrade(session, self._group.schema)
            except UnsuitableError as error:
                raise GroupError(str(error)) from error
            older = await self._fetch(session, _OLDER, after, ADMINISTRATOR)
        return {"schema": self._group.schema, "before": before, "after": after, "older": dict(older)}

    async def members(self) -> list[dict[str, Any]]:
        """All members, by name: state, epoch, address, the rest of the lease in seconds, units of work, handles."""
        async with self._session() as session:
            return [_reported(row) for row in await self._fetch(session, MEMBERS, ADMINISTRATOR)]

    async def status(self) -> dict[str, Any]:
        """The group in figures: members, shared queues, what breaks the invariants of its tables, structures, and
        how far back the database must remember.
        """
        async with self._session() as session:
            return {
                "group": self._group.name,
                "schema": self._group.schema,
                "members": [_reported(row) for row in await self._fetch(session, MEMBERS, ADMINISTRATOR)],
                "queues": [dict(row) for row in await self._fetch(session, _QUEUES)],
                "breaches": [dict(row) for row in await self._fetch(session, _BREACHES)],
                "structures": dict(await self._fetch(session, "SELECT name, status FROM structure ORDER BY name")),
                "oldest_snapshot": (await self._fetch(session, _OLDEST))[0][0] or 0,
            }

    async def recover(self, member: str, timeout: float) -> None:
        """Have what a failed member has left recovered, by a queue manager that joins for that where no peer does it.
        Raises GroupError for one that lives, that is not there, or that is not recovered after `timeout` seconds.
        """
        found = await self._state(member)
        if found is None:
            raise GroupError(f"{self._group.name} has no member {member}: `evermq group members` lists them")
        state, lease = found
        if state == "INACTIVE":
            return
        if state == "ACTIVE" and lease > 0:
            raise GroupError(
                f"{member} has a lease for {lease:.1f} s: it lives, or has failed just now. Stop it, or wait that long"
            )
        config = Config()
        # with "mq" it ends without its group
        own = replace(config.queue_manager, name=ADMINISTRATOR, data=None, defaults="mq")
        async with QueueManager.open(replace(config, queue_manager=own), group=self._group):
            try:
                async with asyncio.timeout(timeout):
                    while (found := await self._state(member)) is not None and found[0] != "INACTIVE":  # noqa: ASYNC110
                        await asyncio.sleep(_LOOK_SECONDS)
            except TimeoutError:
                raise GroupError(f"{member} is not recovered after {timeout:g} s: see the log of the members") from None

    async def _state(self, member: str) -> tuple[str, float] | None:
        async with self._session() as session:
            rows = await self._fetch(
                session,
                "SELECT state, extract(epoch FROM lease_until - clock_timestamp())::double precision FROM member "
                "WHERE name = $1",
                member,
            )
        return None if not rows else (rows[0][0], rows[0][1])

    async def _fetch(self, session: DatabaseSession, statement: str, *arguments: object) -> list[Any]:
        try:
            return list(await session.fetch(statement, *arguments))
        except (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError, asyncpg.UndefinedColumnError) as error:
            if await session.fetchval("SELECT to_regclass('properties') IS NOT NULL"):
                try:
                    await check_rebuilt(session, self._group.schema, released())
                except UnsuitableError as older:
                    raise GroupError(str(older)) from error
            raise GroupError(f"there are no tables of {self._group.name} in the database: evermq group init") from error

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[DatabaseSession]:
        try:
            session = await Database(self._group, ADMINISTRATOR).session("administration")
        except UnsuitableError as error:
            raise GroupError(str(error)) from error
        except (asyncpg.PostgresError, TimeoutError, *LOST) as error:
            raise GroupError(f"the database of {self._group.name} cannot be reached: {error}") from error
        try:
            yield session
        finally:
            await session.close()


def _reported(member: Mapping[str, Any]) -> dict[str, Any]:
    return {**member, "started": str(member["started"])}
