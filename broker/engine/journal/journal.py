"""The journal: when a message is durable, visible, acknowledged.

The rules that hold here and in what hands work to it. The numbers are fixed; other files refer to them.

1.  Every persistent call is a unit; a call outside syncpoint is an implicit unit of one call. Until the unit's
    transaction is durable its puts stay PUT_PENDING and its gets GET_PENDING. No reply, browse, wake-up, trigger
    start or nonpersistent member of the unit becomes visible before that; all take effect in one step, at settlement.
    Durable, then visible.
2.  A unit is never split over transactions. A batch holds whole units.
3.  One journal, first in first out. Units settle in journal order, one connection's calls in issue order: a
    nonpersistent call waits behind its own connection's unsettled persistent ones. A batch is frozen into immutable
    rows before the writer thread sees it.
4.  Acknowledged when durable: put, commit, and get outside syncpoint. A get under syncpoint is answered at once,
    since all it can see is durable.
5.  One pair needs no write: a put outside syncpoint that meets a waiting destructive get outside syncpoint, while
    nothing else is on its way to the store. Both settle in one step. The put is acknowledged a turn of the event loop
    later: if the getter has gone by then the message is put again, in the journal, and that comes first.
6.  A full store changes nothing, and removals go through, at the start too: the log is preallocated, and a ballast is
    kept back for the snapshot. The units of a refused batch that only remove are written again. Those that hold a put
    are undone, and with them every later unsettled call of their connections, so that these keep their order:
    STORAGE_MEDIUM_FULL (2192), or BACKED_OUT (2003) for a commit, whose gets are reinstated. What grows the store is
    refused until there is room again for that and for the ballast.
7.  Any other failure of a write or a sync leaves the outcome unknown, of a batch as of what the store does by itself: a
    checkpoint, a carry-over (`Store.watch`). Nothing definite is answered from then on, the connections are broken
    (2009), the queue manager stops, and every file stays as it is. What the page cache shows of a file whose sync has
    failed says nothing of the disk: the next start reads the disk itself, writes what it recovers anew and syncs that,
    before it acknowledges anything. What failed is told by its error code, not by its text; a database that somebody
    else keeps busy has not failed.
8.  A backout writes BackoutCount before the message is visible again. A HARDENBO queue hardens a message before its
    get is answered; a message found hardened at a start counts one backout more. That a handler has a message is noted
    (`Journal.note`) and not awaited: a crash within `NOTE_WITHIN` seconds may count nothing.
9.  An expired message is discarded outside any unit, in one transaction with the report on it. Trigger FIRST counts
    PUT_PENDING messages when they are put; a failed unit counts as backed out.
10. Bodies leave memory only after settlement, and are read back before their removal is written, in delivery order,
    one hop a batch. Arrival numbers and identifiers never come from max()+1 over live rows
    (`broker.core.identifiers`).
11. Calls under syncpoint are exact under cancellation and cut lines. A destructive get outside syncpoint is at most
    once if the line is cut after it became durable; if its answer is known undelivered, the message is put back.
12. The caller's cancellation never decides an outcome. What is submitted here is settled here, whoever has gone.
13. What is damaged is told. Records of the log, messages, their bodies and the definitions have checks. A bad record is
    the end of the log only where nothing valid with a higher number follows it; else the queue manager refuses to start
    and says what would be lost, as it does when a file is missing, foreign or older than another says it must be.
    Nothing that was changed on the disk is handed to a program: those who read such a body are told, the message stays,
    and the queue manager goes on (`DataDamagedError`).
14. Reuse in order: before a byte of a log file is written again, what the file still holds is in the snapshot, durably,
    and with it the number up to which the log is obsolete.

There is no artificial delay for what somebody awaits. What gathers in a turn of the event loop, or while a write runs,
goes into the next transaction; calls that came on a line together, and are made in slices of half a millisecond, wait
for each other a few turns (`GATHER_TURNS`). Where the store has made a transaction durable at once, it is settled and
answered in the same turn. A note begins no transaction of its own: whoever came while it is written would wait for two.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.clock import cancel_timer
from broker.core.message.rows import Rows
from broker.engine.calls.answers import nobody
from broker.engine.calls.room import BOUNDLESS
from broker.engine.journal.submissions import Reading, Submission, answer_readings, errors_when_full, undone
from broker.engine.mistakes import mistake
from broker.storage.store import DataDamagedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from broker.clock import Clock, Timer
    from broker.core.identifiers import Identifiers
    from broker.engine.calls.room import Room
    from broker.engine.journal.afterwards import Afterwards
    from broker.storage.store import Done, Store

BATCH_BYTES_MAX: Final = 1024 * 1024
"""A batch that has messages of so many bytes takes in no further unit. A unit of work is never split."""

GATHER_TURNS: Final = 6
"""Turns of the event loop, a slice each. With a write for each slice a thousand waiting gets were 1.3 times as dear.
Whoever else submits something ends the wait.
"""

NOTE_WITHIN: Final = 0.01
"""The seconds within which a note is written, though nothing else is."""

logger = logging.getLogger(__name__)


class _WriteFate(Enum):
    """The fate of rows that are to be written."""

    NOTHING = 0  # there are none, or no store for them
    DURABLE = 1  # they are, at once
    COMES = 2


_ROWS = attrgetter("rows")


class Journal:
    """Writes what is submitted, a batch at a time. All its steps are plain calls on the event loop; what the store does
    meanwhile is the store's business. `run` is its life.
    """

    def __init__(
        self,
        store: Store,
        ids: Identifiers,
        failed: Callable[[Exception], None],
        afterwards: Afterwards,
        batch_rows_max: int,
        clock: Clock,
    ) -> None:
        self._store = store
        self._ids = ids
        self._failed = failed
        self.afterwards = afterwards
        self._batch_rows_max = batch_rows_max
        self._clock = clock
        self.batch_began: float | None = None
        """When the store was given the batch that it has not answered; monotonic seconds."""
        self._loop = asyncio.get_running_loop()
        self._submissions: deque[Submission] = deque()
        self._readings: deque[Reading] = deque()
        self._notes: Rows | None = None
        self._notes_due = 0.0  # when they are written though nothing else is; monotonic seconds
        self._note_timer: Timer | None = None  # runs on when they have been written with something else
        self._falling: dict[object | None, StoreFullError] = {}  # connections whose calls fall with an earlier one
        self._busy = False  # a batch is being written, or is about to be
        self._room = BOUNDLESS  # of who submitted last
        self._urgent = False  # something waits for the next batch that expects nothing else in it
        self._gathered = 0  # turns for which the next batch has waited
        self._reads = 0  # under way
        self._closing = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._high_water = 0  # a mark that is not in the store yet
        self.error: Exception | None = None
        self.transactions = 0
        self.units = 0
        store.watch(partial(self._step, self._stop))

    @property
    def waiting(self) -> int:
        """The number of units that are not settled yet, apart from those being written now."""
        return len(self._submissions)

    def figures(self) -> dict[str, int]:
        """The journal in figures, for the status."""
        return {"transactions": self.transactions, "units": self.units, "waiting": self.waiting}

    @property
    def idle(self) -> bool:
        """True if nothing is on its way to the store or from it."""
        return not (self._busy or self._reads)

    def submit(self, rows: Rows, settled: Done, caller: object | None = None, room: Room = BOUNDLESS) -> None:
        """Make `rows` durable after all that was submitted before, then call `settled`. Rows may be empty. `room` is
        that of the line that the unit came on.
        """
        self._room = room
        if not room.handling:
            self._urgent = True
        submission = Submission(rows, settled, caller)
        full = self._falling.get(caller) if self._falling else None
        self._submissions.append(submission if full is None else undone(submission, full))
        if not self._busy:  # as `_wake` has it
            self._busy = True
            self._loop.call_soon(self._step, self._go_on)

    def note(self, rows: Rows) -> None:
        """Make `rows` durable, which nobody awaits: with what is submitted next, or within `NOTE_WITHIN` seconds. They
        count as submitted now, and are the journal's from now on.
        """
        if self._notes is not None:
            self._notes.extend(rows)
            return
        self._notes = rows
        if self._closing:
            self._wake()
            return
        self._notes_due = self._clock.monotonic() + NOTE_WITHIN
        if self._note_timer is None:
            self._note_timer = self._clock.call_later(NOTE_WITHIN, self._look_at_notes)

    def read(self, ids: Sequence[int], fetched: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        """Fetch the bodies of these messages."""
        self._urgent = True
        self._readings.append(Reading(ids, fetched))
        self._wake()

    def close(self) -> None:
        """End `run` when all that was submitted is settled."""
        self._closing = True
        cancel_timer(self._note_timer)
        self._wake()

    async def run(self) -> None:
        """Live until `close`, or until it is cancelled and what was submitted is settled. Raises what a step raised by
        a mistake of ours.
        """
        while not self._ended.done():
            try:
                await asyncio.wait((self._ended,))
            except asyncio.CancelledError:  # the event loop ends: its other tasks have been cancelled too
                self.close()
        self._ended.result()

    async def drain(self) -> None:
        """Close it, and return when all that was submitted is settled, whoever cancels the caller, or has cancelled
        `run`: a handler may have cancelled all tasks there are.
        """
        self.close()
        while not self._ended.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait((self._ended,))

    def _look_at_notes(self) -> None:
        """Write the notes that are due, though nothing else is; look again when those that came since are."""
        self._note_timer = None
        if self._notes is None:
            return
        left = self._notes_due - self._clock.monotonic()
        if left > 0:
            self._note_timer = self._clock.call_later(left, self._look_at_notes)
        else:
            self._wake()

    def _notes_are_due(self) -> bool:
        return self._closing or self._clock.monotonic() >= self._notes_due

    def _wake(self) -> None:
        """Begin a batch at the end of this turn of the event loop, with all that is submitted in it."""
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._step, self._go_on)

    def _step(self, step: Callable[..., None], *arguments: object) -> None:
        try:
            self.afterwards.take(step, *arguments)
        except BaseException as wrong:
            if self._ended.done():
                raise
            self._ended.set_exception(wrong)

    def _go_on(self) -> None:
        """Write the next batch; settle those on the way to it that have nothing to write. One that is durable at once
        is settled now, and the next begins in the next turn of the event loop, which is not held for both.
        """
        if self._submissions and not self._urgent and self._room.handling and self._gathered < GATHER_TURNS:
            self._gathered += 1
            self._loop.call_soon(self._step, self._go_on)
            return
        self._gathered, self._urgent = 0, False
        while self._submissions or self._readings or (self._notes is not None and self._notes_are_due()):
            batch = self._next_batch()  # before the reading: what it removes, nobody asks for any more
            if self._readings:
                self._read()
            fate = self._write(list(map(_ROWS, batch)), partial(self._batch_written, batch))
            if fate is _WriteFate.COMES:
                return
            self._settle(batch, [self.error] * len(batch))
            if fate is _WriteFate.DURABLE and (self._submissions or self._readings):
                self._loop.call_soon(self._step, self._go_on)
                return
        self._busy = False
        if self._closing and self.idle and not self._ended.done():
            self._ended.set_result(None)

    def _read(self) -> None:
        """Have the bodies read that are asked for, before the next batch is written."""
        readings, self._readings = self._readings, deque()
        if self.error is not None:
            answer_readings(readings, {}, self.error)
            return
        self._reads += 1
        ids = [id for reading in readings for id in reading.ids]
        self._store.read(ids, partial(self._step, self._fetched, readings))

    def _fetched(self, readings: Iterable[Reading], bodies: dict[int, bytes], error: Exception | None) -> None:
        self._reads -= 1
        if isinstance(error, DataDamagedError):
            answer_readings(readings, bodies, self.error or error)
        else:
            if error is not None:
                self._stop(error)
            answer_readings(readings, bodies, self.error)
        if self._closing:
            self._wake()

    def _write(self, units: Sequence[Rows], written: Done) -> _WriteFate:
        """Have these units written in one transaction, and `written` called if its outcome `COMES`."""
        if self._ids.last >= self._ids.low_at:
            self._high_water = self._ids.reserve()
        if len(units) == 1 and not self._high_water:
            (rows,) = units
        else:
            rows = Rows(high_water=self._high_water)
            for each in units:
                rows.extend(each)
        if self.error is not None or not (rows.inserts or rows.removals or rows):
            return _WriteFate.NOTHING
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "batch to write inserts=%d removals=%d backouts=%d hardened=%d objects=%d",
                len(rows.inserts), len(rows.removals), len(rows.backouts), len(rows.hardened), len(rows.objects),
            )  # fmt: skip
        if self._store.submit(rows, partial(self._step, self._answered, written)):
            self.transactions += 1
            self._high_water = 0
            return _WriteFate.DURABLE
        self.batch_began = self._clock.monotonic()
        return _WriteFate.COMES

    def _answered(self, written: Done, error: Exception | None) -> None:
        """The store has answered a transaction. It may have failed meanwhile: then nothing more is acknowledged."""
        self.batch_began = None
        error = self.error or error
        if error is None:
            self.transactions += 1
            self._high_water = 0
        elif not isinstance(error, StoreFullError):
            self._stop(error)
        written(error)

    def _batch_written(self, batch: list[Submission], error: Exception | None) -> None:
        if not isinstance(error, StoreFullError):
            self._settle(batch, [error] * len(batch))
            self._go_on()
            return
        errors = errors_when_full(batch, error)
        staying = [submission.rows for submission, refused in zip(batch, errors, strict=True) if refused is None]
        logger.warning("store full units=%d refused=%d: %s", len(batch), len(batch) - len(staying), error)
        self._refuse_later((each.caller for each, refused in zip(batch, errors, strict=True) if refused), error)
        if len(staying) == len(batch):  # it only removes: the store has tried all it can
            self._removed(batch, errors, error)
        elif self._write(staying, partial(self._removed, batch, errors)) is not _WriteFate.COMES:
            self._settle(batch, errors)
            self._go_on()

    def _removed(self, batch: list[Submission], errors: list[Exception | None], error: Exception | None) -> None:
        """Settle a batch of which the parts that only remove were written again, or could not be."""
        both = zip(batch, errors, strict=True)
        self._settle(batch, [refused or (error if each.rows else None) for each, refused in both])
        self._go_on()

    def _settle(self, batch: list[Submission], errors: list[Exception | None]) -> None:
        self.units += len(batch)
        for submission, error in zip(batch, errors, strict=True):
            try:
                submission.settled(error)
            except Exception as wrong:
                mistake(wrong, "a step")
        if self._falling:
            waiting = {each.caller for each in self._submissions}
            self._falling = {caller: full for caller, full in self._falling.items() if caller in waiting}

    def _next_batch(self) -> list[Submission]:
        """The units that come next: some, and with bodies, as much as the store writes well in one piece."""
        batch: list[Submission] = []
        if self._notes is not None and (self._submissions or self._notes_are_due()):
            batch.append(Submission(self._notes, nobody, None))
            self._notes = None
        count = size = 0
        while self._submissions and count < self._batch_rows_max and size < BATCH_BYTES_MAX:
            submission = self._submissions.popleft()
            batch.append(submission)
            rows = submission.rows
            count += len(rows.inserts) + len(rows.removals)
            for row in rows.inserts:
                size += row.length
            for step in rows.steps:
                size += len(step.value)
        return batch

    def _refuse_later(self, callers: Iterable[object | None], full: StoreFullError) -> None:
        """Journal rule 6: what these connections submit until the last of it is settled is undone too, in its turn."""
        self._falling |= {caller: full for caller in callers if caller is not None}
        for index, submission in enumerate(self._submissions):
            if submission.caller in self._falling:
                self._submissions[index] = undone(submission, full)

    def _stop(self, error: Exception) -> None:
        """Journal rule 7: the outcome is unknown, nothing more is written."""
        if self.error is None:
            self.error = error
            logger.error("store failed, the queue manager stops: %s", error, extra={"event": "store_failed"})
            self._failed(error)
