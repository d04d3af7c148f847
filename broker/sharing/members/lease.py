"""The lease of a member: by renewing it a member says that it lives (queue-sharing rule 10.3.1).

Nothing is safe by it: that is the epoch, which each writing transaction locks and peers raise when they take over. The
lease and clocks only decide when peers do so. Peers go by the clock of the database. The member goes by its own, which
counts the time in which its machine was suspended, and gives up before they can take over.

A lease runs on real time also where a test has the queue manager on a virtual clock: it is a matter between machines.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import anyio
import asyncpg

from broker.clock import boottime
from broker.mqi.errors import MQError
from broker.sharing.database.errors import LOST

if TYPE_CHECKING:
    from broker.sharing.database.database import Database
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.lease_times import LeaseTimes

logger = logging.getLogger(__name__)

_RENEW: Final = (
    "UPDATE member SET lease_until = clock_timestamp() + make_interval(secs => $3) "
    "WHERE name = $1 AND epoch = $2 AND state = 'ACTIVE'"
)


class MemberLease:
    """The lease of one member, renewed on a session of its own."""

    def __init__(self, database: Database, times: LeaseTimes) -> None:
        self.renewals = 0
        self._database = database
        self.times = times
        self._session: DatabaseSession | None = None
        self._since = 0.0

    def begin(self, asked: float) -> None:
        """It was given. `asked`: when the database was asked for it, by `boottime`."""
        self._since = asked

    @property
    def age(self) -> float:
        """Seconds since the last renewal was asked for."""
        return boottime() - self._since

    async def keep(self) -> str:
        """Renew the lease until that cannot be done any more; why not."""
        pause = self.times.renew
        try:
            while True:
                await anyio.sleep(pause)
                asked = boottime()
                try:
                    with anyio.fail_after(self._patience()):
                        kept = await self._renew()
                except (TimeoutError, asyncpg.PostgresError, *LOST) as error:
                    self._drop()
                    why = words(error)
                    if self.age >= self.times.give_up:
                        return f"its lease could not be renewed for {self.age:.1f} s: {why}"
                    logger.debug("lease not renewed member=%s age_s=%.1f: %s", self._database.member, self.age, why)
                    pause = self.times.again
                    continue
                if not kept:
                    return "its lease had ended, and a peer has taken over"
                self._since = asked
                self.renewals += 1
                pause = self.times.renew
        finally:
            self._drop()

    def _patience(self) -> float:
        """Return the seconds to wait for the database: not beyond the time to give up, unless that has passed already
        while nothing ran here. Then one answer decides.
        """
        left = self.times.give_up - self.age
        return self.times.answer if left <= 0 else min(self.times.answer, left)

    async def _renew(self) -> bool:
        if self._session is None or self._session.is_closed():
            self._session = await self._database.session("lease")
        done = await self._session.execute(_RENEW, self._database.member, self._database.epoch, self.times.lease)
        return bool(done == "UPDATE 1")

    def _drop(self) -> None:
        if self._session is not None:
            self._session.terminate()
            self._session = None


def words(error: BaseException) -> str:
    """Say why the database cannot be had. The names that asyncpg has for its own parts tell nobody anything."""
    if isinstance(error, MQError):
        return error.detail or str(error)
    if isinstance(error, (asyncpg.InterfaceError, asyncpg.InternalClientError)) and not isinstance(error, ValueError):
        return "the connection to the database was lost"
    return str(error) or ("no answer" if isinstance(error, TimeoutError) else type(error).__name__)
