"""Keep the files of a store in order beside the batches: at intervals, when no batch comes, and at the end.

- When no batch comes for a while, what the log has gathered is carried over to the snapshot; a database that is nearly
  all free room is written anew, and memory that a start or a carry-over has left goes back to the system.
- The manifest learns how far the log reaches: once a second under load, and when no batch comes for a while.
- Each second all files are compared with those that are open (`broker.storage.file_watch`), and a carry-over that found
  no room is tried again (`broker.storage.snapshot_keeper`).

All time comes from the clock. Methods are called on the event loop; what blocks is done on the thread of the database,
which also owns the manifest, until it is closed; then the thread of the log does.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.clock import cancel_timer
from broker.storage.disk import heap
from broker.storage.log.manifest import FAILED, ORDERLY
from broker.storage.snapshot.carry_over import note
from broker.storage.store import StoreFailedError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from broker.clock import Clock, Timer
    from broker.storage.disk.disk import DiskThread
    from broker.storage.log.manifest import ManifestFile
    from broker.storage.snapshot.delta import Delta
    from broker.storage.snapshot_keeper import SnapshotKeeper

IDLE_SECONDS: Final = 0.1
"""After so long without a batch, nobody is likely to wait for what is done."""

IDLE_BYTES: Final = 256 * 1024
"""With less than this in the log, a carry-over is not worth its syncs."""

INTERVAL: Final = 1.0
"""Seconds between two looks at the files, two notes of how far the log reaches, two tries when there is no room."""


class Upkeep:
    """The upkeep of an open store. `failed` is told the error after which nothing may be written."""

    def __init__(
        self,
        worker: DiskThread,
        clock: Clock,
        manifest: ManifestFile,
        keeper: SnapshotKeeper,
        failed: Callable[[StoreFailedError], None],
    ) -> None:
        self._worker = worker
        self._clock = clock
        self._manifest = manifest
        self._keeper = keeper
        self._failed = failed
        self._timer: Timer | None = None
        self._idle_timer: Timer | None = None
        self._number_seen = keeper.number
        self._noting = False
        self._stopped = False
        self.damaged = False  # which a load has found; nothing more is written to it
        keeper.watch = self._watch_for_idleness

    async def open(self) -> None:
        """Begin."""
        await self._keeper.open()
        self._timer = self._clock.call_later(INTERVAL, self._tick)
        self._watch_for_idleness()

    @asynccontextmanager
    async def standing_still(self) -> AsyncIterator[Delta]:
        """Hold off carry-overs, when the running one has ended; give the changes that the snapshot lacks. Not for two
        at a time.
        """
        try:
            yield await self._keeper.stand_still()
        except StoreUnusableError:
            self.stop()
            self.damaged = True
            raise
        finally:
            self._keeper.go_on()

    # At intervals

    def _tick(self) -> None:
        """Each second: look at the files, note how far the log reaches, try again what found no room."""
        self._timer = self._clock.call_later(INTERVAL, self._tick)
        self._keeper.database.submit(lambda _: self._keeper.files.compare(), self._done)
        self._note_durable()
        self._keeper.try_again()

    def _watch_for_idleness(self) -> None:
        """Set a timer to see if no batch comes for a while, unless one is set."""
        if self._idle_timer is not None or self._stopped:
            return
        self._idle_timer = self._clock.call_later(IDLE_SECONDS, self._look)
        self._keeper.watched = True

    def _look(self) -> None:
        """Use the time if there was no batch since the last look."""
        self._idle_timer, self._keeper.watched = None, False
        if self._keeper.number != self._number_seen:
            self._number_seen = self._keeper.number
            self._watch_for_idleness()
        elif self._keeper.gathered >= IDLE_BYTES and not self._keeper.full:
            self._keeper.carry()
        else:
            self._note_durable()
            self._keeper.shrink()
            self._give_back()

    def _give_back(self) -> None:
        """Not under load: what is free is used again then, and would have to be asked for."""
        if self._keeper.may_have_freed:
            self._keeper.may_have_freed = False
            self._keeper.database.submit(lambda _: heap.give_back(), _ignored)

    def _note_durable(self) -> None:
        """Have the manifest say how far the log reaches, unless it says so."""
        number = self._keeper.number
        if number > self._manifest.current.durable and not (self._noting or self._keeper.shrinking.naming):
            self._noting = True
            self._keeper.database.submit(lambda _: note(self._manifest, durable=number), self._noted)

    def _noted(self, error: Exception | None) -> None:
        self._noting = False
        self._done(error)

    def _done(self, error: Exception | None) -> None:
        if error is not None:
            self._failed(error if isinstance(error, StoreFailedError) else StoreFailedError(str(error)))

    # The end

    async def close(self) -> None:
        """Stop in order: carry over what there is, as far as there is room, and say so in the manifest. Raises
        StoreFailedError, after which nothing may be written.
        """
        self.stop()
        await self._keeper.carry_last()
        await self._keeper.database.perform(lambda _: self._keeper.files.compare())
        number = self._keeper.number
        await self._keeper.close()
        await self._worker.perform(partial(note, self._manifest, state=ORDERLY, last=number, durable=number))

    def stop(self) -> None:
        """Do nothing more at intervals; harmless when repeated."""
        self._stopped = True
        self._keeper.stop()
        cancel_timer(self._timer)
        cancel_timer(self._idle_timer)

    def fail(self, error: StoreFailedError) -> None:
        """Write nothing any more but, if it can be, why."""
        self.stop()
        self._keeper.fail(error)
        mark = partial(note, self._manifest, state=FAILED, cause=str(error))
        if self._keeper.closed:
            self._worker.submit(mark, _ignored)
        else:
            self._keeper.database.submit(lambda _: mark(), _ignored)

    async def let_go(self) -> None:
        """End, and leave the database open unless it was closed in order: SQLite would write to it."""
        self.stop()
        await self._keeper.let_go()


def _ignored(_: Exception | None) -> None:
    """It could not be written, and nothing else can be done about that."""
