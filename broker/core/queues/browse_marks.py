"""Browse marks (semantics 5.6): which handles have marked which messages of a queue, and when the set marked them.

A message keeps its marks itself (`Entry.marks`), by handle; None stands for the co-operating handles of the queue
together. What a handle has marked is kept with the handle (`Handle.marked`). What the co-operating set has marked is
kept here, with the time, for its marks grow old (MARKINT).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from broker.core.queues.handles import CO_OPERATING

if TYPE_CHECKING:
    from collections.abc import Collection

    from broker.core.message.entry import Entry
    from broker.core.queues.handles import Handle, Marker
    from broker.core.queues.shelf.shelf import Shelf


class BrowseMarks:
    """The browse marks of one queue. The views of its shelf are told of each change."""

    __slots__ = ("_made", "_shelf", "co_op_count")

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._made: OrderedDict[Entry, float] = OrderedDict()  # when the set marked what, wall clock, oldest first
        self.co_op_count = 0  # handles open with MQOO_CO_OP

    def mark(self, entry: Entry, marker: Marker, now: float) -> None:
        """A browse marks an available message. Marks of the co-operating set grow old from `now`."""
        entry.marks = (entry.marks or set()) | {marker.handle}
        if marker.handle is None:
            self._made[entry] = now
            self._made.move_to_end(entry)
        else:
            marker.handle.marked.add(entry)
        self._shelf.refresh_views(entry, marker)

    def unmark(self, entry: Entry, marker: Marker) -> None:
        """Take a mark off; harmless when it is not there."""
        if entry.marks and marker.handle in entry.marks:
            entry.marks = entry.marks - {marker.handle} or None
            self._forget(entry, marker.handle)
            self._shelf.refresh_views(entry, marker)

    @property
    def oldest(self) -> float | None:
        """The instant of the oldest mark of the co-operating set."""
        return next(iter(self._made.values()), None)

    def drop_old(self, before: float) -> list[Entry]:
        """Take off the marks that the co-operating set made until this moment (MARKINT); the messages."""
        unmarked = []
        while self._made:
            entry, made = next(iter(self._made.items()))
            if made > before:
                break
            self.unmark(entry, CO_OPERATING)
            unmarked.append(entry)
        return unmarked

    def drop_of(self, handle: Handle) -> None:
        """A handle is closed: its marks go, and with the last of the co-operating handles those of the set."""
        for entry in list(handle.marked):
            self.unmark(entry, handle.marker)
        self._shelf.drop_views(handle.marker)
        if not self.co_op_count:
            self.drop_old(float("inf"))

    def drop_on(self, entry: Entry) -> None:
        """All marks on a message go with it; no view has it any more."""
        for handle in entry.marks or ():
            self._forget(entry, handle)
        entry.marks = None

    def _forget(self, entry: Entry, handle: Handle | None) -> None:
        if handle is None:
            del self._made[entry]
        else:
            handle.marked.discard(entry)

    def check_invariants(self, entries: Collection[Entry]) -> None:
        """Raise AssertionError when these messages of the queue and what is kept of their marks differ. For tests."""
        assert set(self._made) == {entry for entry in entries if entry.marks and None in entry.marks}
        assert all(entry in handle.marked for entry in entries for handle in entry.marks or () if handle is not None)
