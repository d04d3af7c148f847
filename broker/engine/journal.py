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
6.  A full store changes nothing. The units of the batch that only remove are written again, with the room that the
    store keeps back for them. Those that hold a put are undone, and with them every later unsettled call of their
    connections, so that these keep their order: STORAGE_MEDIUM_FULL (2192), or BACKED_OUT (2003) for a commit. The
    store refuses what grows it until there is room again for that and for what it keeps back.
7.  Any other failure of a write leaves its outcome unknown. Nothing definite is answered, the connections are broken
    (2009), the queue manager stops. The next start takes what the store holds.
8.  A backout writes BackoutCount before the message is visible again. A HARDENBO queue writes a "got" mark before the
    get is answered; a message found marked at a start counts one backout more.
9.  An expired message is discarded outside any unit, in one transaction with the report on it. Trigger FIRST counts
    PUT_PENDING messages when they are put; a failed unit counts as backed out.
10. Bodies leave memory only after settlement, and are read back before their removal is written, in delivery order,
    one hop a batch. Arrival numbers and identifiers never come from max()+1 over live rows
    (`broker.core.identifiers`).
11. Calls under syncpoint are exact under cancellation and cut lines. A destructive get outside syncpoint is at most
    once if the line is cut after it became durable; if its answer is known undelivered, the message is put back.
12. The caller's cancellation never decides an outcome. What is submitted here is settled here, whoever has gone.

There is no artificial delay: what gathers while a write runs goes into the next transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.core.rows import Rows
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from broker.core.identifiers import Identifiers
    from broker.storage.store import Store

logger = logging.getLogger(__name__)

Settled: TypeAlias = "Callable[[Exception | None], None]"


class Submission(NamedTuple):
    """A frozen unit on its way: its rows, and who settles it (with None, or the error that undid it). `caller` is the
    connection with whose earlier units it stands or falls when the store is full.
    """

    rows: Rows
    settled: Settled
    caller: object | None


class Reading(NamedTuple):
    """Bodies to fetch: the ids of their messages, and who takes them (or the error that left none to take)."""

    ids: Sequence[int]
    fetched: Callable[[dict[int, bytes], Exception | None], None]


class Journal:
    """The one task that writes. `submit` and `read` are plain calls; `run` is the task."""

    def __init__(
        self, store: Store, ids: Identifiers, failed: Callable[[Exception], None], batch_rows_max: int
    ) -> None:
        self._store = store
        self._ids = ids
        self._failed = failed
        self._batch_rows_max = batch_rows_max
        self._submissions: deque[Submission] = deque()
        self._readings: deque[Reading] = deque()
        self._work = asyncio.Event()
        self._busy = False
        self._closing = False
        self._high_water = 0  # a mark that is not in the store yet
        self.error: Exception | None = None
        self.transactions = 0
        self.units = 0

    @property
    def waiting(self) -> int:
        """How many units are not settled yet, apart from those being written now."""
        return len(self._submissions)

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way to the store or from it."""
        return not (self._busy or self._submissions or self._readings)

    def submit(self, rows: Rows, settled: Settled, caller: object | None = None) -> None:
        """Make `rows` durable after all that was submitted before, then call `settled`. Rows may be empty."""
        self._submissions.append(Submission(rows, settled, caller))
        self._work.set()

    def read(self, ids: Sequence[int], fetched: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        """Fetch the bodies of these messages."""
        self._readings.append(Reading(ids, fetched))
        self._work.set()

    def close(self) -> None:
        """End `run` when all that was submitted is settled."""
        self._closing = True
        self._work.set()

    async def run(self) -> None:
        """Write what is submitted until `close`. Must not be cancelled; it is not, under the manager's shield."""
        while True:
            await self._work.wait()
            self._work.clear()
            self._busy = True
            while self._submissions or self._readings:
                batch = self._next_batch()  # before the reading: what it removes, nobody asks for any more
                await self._read()
                for submission, error in zip(batch, await self._write(batch), strict=True):
                    submission.settled(error)
            self._busy = False
            if self._closing:
                return

    async def _read(self) -> None:
        if not self._readings:
            return
        readings, self._readings = self._readings, deque()
        bodies: dict[int, bytes] = {}
        if self.error is None:
            try:
                bodies = await self._store.read_data([id for reading in readings for id in reading.ids])
            except Exception as unreadable:
                self._stop(unreadable)
        for reading in readings:
            reading.fetched(bodies, self.error)

    async def _write(self, batch: list[Submission]) -> list[Exception | None]:
        """Write a batch; for each of its units None, or the error that undid it."""
        self.units += len(batch)
        errors: list[Exception | None] = [None] * len(batch)
        full = await self._store_all(submission.rows for submission in batch)
        if full is not None:
            errors = _refused(batch, full)
            staying = [submission.rows for submission, error in zip(batch, errors, strict=True) if error is None]
            logger.warning("store full units=%d refused=%d: %s", len(batch), len(batch) - len(staying), full)
            self._refuse_later({each.caller for each, error in zip(batch, errors, strict=True) if error}, full)
            if len(staying) == len(batch) or await self._store_all(staying) is not None:
                errors = [full if submission.rows else error for submission, error in zip(batch, errors, strict=True)]
        return errors if self.error is None else [error or self.error for error in errors]

    async def _store_all(self, units: Iterable[Rows]) -> StoreFullError | None:
        """Write these units in one transaction. Returns the error when there was no room; notes any other."""
        rows = Rows()
        for each in units:
            rows.extend(each)
        self._high_water = rows.high_water = self._ids.reserve() or self._high_water
        if not rows or self.error is not None:
            return None
        try:
            await self._store.write(rows)
        except StoreFullError as full:
            return full
        except Exception as unknown:
            self._stop(unknown)
        else:
            self.transactions += 1
            self._high_water = 0
        return None

    def _next_batch(self) -> list[Submission]:
        batch: list[Submission] = []
        rows = 0
        while self._submissions and rows < self._batch_rows_max:
            submission = self._submissions.popleft()
            batch.append(submission)
            rows += len(submission.rows.inserts) + len(submission.rows.removals)
        return batch

    def _refuse_later(self, callers: set[object | None], full: StoreFullError) -> None:
        """Rule 6: what these connections have submitted since is undone too, in its turn."""
        for index, (_, settled, caller) in enumerate(self._submissions):
            if caller is not None and caller in callers:
                self._submissions[index] = Submission(Rows(), partial(_undo, settled, full), caller)

    def _stop(self, error: Exception) -> None:
        """Rule 7: the outcome is unknown, nothing more is written."""
        if self.error is None:
            self.error = error
            logger.error("store failed, the queue manager stops: %s", error)
            self._failed(error)


def _refused(batch: Iterable[Submission], full: StoreFullError) -> list[Exception | None]:
    """Rule 6: the error for the units that hold a put, and for the later ones of their connections."""
    callers: set[object] = set()
    errors: list[Exception | None] = []
    for rows, _, caller in batch:
        refused = rows.grows or caller in callers
        if refused and caller is not None:
            callers.add(caller)
        errors.append(full if refused else None)
    return errors


def _undo(settled: Settled, full: StoreFullError, _: Exception | None) -> None:
    settled(full)
