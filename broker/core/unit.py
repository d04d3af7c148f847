"""A unit of work: what happens together or not at all.

Every call that changes messages belongs to one. A call outside syncpoint is an implicit unit of its own (journal rule
1). A unit is frozen into rows once, when its outcome is asked for; from then on only `Manager.settle` touches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.rows import Rows

if TYPE_CHECKING:
    from broker.core.entry import Entry
    from broker.core.handles import Handle
    from broker.core.logical import Position
    from broker.core.queue import LocalQueue

ACTIVE, COMMITTING, BACKING_OUT, COMMITTED, BACKED_OUT = range(5)
STATE_NAMES = ("ACTIVE", "COMMITTING", "BACKING_OUT", "COMMITTED", "BACKED_OUT")

TRANSITIONS = {
    ACTIVE: (COMMITTING, BACKING_OUT),
    COMMITTING: (COMMITTED, BACKED_OUT),
    BACKING_OUT: (BACKED_OUT,),
    COMMITTED: (),
    BACKED_OUT: (),
}


class Unit:
    """The puts and gets of one unit of work, in the order in which they were made."""

    __slots__ = ("bytes", "calls", "firsts", "gets", "positions", "puts", "state")

    def __init__(self) -> None:
        self.state = ACTIVE
        self.puts: list[Entry] = []
        self.gets: dict[Entry, bool] = {}  # whether the message is the first, or only, that its call got
        self.bytes = 0  # of the bodies put
        self.calls = 0  # what counts towards MAXUMSGS: one a call, however many segments it puts or gets
        self.firsts: list[LocalQueue] = []  # queues whose FIRST condition a put of this unit met
        self.positions: dict[Handle, tuple[Position, Position]] = {}  # of put and get, before the unit's first call

    def remember(self, handle: Handle) -> None:
        """A call of this unit is about to move the handle's position: a backout restores it (messages.md 3.5, 6.3)."""
        self.positions.setdefault(handle, (handle.last_put, handle.last_get))

    def restore(self) -> None:
        """Put back the positions."""
        for handle, (last_put, last_get) in self.positions.items():
            handle.last_put, handle.last_get = last_put, last_get

    def become(self, state: int) -> None:
        """Take a step of the life cycle; a step that the table does not have is our mistake."""
        assert state in TRANSITIONS[self.state], f"{STATE_NAMES[self.state]} -> {STATE_NAMES[state]}"
        self.state = state

    def commit_rows(self) -> Rows:
        """What a commit writes: persistent messages put, persistent messages removed."""
        return Rows(
            inserts=[entry.row() for entry in self.puts if entry.persistence],
            removals=[entry.id for entry in self.gets if entry.persistence],
        )

    def backout_rows(self) -> Rows:
        """What a backout writes: the raised backout counts. Puts that never became durable leave no trace."""
        return Rows(backouts=[(entry.id, entry.backout_count) for entry in self.gets if entry.persistence])
