"""A copy of a store that is open, in another directory, while batches go on.

The database is copied with SQLite's own backup, through the connection that writes to it: so what a carry-over changes
meanwhile is changed in the copy too, and no transaction that reads keeps a checkpoint waiting. Between two runs of
pages the thread of the database does its other work.

The copy is a store of its own: its log is new and empty, and it has an instance of its own, so none of its files passes
for one of the store that it was made of. Its manifest comes last, when all else is on the medium and was read back.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from anyio import CancelScope

from broker.storage.creation import OLD_FILE, UNFINISHED, create_logs, place_placeholder
from broker.storage.disk.disk import NO_ROOM
from broker.storage.log import manifest as manifests
from broker.storage.snapshot.checks import Checks
from broker.storage.snapshot.database import Snapshot
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.snapshot.rewriting import remove_database
from broker.storage.store import BackupFailedError, StoreFailedError, StoreFullError, StoreUnusableError
from broker.storage.tools.inspection import Inspection

if TYPE_CHECKING:
    from broker.storage.disk.disk import DatabaseWorker, Disk
    from broker.storage.log.manifest import Manifest

RUN_PAGES: Final = 128
"""So many pages are copied in one piece; reads of bodies and carry-overs wait for no more."""

_STOPPED: Final = "the queue manager stops, and the backup was not finished"
_DATABASE: Final = manifests.database_name(1)

logger = logging.getLogger(__name__)


class BackupSource(Protocol):
    """The keeper of the snapshot that is copied, as a backup needs it."""

    database: DatabaseWorker
    lent: bool

    async def carry_over(self) -> None:
        """Have the snapshot hold all batches that are settled now; raises StoreFullError, StoreBusyError or
        StoreFailedError where it could not be done.
        """


class StoreBackup:
    """One backup of an open store, whose manifest is `kept`, into the directory of `target`."""

    def __init__(self, source: BackupSource, kept: Manifest, target: Disk) -> None:
        self._source = source
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._kept = kept
        self._made = replace(
            kept, instance=secrets.token_bytes(16), version=0, state=manifests.ORDERLY, cause="", db=1, boot="",
            carrying=False,
        )  # fmt: skip
        self._scope = CancelScope()
        self._stopped = False
        self._near_end = asyncio.Event()  # one run of pages is left to copy, or none
        self._may_end = False
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Make it. Raises StoreFullError where there is no room, BackupFailedError; then, or cancelled, it leaves the
        directory as it was.
        """
        try:
            with self._scope:
                await self._run()
            if self._scope.cancelled_caught:
                raise BackupFailedError(_STOPPED)
        except (StoreFullError, StoreFailedError, StoreUnusableError, StoreBusyError, OSError, sqlite3.Error) as error:
            failed = BackupFailedError.at(self._target.path, error)
            raise (StoreFullError(str(failed)) if _is_full(error) else failed) from error
        finally:
            self._source.lent = False
            self._over.set()

    @property
    def broken_off(self) -> bool:
        """True if it will not be made any more, and only has to end."""
        return self._stopped

    def break_off(self) -> None:
        """Have `run` fail soon, whatever it is at."""
        self._scope.cancel()

    async def stop(self) -> None:
        """Break it off, and wait until nothing is done for it any more."""
        self.break_off()
        await self._over.wait()

    async def _run(self) -> None:
        self._claim()
        worker = self._target.start_worker()
        try:
            await worker.perform(self._begin)
            self._source.lent = True
            await self._source.carry_over()
            await self._copied()
            self._source.lent = False
            await worker.perform(self._finish)
        except BaseException:
            self._stopped = True
            with CancelScope(shield=True):
                await worker.perform(self._clean)
            raise
        finally:
            with CancelScope(shield=True):
                await worker.close()
            self._target.release()
        logger.info("backup made path=%s batches=%d", self._target.path, self._made.last)

    def _claim(self) -> None:
        path = self._target.path
        with suppress(FileNotFoundError, NotADirectoryError):
            if self._target.names():
                raise BackupFailedError(f"{path} is not empty; a backup needs a directory that is new or empty")
        self._target.claim()

    def _begin(self) -> None:
        target = self._target
        target.create(UNFINISHED, b"", 0)
        target.sync_names()
        block_bytes = max(self._kept.block_bytes, target.block_bytes())
        file_bytes = max(self._kept.file_bytes // block_bytes, 4) * block_bytes
        self._made = replace(self._made, block_bytes=block_bytes, file_bytes=file_bytes)
        create_logs(target, self._made)
        target.create(_DATABASE, b"", 0)

    # The copy

    async def _copied(self) -> None:
        """Copy the database, with what comes meanwhile; nothing is under way any more when this returns, be it
        cancelled.
        """
        ended: asyncio.Future[Exception | None] = self._loop.create_future()

        def over(error: Exception | None) -> None:
            ended.set_result(error)
            self._near_end.set()

        self._source.database.submit(self._copy, over)
        try:
            await self._near_end.wait()
            with suppress(StoreFullError, StoreBusyError):  # It was carried over once; this need not be in the copy.
                await self._source.carry_over()
        except BaseException:
            self._stopped = True
            raise
        finally:
            self._may_end = True
            if not ended.done():
                self._source.database.submit(_nothing, _ignored)  # The thread may wait for something to do.
            await self._wait(ended)
        error = ended.result()
        if error is not None:
            raise error

    async def _wait(self, ended: asyncio.Future[Exception | None]) -> None:
        """Wait until the copy has ended, whatever is cancelled meanwhile."""
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.wait([ended])
            except asyncio.CancelledError as error:
                self._stopped, cancelled = True, error
        if cancelled is not None:
            raise cancelled

    def _copy(self, db: sqlite3.Connection) -> None:
        """On the thread of the database."""
        copy = self._target.connect(_DATABASE)
        try:
            copy.execute("PRAGMA synchronous = OFF")  # It is synced as a whole.
            db.backup(copy, pages=RUN_PAGES, progress=partial(self._between, db), sleep=0)
        finally:
            copy.close()

    def _between(self, db: sqlite3.Connection, _status: int, remaining: int, _total: int) -> None:
        """Between two runs of pages: let other work be done. In the middle of a transaction nothing can be copied."""
        others = self._source.database.let_others
        others()
        self._handle()
        last = 0 < remaining <= RUN_PAGES
        if last:
            self._loop.call_soon_threadsafe(self._near_end.set)
        while db.in_transaction or (last and not self._may_end):
            others(wait=True)
            self._handle()

    def _handle(self) -> None:
        if self._stopped:
            raise BackupFailedError(_STOPPED)

    # The end, on the thread of the target

    def _finish(self) -> None:
        target = self._target
        snapshot = Snapshot(target.path / _DATABASE, self._kept.instance, Checks(self._kept.seed))
        db = target.connect(_DATABASE)
        try:
            snapshot.open(db)
            snapshot.become(db, self._made.instance)
            snapshot.checkpoint(db)
        finally:
            db.close()
        place_placeholder(target)
        target.sync(_DATABASE)
        target.sync_names()
        number = snapshot.tally.number
        self._made = replace(self._made, snap=number, durable=number, last=number)
        self._verify()
        target.remove(UNFINISHED)
        manifests.create(target, self._made)
        if manifests.newest(manifests.read_slots(target)) != self._made:
            raise BackupFailedError.at(target.path, "the manifest is not what was written")

    def _verify(self) -> None:
        with Inspection(self._target, self._made, self._handle) as inspection:
            inspection.look()
            inspection.look_at_messages()
        if inspection.findings:
            raise BackupFailedError.at(self._target.path, "; ".join(inspection.findings[:3]))

    def _clean(self) -> None:
        """Leave nothing that a start would take for a store. What cannot be removed is not whole, and says so."""
        target = self._target
        with suppress(OSError):
            target.remove(manifests.FILE)
            target.remove(f"{manifests.FILE}.new")
            for each in self._made.logs:
                target.remove(each)
            for each in (_DATABASE, f"{OLD_FILE}.new", OLD_FILE):
                remove_database(target, each)
            target.remove("lock")
            target.remove(UNFINISHED)
            if target.made:
                target.path.rmdir()


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in NO_ROOM
    return isinstance(error, StoreFullError) or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def _nothing(_: sqlite3.Connection) -> None:
    """Only to wake the thread."""


def _ignored(_: Exception | None) -> None:
    """The worker ends, and with it the copy."""
