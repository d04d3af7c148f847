"""The start of a store: what lies in the directory is read past every cache, and made whole (log rule 7).

Each step may be cut short and begun again. Nothing is acknowledged or visible before the manifest says `running` in a
generation of this start. What is missing, foreign, older than another file says, or damaged is refused by name: a mere
crash leaves none of that.
"""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from anyio import CancelScope

from broker.storage import faults
from broker.storage.creation import create, finish_upgrade
from broker.storage.log import manifest as manifests
from broker.storage.log import record
from broker.storage.log.log import Log
from broker.storage.log.manifest import ManifestFile, database_name
from broker.storage.snapshot.carry_over import note
from broker.storage.snapshot.checks import Checks
from broker.storage.snapshot.database import Snapshot
from broker.storage.snapshot.delta import Delta
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.snapshot.rewriting import remove_database, rewritten
from broker.storage.snapshot.scripts import version
from broker.storage.snapshot.upgrade import add_columns
from broker.storage.store import StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.clock import Clock
    from broker.storage.creation import LogSettings
    from broker.storage.disk.disk import DatabaseWorker, Disk, DiskThread
    from broker.storage.log.manifest import Manifest
    from broker.storage.log.record import Record
    from broker.storage.log.scan import Chain

BALLAST: Final = "ballast"
"""Room kept back for the day the disk is full."""

BUSY_SECONDS_MAX: Final = 30.0
"""The time that another program may keep the database locked before a start gives up."""

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class StartedStore(NamedTuple):
    """The parts of a store that was started. `delta` is what the log holds beyond the snapshot. `uncarried`: the
    database holds a transaction that no checkpoint found the room to carry over. `orderly`: the last stop was.
    """

    manifest: ManifestFile
    log: Log
    snapshot: Snapshot
    database: DatabaseWorker
    delta: Delta
    uncarried: bool
    orderly: bool


async def open_store(disk: Disk, worker: DiskThread, clock: Clock, name: str, settings: LogSettings) -> StartedStore:
    """Open the store of the queue manager `name` in a directory whose lock is held, making it when there is none.

    Raises StoreUnusableError, which names the file, what is wrong and what to do.
    """
    try:
        if manifests.FILE not in disk.names():
            await worker.perform(partial(create, disk, name, settings))
        return await _Start(disk, worker, clock, name).run()
    except (OSError, sqlite3.Error, StoreFailedError, StoreFullError, StoreBusyError) as error:
        raise StoreUnusableError(f"the store in {disk.path} cannot be opened: {error}") from error


