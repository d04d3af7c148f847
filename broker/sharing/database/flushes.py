"""Make durable, for all of a member at a time, what transactions have committed.

A transaction for calls that tells members something is committed without waiting for the disk, so that it holds the
order of notifications as short as it can. Before anybody is told of it, one of the lanes whose transactions are
committed writes to the log of the database and waits until that is on the disk: then so is all that any of them
committed before. A message that is seen in between may be browsed; a get of it waits for a later place in the same log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import asyncpg

if TYPE_CHECKING:
    from broker.sharing.database.sessions import Lane, SessionFigures


class _Flush:
    """One wait for the disk. `crashes`: how often the database had crashed before, known when it is over."""

    crashes: int | None = None


class Flushes:
    """The waits of one member for the disk of the database."""

    def __init__(self, figures: SessionFigures) -> None:
        self._figures = figures
        self._turn = anyio.Lock(fast_acquire=True)
        self._next = _Flush()

    async def flush(self, lane: Lane) -> None:
        """Return when what the session of a lane has committed is durable. Raises what the session does.

        What another lane has waited for counts only if no crash of the database lies between its session and this.
        """
        flush, session = self._next, lane.session
        async with self._turn:
            if session is None or session is not lane.session or session.is_closed():
                raise asyncpg.InterfaceError("the session was cut off before its transaction was durable")
            if flush.crashes == session.crashes:
                return
            if flush is self._next:
                self._next = _Flush()  # for what is committed from now on
            if not session.unreplicated:
                self._figures.flushes += 1
                await session.execute("CALL flush()")
            if session.unreplicated:  # somebody has cancelled a wait for the synchronous standby: wait again
                session.terminate()
                raise asyncpg.InterfaceError("it is not known whether the synchronous standby has the transaction")
            flush.crashes = session.crashes
