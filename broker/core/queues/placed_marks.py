"""Browse marks on a shared queue: they are this queue manager's own, and known by the places of messages.

The messages are rows of a database, made entries anew for each step. So the marks are kept on a stand-in for each
message that has any, and shown on the entries of a page. A stand-in outlives its message, until somebody says that it
has gone (`forget`): other queue managers get messages too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.entry import Entry, rank_of
from broker.core.queues.browse_marks import BrowseMarks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from broker.core.queues.handles import Marker
    from broker.core.queues.shelf.shelf import Shelf


class PlacedMarks(BrowseMarks):
    """The browse marks of one shared queue."""

    __slots__ = ("_stand_ins",)

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        self._stand_ins: dict[int, Entry] = {}

    @property
    def places(self) -> Collection[int]:
        """The places of messages, present or gone, that somebody has marked."""
        return self._stand_ins.keys()

    def show_on(self, entries: Iterable[Entry]) -> None:
        """Let messages have the marks that were made on them."""
        if self._stand_ins:
            for entry in entries:
                stand_in = self._stand_ins.get(entry.key)
                entry.marks = None if stand_in is None else stand_in.marks

    def mark(self, entry: Entry, marker: Marker, now: float) -> None:
        stand_in = self._stand_ins.get(entry.key)
        if stand_in is None:
            stand_in = self._stand_ins[entry.key] = Entry(entry.queue, entry.id, rank_of(entry.key), None, 0)
        super().mark(stand_in, marker, now)
        entry.marks = stand_in.marks

    def unmark(self, entry: Entry, marker: Marker) -> None:
        stand_in = self._stand_ins.get(entry.key)
        if stand_in is not None:
            super().unmark(stand_in, marker)
            entry.marks = stand_in.marks
            if stand_in.marks is None:
                del self._stand_ins[entry.key]

    def drop_on(self, entry: Entry) -> None:
        stand_in = self._stand_ins.pop(entry.key, None)
        if stand_in is not None:
            super().drop_on(stand_in)
        entry.marks = None

    def forget(self, places: Iterable[int]) -> None:
        """There are no messages at these places any more."""
        for place in places:
            stand_in = self._stand_ins.pop(place, None)
            if stand_in is not None:
                super().drop_on(stand_in)

    def check_invariants(self, entries: Collection[Entry]) -> None:
        super().check_invariants(list(self._stand_ins.values()))
