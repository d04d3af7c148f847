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
5.  (A put outside syncpoint that meets a waiting get outside syncpoint could do without a write. Not done.)
6.  A full store changes nothing: every unit of the batch is undone, and its calls fail with STORAGE_MEDIUM_FULL
    (2192) or, for a commit, BACKED_OUT (2003).
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
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.core.rows import Rows
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.core.identifiers import Identifiers
    from broker.storage.store import Store

logger = logging.getLogger(__name__)

Settled: TypeAlias = "Callable[[Exception | None], None]"


class Submission(NamedTuple):
    """A frozen unit on its way: its rows, and who settles it (with None, or the error that undid it)."""

    rows: Rows
    settled: Settled


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
        self._closing = False
        self._high_water = 0  # a mark that is not in the store yet
        self.error: Exception | None = None
        self.transactions = 0
        self.units = 0

    @property
    def waiting(self) -> int:
        """How many units are not settled yet, apart from those being written now."""
        return len(self._submissions)

    def submit(self, rows: Rows, settled: Settled) -> None:
        """Make `rows` durable after all that was submitted before, then call `settled`. Rows may be empty."""
        self._submissions.append(Submission(rows, settled))
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
            while self._submissions or self._readings:
                batch, rows = self._next_batch()  # before the reading: what it removes, nobody asks for any more
                await self._read()
                await self._write(batch, rows)
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

    async def _write(self, batch: list[Submission], rows: Rows) -> None:
        error: Exception | None = self.error
        if rows and error is None:
            self._high_water = rows.high_water = self._ids.reserve() or self._high_water
            try:
                await self._store.write(rows)
                self.transactions += 1
                self._high_water = 0
            except StoreFullError as full:
                logger.warning("store full units=%d: %s", len(batch), full)
                error = full
            except Exception as unknown:
                self._stop(unknown)
                error = unknown
        self.units += len(batch)
        for submission in batch:
            submission.settled(error)

    def _next_batch(self) -> tuple[list[Submission], Rows]:
        batch: list[Submission] = []
        rows = Rows()
        while self._submissions and len(rows.inserts) + len(rows.removals) < self._batch_rows_max:
            submission = self._submissions.popleft()
            batch.append(submission)
            rows.extend(submission.rows)
        return batch, rows

    def _stop(self, error: Exception) -> None:
        """Rule 7: the outcome is unknown, nothing more is written."""
        if self.error is None:
            self.error = error
            logger.error("store failed, the queue manager stops: %s", error)
            self._failed(error)
