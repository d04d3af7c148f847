"""A unit of work (semantics 10): what happens together or not at all.

Every call that changes messages belongs to one. A call outside syncpoint is an implicit unit of its own (journal rule
1). A unit is frozen into rows once, when its outcome is asked for; from then on only `Manager.settle` touches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.entry import ID_MASK
from broker.core.message.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from broker.core.message.entry import Entry
    from broker.core.message.generated.reports import ReportKind
    from broker.core.message.generated.trigger_message import TriggerEvent
    from broker.core.message.logical_order import Position
    from broker.core.queues.handles import Handle, Hconn
    from broker.core.queues.unit_extras import UnitExtras

ACTIVE, COMMITTING, BACKING_OUT, COMMITTED, BACKED_OUT, PREPARING, PREPARED, IN_DOUBT = range(8)
STATE_NAMES = (
    "ACTIVE", "COMMITTING", "BACKING_OUT", "COMMITTED", "BACKED_OUT", "PREPARING", "PREPARED", "IN_DOUBT",
)  # fmt: skip

TRANSITIONS = {
    ACTIVE: (COMMITTING, BACKING_OUT, PREPARING),
    COMMITTING: (COMMITTED, BACKED_OUT, PREPARED),  # PREPARED: a prepared unit for whose decision there is no room
    BACKING_OUT: (BACKED_OUT, PREPARED),
    COMMITTED: (),
    BACKED_OUT: (),
    PREPARING: (PREPARED, BACKED_OUT),
    PREPARED: (COMMITTING, BACKING_OUT, IN_DOUBT),
    IN_DOUBT: (COMMITTING, BACKING_OUT, PREPARED),
}


class SharedPart:
    """The part of a unit of work that is on shared queues.

    `id` names it in the database, from the first call there, in this `life` of the member; None: it is an implicit
    unit, or has not got that far. `placed` and `taken` are its messages on shared queues that no transaction has
    written yet. `late` are reports that it causes and for which there was no room: they are sent when it is committed.
    One that is `loaded` is older than this start of the queue manager.
    """

    __slots__ = ("id", "late", "life", "loaded", "placed", "taken")

    def __init__(self) -> None:
        self.id: UUID | None = None
        self.life = 0
        self.placed: list[Entry] = []
        self.taken: list[Entry] = []
        self.late: list[Entry] = []
        self.loaded = False


class Unit:
    """The puts and gets of one unit of work, in the order in which they were made."""

    __slots__ = (
        "bytes",
        "calls",
        "extras",
        "gets",
        "last_gets",
        "last_puts",
        "owner",
        "puts",
        "reports",
        "shared",
        "since",
        "state",
        "triggers",
    )

    def __init__(self) -> None:
        self.state = ACTIVE
        self.owner: Hconn | None = None  # the connection whose calls under syncpoint these are
        self.since = 0.0  # when that connection began it, wall clock
        self.puts: list[Entry] = []
        self.gets: dict[Entry, bool] = {}  # whether the message is the first, or only, that its call got
        self.bytes = 0  # of the bodies put
        self.calls = 0  # what counts towards MAXUMSGS: one a call, however many segments it puts or gets
        self.triggers: list[TriggerEvent] = []  # what its puts have triggered, for the time when it is over
        self.reports: dict[Entry, ReportKind] = {}  # to be made of these messages when the unit is committed
        self.last_puts: dict[Handle, Position] = {}  # from before the unit's first put with the handle
        self.last_gets: dict[Handle, Position] = {}  # and first get
        self.shared: SharedPart | None = None  # None: it touches no shared queue
        self.extras: UnitExtras | None = (
            None  # what its puts have said beside the options of the MQI; None for nearly all
        )

    def confirm(self, entry: Entry, kind: ReportKind) -> None:
        """The message asks for a report on what this unit does with it. The report counts towards MAXUMSGS."""
        self.reports[entry] = kind
        self.calls += 1

    def forget(self, entry: Entry) -> None:
        """A message got leaves the unit."""
        self.calls -= self.gets.pop(entry) + (self.reports.pop(entry, None) is not None)
        if self.extras is not None:
            self.extras.forget(entry)

    def pass_on(self, entry: Entry, other: Unit) -> None:
        """A message got becomes part of another unit, and with it the report that it asks for."""
        other.gets[entry] = self.gets.pop(entry)
        calls = int(other.gets[entry])
        if entry in self.reports:
            other.reports[entry] = self.reports.pop(entry)
            calls += 1
        self.calls -= calls
        other.calls += calls
        entry.unit = other

    def take_over(self, later: Unit) -> None:
        """Take in the gets of a later unit."""
        for entry in list(later.gets):
            later.pass_on(entry, self)
        for handle, position in later.last_gets.items():
            self.last_gets.setdefault(handle, position)

    def remember_put(self, handle: Handle) -> None:
        """A put of this unit is about to move the handle's position: a backout restores it (semantics 3.5)."""
        self.last_puts.setdefault(handle, handle.position.last_put)

    def remember_get(self, handle: Handle) -> None:
        """So is a get (6.3). What a handle did only outside the unit stays done."""
        self.last_gets.setdefault(handle, handle.position.last_get)

    def restore(self) -> None:
        """Take back where this unit's puts and gets have moved their handles: `last_put` is as before the first put of
        the unit with the handle, if it made one, and `last_get` as before its first get. All else of a position stays.
        """
        for handle in self.last_puts.keys() | self.last_gets.keys():
            position = handle.position
            last_put = self.last_puts.get(handle, position.last_put)
            last_get = self.last_gets.get(handle, position.last_get)
            if last_put is not position.last_put or last_get is not position.last_get:
                handle.position = position._replace(last_put=last_put, last_get=last_get)

    def become(self, state: int) -> None:
        """Take a step of the life cycle; a step that the table does not have is our mistake."""
        assert state in TRANSITIONS[self.state], f"{STATE_NAMES[self.state]} -> {STATE_NAMES[state]}"
        self.state = state

    def commit_rows(self, rows: Rows | None = None) -> Rows:
        """The rows of a commit: persistent messages put, persistent messages removed; added to `rows`, if given."""
        rows = Rows() if rows is None else rows
        puts: Iterable[Entry] = self.puts
        gets: Iterable[Entry] = self.gets
        if self.shared is not None:
            puts, gets = _private(puts), _private(gets)
        for entry in puts:
            if entry.persistence:
                rows.inserts.append(entry.row())
        for entry in gets:
            if entry.persistence:
                rows.removals.append(entry.number or entry.key & ID_MASK)
        if self.extras is not None:
            self.extras.add_rows(rows)
        return rows

    def backout_rows(self) -> Rows:
        """The rows of a backout: the raised backout counts. Puts that never became durable leave no trace."""
        gets: Iterable[Entry] = self.gets if self.shared is None else _private(self.gets)
        return Rows(backouts=[(entry.id, entry.backout_count) for entry in gets if entry.persistence])


def _private(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries on queues whose messages this queue manager keeps itself."""
    return [entry for entry in entries if not entry.queue.shared]