class _Start:
    """One start."""

    def __init__(self, disk: Disk, worker: DiskThread, clock: Clock, name: str) -> None:
        self._disk = disk
        self._worker = worker
        self._clock = clock
        self._name = name
        self._manifest: ManifestFile
        self._snapshot: Snapshot
        self._database: DatabaseWorker | None = None
        self._replaced: DatabaseWorker | None = None
        self._files: list[ManifestFile | Log] = []

    async def run(self) -> StartedStore:
        try:
            return await self._run()
        except BaseException:
            with CancelScope(shield=True):
                await self._let_go()
            raise

    async def _let_go(self) -> None:
        """Leave the databases as they are and close the files, when the thread has ended what it does."""
        await self._worker.perform(lambda: None)
        for database in (self._replaced, self._database):
            if database is not None:
                await database.abandon()
        for files in self._files:
            files.close()

    async def _run(self) -> StartedStore:
        self._manifest = await self._worker.perform(lambda: ManifestFile.open(self._disk))
        kept = self._manifest.current
        orderly = kept.state == manifests.ORDERLY
        self._files.append(self._manifest)
        self._check_name(kept)
        records = await self._worker.perform(lambda: read_log(self._disk, kept))
        await self._open_database(kept)
        found = self._check_chain(kept, records)
        log = Log.open(self._disk, replace(kept, generation=kept.generation + 1), found)
        self._files.append(log)
        await self._worker.perform(partial(log.rewrite, found))
        number, uncarried = await self._settle_database(kept)
        log.snap = kept.snap if uncarried else self._snapshot.tally.number
        await self._worker.perform(partial(self._begin, found, number, uncarried))
        if self._snapshot.version != version():
            uncarried = await self._upgrade(kept.state)
            log.snap = self._manifest.current.snap
        if not (orderly or uncarried):  # else nothing was cut off
            await self._worker.perform(log.clear)
        if self._replaced is not None:
            await self._replaced.close()
        delta = Delta()
        for each in found.records:
            delta.apply(record.unpack(each.payload))
        return StartedStore(self._manifest, log, self._snapshot, self._opened, delta, uncarried, orderly)

    def _check_name(self, kept: Manifest) -> None:
        if kept.name != self._name:
            raise StoreUnusableError.of_another(kept.name, self._name)

    @property
    def _in_doubt(self) -> bool:
        """True if the database may be other than a cache shows it: else it was synced since it was last written."""
        kept = self._manifest.current
        return kept.carrying or kept.state == manifests.FAILED or self._manifest.doubtful

    async def _open_database(self, kept: Manifest) -> None:
        """Open the database that counts, as the medium has it."""
        self._refuse(faults.database_fault(self._disk, kept))
        if self._in_doubt:
            for each in (kept.database, f"{kept.database}-wal"):
                await self._worker.perform(partial(self._disk.drop_cache, each))
        self._snapshot = Snapshot(self._disk.path / kept.database, kept.instance, Checks(kept.seed))
        self._database = await self._patiently(lambda: self._disk.start_database(kept.database))
        try:
            await self._patiently(lambda: self._opened.perform(self._snapshot.open))
        except StoreFullError as full:
            logger.warning(
                "database locked for other programs, for want of room path=%s: %s",
                self._snapshot.path,
                full,
                extra={"event": "database_locked"},
            )
            await self._opened.close()
            self._database = await self._disk.start_database(kept.database)
            await self._patiently(lambda: self._opened.perform(partial(self._snapshot.open, alone=True)))
        needed = (await self._opened.perform(self._snapshot.room)).total
        self._refuse(faults.length_fault(self._disk, kept, needed))
        self._refuse(faults.snapshot_fault(self._disk, kept, self._snapshot.tally))

    @property
    def _opened(self) -> DatabaseWorker:
        assert self._database is not None
        return self._database

    def _check_chain(self, kept: Manifest, records: list[Record]) -> Chain:
        """Return the log's records beyond the snapshot; raises StoreUnusableError when something of it is missing."""
        found, fault = faults.chain_fault(self._disk, kept, self._snapshot.tally, records)
        self._refuse(fault)
        if found.records:
            logger.info("log read path=%s batches=%d last=%d", self._disk.path, len(found.records), found.end)
        return found

    async def _settle_database(self, kept: Manifest) -> tuple[int, bool]:
        """Make the database one file that the medium has whole. Return its number, and True if a checkpoint is due."""
        boot = self._disk.boot()
        cut_short = kept.carrying and kept.state != manifests.ORDERLY  # else it merely found no room
        unsure = (kept.state == manifests.FAILED or cut_short) and (not boot or boot == kept.boot)
        if self._manifest.doubtful or unsure:
            if await self._rewrite(kept.db + 1):
                return kept.db + 1, False
            return kept.db, not await self._end_in_place()
        if self._in_doubt:
            return kept.db, not await self._checkpoint()
        return kept.db, False

    async def _rewrite(self, number: int) -> bool:
        """Go on with a database written anew; the one before is closed when the manifest names the other. False when
        there is no room for that, not even that of the ballast.
        """
        for _ in ("with the ballast", "without it"):
            try:
                made = await rewritten(self._disk, self._worker, self._opened, self._snapshot, number)
            except StoreFullError:
                await self._worker.perform(partial(remove_database, self._disk, database_name(number)))
                self._disk.remove(BALLAST)
            else:
                self._replaced = self._database
                self._database, self._snapshot = made
                logger.warning("database written anew path=%s: the last stop left it in doubt", self._snapshot.path)
                return True
        return False

    async def _end_in_place(self) -> bool:
        """End the checkpoint where there is no room to write the database anew, and see that the medium has all that
        the cache shows. Return True if it could be ended; raises StoreUnusableError when the medium has not, or nobody
        can tell.

        SQLite's log is compared before: a checkpoint that finds no room leaves pages of it in the database, and only
        the log can complete them.
        """
        name = self._snapshot.path.name
        await self._see_on_medium(f"{name}-wal")
        ended = await self._checkpoint()
        for each in (name, f"{name}-wal"):
            await self._see_on_medium(each)
        logger.warning("database compared with the medium path=%s: no room to write it anew", self._snapshot.path)
        return ended

    async def _see_on_medium(self, name: str) -> None:
        if not await self._worker.perform(partial(self._disk.is_on_medium, name)):
            raise self._too_full()

    def _too_full(self) -> StoreUnusableError:
        found = self._disk.identity(self._snapshot.path.name)
        return StoreUnusableError(
            f"{self._snapshot.path} must be written anew, as the last stop left it in doubt, and the disk is full: "
            f"make room for {found.size if found else 0} bytes, then start again"
        )

    async def _checkpoint(self) -> bool:
        """Carry the write-ahead log of SQLite over. False if there was no room for that."""
        for attempt in ("with the ballast", "without it"):
            try:
                await self._patiently(lambda: self._opened.perform(self._snapshot.checkpoint))
            except StoreFullError as full:
                logger.warning("store full path=%s: no room to end a checkpoint %s: %s", self._disk.path, attempt, full)
                self._disk.remove(BALLAST)
            else:
                return True
        return False

    def _begin(self, found: Chain, number: int, uncarried: bool) -> None:
        """Say that a generation begins, then remove what does not count any more. It blocks.

        The write-ahead log that SQLite has just made has a durable name before the manifest may say `carrying`: a start
        that then misses it takes that for damage.
        """
        kept = self._manifest.current
        self._disk.sync_names()
        self._manifest.renew()
        self._manifest.write(
            generation=kept.generation + 1, state=manifests.RUNNING, cause="", durable=found.end, db=number,
            snap=kept.snap if uncarried else self._snapshot.tally.number, carrying=uncarried, boot=self._disk.boot(),
        )  # fmt: skip
        finish_upgrade(self._disk)
        for name in databases(self._disk.names()) - {database_name(number)}:
            remove_database(self._disk, name)

    async def _upgrade(self, state: str) -> bool:
        """Add the columns that a database of an older release lacks. True if a checkpoint is due (log rule 7.9). It is
        a carry-over without rows, before anything is in the log that an older release could not read. Where there is no
        room, all is as it was, also the `state` of the last stop.
        """
        carrying = self._manifest.current.carrying
        await self._note(carrying=True)
        try:
            await self._with_room(lambda: self._opened.perform(partial(add_columns, snapshot=self._snapshot)))
        except (StoreFullError, StoreUnusableError) as error:
            await self._note(carrying=carrying, state=state)
            raise StoreUnusableError(
                f"{self._snapshot.path} is of an older release, and cannot be upgraded: {error}; make room for some "
                "pages, or go on with the older release"
            ) from error
        logger.warning("store upgraded path=%s: an older release cannot use it any more", self._snapshot.path)
        if not await self._checkpoint():
            return True
        await self._note(carrying=False, snap=self._snapshot.tally.number)
        return False

    async def _note(self, **changes: object) -> None:
        await self._worker.perform(partial(note, self._manifest, **changes))

    async def _with_room(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work`, and again with the room of the ballast where there is no other."""
        try:
            await self._patiently(work)
        except StoreFullError as full:
            logger.warning("store full path=%s: a start takes the room of the ballast: %s", self._disk.path, full)
            self._disk.remove(BALLAST)
            await self._patiently(work)

    async def _patiently(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do `work`, again each second while another program has the database locked."""
        begun = self._clock.monotonic()
        while True:
            try:
                return await work()
            except StoreBusyError as busy:
                waited = self._clock.monotonic() - begun
                if waited >= BUSY_SECONDS_MAX:
                    raise StoreUnusableError(f"{busy}; end that program, then start again") from busy
                logger.warning("database busy path=%s seconds=%d: %s", self._disk.path, waited, busy)
                await self._clock.sleep(1.0)

    def _refuse(self, fault: str | None) -> None:
        if fault is not None:
            raise StoreUnusableError(f"{fault}; {faults.advice(self._disk.path)}")


def read_log(disk: Disk, kept: Manifest) -> list[Record]:
    """All records of the log that count, as the medium has them; raises StoreUnusableError when a file is missing,
    foreign, or not of its size.
    """
    records: list[Record] = []
    for number in range(kept.files):
        found, fault = faults.log_fault(disk, kept, number)
        if fault is not None:
            raise StoreUnusableError(f"{fault}; {faults.advice(disk.path)}")
        records += found
    return records


def databases(names: set[str]) -> set[str]:
    """The names of databases of a store, whatever their number."""
    return {name for name in names if manifests.DATABASE.fullmatch(name)}
