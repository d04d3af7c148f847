"""The store of a queue manager that keeps its messages: a log is the journal, an SQLite database the snapshot.

What it promises, beyond the Store protocol:

1. A batch is one record of the log and one sync. Nothing that happens to the task that waits can cut it in two.
2. Answered is durable: the medium has the record, whole. One record is on its way at a time (log rule 4).
3. A file of the log is written anew only when the snapshot has all that it holds, durably (log rules 4, 6).
4. A full disk refuses what grows. Removals go to the log, whose room is there, and into the snapshot with the room of
   the ballast (journal rule 6).
5. After any other error the outcome is unknown (journal rule 7): nothing more is written, everything later fails, and
   the files are left as they are. The next start reads what the medium has, and writes that anew.

Who does what: `broker.storage.start` opens, `broker.storage.log.writer` writes batches,
`broker.storage.snapshot_keeper` keeps the snapshot behind them, `broker.storage.upkeep` acts on time.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from anyio import CancelScope

from broker.clock import Clock
from broker.storage.creation import LogSettings
from broker.storage.disk.file_system import sqlite_note
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.figures import StoreFigures
from broker.storage.log.pace import Pace
from broker.storage.log.writer import Writer
from broker.storage.message_load import loaded_messages
from broker.storage.snapshot.database import FIRST_KEY
from broker.storage.snapshot.delta import Delta
from broker.storage.snapshot.statements import STEP_ROWS_MAX
from broker.storage.snapshot.steps import FIRST_STEP
from broker.storage.snapshot_keeper import SnapshotKeeper
from broker.storage.start import open_store
from broker.storage.store import BackupFailedError, DataDamagedError, Rows, Store, StoreFailedError, StoreFullError
from broker.storage.tools.backup import StoreBackup
from broker.storage.upkeep import Upkeep

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from broker.storage.disk.disk import Disk, DiskThread
    from broker.storage.snapshot.database import Snapshot
    from broker.storage.start import StartedStore
    from broker.storage.store import Done, KeyRow, MessageRow, ObjectRow, StepRow

LOAD_CHUNK: Final = 10_000
"""The number of messages that a load gives at a time."""

ADAPTIVE: Final = "adaptive"

logger = logging.getLogger(__name__)


class LogStore(Store):
    """Keeps the rows of the queue manager `name` in the directory `path`, which `open` makes when it is missing.

    `settings` are for a new store; `ballast_bytes` is how much of the disk is kept back for removals when it is full
    (None: three times the length of a log file). `disk` is for tests.
    """

    def __init__(
        self,
        path: Path,
        *,
        name: str = "QM1",
        clock: Clock | None = None,
        settings: LogSettings | None = None,
        ballast_bytes: int | None = None,
        disk: Disk | None = None,
    ) -> None:
        self._disk: Disk = SystemDisk(path) if disk is None else disk
        self._name = name
        self._clock = clock or Clock()
        self._settings = settings or LogSettings()
        self._ballast_bytes = 3 * self._settings.file_bytes if ballast_bytes is None else ballast_bytes
        self._worker: DiskThread | None = None
        self._opened: StartedStore | None = None
        self._writer: Writer
        self._keeper: SnapshotKeeper
        self._upkeep: Upkeep
        self._failure: StoreFailedError | None = None
        self._watcher: Callable[[StoreFailedError], None] | None = None
        self._warnings: list[str] = []
        self._backup: StoreBackup | None = None
        self._last_status: dict[str, Any] = {}

    def watch(self, failed: Callable[[StoreFailedError], None]) -> None:
        """Have `failed` called when the store fails, whoever notices it."""
        self._watcher = failed

    @property
    def full(self) -> bool:
        """True if what grows is refused until there is room."""
        return self._opened is not None and self._keeper.full

    async def open(self) -> None:
        """Take the directory, make the store or start it; raises StoreUnusableError."""
        self._failure = None
        self._disk.claim()
        try:
            self._warnings = self._disk.warnings()
            self._worker = worker = self._disk.start_worker()
            self._opened = opened = await open_store(self._disk, worker, self._clock, self._name, self._settings)
            for warning in self._warnings:
                logger.warning("file system path=%s: %s", self._disk.path, warning)
            if note := sqlite_note():
                logger.info("sqlite path=%s: %s", self._disk.path, note)
            pace = Pace(adaptive=self._settings.inline == ADAPTIVE and not self._warnings)
            self._writer = Writer(opened.log, worker, pace, self._clock, self._fail)
            self._keeper = SnapshotKeeper(self._disk, self._clock, opened, self._ballast_bytes, self._fail)
            self._writer.keeper, self._keeper.writer = self._keeper, self._writer
            self._upkeep = Upkeep(worker, self._clock, opened.manifest, self._keeper, self._fail)
            self._opened = opened._replace(delta=Delta())  # the keeper has it, until it is carried over
            del opened
            await self._upkeep.open()
        except BaseException:
            with CancelScope(shield=True):
                await self._let_go()
            raise

    async def load_objects(self) -> tuple[list[ObjectRow], int]:
        """All definitions by space and name, and the high-water mark (0 when there is none).

        Raises StoreUnusableError when one is not what was written.
        """
        self._use()
        async with self._upkeep.standing_still() as delta:
            snapshot = self._keeper.snapshot
            kept = await self._keeper.database.perform(snapshot.load_objects)
            objects = {(each.space, each.name): each for each in kept} | delta.objects
            found = [objects[key] for key in sorted(objects)]
            high_water = max(snapshot.tally.high_water, delta.high_water)
        return [each for each in found if each is not None], high_water

    async def load_keys(self) -> AsyncIterator[list[KeyRow]]:
        """All keys of puts; raises StoreUnusableError when one is not what was written."""
        self._use()
        async with self._upkeep.standing_still() as delta:
            snapshot = self._keeper.snapshot
            after = FIRST_KEY
            while page := await self._keeper.database.perform(
                partial(snapshot.load_keys, after=after, limit=LOAD_CHUNK)
            ):
                after = page[-1][:2]
                yield [row for row in page if row[:2] not in delta.keys]
            new = [row for row in delta.keys.values() if row is not None]
            for start in range(0, len(new), LOAD_CHUNK):
                yield new[start : start + LOAD_CHUNK]

    async def load_steps(self) -> AsyncIterator[list[StepRow]]:
        """All finished steps; raises StoreUnusableError when one is not what was written."""
        self._use()
        async with self._upkeep.standing_still() as delta:
            snapshot, later = self._keeper.snapshot, list(delta.steps.values())
            after = FIRST_STEP
            while page := await self._keeper.database.perform(
                partial(snapshot.load_steps, after=after, limit=STEP_ROWS_MAX)
            ):
                after = page[-1][:2]
                yield [row for row in page if row.id not in delta.removals]
            for each in later:
                yield list(each.values())

    async def load_messages(self) -> AsyncIterator[list[MessageRow]]:
        """All messages without their data, in order of id. Rows with persistent=0 that nobody holds are given after an
        orderly stop alone, and are gone once all were given.

        Raises StoreUnusableError when a row is not what was written, or the rows are not those that were, and what
        `write` raises.
        """
        opened = self._use()
        nonpersistent: list[int] = []
        async with self._upkeep.standing_still() as delta:
            async for rows in loaded_messages(self._keeper, delta, LOAD_CHUNK):
                lost = [row.id for row in rows if not (row.persistent or row.holder)]
                nonpersistent += lost
                yield rows if opened.orderly or not lost else [row for row in rows if row.persistent or row.holder]
        if nonpersistent:
            try:
                await self.write(Rows(removals=nonpersistent))
            except StoreFullError as full:  # The log is full, too: an orderly stop would bring them again.
                logger.warning(
                    "nonpersistent messages stay path=%s messages=%d: %s", self._disk.path, len(nonpersistent), full
                )

    @property
    def was_orderly(self) -> bool:
        """True if the stop before this start was orderly: then it has kept nonpersistent messages, which are given."""
        return self._use().orderly

    def submit(self, rows: Rows, done: Done) -> bool:
        """Make all of `rows` durable, or none: True when they are already, else `done` is called.

        It is told StoreFullError when there is no room: nothing is written, but a batch without inserts and objects
        still may be. It is told StoreFailedError when the outcome is unknown, and from then on always.
        """
        if self._opened is None:
            raise self._not_open()
        return self._writer.submit(rows, done)

    def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        """Read the data of these messages, then call `done`; it is told DataDamagedError, with the data of the others,
        when some is missing or is not what was put, and StoreFailedError when the database cannot be read.
        """
        self._use()
        found: dict[int, bytes] = {}
        wanted: list[int] = []
        for id in ids:
            data = self._keeper.row_data(id)
            if data is None:
                wanted.append(id)
            else:
                found[id] = data
        loop = asyncio.get_running_loop()
        if self._failure is not None:
            loop.call_soon(done, {}, self._failure)
        elif not wanted:
            loop.call_soon(done, found, None)
        else:
            reading = _Reading(self._keeper.snapshot, wanted, found, done)
            self._keeper.database.submit(reading.work, reading.ended)

    async def backup(self, path: Path) -> None:
        """Make a copy of the store in the directory `path`, which is new or empty; a store opened there has all that
        was durable when this was called. Cancelled, it leaves nothing there. Raises StoreFullError where there is no
        room, here or there, and BackupFailedError.
        """
        opened = self._use()
        if self._backup is not None and self._backup.broken_off:
            await self._backup.stop()
        if self._backup is not None or self._failure is not None:
            raise BackupFailedError.at(path, self._failure or "another backup is being made")
        _check_place(path, self._disk.path)
        self._backup = StoreBackup(self._keeper, opened.manifest.current, SystemDisk(path))
        try:
            await self._backup.run()
        finally:
            self._backup = None

    async def close(self) -> None:
        """Stop in order, or let go after a failure; harmless when already closed. Raises StoreFailedError when the
        order could not be kept: the files are then as after a failure.
        """
        with CancelScope(shield=True):
            if self._backup is not None:
                await self._backup.stop()
            opened, self._opened = self._opened, None
            try:
                if opened is not None and self._failure is None and not self._upkeep.damaged:
                    await self._settled()
                    if self._failure is not None:
                        raise self._failure
                    await self._upkeep.close()
            except (OSError, StoreFailedError) as error:
                failure = StoreFailedError(f"the store in {self._disk.path} could not be closed in order: {error}")
                self._fail(failure)
                raise failure from error
            finally:
                self._opened = opened
                await self._let_go()

    def status(self) -> dict[str, Any]:
        """The store in figures: its files, how they are written, whether what grows is refused. Once it is closed, as
        they were then.
        """
        opened = self._opened
        if opened is None:
            return self._last_status
        path = self._keeper.snapshot.path
        found = self._disk.identity(path.name)
        return {
            "file": str(path),
            "bytes": found.size if found else 0,
            **self._keeper.status(),
            "way": opened.log.way,
            "log_bytes_max": opened.log.capacity_bytes,
            "writes_on_loop": self._writer.inline_writes,
            "writes_on_thread": self._writer.thread_writes,
            "warnings": self._warnings,
        }

    def figures(self) -> StoreFigures | None:
        """The store in figures, for scrapes; None once it is closed."""
        if (opened := self._opened) is None:
            return None
        keeper, found = self._keeper, self._disk.identity(self._keeper.snapshot.path.name)
        size, counts = found.size if found else 0, self._writer.counts
        return StoreFigures(keeper.full, counts, opened.log.fill, keeper.carrying.durations, size, self._disk.space())

    async def _settled(self) -> None:
        """Wait until all that was submitted is answered."""
        drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writer.when_idle(lambda: drained.set_result(None))
        await drained

    async def _let_go(self) -> None:
        """End the threads and give the lock back. A database that was not closed in order stays open: SQLite would
        write to it.
        """
        self._last_status = self.status()
        opened, self._opened = self._opened, None
        if opened is not None:
            await self._upkeep.let_go()
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.close()
        if opened is not None:  # A record may have been on its way until here.
            opened.log.close()
            opened.manifest.close()
        self._disk.release()

    def _fail(self, error: StoreFailedError) -> None:
        """Journal rule 7: nothing is written any more, and everybody who waits is told."""
        if self._failure is not None:
            return
        advice = "nothing more is written; look at the disk, then start again"
        self._failure = failure = StoreFailedError(f"the store in {self._disk.path} has failed: {error}; {advice}")
        failure.__cause__ = error
        logger.error("store failed path=%s: %s", self._disk.path, error)
        if self._backup is not None:
            self._backup.break_off()
        self._writer.stop(failure)
        self._upkeep.fail(error)
        if self._watcher is not None:
            asyncio.get_running_loop().call_soon(self._watcher, failure)

    def _use(self) -> StartedStore:
        if self._opened is None:
            raise self._not_open()
        return self._opened

    def _not_open(self) -> RuntimeError:
        return RuntimeError(f"the store in {self._disk.path} is not open")


class _Reading:
    """One read of bodies from the snapshot, and who waits for it."""

    def __init__(
        self,
        snapshot: Snapshot,
        wanted: list[int],
        found: dict[int, bytes],
        done: Callable[[dict[int, bytes], Exception | None], None],
    ) -> None:
        self._snapshot = snapshot
        self._wanted = wanted
        self._found = found
        self._done = done
        self._damaged: list[int] = []

    def work(self, db: sqlite3.Connection) -> None:
        """Read, on the thread of the database."""
        found, self._damaged = self._snapshot.read_data(db, self._wanted)
        self._found.update(found)

    def ended(self, error: Exception | None) -> None:
        """Tell who waits."""
        if error is None and self._damaged:
            error = DataDamagedError.of(self._damaged, str(self._snapshot.path))
        self._done({} if isinstance(error, StoreFailedError) else self._found, error)


def _check_place(path: Path, data: Path) -> None:
    """Raise BackupFailedError for a directory that is within the data, or that a link leads to."""
    if path.is_symlink():
        raise BackupFailedError.at(path, "it is a link; name the directory itself")
    place = path.resolve()
    if data.resolve() in (place, *place.parents):
        raise BackupFailedError.at(path, "it is within the data that is copied; name another directory")
