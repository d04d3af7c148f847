"""Takeover: exactly one peer recovers what a failed member has left (queue-sharing 7, queue-sharing rule 10.3.2).

Every member looks for leases that have ended. It ends the sessions of that member in the database, since a statement
there may wait for a lock for ever; then it locks the member's row, which waits for what these had under way, looks
again, and raises the epoch. From then on nothing of that life is written any more. A recovery has a lease as well, so
the next peer goes on where a recoverer has failed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import anyio
import asyncpg

from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.sharing.database.errors import OutcomeUnknownError
from broker.sharing.members.recovery import Claim, recover

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.sharing.database.database import Database
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.lease_times import LeaseTimes

logger = logging.getLogger(__name__)

FAILED: Final = (
    "SELECT name, epoch, recoverer FROM member "
    "WHERE name <> $1 AND state <> 'INACTIVE' AND lease_until < clock_timestamp() ORDER BY lease_until"
)
_TAKE_OVER: Final = "SELECT take_over($1, $2, $3, $4, $5)"
LOCK_TIMEOUT: Final = "SET LOCAL lock_timeout = '1s'"
"""For a member's row, which what it has under way holds. It is tried again."""
_END_SESSIONS: Final = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
    "AND pid <> pg_backend_pid() AND starts_with(application_name, $1) "
    "AND split_part(substr(application_name, length($1) + 1), '/', 1) ~ '^[0-9]{1,18}$' "
    "AND split_part(substr(application_name, length($1) + 1), '/', 1)::bigint <= $2"
)


async def end_sessions(session: DatabaseSession, group: str, member: str, last_epoch: int) -> None:
    """End the sessions of a member in the database, of its lives up to this one."""
    try:
        ended = await session.fetchval(_END_SESSIONS, f"{group}/{member}/", last_epoch)
    except asyncpg.InsufficientPrivilegeError as error:
        logger.warning(
            "sessions not ended member=%s: %s; let all members of %s have the same user of the database, or grant "
            "theirs pg_signal_backend",
            member, error, group,
        )  # fmt: skip
    else:
        if ended:
            logger.info("sessions ended member=%s epoch=%d sessions=%d", member, last_epoch, ended)


class Takeover:
    """The recovery of peers by one member. `recovered` is called when there is one more."""

    def __init__(self, database: Database, times: LeaseTimes, recovered: Callable[[], None]) -> None:
        self.recoveries = 0
        self._database = database
        self._times = times
        self._recovered = recovered
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Look at once: there is news of members."""
        self._woken.set()

    async def watch(self) -> None:
        """Recover those who fail, for as long as this life of the member lasts."""
        while True:
            try:
                await self.look()
            except (MQError, OutcomeUnknownError) as error:
                logger.debug("peers not looked at member=%s: %s", self._database.member, error)
            except Exception as error:
                mistake(error, "the recovery of a peer")
            self._woken = anyio.Event()
            with anyio.move_on_after(self._times.watch):
                await self._woken.wait()

    async def look(self) -> None:
        """Recover all whose leases have ended. Raises CF_NOT_AVAILABLE (2345)."""
        async with self._database.look() as session:
            failed = await session.fetch(FAILED, self._database.member)
        for row in failed:
            await self._recover(row["name"], row["epoch"], row["recoverer"])

    async def _recover(self, member: str, last_epoch: int, recoverer: str | None) -> None:
        database, times = self._database, self._times
        me, group = database.member, database.group_name
        logger.info("CSQE008I %s recovery event from %s received epoch=%d recoverer=%s",
                    me, member, last_epoch, recoverer or "none", extra={"event": "recovery_event"})  # fmt: skip
        async with database.look() as session:
            await end_sessions(session, group, member, last_epoch)

        async def take_over(session: DatabaseSession) -> int | None:
            await session.execute(LOCK_TIMEOUT)
            claimed: int | None = await session.fetchval(
                _TAKE_OVER, me, database.epoch, member, last_epoch, times.lease
            )
            return claimed

        claimed = await database.transact(take_over)
        if claimed is None:
            logger.debug("another peer recovers member=%s by=%s", member, me)
            return

        async def step(work: Callable[[DatabaseSession], Awaitable[Any]]) -> Any:
            return await database.transact(work)

        done = await recover(Claim(me, database.epoch, member, claimed, times.lease), step)
        self.recoveries += 1
        logger.info(
            "peer recovered member=%s by=%s units=%d locks=%d stray=%d",
            member, me, done.units, done.locks, done.stray,
        )  # fmt: skip
        self._recovered()
