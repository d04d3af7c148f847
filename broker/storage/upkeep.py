"""What keeps the files of the SQLite store in order beside the batches.

- The write-ahead log is carried over to the database by a second connection, on a thread of its own. Batches go on
  meanwhile; what they added is then carried over by the thread that writes, and the log begins anew. So the log stays
  near `CARRY_BYTES`; a commit that finds it beyond `WAL_BYTES_MAX` carries it over itself. Only another program that
  reads the database in one long transaction can let the log grow further, and only until that transaction ends.
- When no batch comes for a while, the log is carried over, it gets the room it may take, and a database that is nearly
  all free room is written anew without it. Otherwise free room is kept: the next messages lie there.
- After a stop that was not orderly, every page of the database is looked at while the queue manager works. The file
  `unchecked` is there until that has ended well. Damage stops the queue manager.

Methods are called on the event loop, unless they say otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from broker.storage import database
from broker.storage.disk import database_thread
from broker.storage.disk.directory import open_private
from broker.storage.store import StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from broker.storage.disk.database_thread import DatabaseThread
    from broker.storage.store import Rows

CARRY_BYTES = database.WAL_BYTES_MAX // 2
"""What a log has when it is carried over although batches come: while that goes on, it grows as much again."""

SHRINK_FREE_BYTES = 64 * 1024 * 1024
"""A database with less free room than this is left as it is."""

SHRINK_USED_BYTES = 16 * 1024 * 1024
"""A database with more in it than this is left as it is: a batch may have to wait while it is written anew."""

_IDLE_SECONDS = 0.1  # After so long without a batch, nobody is likely to wait for what is done.
_IDLE_BYTES = 256 * 1024  # Less than this in the log is not worth two syncs.
_ROOMY_BYTES = 64 * database.WAL_BYTES_MAX  # On a disk with less room left, the log takes only what it needs.

logger = logging.getLogger(__name__)


class Upkeep:
    """The upkeep of the database in `directory`. `damaged` is told, on the loop, what a check found to be wrong."""

    def __init__(self, directory: Path, damaged: Callable[[str], None]) -> None:
        self._file = directory / "evermq.db"
        self._log = directory / "evermq.db-wal"
        self._unchecked = directory / "unchecked"
        self._damaged = damaged
        self._turn = Lock()  # SQLite lets one connection carry the log over, and the other find nothing to do.
        self._writer: DatabaseThread | None = None
        self._thread: DatabaseThread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._batches = self._batches_seen = 0
        self._grown = 0  # by about so many bytes since the log was carried over
        self._carrying = False
        self._rested = False
        self._check_owed = False
        self._room = database.Room(0, 0)
        self._last_checkpoint: datetime | None = None
        self._last_check = "not needed"

    def note_last_stop(self) -> None:
        """See whether the last stop was orderly: it leaves no log. Comes before the database is opened."""
        self._check_owed = self._unchecked.exists() or _size(self._log) > 0
        if self._check_owed:
            with suppress(OSError):  # On a full disk the check is made, and merely forgotten if it is broken off.
                os.close(open_private(self._unchecked, os.O_WRONLY | os.O_CREAT))

    async def open(self, writer: DatabaseThread) -> None:
        """Begin, beside the thread that writes. Raises StoreUnusableError."""
        self._thread = await start_thread(self._file)
        await self._thread.perform(database.sync_fully)
        self._room = await writer.perform(database.room)
        self._writer = writer
        self._wait_for_idleness()

    async def close(self) -> None:
        """End, while the thread that writes still runs; a check is broken off. Harmless when already closed."""
        self._writer = None
        if self._timer is not None:
            self._timer.cancel()
        thread, self._thread = self._thread, None
        if thread is not None:
            if self._last_check == "running":
                await thread.interrupt()
            await thread.close()

    def status(self) -> dict[str, Any]:
        """The files in figures, `free_bytes` as of the last checkpoint."""
        return {
            "file": str(self._file),
            "bytes": _size(self._file),
            "free_bytes": self._room.free,
            "log_bytes": _size(self._log),
            "log_bytes_max": database.WAL_BYTES_MAX,
            "last_checkpoint": self._last_checkpoint and self._last_checkpoint.isoformat(timespec="seconds"),
            "last_check": self._last_check,
        }

    # The log

    def written(self, rows: Rows) -> None:
        """A batch was written, or was to be."""
        self._batches += 1
        self._rested = False
        self._grown += _log_bytes(rows)
        if self._grown >= CARRY_BYTES:
            self._carry()
        if self._timer is None:
            self._wait_for_idleness()

    def make_way(self) -> None:
        """Wait, on the thread that writes, while the log grows faster than it is carried over."""
        if self._carrying and self._grown >= CARRY_BYTES:
            self._turn.acquire()
            self._turn.release()

    def checkpoint(self, db: sqlite3.Connection) -> None:
        """Carry the log over, on the thread of `db`. An error loses nothing: the log keeps what it has."""
        with self._turn:
            try:
                database.checkpoint(db)
            except sqlite3.Error as error:
                logger.warning("checkpoint failed path=%s: %s", self._file, error)

    def _carry(self) -> None:
        if self._thread is not None and not self._carrying:
            self._carrying = True
            self._grown = 0
            self._thread.submit(self.checkpoint, self._carried)

    def _carried(self, _: Exception | None) -> None:
        if self._writer is not None:
            self._writer.submit(self._finish, self._finished)

    def _finish(self, db: sqlite3.Connection) -> None:
        """Carry over what came meanwhile, on the thread that writes: then the log begins anew."""
        self.checkpoint(db)
        self._room = database.room(db)

    def _finished(self, _: Exception | None) -> None:
        self._carrying = False
        self._last_checkpoint = datetime.now(UTC)

    # When no batch comes

    def _wait_for_idleness(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._look)

    def _look(self) -> None:
        """Use the time if there was no batch since the last look."""
        self._timer = None
        if self._writer is None:
            return
        if self._batches != self._batches_seen:
            self._batches_seen = self._batches
            self._wait_for_idleness()
        elif self._carrying or self._grown >= _IDLE_BYTES:
            self._carry()
            self._wait_for_idleness()
        elif not self._rested:
            self._rested = True
            self._writer.submit(self._rest, self._rest_ended)

    def _rest(self, db: sqlite3.Connection) -> None:
        """Give the log its room, and free room back to the disk, on the thread that writes."""
        if shutil.disk_usage(self._file).free > _ROOMY_BYTES and _size(self._log) < database.WAL_BYTES_MAX:
            database.occupy_log(db, self._log)
        total, free = database.room(db)
        if free >= SHRINK_FREE_BYTES and total - free <= SHRINK_USED_BYTES:
            database.shrink(db)
            self._finish(db)
            logger.info("database shrunk path=%s from=%d to=%d bytes", self._file, total, self._room.total)

    def _rest_ended(self, error: Exception | None) -> None:
        if error is not None:  # Nothing is lost by it, and the next time may be better.
            logger.warning("upkeep failed path=%s: %s", self._file, error)

    # The check

    def check(self) -> None:
        """Look for damage, if the last stop was not orderly."""
        if self._check_owed and self._thread is not None:
            self._check_owed = False
            self._last_check = "running"
            logger.info("check started path=%s: the last stop was not orderly", self._file)
            self._thread.submit(self._look_for_damage, self._checked)

    def _look_for_damage(self, db: sqlite3.Connection) -> None:
        """Look at every page, on the second thread; raises DatabaseError when something is wrong."""
        if self._writer is not None and (damage := database.find_damage(db)):
            raise sqlite3.DatabaseError(damage)

    def _checked(self, error: Exception | None) -> None:
        if self._writer is None:  # The end came first, and the file `unchecked` stays.
            self._last_check = "broken off"
        elif error is None:
            self._last_check = "passed"
            self._unchecked.unlink(missing_ok=True)
            logger.info("check passed path=%s", self._file)
        else:
            self._last_check = f"failed: {error}"
            self._damaged(str(error))


async def start_thread(path: Path) -> DatabaseThread:
    """A thread with its connection to the database at `path`; raises StoreUnusableError."""
    try:
        return await database_thread.start(partial(database.connect, path), "evermq-database")
    except sqlite3.Error as error:
        raise StoreUnusableError(f"{path} cannot be opened ({error}); look at the rights of its directory") from error


def _log_bytes(rows: Rows) -> int:
    """About how much these rows add to the log: more often too much than too little."""
    changed = len(rows.removals) + len(rows.hardened) + len(rows.backouts)
    return database.PAGE_BYTES + sum(row.length + 512 for row in rows.inserts) * 4 // 3 + changed * 1024


def _size(path: Path) -> int:
    """How long a file is; 0 when it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
