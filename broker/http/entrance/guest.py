"""A guest: a user who has proved who it is by some credentials. It is one as long as the user stays the same: a new
password, DISABLE, DELETE and a change of its groups end it (N5.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from broker import MQError
from broker.http.entrance.credentials import NotAdmittedError, form_token
from broker.http.entrance.pool import IDLE_SECONDS, ConnectionPool, end
from broker.http.entrance.roles import roles_of
from broker.http.served_manager import APPLICATION
from broker.mqi import MQRC

if TYPE_CHECKING:
    from broker import Clock, Connection
    from broker.http.served_manager import Admitted
    from broker.mqi.access import OwnUser

_ENDED: Final = (MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR)


class Guest:
    """A user who was let in by credentials of this digest, and the pool of its connections.

    Where only a connection can tell if the user is the same, one stays open for that question, and those of requests
    are made by it, on its line.
    """

    def __init__(self, digest: bytes, admitted: Admitted, clock: Clock, most: int) -> None:
        self.digest = digest
        self.form_token = form_token(digest)
        self.since = self.used = clock.monotonic()
        self.sessions = 0  # that live by it
        self.over = False
        self.user: OwnUser
        self._admitted = admitted
        self._clock = clock
        self._own: Connection | None = None
        self._turn = anyio.Lock()
        self.pool = ConnectionPool(self._another, clock, most)

    @property
    def is_needed(self) -> bool:
        """True while sessions live by it, or requests have connections of it."""
        return bool(self.sessions or self.pool.lent)

    async def come_in(self) -> None:
        """Be let in. Raises NotAdmittedError, and MQError where the queue manager cannot be asked."""
        try:
            self._own = await self._admitted.connecting()
            self.user = await self._own.own_user()
        except MQError as error:
            await self.leave()
            if error.reason != MQRC.NOT_AUTHORIZED:
                raise
            raise NotAdmittedError from error
        if not self.user.proved:
            await self.leave()
            raise NotAdmittedError
        self.roles = roles_of(self.user)
        if self._admitted.holds is not None:
            self.pool.keep(self._own)
            self._own = None

    async def stays(self) -> bool:
        """True if the user is the same now. Raises MQError where the queue manager cannot be asked."""
        if self.over:
            return False
        self.used = self._clock.monotonic()
        holds = self._admitted.holds
        return holds() if holds is not None else await self._current() == self.user

    async def leave(self) -> None:
        """End its connections: those of requests when these have their answers."""
        self.over = True
        await self.pool.close()
        await self._disconnect()

    async def rest(self) -> None:
        """End the connections that nobody has used for a while."""
        await self.pool.clear(IDLE_SECONDS)
        if not self.pool and self.used <= self._clock.monotonic() - IDLE_SECONDS:
            await self._disconnect()

    async def _current(self) -> OwnUser | None:
        """The user as it is now; None if it may come in no more."""
        own = self._own
        if own is not None:
            try:
                return await own.own_user()
            except MQError as error:
                if error.reason not in _ENDED:
                    raise
        async with self._turn:
            if self._own is own:  # nobody has connected it again meanwhile
                await self._disconnect()
                try:
                    self._own = await self._admitted.connecting()
                except MQError as error:
                    if error.reason != MQRC.NOT_AUTHORIZED:
                        raise
                    return None
            return None if self._own is None else await self._own.own_user()

    async def _another(self) -> Connection:
        """A connection more, for a request."""
        if self.over:
            raise MQError(MQRC.NOT_AUTHORIZED, "not authorized")
        if self._own is None:
            return await self._admitted.connecting()
        return await (await self._own.connect(APPLICATION))

    async def _disconnect(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            await end(own)
