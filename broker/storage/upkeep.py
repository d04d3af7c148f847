"""Keep the files of a store in order beside the batches.

- The snapshot takes over what the log has gathered when a file of the log is full, when no batch comes for a while, and
  at an orderly stop (`broker.storage.snapshot.carry_over`).
- A carry-over that finds no room makes the store full: what grows is refused until one went through and the ballast,
  which is given up for it, is back, or the files that are there have room enough (log rule 9). A database that another
  program has locked is tried again each second.
- When no batch comes for a while, a database that is nearly all free room is written anew
  (`broker.storage.shrinking`), and memory that a start or a carry-over has left goes back to the system.
- The manifest learns how far the log reaches: once a second under load, and when no batch comes for a while.
- Each second all files are compared with those that are open (`broker.storage.file_watch`).

All time comes from the clock. Methods are called on the event loop; what blocks is done on the thread of the database,
which also owns the manifest, until it is closed; then the thread of the log does.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.clock import cancel_timer
from broker.storage.disk import heap
from broker.storage.file_watch import FileWatch
from broker.storage.log.manifest import FAILED, ORDERLY
from broker.storage.reserve import Reserve
from broker.storage.shrinking import Shrinking
from broker.storage.snapshot.carry_over import CarryOver, note
from broker.storage.snapshot.delta import Delta
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.store import Rows, StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import AsyncIterator, Callable

    from broker.clock import Clock, Timer
    from broker.storage.disk.disk import DatabaseWorker, Disk, DiskThread
    from broker.storage.log.writer import Writer
    from broker.storage.snapshot.database import Snapshot
    from broker.storage.start import StartedStore
    from broker.storage.store import Done

IDLE_SECONDS: Final = 0.1
"""After so long without a batch, nobody is likely to wait for what is done."""

IDLE_BYTES: Final = 256 * 1024
"""With less than this in the log, a carry-over is not worth its syncs."""

INTERVAL: Final = 1.0
"""Seconds between two looks at the files, two notes of how far the log reaches, two tries when there is no room."""

CHANGE_BYTES: Final = 24 * 1024
"""The most bytes that the removal of a message adds to SQLite's write-ahead log: pages of the row and of its data."""

CHANGES_MIN: Final = 64
"""So many changes of rows in the database are gathered, however small the ballast is."""

BUSY_WARNING_SECONDS: Final = 10.0
BUSY_SECONDS_MAX: Final = 30.0
"""The time that another program may keep the log from being carried over before it is named, and before batches that
wait for that are refused.
"""

logger = logging.getLogger(__name__)


