"""Keep the snapshot behind the log: when the log is carried over to it, and what follows where that cannot be done.

- The snapshot takes over what the log has gathered (`broker.storage.snapshot.carry_over`) when a file of the log is
  full, when many changes have gathered, when no batch comes for a while, and at an orderly stop.
- A carry-over that finds no room makes the store full: what grows is refused until one went through and the ballast,
  which is given up for it, is back, or the files that are there have room enough (log rule 9). A database that another
  program has locked is tried again each second.
- A database that is nearly all free room is written anew (`broker.storage.shrinking`).

Methods are called on the event loop; what blocks is done on the thread of the database.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.storage.busy_time import BusyTime
from broker.storage.file_watch import FileWatch
from broker.storage.reserve import Reserve
from broker.storage.shrinking import Shrinking
from broker.storage.snapshot.carry_over import CarryOver
from broker.storage.snapshot.delta import Delta
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.store import StoreFailedError, StoreFullError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from broker.clock import Clock
    from broker.storage.disk.disk import DatabaseWorker, Disk
    from broker.storage.log.writer import Writer
    from broker.storage.snapshot.database import Snapshot
    from broker.storage.start import StartedStore
    from broker.storage.store import Done, Rows

RETRY_SECONDS: Final = 1.0
"""The time between two tries when there is no room, or the database is locked."""

CHANGE_BYTES: Final = 24 * 1024
"""The most bytes that the removal of a message adds to SQLite's write-ahead log: pages of the row and of its data."""

CHANGES_MIN: Final = 64
"""So many changes of rows in the database are gathered, however small the ballast is."""

logger = logging.getLogger(__name__)


