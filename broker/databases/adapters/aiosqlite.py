"""aiosqlite: a function that opens a connection, or one. One transaction at a time, since SQLite has one writer.

The transactions take one connection in turn, which is opened again when it was broken. Each way to the thread of the
connection is time in which nobody else writes: BEGIN goes with the savepoint, the marker with what is before it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import aiosqlite

from broker.databases import failures
from broker.databases.adapter import each_statement
from broker.databases.adapters.sqlite import check_idle
from broker.databases.errors import DatabaseAwayError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker.databases.adapter import Value
    from broker.databases.choosing import DatabaseSource

_BEGIN: Final = "BEGIN IMMEDIATE"


class AiosqliteAdapter:
    """The adapter of aiosqlite."""

    dialect: Literal["sqlite"] = "sqlite"
    gives = (aiosqlite.Connection,)
    threaded = False

    def __init__(self, given: DatabaseSource) -> None:
        self._wait = given.pool_wait
        self._function = given.function
        self._kept: aiosqlite.Connection | None = given.source
        self._ready = False
        self._inner: sqlite3.Connection  # of the one that is ready, for its thread
        self._begins = False  # with the first statement
        self._opening: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def acquire(self) -> aiosqlite.Connection:
        """Wait for the other transactions of this process, and return the connection."""
        await self._turn.acquire()
        try:
            if self._kept is None:
                if self._function is None:
                    raise DatabaseAwayError("the connection is closed: give a function that opens one")
                self._kept = self._function()
            if not self._ready:
                await self._open()
        except BaseException:
            self._turn.release()
            raise
        return self._kept

    async def begin(self, connection: aiosqlite.Connection) -> None:
        """Begin, with the first statement, and wait for the other processes then, in the connection's own thread."""
        check_idle(connection)
        self._begins = True

    async def execute(self, connection: aiosqlite.Connection, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        begins, self._begins = self._begins, False
        if begins and sql.startswith("SAVEPOINT"):
            await connection.executescript(f"{_BEGIN}; {sql}")
            return []
        if begins:
            await _run(connection, _BEGIN)
        *before, (last, own) = each_statement(sql, values)
        if not before:
            return await _run(connection, last, own)
        await connection.executemany(last, self._behind(before, own))  # what gives rows stands alone
        return []

    def _behind(
        self, before: Sequence[tuple[str, Sequence[Value]]], values: Sequence[Value]
    ) -> Iterator[Sequence[Value]]:
        """Yield the values of a statement when those before it are done: the thread of the connection asks for them."""
        for statement, own in before:
            self._inner.execute(statement, own).close()
        yield values

    async def commit(self, connection: aiosqlite.Connection) -> None:
        await _run(connection, "COMMIT")

    async def rollback(self, connection: aiosqlite.Connection) -> None:
        """Roll back behind all that was sent: of who was cancelled, BEGIN may still be on its way to the thread."""
        self._begins = False
        try:
            await _run(connection, "ROLLBACK")
        except sqlite3.OperationalError:
            if connection.in_transaction:
                raise

    async def release(self, connection: aiosqlite.Connection, broken: bool) -> None:
        self._begins = False
        try:
            if broken:
                await self.close()
        finally:
            self._turn.release()
        await asyncio.sleep(0)  # who waits for it begins, before the rest of this transaction is done

    is_duplicate = staticmethod(failures.is_duplicate)
    is_definite = staticmethod(failures.is_definite)

    async def close(self) -> None:
        """Close the connection, one that is being opened too, and end its thread."""
        if self._opening is not None:
            await asyncio.wait((self._opening,))
        kept, self._kept, self._ready = self._kept, None, False
        if isinstance(kept, aiosqlite.Connection) and _is_open(kept):
            with suppress(ValueError, sqlite3.Error):  # closed already
                await kept.close()

    async def _open(self) -> None:
        """Open the connection, which nobody cancels half way: its thread would be left behind."""
        opening = self._opening = asyncio.get_running_loop().create_task(self._opened(self._kept))
        self._kept = None
        try:
            await asyncio.shield(opening)
        finally:
            while not opening.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((opening,))
            opening.exception()  # nobody else looks, where the caller was cancelled
            self._opening = None

    async def _opened(self, made: Any) -> None:
        connection: aiosqlite.Connection = made
        if not _is_open(made):
            connection = await made
        cursor = await connection.execute(f"PRAGMA busy_timeout = {int(self._wait * 1000)}")
        self._inner = cursor.connection
        await cursor.close()
        self._kept, self._ready = connection, True


def _is_open(made: Any) -> bool:
    """True for a connection that has been awaited; a second time it must not be."""
    try:
        return isinstance(made, aiosqlite.Connection) and made.in_transaction in (True, False)
    except ValueError:
        return False


async def _run(connection: aiosqlite.Connection, sql: str, values: Sequence[Value] = ()) -> list[Any]:
    """Run a statement in one turn of the connection's thread; its rows."""
    rows = await connection.execute_fetchall(sql, values)
    return [tuple(row) for row in rows]
