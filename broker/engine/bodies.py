"""The budget of message bodies in memory.

Bodies of persistent messages beyond the budget are only on disk. The newest go, since they are delivered last; they
are read back a run at a time, in delivery order, when the first of the run is wanted. What was read back takes the room
of what has been in memory longest: a browse of a long queue does not bring all of it into memory.

The body of a message that somebody has got stays, whatever the budget: it is needed when the message goes back to its
queue after its removal became durable.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING

from broker.core.entry import AVAILABLE, GONE

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.entry import Entry
    from broker.engine.journal import Journal

RUN_LENGTH = 64
RUN_BYTES = 256 * 1024


class Bodies:
    """Which bodies are in memory."""

    def __init__(self, budget: int, journal: Journal) -> None:
        self._budget = budget
        self._journal = journal
        self._held: OrderedDict[Entry, None] = OrderedDict()  # persistent messages with their bodies, oldest first
        self.bytes = 0

    def settled(self, entry: Entry) -> None:
        """A persistent put is durable: its body stays in memory if there is room, or somebody has got it already."""
        if entry.state == AVAILABLE and self.bytes + entry.length > self._budget:
            entry.data = None
        else:
            self._hold(entry)

    def gone(self, entry: Entry) -> None:
        """The message has left its queue."""
        if entry in self._held:
            del self._held[entry]
            self.bytes -= entry.length

    def fetch(self, entries: list[Entry], fetched: Callable[[Exception | None], None]) -> None:
        """Read back the bodies of `entries`, and of the next in their queue with them, then call `fetched`: with None,
        or the error that left them on disk.
        """
        run = [*entries, *self._next(entries[-1])]

        def arrived(bodies: dict[int, bytes], error: Exception | None) -> None:
            for each in run:
                if each.data is None and each.id in bodies:
                    each.data = bodies[each.id]
                    self._hold(each)
            fetched(error)
            self.trim()

        self._journal.read([each.id for each in run], arrived)

    def trim(self) -> None:
        """Let go of bodies until the budget is kept, as far as their messages wait on their queues."""
        looks = 2 * RUN_LENGTH
        while self.bytes > self._budget and self._held and looks:
            looks -= 1
            entry = next(iter(self._held))
            if entry.state == AVAILABLE:
                self.gone(entry)
                entry.data = None
            else:
                self._held.move_to_end(entry)

    def _next(self, entry: Entry) -> list[Entry]:
        """The messages behind `entry` whose bodies are on disk, as far as one reading goes."""
        queue = entry.queue
        run: list[Entry] = []
        room = min(RUN_BYTES, self._budget) - entry.length
        for key in islice(queue.available.after(entry.key), RUN_LENGTH):
            each = queue.entries[key]
            room -= each.length
            if each.data is not None or room < 0:
                break
            run.append(each)
        return run

    def _hold(self, entry: Entry) -> None:
        if entry.state != GONE and entry not in self._held:
            self._held[entry] = None
            self.bytes += entry.length
