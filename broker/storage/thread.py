"""A thread with a connection to the database, which does whole pieces of work in the order in which they come.

It knows nothing of what the work is.
"""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import aiosqlite

from broker.storage import database
from broker.storage.store import StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from broker.storage.store import Done

_T = TypeVar("_T")


class DatabaseThread(aiosqlite.Connection):
    """aiosqlite's connection and its thread, with whole pieces of work in place of single statements.

    aiosqlite offers one hop a statement. A batch is to cost one hop, and must not be cut in two by a cancelled task; so
    work is put into the queue of the thread directly. That queue is a protected attribute, which is one reason why only
    versions of aiosqlite that were tried are accepted. The work carries its arguments in itself, because aiosqlite logs
    what it runs, and messages do not belong in a log.
    """

    def submit(self, work: Callable[[sqlite3.Connection], None], done: Done) -> None:
        """Have `work` done after what was submitted before, then call `done` on the loop: with None, or its error."""
        self._put(_Outcome(asyncio.get_running_loop(), done), work)

    async def perform(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """The result of `work`, or what it raised; it is done even if the task that waits is cancelled."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._put(future, work)
        return await future

    def _put(self, future: asyncio.Future[_T] | _Outcome, work: Callable[[sqlite3.Connection], object]) -> None:
        self._tx.put_nowait((future, partial(work, self._conn)))  # type: ignore[arg-type]  # an _Outcome is enough


class _Outcome:
    """What aiosqlite's thread needs of a future, and no more: it calls `done` on the loop itself, where the callback of
    a future costs another turn of the loop and wakes a task.
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


async def start_thread(path: Path) -> DatabaseThread:
    """A thread with its connection to the database at `path`; raises StoreUnusableError."""
    try:
        thread = DatabaseThread(partial(database.connect, path), iter_chunk_size=64)
        await thread
    except sqlite3.Error as error:
        raise StoreUnusableError(f"{path} cannot be opened ({error}); look at the rights of its directory") from error
    return thread
