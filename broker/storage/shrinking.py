"""The database written anew without its free room, in place of VACUUM (log rule 6.6).

A database keeps the room of messages that are gone, for the next ones. When it is nearly all free room, and no batch
comes, it is written anew under the next number, read back past the cache, and named in the manifest; then the one
before is closed and removed. Batches go to the log meanwhile and bodies are read, but nothing is carried over: what is
copied stands still. Until the manifest names the copy it counts for nothing, and whatever goes wrong costs no more than
the try.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from broker.storage.log.manifest import database_name
from broker.storage.snapshot.carry_over import note
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.snapshot.rewriting import remove_database, rewritten
from broker.storage.store import StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from broker.storage.disk.disk import DatabaseWorker, Disk
    from broker.storage.log.manifest import ManifestFile
    from broker.storage.snapshot.database import Snapshot

FREE_BYTES_MIN: Final = 64 * 1024 * 1024
"""A database with less free room than this is left as it is."""

USED_BYTES_MAX: Final = 16 * 1024 * 1024
"""A database with more in it than this is left as it is: it would take long, and nothing is carried over meanwhile."""

_Harmless = (OSError, sqlite3.Error, StoreBusyError, StoreFailedError, StoreFullError, StoreUnusableError)

logger = logging.getLogger(__name__)


class DatabaseOwner(Protocol):
    """The owner of the database."""

    database: DatabaseWorker
    snapshot: Snapshot

    def go_over(self, database: DatabaseWorker, snapshot: Snapshot) -> None:
        """Use this database from now on, which the manifest names."""

    def shrunk(self, error: StoreFailedError | None) -> None:
        """It has ended; after an error nothing may be written any more (journal rule 7)."""


class Shrinking:
    """The writing anew of the database of `holder`.

    While it is `running` nothing may be carried over, and while it is `naming` nobody else may write the manifest. Once
    `stopped`, it names no database any more.
    """

    def __init__(self, disk: Disk, manifest: ManifestFile, holder: DatabaseOwner) -> None:
        self._disk = disk
        self._manifest = manifest
        self._holder = holder
        self._task: asyncio.Task[None] | None = None
        self.running = False
        self.naming = False
        self.stopped = False

    def begin(self) -> None:
        """Write the database anew, in a task, if it is nearly all free room."""
        self.running = True
        self._task = asyncio.get_running_loop().create_task(self._run(), name="write the database anew")

    async def end(self) -> None:
        """Wait until nothing of it goes on, and have none begin; harmless when repeated."""
        self.stopped = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        error: StoreFailedError | None = None
        try:
            await self._write_anew()
        except StoreFailedError as failure:
            error = failure
        finally:
            self.running = self.naming = False
            self._holder.shrunk(error)

    async def _write_anew(self) -> None:
        """Raises StoreFailedError, when it is not known which database the manifest names."""
        number = self._manifest.current.db + 1
        try:
            made = await self._copied(number)
        except _Harmless as error:
            logger.warning("database not written anew path=%s: %s", self._holder.snapshot.path, error)
            return
        if made is not None and self.stopped:
            await made[0].close()  # The next start removes it.
        elif made is not None:
            await self._go_over(number, *made)

    async def _copied(self, number: int) -> tuple[DatabaseWorker, Snapshot] | None:
        """A copy of the database, if it is worth one."""
        snapshot = self._holder.snapshot
        room = await self._holder.database.perform(snapshot.room)
        if room.free < FREE_BYTES_MIN or room.total - room.free > USED_BYTES_MAX or self.stopped:
            return None
        worker = self._disk.start_worker()
        try:
            reader = await self._disk.start_database(snapshot.path.name)  # bodies are read on the other
            try:
                return await rewritten(self._disk, worker, reader, snapshot, number)
            finally:
                await reader.close()
        except _Harmless:
            await worker.perform(partial(remove_database, self._disk, database_name(number)))
            raise
        finally:
            await worker.close()

    async def _go_over(self, number: int, database: DatabaseWorker, snapshot: Snapshot) -> None:
        """Name the copy in the manifest, then use it; the one before is nobody's any more."""
        before, path = self._holder.database, self._holder.snapshot.path
        self.naming = True
        try:
            await before.perform(lambda _: note(self._manifest, db=number))
        except StoreFailedError:
            await database.abandon()
            raise
        self._holder.go_over(database, snapshot)
        self.naming = False
        try:
            await before.close()
            await database.perform(lambda _: remove_database(self._disk, path.name))
        except _Harmless as error:  # The next start removes it.
            logger.warning("database not removed path=%s: %s", path, error)
        logger.info("database written anew path=%s: it was nearly all free room", snapshot.path)
