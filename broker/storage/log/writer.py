"""The one owner of the log: batches come in order, records go out one at a time, on the loop or on a thread.

It decides when a record is written, not what room there is: for that it asks `Keeper`, who is told when a file is full.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.core.queues.counts.duration import BOUNDS
from broker.storage.figures import LogCounts
from broker.storage.log.record import pack
from broker.storage.store import StoreFailedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Clock
    from broker.storage.disk.disk import DiskThread
    from broker.storage.log.log import Log
    from broker.storage.log.pace import Pace
    from broker.storage.store import Done, Rows


class Keeper(Protocol):
    """The keeper of the snapshot, as the writer sees it."""

    full: bool
    """True while rows that need more room are refused."""

    crowded: bool
    """So much has gathered that a carry-over has to come before the next batch."""

    def settled(self, rows: Rows, size: int) -> None:
        """A batch has become durable, as a record of so many bytes."""

    def file_full(self) -> None:
        """The log goes on in another file: the one before is to become free."""

    def needs_room(self) -> None:
        """Batches wait for a free file; `Writer.go_on` or `Writer.refuse` ends that."""

    def keep(self, rows: Rows, done: Done) -> bool:
        """Write a batch that no file could hold straight to the snapshot, then call `done`; False when that has to wait
        for a carry-over, after which `Writer.go_on` is called.
        """


class _Batch(NamedTuple):
    rows: Rows
    payload: bytes
    done: Done


class Writer:
    """The way of batches into `log`. `failed` is told the error after which nothing may be written."""

    def __init__(
        self, log: Log, worker: DiskThread, pace: Pace, clock: Clock, failed: Callable[[StoreFailedError], None]
    ) -> None:
        self._log = log
        self._worker = worker
        self._pace = pace
        self._clock = clock
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Batch] = deque()
        self._busy = False  # a record, or a batch for the snapshot, is on its way
        self._in_snapshot: _Batch | None = None  # the batch that goes straight to the snapshot, while it does
        self._waiting_for_idle: Callable[[], None] | None = None
        self.keeper: Keeper
        self.failure: StoreFailedError | None = None
        self.inline_writes = 0
        self.thread_writes = 0
        self.counts = LogCounts()

    @property
    def idle(self) -> bool:
        """True if nothing is on its way, and nothing waits."""
        return not (self._busy or self._queue)

    def submit(self, rows: Rows, done: Done) -> bool:
        """As `Store.submit`: True when the batch is durable already."""
        try:
            payload = pack(rows)
        except (ValueError, TypeError, OverflowError) as error:  # A mistake of who made the rows: nothing is written.
            self._loop.call_soon(done, StoreFailedError(f"a batch cannot be written: {error!r}"))
            return False
        now, size = self._clock.monotonic(), len(payload)
        if (
            self._busy
            or self._queue
            or self.failure is not None
            or self.keeper.full
            or self.keeper.crowded
            or size > self._log.room
            or not self._pace.inline(size, now)
        ):
            self._queue.append(_Batch(rows, payload, done))
            self.go_on()
            return False
        try:
            self._log.write(payload)
        except OSError as error:
            self._loop.call_soon(done, self._fail(error))
            return False
        took = self._clock.monotonic() - now
        self._pace.took(took, now)
        self.inline_writes += 1
        counts = self.counts  # as `_write_timed` counts, without a call
        counts.bytes += size
        counts.syncs.sum += took
        counts.syncs.buckets[bisect_left(BOUNDS, took)] += 1
        self.keeper.settled(rows, size)
        return True

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call `call` once when all that was submitted is answered: at once, or later."""
        self._waiting_for_idle = call
        self.go_on()

    def go_on(self) -> None:
        """Write what waits, as far as there is room."""
        while self._queue and not self._busy:
            batch = self._queue[0]
            refusal = self._refusal(batch)
            if refusal is not None:
                self._queue.popleft()
                self._loop.call_soon(batch.done, refusal)
            elif not self._begin(batch):
                return
        if self._waiting_for_idle is not None and self.idle:
            call, self._waiting_for_idle = self._waiting_for_idle, None
            self._loop.call_soon(call)  # after the answers that are due

    def refuse(self, full: StoreFullError) -> None:
        """Answer those who wait for room that there is none, then go on. What is behind a record that is on its way has
        not found out yet whether there is room.
        """
        if self._busy:
            return
        waiting, self._queue = self._queue, deque()
        for batch in waiting:
            self._loop.call_soon(batch.done, full)
        self.go_on()

    def stop(self, error: StoreFailedError) -> None:
        """Write nothing any more: all who wait, and who come later, are told this error."""
        self.failure = error
        waiting, self._queue = self._queue, deque()
        if self._in_snapshot is not None:  # Its carry-over ends here too, and tells nobody.
            waiting.appendleft(self._in_snapshot)
            self._in_snapshot, self._busy = None, False
        for batch in waiting:
            self._loop.call_soon(batch.done, error)
        self.go_on()

    def _refusal(self, batch: _Batch) -> Exception | None:
        if self.failure is not None:
            return self.failure
        return StoreFullError("there is no room on the disk") if batch.rows.grows and self.keeper.full else None

    def _begin(self, batch: _Batch) -> bool:
        """Begin to write the first of those who wait; False when there is no room for it now."""
        size = len(batch.payload)
        if self.keeper.crowded:
            self.keeper.needs_room()
            return False
        if not self._log.fits(size):
            if not self.keeper.keep(batch.rows, partial(self._kept, batch)):
                return False
            self._in_snapshot = batch
        else:
            if size > self._log.room:
                if not self._log.turn():
                    self.keeper.needs_room()
                    return False
                self.keeper.file_full()
            self._worker.submit(partial(self._write_timed, batch.payload), partial(self._written, batch))
        self._queue.popleft()
        self._busy = True
        return True

    def _write_timed(self, payload: bytes) -> None:
        begun = self._clock.monotonic()
        self._log.write(payload)
        ended = self._clock.monotonic()
        self._pace.took(ended - begun, ended)
        self.counts.bytes += len(payload)
        self.counts.syncs.add(ended - begun)

    def _written(self, batch: _Batch, error: Exception | None) -> None:
        self._busy = False
        self.thread_writes += 1
        if error is not None:
            self._fail(error)
        elif self.failure is None:
            self.keeper.settled(batch.rows, len(batch.payload))
        batch.done(self.failure)
        self.go_on()

    def _kept(self, batch: _Batch, error: Exception | None) -> None:
        if self._in_snapshot is not batch:  # The store has failed meanwhile, and said so.
            return
        self._in_snapshot, self._busy = None, False
        batch.done(error)
        self.go_on()

    def _fail(self, error: Exception) -> StoreFailedError:
        """After any error of a write nobody can say what the medium has; nothing is tried again (log rule 4.3)."""
        if self.failure is None:
            self._failed(StoreFailedError(f"a record of the log may or may not be written: {error}"))
        assert self.failure is not None
        return self.failure
