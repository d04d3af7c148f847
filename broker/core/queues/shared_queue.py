"""A shared queue: its messages are rows of a database that several queue managers work on.

Nothing of them is kept here. For the time of one step of the core the queue has a shelf that is made of a page of rows
which the database has ordered, and for a destructive get locked; the step judges and grants as on any queue. What it
does to messages is noted, in its unit of work (`SharedPart`) or on the queue (`Noted`), and whoever lent the page
writes it in the same transaction. When that is committed
the messages are no longer this queue manager's business: to its core they are GONE, or GET_PENDING in a unit of work.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from broker.core.message.entry import CLAIMED, GET_PENDING, GONE, LOCKED, PREPARED, PUT_PENDING
from broker.core.queues.placed_marks import PlacedMarks
from broker.core.queues.queue import LocalQueue
from broker.core.queues.shelf.shelf import Shelf
from broker.core.queues.structure import Structure
from broker.core.queues.unit import SharedPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.core.identifiers import Identifiers
    from broker.core.message.entry import Entry
    from broker.core.names.definitions import Definition
    from broker.core.queues.effects import Effects
    from broker.core.queues.unit import Unit


class ConsumerLag(NamedTuple):
    """The available messages of queues, for a consumer: their number and bytes, and when the oldest was put (wall
    clock; 0 when there is none). On queues of a queue manager's own, what is uncommitted at the moment counts in the
    bytes too.
    """

    messages: int
    bytes: int
    since: float

    def age(self, now: float) -> float:
        """Return the age of the oldest in seconds; 0 when there is none."""
        return max(0.0, now - self.since) if self.since else 0.0


class Noted:
    """The unwritten changes that steps of the core made to messages of a shared queue outside any unit of work."""

    __slots__ = ("uncovered", "unlocked")

    def __init__(self) -> None:
        self.unlocked: list[Entry] = []  # their browse locks end
        self.uncovered = False  # a browse mark was taken off, so those who wait may be given a message

    def __bool__(self) -> bool:
        return bool(self.unlocked or self.uncovered)


class SharedQueue(LocalQueue):
    """A queue with QSGDISP(SHARED). `version` is that of its definition in the repository, `depth` what was last heard
    of it.
    """

    shared = True

    def __init__(self, definition: Definition, version: int, ids: Identifiers, effects: Effects) -> None:
        super().__init__(definition, 0, ids, effects)
        self.version = version
        self.structure = Structure("")
        self.lag = ConsumerLag(0, 0, 0.0)  # when the group was last asked who has claimed what
        self.noted = Noted()
        self._limited = False

        self.browse_marks: PlacedMarks = PlacedMarks(self.shelf)

    def stand_in(self, structure: Structure) -> None:
        """The structure that the messages are in."""
        self.structure = structure
        self.refuses_persistent = not structure.recovers

    @contextmanager
    def page(self, entries: Sequence[Entry]) -> Iterator[Shelf]:
        """These messages, available and in order, are all that there is for the steps taken meanwhile. Raises
        CF_STRUC_FAILED (2373).
        """
        self.structure.check(self.name)
        before = self.shelf
        self.browse_marks.show_on(entries)
        self.shelf = Shelf(self.ids, entries)
        try:
            yield self.shelf
        finally:
            self.shelf = before

    def take_noted(self) -> Noted:
        """Return the changes noted since the last call."""
        noted, self.noted = self.noted, Noted()
        return noted

    def configure(self, definition: Definition) -> None:
        super().configure(definition)
        self.hardens_backout = False  # the database knows in whose hands a message is, whatever HARDENBO says

    # The database judges MAXDEPTH, in the statement that puts. Where that would be too many, what it has told of the
    # depth counts when the puts are made again.

    @contextmanager
    def limited(self, depth: int) -> Iterator[None]:
        """For the steps taken meanwhile so many messages are on it, and MAXDEPTH is judged here."""
        self.depth = depth
        self._limited = True
        try:
            yield
        finally:
            self._limited = False

    def room(self) -> int:
        return self.max_depth - self.depth if self._limited else self.max_depth

    def check_room(self) -> None:
        if self._limited:
            super().check_room()

    # Steps

    def place(self, entry: Entry, unit: Unit) -> None:
        self.place_all((entry,), unit, entry.length)

    def place_all(self, entries: Sequence[Entry], unit: Unit, size: int) -> None:
        self.structure.check(self.name)
        for entry in entries:
            if entry.given_msg_id is None:
                entry.given_msg_id = entry.msg_id  # other queue managers make other identifiers of its number
            entry.state = PUT_PENDING
            entry.unit = unit
        self.depth += len(entries)
        _part(unit).placed += entries

    def prepare(self, entries: Sequence[Entry]) -> None:
        self.structure.check(self.name)
        for entry in entries:
            entry.given_msg_id = entry.msg_id
            entry.state = PREPARED

    def arrive(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._leave(entry)

    def withdraw(self, entry: Entry) -> None:
        self.depth -= 1
        self._leave(entry)

    def take(self, entry: Entry, unit: Unit, now: float = 0.0) -> None:
        if now:
            self.counts.got((entry,), now)
        self.shelf.hide(entry)
        if entry.marks is not None:
            self.browse_marks.drop_on(entry)
        entry.state = GET_PENDING
        entry.unit = unit
        _part(unit).taken.append(entry)

    def take_given(self, entries: Sequence[Entry], unit: Unit, now: float) -> None:
        """Take messages that are on no page: the database has chosen them, and has written that they are got."""
        self.counts.got(entries, now)
        for entry in entries:
            entry.state = GET_PENDING
            entry.unit = unit
        _part(unit)

    def remove(self, entry: Entry) -> None:
        self._leave(entry)

    def reinstate(self, entry: Entry) -> None:
        self.counts.backed_out += 1
        self.depth += 1
        self._leave(entry)

    def discard(self, entry: Entry) -> None:
        raise NotImplementedError("the database is asked for what has not expired")

    def take_heads(self, entries: Sequence[Entry], unit: Unit) -> None:
        for entry in entries:
            self.take(entry, unit)

    def claim(self, entry: Entry) -> None:
        self.shelf.hide(entry)
        entry.state = CLAIMED

    def lock(self, entry: Entry) -> None:
        self.shelf.hide(entry)
        entry.state = LOCKED

    def unlock(self, entry: Entry) -> None:
        self._leave(entry)
        self.noted.unlocked.append(entry)

    def delay(self, entry: Entry) -> None:
        """The database knows when it is to be available."""

    def postpone(self, entry: Entry) -> None:
        self._leave(entry)

    def offer_later(self, entries: Iterable[Entry]) -> None:
        """Note that messages are available which the database does not tell of: getters that wait look for the others
        themselves.
        """
        self.noted.uncovered = True

    def check_invariants(self) -> None:
        assert not self.shelf.entries
        assert not self.noted

    def _leave(self, entry: Entry) -> None:
        entry.state = GONE
        entry.unit = None


def _part(unit: Unit) -> SharedPart:
    if unit.shared is None:
        unit.shared = SharedPart()
    return unit.shared
