"""The budget of message bodies in memory.

Bodies of persistent messages beyond the budget are only on disk. The newest go, since they are delivered last; they
are read back a run at a time, in delivery order, when the first of the run is wanted, or when half of the run before
has been got and there is room for another. What was read back takes the room of what has been in memory longest: a
browse of a long queue does not bring all of it into memory.

The body of a message that somebody has got stays, whatever the budget: it is needed when the message goes back to its
queue after its removal became durable.

A body that the store finds damaged is not brought into memory. Who waits for it is told (semantics 5.10). Where it was
only read along with others, nobody is: it is found damaged again when it is wanted.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING

from broker.core.message.entry import AVAILABLE, CLAIMED, GONE, PREPARED
from broker.core.queues.queue import LocalQueue
from broker.engine.mistakes import contained, mistake
from broker.storage.store import DataDamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.message.entry import Entry
    from broker.engine.jobs.slices import Work
    from broker.engine.journal.journal import Journal
    from broker.storage.store import Done

logger = logging.getLogger(__name__)

RUN_LENGTH = 128
RUN_BYTES = 256 * 1024
AHEAD_DIVISOR = 8


_ELSEWHERE = (AVAILABLE, CLAIMED, PREPARED)
"""States in which nobody is about to be given the body: it may be on disk only."""


class BodyRead:
    """Bodies that are being read, and who waits for them with which messages. The highest number comes last."""

    __slots__ = ("number", "waiting")

    def __init__(self, number: int) -> None:
        self.number = number
        self.waiting: list[tuple[Sequence[Entry], Done]] = []


class Bodies:
    """The bodies that are in memory."""

    def __init__(self, budget: int, journal: Journal) -> None:
        self.budget = budget
        self._journal = journal
        # Persistent messages with their bodies, oldest first. The one in the middle of a run has the last of it beside
        # it: when it has gone, those behind the last are read.
        self._held: OrderedDict[Entry, Entry | None] = OrderedDict()
        self._runs: dict[Entry, BodyRead] = {}  # of messages whose bodies are being read
        self._run_count = 0
        self.bytes = 0

    def figures(self) -> dict[str, int]:
        """The bodies in figures, for the status."""
        return {"bytes": self.bytes, "budget": self.budget}

    def settled(self, entry: Entry) -> None:
        """A persistent put is durable: its body stays in memory if there is room, or somebody has got it already."""
        if entry.state in _ELSEWHERE and self.bytes + entry.length > self.budget:
            entry.data = None
        elif entry.state != GONE and entry not in self._held:  # as `_hold` has it, without a call
            self._held[entry] = None
            self.bytes += entry.length

    def gone(self, entry: Entry) -> None:
        """The message has left its queue."""
        if entry not in self._held:
            return
        self.bytes -= entry.length
        last = self._held.pop(entry)
        if last is not None and self.bytes + RUN_BYTES <= self.budget and not entry.queue.deleted:
            entries = self._next(last, RUN_LENGTH, RUN_BYTES)
            if entries:
                self._read(entries)

    def fetch(self, entries: Sequence[Entry], fetched: Done) -> None:
        """Read back the bodies of `entries`, and of the next in their queue with them, then call `fetched`: with None,
        or the error that left them on disk. With DataDamagedError some of `entries` are damaged, and others may not be
        in memory.
        """
        runs = {self._runs[entry] for entry in entries if entry in self._runs}
        wanted = [entry for entry in entries if entry.data is None and entry not in self._runs]
        if wanted or not runs:
            room = min(RUN_BYTES, self.budget) - sum(entry.length for entry in wanted)
            run = self._read([*wanted, *self._next(entries[-1], RUN_LENGTH - len(wanted), room)])
        else:
            run = max(runs, key=lambda run: run.number)
        run.waiting.append((entries, fetched))

    def ahead(self, entries: Sequence[Entry]) -> None:
        """Read back the bodies of `entries`, which are wanted soon, unless that is a large part of the budget."""
        wanted = [entry for entry in entries if entry.data is None and entry not in self._runs]
        if wanted and sum(entry.length for entry in wanted) <= self.budget // AHEAD_DIVISOR:
            self._read(wanted)

    def trim(self) -> None:
        """Let go of bodies until the budget is kept, as far as their messages wait on their queues."""
        looks = 2 * RUN_LENGTH
        while self.bytes > self.budget and self._held and looks:
            looks -= 1
            entry = next(iter(self._held))
            if entry.state in _ELSEWHERE:
                del self._held[entry]
                self.bytes -= entry.length
                entry.data = None
            else:
                self._held.move_to_end(entry)

    def shrink(self) -> Work:
        """Let go of bodies until a lower budget is kept, as far as that can be now."""
        for _ in range(0, len(self._held), 2 * RUN_LENGTH):
            self.trim()
            yield

    def _read(self, entries: Sequence[Entry]) -> BodyRead:
        self._run_count += 1
        run = BodyRead(self._run_count)
        self._runs.update(dict.fromkeys(entries, run))

        def arrived(bodies: dict[int, bytes], error: Exception | None) -> None:
            for entry in entries:
                if self._runs.get(entry) is run:
                    del self._runs[entry]
            try:
                self._take_in(entries, bodies)
            except Exception as wrong:
                error = mistake(wrong, "the return of bodies to memory")
            self._answer(run, error)
            self.trim()

        self._journal.read([entry.id for entry in entries], arrived)
        return run

    def _take_in(self, entries: Sequence[Entry], bodies: dict[int, bytes]) -> None:
        for entry in entries:
            if entry.data is None and entry.id in bodies:
                entry.data = bodies[entry.id]
                self._hold(entry)
        middle = entries[len(entries) // 2]
        if middle in self._held:
            self._held[middle] = entries[-1]

    def _answer(self, run: BodyRead, error: Exception | None) -> None:
        """Tell those who wait. Messages that are only browsed may have lost their bodies again while others were read:
        then all that are wanted together are read together.
        """
        for entries, fetched in run.waiting:
            own = None if isinstance(error, DataDamagedError) and not damaged(entries, error) else error
            if own is None and any(entry.data is None for entry in entries):
                self._read(entries).waiting.append((entries, fetched))
            else:
                contained(fetched, own)

    def _next(self, entry: Entry, length: int, room: int) -> list[Entry]:
        """The messages behind `entry` whose bodies are on disk: at most `length` of them, of `room` bytes."""
        assert isinstance(entry.queue, LocalQueue)  # only such a queue has its messages in memory
        shelf = entry.queue.shelf
        run: list[Entry] = []
        for key in islice(shelf.available.after(entry.key), max(length, 0)):
            each = shelf.entries[key]
            room -= each.length
            if each.data is not None or each in self._runs or room < 0:
                break
            run.append(each)
        return run

    def _hold(self, entry: Entry) -> None:
        if entry.state != GONE and entry not in self._held:
            self._held[entry] = None
            self.bytes += entry.length


def damaged(entries: Iterable[Entry], error: DataDamagedError) -> list[Entry]:
    """Return the messages whose bodies are damaged."""
    return [entry for entry in entries if entry.data is None and entry.id in error.ids]


def tell_damage(entry: Entry, why: str) -> None:
    """Log that the data of a message has been found damaged; `why` names the file."""
    logger.error("message damaged queue=%s id=%s: %s", entry.queue.name, entry.msg_id.hex(), why)
