"""The connections of one guest. Each is lent to one request at a time, and kept for the next; at most so many are lent,
and who wants one more waits for its turn.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import anyio

from broker import MQError
from broker.mqi import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from broker import Clock, Connection

WAIT_SECONDS: Final = 30.0
"""A request waits so long for a connection."""

IDLE_SECONDS: Final = 60.0
"""A connection that nobody uses is kept so long."""

GONE: Final = (MQRC.CONNECTION_BROKEN, MQRC.Q_MGR_QUIESCING, MQRC.Q_MGR_STOPPING)
"""The reasons by which a connection is known to have ended."""


class LentConnection:
    """A connection that is lent while this is entered: a class, since each request passes here."""

    __slots__ = ("_connection", "_pool")

    _connection: Connection

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    async def __aenter__(self) -> Connection:
        self._connection = connection = await self._pool.lend()
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, MQError):
            good = error.reason not in GONE
        else:
            good = error is None or isinstance(error, Exception)
        await self._pool.take_back(self._connection, good=good)


class ConnectionPool:
    """The connections that `connecting` makes, at most `most` at a time."""

    def __init__(self, connecting: Callable[[], Awaitable[Connection]], clock: Clock, most: int) -> None:
        self._connecting = connecting
        self._clock = clock
        self._places = anyio.Semaphore(most)
        self._idle: deque[tuple[Connection, float]] = deque()  # since when; the one used last at the end
        self._over = False
        self.lent = 0

    def __len__(self) -> int:
        return self.lent + len(self._idle)

    def connection(self) -> LentConnection:
        """A connection to be entered, which nobody else has meanwhile. An error backs out what is under syncpoint; a
        cancellation ends the connection. Raises MAX_CONNS_LIMIT_REACHED (2025) where none is free for 30 seconds.
        """
        return LentConnection(self)

    async def lend(self) -> Connection:
        """Take a connection, and one of the places. Raises MQError."""
        try:
            self._places.acquire_nowait()
        except anyio.WouldBlock:
            await self._wait()
        try:
            connection = self._kept() or await self._connecting()
        except BaseException:
            self._places.release()
            raise
        self.lent += 1
        return connection

    async def take_back(self, connection: Connection, *, good: bool) -> None:
        """Take a connection back, and keep it if it is as good as new."""
        try:
            if good and not self._over and not connection.works:
                self.keep(connection)
                return
            with anyio.CancelScope(shield=True):
                if good and not self._over and await _is_clean(connection):
                    self.keep(connection)
                else:
                    await end(connection)
        finally:
            self.lent -= 1
            self._places.release()

    async def _wait(self) -> None:
        with anyio.move_on_after(WAIT_SECONDS) as waited:
            await self._places.acquire()
        if waited.cancelled_caught:
            raise MQError(
                MQRC.MAX_CONNS_LIMIT_REACHED,
                f"all {self.lent} connections of this user are in use ([http] connections_per_user)",
            )

    def keep(self, connection: Connection) -> None:
        """Keep a connection that is as good as new for the next request."""
        self._idle.append((connection, self._clock.monotonic()))

    def _kept(self) -> Connection | None:
        """Take the one that was used last of those that are kept, and have not ended meanwhile."""
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.port.broken:
                return connection
        return None

    async def clear(self, idle_seconds: float = 0.0) -> None:
        """End the connections that nobody has used for so long."""
        before = self._clock.monotonic() - idle_seconds
        while self._idle and self._idle[0][1] <= before:
            await end(self._idle.popleft()[0])

    async def close(self) -> None:
        """End all: those that are lent when they come back."""
        self._over = True
        await self.clear()


async def _is_clean(connection: Connection) -> bool:
    """Back out what a request has left under syncpoint. False for a connection that has ended."""
    if connection.works:
        try:
            await connection.backout()
        except MQError:
            return False
    return True


async def end(connection: Connection) -> None:
    """End a connection, and back out what it has under syncpoint."""
    try:
        if connection.works:
            await connection.backout()
        await connection.close()
    except MQError:
        pass  # it has ended already