class Upkeep:
    """The upkeep of an open store. `delta` is what the snapshot lacks; `full`, that what grows is refused."""

    def __init__(
        self,
        disk: Disk,
        worker: DiskThread,
        clock: Clock,
        opened: StartedStore,
        ballast_bytes: int,
        failed: Callable[[StoreFailedError], None],
    ) -> None:
        self._disk = disk
        self._worker = worker
        self._clock = clock
        self._log = opened.log
        self._manifest = opened.manifest
        self.snapshot = opened.snapshot
        self.database = opened.database
        self._reserve = Reserve(disk, ballast_bytes, opened.manifest.current.file_bytes)
        self._changes_max = max(CHANGES_MIN, ballast_bytes // CHANGE_BYTES)  # they find room even on a full disk
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._carrying = CarryOver(opened.database, opened.snapshot, opened.manifest, clock.time)
        self._shrinking = Shrinking(disk, opened.manifest, self)
        self._may_have_shrunk = True  # since it was last looked at
        self._may_have_freed = True  # memory, since it was last given back
        self._carrying.committed = opened.uncarried
        self._number = opened.log.number  # of the last batch that was settled
        self._frozen: Delta | None = None  # what the carry-over that runs, or is tried again, has to write
        self._frozen_number = self._number
        self._gathered = sum(len(each.data or b"") for each in opened.delta.inserts.values())  # bytes, about
        self._timer: Timer | None = None
        self._idle_timer: Timer | None = None
        self._number_seen = self._number
        self._busy_since: float | None = None
        self._noting = False
        self._files = FileWatch(disk, opened.manifest)
        self._waiting: list[asyncio.Future[Exception | None]] = []  # for the end of the carry-over that runs
        self._loading = False  # what the snapshot lacks stays with it until all has been read
        self._ended = False
        self.lent = False  # to a backup that copies it: the database stays the one that it is
        self.closed = False  # the database, in order
        self.damaged = False  # which a load has found; nothing more is written to it
        self.delta = opened.delta
        self.full = opened.uncarried
        self.crowded = False
        self.last_carry_over: datetime | None = None
        self.writer: Writer

    async def open(self) -> None:
        """Begin: the ballast is occupied, or the store is full."""
        await self.database.perform(self._look_for_room)
        self.full = self.full or not self._reserve.enough
        self._timer = self._clock.call_later(INTERVAL, self._tick)
        self._watch_for_idleness()

    def status(self) -> dict[str, Any]:
        """In figures, for people."""
        return {
            "full": self.full,
            "ballast_held": self._reserve.held,
            "last_carry_over": self.last_carry_over and self.last_carry_over.isoformat(timespec="seconds"),
            "batches": self._number,
            "batches_in_snapshot": self._log.snap,
        }

    def row_data(self, id: int) -> bytes | None:
        """The data of a message that is not in the snapshot yet."""
        row = self.delta.inserts.get(id)
        if row is None and self._frozen is not None:
            row = self._frozen.inserts.get(id)
        return None if row is None else row.data

    @asynccontextmanager
    async def standing_still(self) -> AsyncIterator[Delta]:
        """Hold off carry-overs, when the running one has ended; give the changes that the snapshot lacks. Not for two
        at a time.
        """
        self._loading = True
        try:
            while self._working and not self._ended:
                await self._carry_over_ended()
            self._thaw()
            yield self.delta
        except StoreUnusableError:
            self.stop()
            self.damaged = True
            raise
        finally:
            self._loading = False
            self.writer.go_on()
            self._watch_for_idleness()

    # What the writer asks and tells

    def settled(self, rows: Rows, size: int) -> None:
        """A batch has become durable, as a record of so many bytes."""
        self.delta.apply(rows)
        self._number += 1
        self._gathered += size
        delta = self.delta
        changes = (
            len(delta.removals) + len(delta.counters) + (delta.held_later + len(delta.keys)) // 3
        )  # `Delta.changes`
        if changes >= (self._changes_max // 4 if self.full else self._changes_max):
            self.crowded = changes >= 2 * self._changes_max
            self._carry()
        if self._idle_timer is None:  # a call less for each batch
            self._watch_for_idleness()

    def file_full(self) -> None:
        """The log goes on in another file: what is in the one before comes into the snapshot."""
        self._carry()

    def needs_room(self) -> None:
        """Batches wait for a free file of the log."""
        if self._busy_since is None:  # else it is tried again each second
            self._carry()

    def keep(self, rows: Rows, done: Done) -> bool:
        """Write a batch that no file of the log could hold to the snapshot, once the log is carried over; False when
        that is to come first.
        """
        if self._working or self._behind or self._loading:
            self._carry()
            return False
        delta = Delta()
        delta.apply(rows)
        self._start_keeping(delta, done)
        return True

    def _start_keeping(self, delta: Delta, done: Done) -> None:
        if self._working or self._loading:
            self._clock.call_later(INTERVAL, partial(self._start_keeping, delta, done))
        elif not self._carrying.stopped:
            self._carrying.start(delta, self._number + 1, partial(self._kept, delta, done))

    def _kept(self, delta: Delta, done: Done, error: Exception | None) -> None:
        durable = error is None or (self._carrying.committed and isinstance(error, StoreFullError | StoreBusyError))
        if durable:
            self._number = self._log.skip()
        self._carried(error)
        if durable:
            done(None)
        elif not isinstance(error, StoreBusyError):
            done(error)
        elif self._busy_seconds < BUSY_SECONDS_MAX:
            self._clock.call_later(INTERVAL, partial(self._start_keeping, delta, done))
        else:
            done(StoreFullError(f"the batch fits no file of the log, and {error}"))

    # The carry-over

    async def carry_over(self) -> None:
        """Have the snapshot hold all batches that are settled now; raises StoreFullError, StoreBusyError or
        StoreFailedError where it could not be done.
        """
        number = self._number
        while self._shrinking.running or self._log.snap < number or self._carrying.committed:
            if self._ended or self._loading:
                raise StoreBusyError("the store is being opened or closed")
            self._carry()
            error = await self._carry_over_ended()
            if error is not None:
                raise error

    @property
    def _behind(self) -> bool:
        """True if the snapshot lacks something, or is not whole in its file."""
        return self._number > self._log.snap or self._carrying.committed

    @property
    def _working(self) -> bool:
        """True if the database is carried over to, or written anew."""
        return self._carrying.running or self._shrinking.running

    def _carry(self) -> None:
        """Carry over what there is, unless that is being done, or all is being read."""
        if self._working or self._ended or self._loading:
            return
        if self._carrying.committed:
            self._carrying.resume(self._carried)
            return
        if self._frozen is None:
            self._frozen, self.delta = self.delta, Delta()
            self._frozen_number, self._gathered, self.crowded = self._number, 0, False
        self._carrying.start(self._frozen, self._frozen_number, self._carried)

    def _carried(self, error: Exception | None) -> None:
        """A carry-over has ended, or got as far as it could."""
        if error is not None and not isinstance(error, StoreFullError | StoreBusyError):
            self._failed(error if isinstance(error, StoreFailedError) else StoreFailedError(repr(error)))
            return
        if error is None or self._carrying.committed:
            self._frozen = None
        if error is None:
            self._went_through()
        elif isinstance(error, StoreFullError):
            self._found_no_room(error)
        else:
            self._found_it_busy(error)
        self._tell_ended(error)

    def _went_through(self) -> None:
        self._log.snap = self._carrying.number
        self._busy_since = None
        self._may_have_shrunk = self._may_have_freed = True
        self.last_carry_over = datetime.fromtimestamp(self._clock.time(), UTC)
        if self.full or not self._reserve.whole:
            self.database.submit(self._look_for_room, self._looked_for_room)
        self.writer.go_on()
        self._watch_for_idleness()

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
        self._carry()

    def _found_it_busy(self, busy: Exception | None) -> None:
        if self._busy_since is None:
            self._busy_since = self._clock.monotonic()
        waited = self._busy_seconds
        if waited >= BUSY_WARNING_SECONDS:
            logger.warning("database busy path=%s seconds=%d: %s", self._disk.path, waited, busy)
        if waited >= BUSY_SECONDS_MAX:
            self.writer.refuse(StoreFullError(f"the log is full, and cannot be carried over: {busy}"))

    @property
    def _busy_seconds(self) -> float:
        """For how long another program has kept everything from being carried over."""
        return 0.0 if self._busy_since is None else self._clock.monotonic() - self._busy_since

    def _look_for_room(self, db: sqlite3.Connection) -> None:
        """Take what room there is for the carry-overs to come."""
        log = self._disk.identity(f"{self.snapshot.path.name}-wal")
        self._reserve.occupy(self.snapshot.room(db).free, 0 if log is None else log.size)

    def _looked_for_room(self, _: Exception | None) -> None:
        roomy = self._reserve.enough and not self._carrying.committed
        if roomy == self.full:
            self.full = not roomy
            logger.warning("store %s path=%s", "has room again" if roomy else "full", self._disk.path)
            self.writer.go_on()

    # At intervals

    def _tick(self) -> None:
        """Each second: look at the files, note how far the log reaches, try again what found no room."""
        self._timer = self._clock.call_later(INTERVAL, self._tick)
        self.database.submit(lambda _: self._files.compare(), self._done)
        self._note_durable()
        if self._behind and (self.full or self._busy_since is not None):
            self._carry()
        elif self.full or not self._reserve.whole:
            self.database.submit(self._look_for_room, self._looked_for_room)

    def _watch_for_idleness(self) -> None:
        """Set a timer to see if no batch comes for a while, unless one is set."""
        if self._idle_timer is not None or self._ended:
            return
        self._idle_timer = self._clock.call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        """Use the time if there was no batch since the last look."""
        self._idle_timer = None
        if self._number != self._number_seen:
            self._number_seen = self._number
            self._watch_for_idleness()
        elif self._gathered >= IDLE_BYTES and not self.full:
            self._carry()
        else:
            self._note_durable()
            self._shrink()
            self._give_back()

    def _shrink(self) -> None:
        """Have the database written anew, if it may be nearly all free room and what is in it stands still."""
        still = not (
            self._working or self._loading or self.lent or self._carrying.committed or self._frozen is not None
        )
        if self._may_have_shrunk and still and not (self.full or self._ended):
            self._may_have_shrunk = False
            self._shrinking.begin()

    def _give_back(self) -> None:
        """Not under load: what is free is used again then, and would have to be asked for."""
        if self._may_have_freed:
            self._may_have_freed = False
            self.database.submit(lambda _: heap.give_back(), _ignored)

    def go_over(self, database: DatabaseWorker, snapshot: Snapshot) -> None:
        """Use this database from now on, which the manifest names."""
        stopped = self._carrying.stopped
        self.database, self.snapshot = database, snapshot
        self._carrying = CarryOver(database, snapshot, self._manifest, self._clock.time)
        self._carrying.stopped = stopped
        self._files.renew()

    def shrunk(self, error: StoreFailedError | None) -> None:
        """The writing anew has ended: what waits for it goes on."""
        if error is not None:
            self._failed(error)
        self._tell_ended(error)
        self.writer.go_on()
        self._watch_for_idleness()

    def _note_durable(self) -> None:
        """Have the manifest say how far the log reaches, unless it says so."""
        number = self._number
        if number > self._manifest.current.durable and not (self._noting or self._shrinking.naming):
            self._noting = True
            self.database.submit(lambda _: note(self._manifest, durable=number), self._noted)

    def _noted(self, error: Exception | None) -> None:
        self._noting = False
        self._done(error)

    def _done(self, error: Exception | None) -> None:
        if error is not None:
            failure = error if isinstance(error, StoreFailedError) else StoreFailedError(str(error))
            self._failed(failure)

    # The end

    async def close(self) -> None:
        """Stop in order: carry over what there is, as far as there is room, and say so in the manifest. Raises
        StoreFailedError, after which nothing may be written.
        """
        self.stop()
        await self._shrinking.end()
        self._ended = self._loading = False
        await self._carry_last()
        await self.database.perform(lambda _: self._files.compare())
        number = self._number
        if self._carrying.committed:
            await self.database.abandon()
        else:
            await self.database.close()
        self.closed = True
        await self._worker.perform(partial(note, self._manifest, state=ORDERLY, last=number, durable=number))

    def stop(self) -> None:
        """Do nothing more at intervals; harmless when repeated."""
        self._ended = self._shrinking.stopped = True
        cancel_timer(self._timer)
        cancel_timer(self._idle_timer)

    def fail(self, error: StoreFailedError) -> None:
        """Write nothing any more but, if it can be, why."""
        self.stop()
        self._carrying.stopped = True
        self._tell_ended(error)
        mark = partial(note, self._manifest, state=FAILED, cause=str(error))
        if self.closed:
            self._worker.submit(mark, _ignored)
        else:
            self.database.submit(lambda _: mark(), _ignored)

    async def let_go(self) -> None:
        """End, and leave the database open unless it was closed in order: SQLite would write to it."""
        self.stop()
        await self._shrinking.end()
        if self._carrying.stopped:
            await self.marked()
        if not self.closed:
            await self.database.abandon()

    async def marked(self) -> None:
        """Wait until it is written that the store has failed, if it can be: what still waits is not written."""
        with suppress(Exception):
            await self.database.perform(lambda _: None)

    async def _carry_last(self) -> None:
        """Wait for the carry-over that runs, then for one of what is left; that it finds no room is no failure."""
        for _ in range(2):
            if self._behind or self._carrying.running:
                self._carry()
                await self._end_of_carry_over()
        self.stop()
        while self._carrying.running:  # once more, with the room of the ballast
            await self._end_of_carry_over()

    async def _end_of_carry_over(self) -> None:
        error = await self._carry_over_ended()
        if isinstance(error, StoreFailedError):
            raise error

    async def _carry_over_ended(self) -> Exception | None:
        """Wait for the end of the carry-over that runs, or of the store: what it ended with."""
        if self._carrying.stopped:  # Nothing will tell: the store has failed before somebody waited.
            return StoreFailedError("the store has failed")
        ended: asyncio.Future[Exception | None] = self._loop.create_future()
        self._waiting.append(ended)
        return await ended

    def _tell_ended(self, error: Exception | None) -> None:
        waiting, self._waiting = self._waiting, []
        for ended in waiting:
            if not ended.done():
                ended.set_result(error)


def _ignored(_: Exception | None) -> None:
    """It could not be written, and nothing else can be done about that."""
