"""The budget of message bodies in memory.

Bodies of persistent messages beyond the budget are only on disk. The newest go, since they are delivered last; they
are read back a run at a time, in delivery order, when the first of the run is wanted.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from broker.core.entry import AVAILABLE

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
        self._held: dict[int, int] = {}  # message id to the bytes of its body, of persistent messages in memory
        self.bytes = 0

    def settled(self, entry: Entry) -> None:
        """A persistent put is durable: its body stays in memory if there is room and it is still on its queue."""
        if self.bytes + entry.length <= self._budget:
            self._hold(entry)
        elif entry.state == AVAILABLE:
            entry.data = None

    def gone(self, entry: Entry) -> None:
        """The message has left its queue."""
        self.bytes -= self._held.pop(entry.id, 0)

    def fetch(self, entry: Entry, fetched: Callable[[], None]) -> None:
        """Read back the body of `entry`, and of the next in its queue with it, then call `fetched`."""
        run = [entry, *self._next(entry)]

        def arrived(bodies: dict[int, bytes]) -> None:
            for each in run:
                if each.data is None and each.id in bodies:
                    each.data = bodies[each.id]
                    self._hold(each)
            fetched()

        self._journal.read([each.id for each in run], arrived)

    def _next(self, entry: Entry) -> list[Entry]:
        """The messages behind `entry` whose bodies are on disk, as far as one reading goes."""
        queue = entry.queue
        run: list[Entry] = []
        room = RUN_BYTES
        for key in islice(queue.available.after(entry.key), RUN_LENGTH):
            each = queue.entries[key]
            room -= each.length
            if each.data is not None or room < 0:
                break
            run.append(each)
        return run

    def _hold(self, entry: Entry) -> None:
        if entry.id not in self._held:
            self._held[entry.id] = entry.length
            self.bytes += entry.length
