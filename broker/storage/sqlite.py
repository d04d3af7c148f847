"""The store of a queue manager that keeps its messages: one SQLite database, journal and snapshot at once.

What it promises, beyond the Store protocol:

1. A batch is one transaction and one hop to the thread that owns the database. Nothing that happens to the task that
   waits can stop it between BEGIN and COMMIT; a task that is cancelled merely does not learn the outcome.
2. `write` returns after the write-ahead log was synced (synchronous=FULL): the batch survives a power failure.
3. A full disk refuses what needs room. Removals, marks and backouts still go through, with the ballast's room if need
   be (journal rule 6); until the ballast is there again, or a good part of the database is free, the rest is refused.
4. After any other error the outcome is unknown (journal rule 7): every later write fails too, until the store was
   closed and opened again.

It orders nothing, retries nothing that needs room, and reads no message it was not asked for.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import aiosqlite
from anyio import CancelScope

from broker.storage import database
from broker.storage.ballast import Ballast
from broker.storage.directory import DataDirectory
from broker.storage.store import Store, StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from broker.storage.store import MessageRow, ObjectRow, Rows

LOAD_CHUNK = 10_000
"""How many messages a load gives at a time."""

BALLAST_BYTES = 2 * database.WAL_BYTES_MAX
"""Room to carry over what a full write-ahead log holds, twice: a large batch makes the log longer than its limit."""

_IDLE_SECONDS = 0.1  # After so long without a write, the log is carried over while nobody waits.
_IDLE_ROWS = 1000  # It is not worth two syncs for fewer rows than this.

_LOGGER = logging.getLogger(__name__)
_T = TypeVar("_T")


class SqliteStore(Store):
    """Keeps a queue manager's rows in `evermq.db` in the directory `path`, which `open` makes when it is missing.

    `ballast_bytes` is how much of the disk is kept back for removals when the disk is full.
    """

    def __init__(self, path: Path, *, ballast_bytes: int = BALLAST_BYTES) -> None:
        self._file = path / "evermq.db"
        self._directory = DataDirectory(path)
        self._ballast = Ballast(path / "ballast", ballast_bytes)
        self._thread: DatabaseThread | None = None
        self._failure: StoreFailedError | None = None
        self._rows_in_log = 0
        self._idle: asyncio.TimerHandle | None = None

    async def open(self) -> None:
        """Take the directory, make or upgrade the database; raises StoreUnusableError."""
        self._directory.claim()
        try:
            self._thread = await _start_thread(self._file)
            await self._thread.perform(self._prepare)
        except BaseException:
            await self.close()
            raise

    async def load_objects(self) -> tuple[list[ObjectRow], int]:
        """All definitions by space and name, and the high-water mark (0 when there is none).

        Raises StoreUnusableError when the database turns out to be damaged.
        """
        return await self._run(lambda db: database.load_objects(db, self._file))

    async def load_messages(self) -> AsyncIterator[list[MessageRow]]:
        """All messages without their data, in order of id; rows with persistent=0 are gone once all were given.

        Raises StoreUnusableError when the database turns out to be damaged, and what `write` raises.
        """
        last = -1
        nonpersistent = False
        while rows := await self._run(partial(_page, path=self._file, after=last)):
            last = rows[-1].id
            nonpersistent = nonpersistent or not all(row.persistent for row in rows)
            yield rows
        if nonpersistent:
            await self._run(lambda db: self._write_removals(db, lambda: database.forget_nonpersistent(db, last)))

    def submit(self, rows: Rows, done: Callable[[Exception | None], None]) -> None:
        """Make all of `rows` durable, or none, then call `done`.

        It is told StoreFullError when there is no room: nothing is written, but a batch without inserts and objects
        still may be. It is told StoreFailedError when the outcome is unknown, and from then on always.
        """

        def written(error: Exception | None) -> None:
            self._checkpoint_when_idle()
            done(error)

        self._opened.submit(lambda db: self._write(db, rows), written)

    async def read_data(self, ids: Iterable[int]) -> dict[int, bytes]:
        """The data of these messages; raises StoreFailedError when one is missing or cannot be read."""
        wanted = list(ids)
        return await self._run(lambda db: database.read_data(db, wanted))

    async def close(self) -> None:
        """Let go of the database, then of the directory; harmless when already closed."""
        if self._idle is not None:
            self._idle.cancel()
        thread, self._thread = self._thread, None
        try:
            if thread is not None:
                with CancelScope(shield=True):
                    await thread.close()
        finally:
            self._directory.release()
            self._failure = None

    @property
    def _opened(self) -> DatabaseThread:
        if self._thread is None:
            raise RuntimeError(f"the store {self._file} is not open")
        return self._thread

    async def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        return await self._opened.perform(work)

    def _checkpoint_when_idle(self) -> None:
        """A long log is carried over when no write has come for a while; until then it waits in vain."""
        if self._idle is not None:
            self._idle.cancel()
        if self._rows_in_log >= _IDLE_ROWS:
            self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._start_checkpoint)

    def _start_checkpoint(self) -> None:
        if self._thread is not None:
            self._thread.submit(self._checkpoint, lambda _: None)

    # Everything below runs on the thread of the database.

    def _prepare(self, db: sqlite3.Connection) -> None:
        database.prepare(db, self._file)
        self._directory.sync()
        if not self._ballast.occupy():
            _LOGGER.warning("store full path=%s: nothing that needs room is written until there is some", self._file)

    def _write(self, db: sqlite3.Connection, rows: Rows) -> None:
        """Write a batch, and remember a failure for good."""
        if self._failure is not None:
            raise StoreFailedError("an earlier batch may or may not be written") from self._failure
        self._rows_in_log += len(rows.inserts) + len(rows.removals) + len(rows.backouts) + len(rows.marks)
        try:
            if rows.grows:
                self._write_growth(db, lambda: database.apply(db, rows))
            else:
                self._write_removals(db, lambda: database.apply(db, rows))
        except StoreFailedError as error:
            self._failure = error
            raise

    def _write_growth(self, db: sqlite3.Connection, write: Callable[[], None]) -> None:
        """Write what needs room, unless removals would then have none: they have the ballast, or free pages enough.

        With as many free pages in the database as the log may hold, the log can be carried over and begun again
        without a larger file.
        """
        if not self._ballast.hold() and database.free_bytes(db) < database.WAL_BYTES_MAX:
            raise StoreFullError(f"there is no room on the disk of {self._file}")
        write()

    def _write_removals(self, db: sqlite3.Connection, write: Callable[[], None]) -> None:
        """Write what gives room back, with the room of the ballast if it needs some first.

        The ballast is not given up sooner, when a batch that grows is refused: another program might take its room.
        """
        try:
            write()
        except StoreFullError:
            if self._ballast.release():
                _LOGGER.warning("store full path=%s: removals take the room of the ballast", self._file)
            self._checkpoint(db)  # The log is then written from its beginning again, and needs no more room.
            write()

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        """Carry the log over. An error loses nothing: the log keeps what it has until the next attempt succeeds."""
        try:
            database.checkpoint(db)
        except sqlite3.Error as error:
            _LOGGER.warning("checkpoint failed path=%s: %s", self._file, error)
        else:
            self._rows_in_log = 0


class DatabaseThread(aiosqlite.Connection):
    """aiosqlite's connection and its thread, with whole pieces of work in place of single statements.

    aiosqlite offers one hop a statement. A batch is to cost one hop, and must not be cut in two by a cancelled task; so
    work is put into the queue of the thread directly. That queue is a protected attribute, which is one reason why only
    versions of aiosqlite that were tried are accepted. The work carries its arguments in itself, because aiosqlite logs
    what it runs, and messages do not belong in a log.
    """

    def submit(self, work: Callable[[sqlite3.Connection], None], done: Callable[[Exception | None], None]) -> None:
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

    def __init__(self, loop: asyncio.AbstractEventLoop, done: Callable[[Exception | None], None]) -> None:
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


async def _start_thread(path: Path) -> DatabaseThread:
    """A thread with its connection to the database at `path`; raises StoreUnusableError."""
    try:
        thread = DatabaseThread(partial(database.connect, path), iter_chunk_size=64)
        await thread
    except sqlite3.Error as error:
        raise StoreUnusableError(f"{path} cannot be opened ({error}); look at the rights of its directory") from error
    return thread


def _page(db: sqlite3.Connection, path: Path, after: int) -> list[MessageRow]:
    return database.load_messages(db, path, after, LOAD_CHUNK)
