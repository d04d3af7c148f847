"""The beginning of a member's life: an epoch that none had before (queue-sharing rules 10.3.2 and 10.3.7).

Others may be in the way of it. A queue manager with other data has the name for as long as its lease lasts, and a peer
that recovers what that one has left as long as that takes. A member with the same data need not wait for either, but
the row by which it gets its epoch is held for the length of a step, by a recovery, or by what its own last life has
under way.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

import anyio
import asyncpg

from broker.clock import boottime
from broker.sharing.database.schema import check_database, ensure
from broker.sharing.members.takeover import LOCK_TIMEOUT, end_sessions

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    from uuid import UUID

    from broker.sharing.database.database import Database
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.lease import MemberLease

_JOIN: Final = "SELECT * FROM join_group($1, $2, $3, $4, $5)"
_RECOVERER: Final = (
    "SELECT recoverer FROM member WHERE name = $1 AND state = 'RECOVERING' AND lease_until > clock_timestamp()"
)


class HeldError(Exception):
    """Another queue manager of this name has a lease, for so many seconds, there; or `recoverer` has it, a peer that
    recovers what the other has left.
    """

    def __init__(self, seconds: float, address: str, recoverer: str | None = None) -> None:
        super().__init__(seconds, address, recoverer)
        self.seconds = seconds
        self.address = address
        self.recoverer = recoverer

    def __str__(self) -> str:
        return (
            f"{self.recoverer} recovers what it has left"
            if self.recoverer is not None
            else f"another queue manager of its name runs at {self.address}"
        )


class Joining:
    """The beginnings of one member's lives. `instance` is that of its data; `awaits` is told of a peer that a beginning
    waits for.
    """

    def __init__(
        self, database: Database, lease: MemberLease, instance: Callable[[], UUID], awaits: Callable[[str], None]
    ) -> None:
        self._database = database
        self._lease = lease
        self._times = lease.times
        self._instance = instance
        self._awaits = awaits

    async def begin(self) -> int:
        """Have the epoch of another life. It takes no longer than a lease, and as much longer as a peer recovers the
        member. Raises HeldError, UnsuitableError, what the database raises.
        """
        database = self._database
        with anyio.fail_after(self._times.lease) as limit:
            session = await database.session("start")
            try:
                await check_database(session, database.member)
                await ensure(session, database.schema, database.sql)
                last = await session.fetchval("SELECT epoch FROM member WHERE name = $1", database.member) or 0
                asked = boottime()
                row = await self._begin_after(session, last, limit)
            finally:
                await session.close(timeout=self._times.answer)
        self._lease.begin(asked)
        epoch: int = row["my_epoch"]
        return epoch

    async def _begin_after(self, session: DatabaseSession, last: int, limit: anyio.CancelScope) -> Any:
        """Have the epoch after `last`, a life that may have something under way still: its sessions are ended where
        that holds this up. A life that has ended here does not end one that has begun elsewhere on the same data.
        """
        database = self._database
        arguments = database.member, self._instance(), _address(), self._times.lease, database.epoch
        while True:
            try:
                async with session.transaction():
                    await session.execute(LOCK_TIMEOUT)
                    row = await session.fetchrow(_JOIN, *arguments)
            except asyncpg.LockNotAvailableError:
                await end_sessions(session, database.group_name, database.member, last)
                if (recoverer := await self._recoverer(session)) is not None:
                    self._awaits(recoverer)
                    limit.deadline = anyio.current_time() + self._times.lease
            else:
                if row["my_epoch"] is None:
                    raise HeldError(row["held_seconds"], row["held_at"], await self._recoverer(session))
                return row

    async def _recoverer(self, session: DatabaseSession) -> str | None:
        """The peer that recovers the member now, if one does."""
        recoverer: str | None = await session.fetchval(_RECOVERER, self._database.member)
        return recoverer


def _address() -> str:
    """Return the place where this queue manager runs, for people."""
    return f"{socket.gethostname()} process {os.getpid()}"
