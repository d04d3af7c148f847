"""The store of a queue manager that keeps its messages: one SQLite database, journal and snapshot at once.

What it promises, beyond the Store protocol:

1. A batch is one transaction and one hop to the thread that owns the database. Nothing that happens to the task that
   waits can stop it between BEGIN and COMMIT; a task that is cancelled merely does not learn the outcome.
2. `write` returns after the write-ahead log was synced (synchronous=FULL): the batch survives a power failure.
3. A full disk refuses what needs room. Removals, marks and backouts still go through, with the ballast's room if need
   be (journal rule 6); until the ballast is there again, or a good part of the database is free, the rest is refused.
4. After any other error the outcome is unknown (journal rule 7): every later write fails too, until the store was
   closed and opened again.

It orders nothing, retries nothing that needs room, and reads no message it was not asked for. What keeps its files in
order beside the batches is in `broker.storage.upkeep`.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CancelScope

from broker.storage import database
from broker.storage.disk.ballast import Ballast
from broker.storage.disk.directory import DataDirectory
from broker.storage.store import Store, StoreFailedError, StoreFullError
from broker.storage.upkeep import Upkeep, start_thread

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from broker.storage.disk.database_thread import DatabaseThread
    from broker.storage.store import Done, MessageRow, ObjectRow, Rows

FILES = ("evermq.db", "evermq.db-wal", "evermq.db-shm", "ballast", "lock", "unchecked")
"""What a queue manager has in its directory."""

LOAD_CHUNK = 10_000
"""How many messages a load gives at a time."""

BALLAST_BYTES = 2 * database.WAL_BYTES_MAX
"""Room to carry over what a full write-ahead log holds, twice: a large batch makes the log longer than its limit."""

_persistent = attrgetter("persistent")

logger = logging.getLogger(__name__)
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
        self._full = False
        self._upkeep = Upkeep(path, self._damaged)

    async def open(self) -> None:
        """Take the directory, make or upgrade the database; raises StoreUnusableError."""
        self._directory.claim()
        try:
            self._directory.make_private(*FILES)  # SQLite gives the files that it makes the mode of the database
            self._upkeep = Upkeep(self._directory.path, self._damaged)
            self._upkeep.note_last_stop()
            self._thread = await start_thread(self._file)
            await self._thread.perform(self._prepare)
            await self._upkeep.open(self._thread)
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
            nonpersistent = nonpersistent or not all(map(_persistent, rows))
            yield rows
        if nonpersistent:
            await self._run(lambda db: self._write_removals(db, lambda: database.forget_nonpersistent(db, last)))
        self._upkeep.check()  # Not before: it would make the start longer.

    def submit(self, rows: Rows, done: Done) -> None:
        """Make all of `rows` durable, or none, then call `done`.

        It is told StoreFullError when there is no room: nothing is written, but a batch without inserts and objects
        still may be. It is told StoreFailedError when the outcome is unknown, and from then on always.
        """

        def written(error: Exception | None) -> None:
            self._upkeep.written(rows)
            done(error)

        self._opened.submit(lambda db: self._write(db, rows), written)

    def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        """Read the data of these messages, then call `done`; it is told StoreFailedError when one is missing or cannot
        be read.
        """
        wanted = list(ids)
        found: dict[int, bytes] = {}

        def look_up(db: sqlite3.Connection) -> None:
            found.update(database.read_data(db, wanted))

        self._opened.submit(look_up, lambda error: done(found, error))

    async def close(self) -> None:
        """Let go of the database, then of the directory; harmless when already closed."""
        thread, self._thread = self._thread, None
        with CancelScope(shield=True):
            async with AsyncExitStack() as last_first:
                last_first.callback(self._directory.release)
                if thread is not None:
                    last_first.push_async_callback(thread.close)
                last_first.push_async_callback(self._upkeep.close)
        self._failure = None

    def status(self) -> dict[str, Any]:
        """The store in figures: its files, whether it refuses what needs room, and whether it has its ballast."""
        return {**self._upkeep.status(), "full": self._full, "ballast_held": self._ballast.held}

    @property
    def _opened(self) -> DatabaseThread:
        if self._thread is None:
            raise RuntimeError(f"the store {self._file} is not open")
        return self._thread

    async def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        return await self._opened.perform(work)

    def _damaged(self, damage: str) -> None:
        """Refuse every batch from now on: what else is written to a damaged database may be lost."""
        advice = "restore its directory from a copy, or move it away to start without messages"
        self._failure = StoreFailedError(f"{self._file} is damaged ({damage}); {advice}")
        logger.error("store damaged: %s", self._failure)

    # Everything below runs on the thread of the database.

    def _prepare(self, db: sqlite3.Connection) -> None:
        database.prepare(db, self._file)
        self._directory.sync()
        if not self._ballast.occupy():
            logger.warning("store full path=%s: nothing that needs room is written until there is some", self._file)

    def _write(self, db: sqlite3.Connection, rows: Rows) -> None:
        """Write a batch, and remember a failure for good."""
        if self._failure is not None:
            raise StoreFailedError(f"nothing is written any more: {self._failure}") from self._failure
        self._upkeep.make_way()
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
        try:
            if not self._ballast.hold() and database.room(db).free < database.WAL_BYTES_MAX:
                raise StoreFullError(f"there is no room on the disk of {self._file}")
            write()
        except StoreFullError:
            self._full = True
            raise
        self._full = False

    def _write_removals(self, db: sqlite3.Connection, write: Callable[[], None]) -> None:
        """Write what gives room back, with the room of the ballast if it needs some first.

        The ballast is not given up sooner, when a batch that grows is refused: another program might take its room.
        """
        try:
            write()
        except StoreFullError:
            if self._ballast.release():
                logger.warning("store full path=%s: removals take the room of the ballast", self._file)
            self._upkeep.checkpoint(db)  # The log is then written from its beginning again, and needs no more room.
            write()


def _page(db: sqlite3.Connection, path: Path, after: int) -> list[MessageRow]:
    return database.load_messages(db, path, after, LOAD_CHUNK)