class SnapshotKeeper:
    """The keeper of the snapshot of an open store. `delta` is what the snapshot lacks, `number` that of the last batch
    in it, `gathered` about its bytes; `full`, that what grows is refused.
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        opened: StartedStore,
        ballast_bytes: int,
        failed: Callable[[StoreFailedError], None],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._log = opened.log
        self._manifest = opened.manifest
        self.snapshot = opened.snapshot
        self.database = opened.database
        self.files = FileWatch(disk, opened.manifest)
        self._reserve = Reserve(disk, ballast_bytes, opened.manifest.current.file_bytes)
        self._changes_max = max(CHANGES_MIN, ballast_bytes // CHANGE_BYTES)  # they find room even on a full disk
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self.carrying = CarryOver(opened.database, opened.snapshot, opened.manifest, clock.time)
        self.carrying.committed = opened.uncarried
        self.shrinking = Shrinking(disk, opened.manifest, self)
        self._may_have_shrunk = True  # since it was last looked at
        self.may_have_freed = True  # memory, since it was last given back
        self.number = opened.log.number
        self._frozen: Delta | None = None  # what the carry-over that runs, or is tried again, has to write
        self._frozen_number = self.number
        self.gathered = sum(len(each.data or b"") for each in opened.delta.inserts.values())
        self._busy = BusyTime(clock, disk.path)
        self._waiting: list[asyncio.Future[Exception | None]] = []  # for the end of the carry-over that runs
        self._loading = False  # what the snapshot lacks stays with it until all has been read
        self._ended = False
        self.lent = False  # to a backup that copies it: the database stays the one that it is
        self.closed = False  # the database
        self.delta = opened.delta
        self.full = opened.uncarried
        self.crowded = False
        self.last_carry_over: datetime | None = None
        self.writer: Writer
        self.watched = False  # a timer is set, at whose end somebody looks if batches still come
        self.watch: Callable[[], None]
        """Sets it."""

    async def open(self) -> None:
        """Begin: the ballast is occupied, or the store is full."""
        await self.database.perform(self._look_for_room)
        self.full = self.full or not self._reserve.enough

    def status(self) -> dict[str, Any]:
        """In figures, for people."""
        return {
            "full": self.full,
            "ballast_held": self._reserve.held,
            "last_carry_over": self.last_carry_over and self.last_carry_over.isoformat(timespec="seconds"),
            "batches": self.number,
            "batches_in_snapshot": self._log.snap,
        }

    def row_data(self, id: int) -> bytes | None:
        """The data of a message that is not in the snapshot yet."""
        row = self.delta.inserts.get(id)
        if row is None and self._frozen is not None:
            row = self._frozen.inserts.get(id)
        return None if row is None else row.data

    async def stand_still(self) -> Delta:
        """Hold off carry-overs, when the running one has ended, until `go_on`. Return what the snapshot lacks."""
        self._loading = True
        while self.working and not self._ended:
            await self._carry_over_ended()
        self._thaw()
        return self.delta

    def go_on(self) -> None:
        """Let carry-overs begin again."""
        self._loading = False
        self._go_on()

    def _go_on(self) -> None:
        self.writer.go_on()
        self.watch()

    # The writer's calls

    def settled(self, rows: Rows, size: int) -> None:
        """A batch has become durable, as a record of so many bytes."""
        self.delta.apply(rows)
        self.number += 1
        self.gathered += size
        delta = self.delta
        changes = (
            len(delta.removals) + len(delta.counters) + (delta.held_later + len(delta.keys)) // 3
        )  # `Delta.changes`
        if changes >= (self._changes_max // 4 if self.full else self._changes_max):
            self.crowded = changes >= 2 * self._changes_max
            self.carry()
        if not self.watched:  # a call less for each batch
            self.watch()

    def file_full(self) -> None:
        """The log goes on in another file: what is in the one before comes into the snapshot."""
        self.carry()

    def needs_room(self) -> None:
        """Batches wait for a free file of the log."""
        if self._busy.since is None:  # else it is tried again each second
            self.carry()

    def keep(self, rows: Rows, done: Done) -> bool:
        """Write a batch that no file of the log could hold to the snapshot, once the log is carried over; False when
        that is to come first.
        """
        if self.working or self._behind or self._loading:
            self.carry()
            return False
        delta = Delta()
        delta.apply(rows)
        self._start_keeping(delta, done)
        return True

    def _start_keeping(self, delta: Delta, done: Done) -> None:
        if self.working or self._loading:
            self._clock.call_later(RETRY_SECONDS, partial(self._start_keeping, delta, done))
        elif not self.carrying.stopped:
            self.carrying.start(delta, self.number + 1, partial(self._kept, delta, done))

    def _kept(self, delta: Delta, done: Done, error: Exception | None) -> None:
        durable = error is None or (self.carrying.committed and isinstance(error, StoreFullError | StoreBusyError))
        if durable:
            self.number = self._log.skip()
        self._carried(error)
        if durable:
            done(None)
        elif not isinstance(error, StoreBusyError):
            done(error)
        elif not self._busy.too_long:
            self._clock.call_later(RETRY_SECONDS, partial(self._start_keeping, delta, done))
        else:
            done(StoreFullError(f"the batch fits no file of the log, and {error}"))

    # The carry-over

    async def carry_over(self) -> None:
        """Have the snapshot hold all batches that are settled now; raises StoreFullError, StoreBusyError or
        StoreFailedError where it could not be done.
        """
        number = self.number
        while self.shrinking.running or self._log.snap < number or self.carrying.committed:
            if self._ended or self._loading:
                raise StoreBusyError("the store is being opened or closed")
            self.carry()
            error = await self._carry_over_ended()
            if error is not None:
                raise error

    @property
    def _behind(self) -> bool:
        """True if the snapshot lacks something, or is not whole in its file."""
        return self.number > self._log.snap or self.carrying.committed

    @property
    def working(self) -> bool:
        """True if the database is carried over to, or written anew."""
        return self.carrying.running or self.shrinking.running

    def carry(self) -> None:
        """Carry over what there is, unless that is being done, or all is being read."""
        if self.working or self._ended or self._loading:
            return
        if self.carrying.committed:
            self.carrying.resume(self._carried)
            return
        if self._frozen is None:
            self._frozen, self.delta = self.delta, Delta()
            self._frozen_number, self.gathered, self.crowded = self.number, 0, False
        self.carrying.start(self._frozen, self._frozen_number, self._carried)

    def try_again(self) -> None:
        """Carry over what found no room, or the database locked; take the ballast back."""
        if self._behind and (self.full or self._busy.since is not None):
            self.carry()
        elif self.full or not self._reserve.whole:
            self.database.submit(self._look_for_room, self._looked_for_room)

    def _carried(self, error: Exception | None) -> None:
        """A carry-over has ended, or got as far as it could."""
        if error is not None and not isinstance(error, StoreFullError | StoreBusyError):
            self._failed(error if isinstance(error, StoreFailedError) else StoreFailedError(repr(error)))
            return
        if error is None or self.carrying.committed:
            self._frozen = None
        if error is None:
            self._went_through()
        elif isinstance(error, StoreFullError):
            self._found_no_room(error)
        else:
            self._found_it_busy(error)
        self._tell_ended(error)

    def _went_through(self) -> None:
        self._log.snap = self.carrying.number
        self._busy.since = None
        self._may_have_shrunk = self.may_have_freed = True
        self.last_carry_over = datetime.fromtimestamp(self._clock.time(), UTC)
        if self.full or not self._reserve.whole:
            self.database.submit(self._look_for_room, self._looked_for_room)
        self._go_on()

    def _thaw(self) -> None:
        """Have what is not carried over yet in one piece."""
        if self._frozen is not None:
            self._frozen.follow(self.delta)
            self.delta, self._frozen = self._frozen, None
            self.crowded = self.delta.changes >= 2 * self._changes_max

    def _found_no_room(self, full: StoreFullError) -> None:
        """Try again what was frozen, with the room of the ballast, and then together with later changes: messages that
        were got meanwhile need no room.
        """
        if not self.full:
            logger.warning("store full path=%s: what grows is refused until there is room: %s", self._disk.path, full)
        self.full = True
        if self._reserve.held:  # alone at first: SQLite's log is long enough for one file of ours
            self.database.submit(lambda _: self._reserve.give_up(), self._ballast_given_up)
        else:
            self._thaw()
            self.writer.refuse(full)

    def _ballast_given_up(self, error: Exception | None) -> None:
        if error is not None:
            logger.warning("ballast not removed path=%s: %s", self._disk.path, error)
        logger.warning("store full path=%s: removals take the room of the ballast", self._disk.path)
        self.carry()

    def _found_it_busy(self, busy: StoreBusyError) -> None:
        self._busy.found(busy)
        if self._busy.too_long:
            self.writer.refuse(StoreFullError(f"the log is full, and cannot be carried over: {busy}"))

    def _look_for_room(self, db: sqlite3.Connection) -> None:
        """Take what room there is for the carry-overs to come."""
        log = self._disk.identity(f"{self.snapshot.path.name}-wal")
        self._reserve.occupy(self.snapshot.room(db).free, 0 if log is None else log.size)

    def _looked_for_room(self, _: Exception | None) -> None:
        roomy = self._reserve.enough and not self.carrying.committed
        if roomy == self.full:
            self.full = not roomy
            if roomy:
                logger.warning("store has room again path=%s", self._disk.path)
            else:
                logger.warning("store full path=%s", self._disk.path)
            self.writer.go_on()

    # The database written anew

    def shrink(self) -> None:
        """Have the database written anew, if it may be nearly all free room and what is in it stands still."""
        still = not (self.working or self._loading or self.lent or self.carrying.committed or self._frozen is not None)
        if self._may_have_shrunk and still and not (self.full or self._ended):
            self._may_have_shrunk = False
            self.shrinking.begin()

    def go_over(self, database: DatabaseWorker, snapshot: Snapshot) -> None:
        """Use this database from now on, which the manifest names."""
        stopped = self.carrying.stopped
        self.database, self.snapshot = database, snapshot
        self.carrying = CarryOver(database, snapshot, self._manifest, self._clock.time)
        self.carrying.stopped = stopped
        self.files.renew()

    def shrunk(self, error: StoreFailedError | None) -> None:
        """The writing anew has ended: what waits for it goes on."""
        if error is not None:
            self._failed(error)
        self._tell_ended(error)
        self._go_on()

    # The end

    def stop(self) -> None:
        """Begin nothing any more; harmless when repeated."""
        self._ended = self.shrinking.stopped = True

    async def carry_last(self) -> None:
        """Wait for the carry-over that runs, then for one of what is left; that it finds no room is no failure. Raises
        StoreFailedError.
        """
        self.stop()
        await self.shrinking.end()
        self._ended = self._loading = False
        for _ in range(2):
            if self._behind or self.carrying.running:
                self.carry()
                await self._end_of_carry_over()
        self.stop()
        while self.carrying.running:  # once more, with the room of the ballast
            await self._end_of_carry_over()

    async def close(self) -> None:
        """Close the database, in order unless its last carry-over found no room."""
        if self.carrying.committed:
            await self.database.abandon()
        else:
            await self.database.close()
        self.closed = True

    def fail(self, error: StoreFailedError) -> None:
        """Carry over nothing any more."""
        self.stop()
        self.carrying.stopped = True
        self._tell_ended(error)

    async def let_go(self) -> None:
        """End, and leave the database open unless it was closed: SQLite would write to it."""
        self.stop()
        await self.shrinking.end()
        if self.carrying.stopped:
            with suppress(Exception):  # It is being written that the store has failed; what still waits is not.
                await self.database.perform(lambda _: None)
        if not self.closed:
            await self.database.abandon()

    async def _end_of_carry_over(self) -> None:
        error = await self._carry_over_ended()
        if isinstance(error, StoreFailedError):
            raise error

    async def _carry_over_ended(self) -> Exception | None:
        """Wait for the end of the carry-over that runs, or of the store. Return the error with which it ended."""
        if self.carrying.stopped:  # Nothing will tell: the store has failed before somebody waited.
            return StoreFailedError("the store has failed")
        ended: asyncio.Future[Exception | None] = self._loop.create_future()
        self._waiting.append(ended)
        return await ended

    def _tell_ended(self, error: Exception | None) -> None:
        waiting, self._waiting = self._waiting, []
        for ended in waiting:
            if not ended.done():
                ended.set_result(error)
