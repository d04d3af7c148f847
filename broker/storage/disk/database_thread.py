"""A thread with a connection to the database, which does whole pieces of work in the order in which they come.

It knows nothing of what the work is.
"""

from __future__ import annotations

import asyncio
import ctypes
import sqlite3
import sys
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any, TypeVar

import aiosqlite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from broker.storage.store import Done

STATEMENTS_MAX = 96
"""As many statements stay prepared."""

BUSY_SECONDS = 0.1
"""The time that a statement waits for another program that has the database locked, and reads of bodies wait with
it. Who needs the lock tries again later.
"""

_T = TypeVar("_T")


class DatabaseThread(aiosqlite.Connection):
    """aiosqlite's connection and its thread, with whole pieces of work in place of single statements.

    aiosqlite offers one hop a statement. A batch is to cost one hop, and must not be cut in two by a cancelled task; so
    work is put into the queue of the thread directly. That queue is a protected attribute, which is one reason why only
    versions of aiosqlite that were tried are accepted. What it runs is an object that tells nothing of itself, because
    aiosqlite logs that, and the messages that the work carries do not belong in a log.
    """

    _abandoned = False

    def submit(self, work: Callable[[sqlite3.Connection], None], done: Done) -> None:
        """Have `work` done after what was submitted before, then call `done` on the loop: with None, or its error."""
        self._put(_ThreadOutcome(asyncio.get_running_loop(), done), work)

    async def perform(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """The result of `work`, or what it raised; it is done even if the task that waits is cancelled."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._put(future, work)
        return await future

    def let_others(self, *, wait: bool = False) -> None:
        """Within a long piece of work, on its thread: do what was submitted meanwhile; with `wait`, wait until there is
        something. Raises sqlite3.ProgrammingError when the connection is to be closed.
        """
        while True:
            try:
                future, function = self._tx.get(block=wait)
            except Empty:
                return
            wait = False
            if not isinstance(function, _Piece):
                self._tx.put_nowait((future, function))  # It closes the connection: not in the middle of something.
                raise sqlite3.ProgrammingError("the connection is about to be closed")
            _run(future, function)

    async def abandon(self) -> None:
        """End, and leave the connection open for as long as the process lives; harmless when closed already.

        Closing it would carry its log over and remove it, and that log may be the only good copy of what it holds (log
        rule 6.5). What is under way ends; what was submitted and is not begun fails with sqlite3.ProgrammingError.
        """
        if self._connection is not None:
            self._abandoned = True
            _keep_for_good(self._connection)
            self._connection = _LeftConnection(self._connection)  # type: ignore[assignment]  # what is left to do is close it
            await self.close()

    def _put(self, future: asyncio.Future[_T] | _ThreadOutcome, work: Callable[[sqlite3.Connection], object]) -> None:
        self._tx.put_nowait((future, _Piece(self, work, self._conn)))  # type: ignore[arg-type]  # an _Outcome will do

    def do(self, work: Callable[[sqlite3.Connection], object], db: sqlite3.Connection) -> object:
        """Do a piece of work, on the thread."""
        if self._abandoned:
            raise sqlite3.ProgrammingError("the connection was abandoned")
        return work(db)


class _Piece:
    """A piece of work as aiosqlite's thread is given it; all else that the thread is given has to do with its end."""

    __slots__ = ("_db", "_thread", "_work")

    def __init__(
        self, thread: DatabaseThread, work: Callable[[sqlite3.Connection], object], db: sqlite3.Connection
    ) -> None:
        self._thread = thread
        self._work = work
        self._db = db

    def __call__(self) -> object:
        return self._thread.do(self._work, self._db)


def _run(future: Any, function: Callable[[], object]) -> None:
    """Run a piece of work on aiosqlite's thread, and settle its future on the loop."""
    tell = future.get_loop().call_soon_threadsafe
    try:
        result = function()
    except BaseException as error:
        tell(_settle, future, None, error)
    else:
        tell(_settle, future, result, None)


def _settle(future: Any, result: object, error: BaseException | None) -> None:
    if future.done():  # Who waited was cancelled.
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _LeftConnection:
    """In place of a connection that nobody may close."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def close(self) -> None:
        """Give up its locks, for the next start may be in this process; with a write-ahead log that writes nothing.
        Have the connection leave its log alone even if something does close it, where Python can tell it so.
        """
        with suppress(sqlite3.Error):
            if self._connection.in_transaction and self._mode() == "wal":
                self._connection.execute("ROLLBACK")
        if sys.version_info >= (3, 12):
            with suppress(sqlite3.Error):
                self._connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)

    def _mode(self) -> str:
        (mode,) = self._connection.execute("PRAGMA journal_mode").fetchone()
        return str(mode)


class _ThreadOutcome:
    """The part of a future that aiosqlite's thread needs: it calls `done` on the loop itself, where the callback of a
    future costs another turn of the loop and wakes a task.
    """

    __slots__ = ("_done", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, done: Done) -> None:
        self._loop = loop
        self._done = done

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def done(self) -> bool:
        return False

    def set_result(self, _result: None) -> None:
        self._done(None)

    def set_exception(self, error: Exception) -> None:
        self._done(error)


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, or make it. Transactions are ours alone to begin (`isolation_level`)."""
    return sqlite3.connect(path, isolation_level=None, cached_statements=STATEMENTS_MAX, timeout=BUSY_SECONDS)


async def start(connector: Callable[[], sqlite3.Connection], name: str) -> DatabaseThread:
    """A thread of that name with the connection that `connector` makes on it; raises what that raises."""
    connection = DatabaseThread(connector, iter_chunk_size=64)
    thread: Any = getattr(connection, "_thread", connection)  # Before aiosqlite 0.22 the connection is the thread.
    thread.name = name
    thread.daemon = True  # a program whose event loop was closed under it ends all the same
    try:
        await connection
    except Exception:
        thread.join()  # It has nothing left to do, and would have nobody to tell when the event loop ends first.
        raise
    return connection


def _keep_for_good(connection: sqlite3.Connection) -> None:
    """Never let a connection be collected, when the interpreter ends neither: that would close it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
