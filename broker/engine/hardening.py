"""The "got" marks of HARDENBO queues (journal rule 8): it is on disk that a message is in somebody's hands.

A mark that is there at a start counts as one backout more. So it goes with the message when that is removed, and is
taken off when the message goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core import unit as units
from broker.core.rows import Rows
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.core.entry import Entry
    from broker.engine.journal import Journal


def mark(journal: Journal, got: Iterable[Entry], done: Callable[[Exception | None], None]) -> bool:
    """Write the marks of messages got under syncpoint, of those that need one, then call `done`; False if none does.

    A message whose unit of work is ending needs none any more, but that its end is on disk. So that there was no room
    for its mark is no error either.
    """
    hardened = [entry for entry in got if entry.persistence and entry.queue.hardens_backout and entry.unit is not None]
    if not hardened:
        return False
    marked = list(filter(_is_held, hardened))
    for entry in marked:
        entry.marked = True  # from now on: what goes back meanwhile has its mark taken off behind this

    def written(error: Exception | None) -> None:
        if isinstance(error, StoreFullError) and not any(map(_is_held, marked)):
            error = None
        elif error is not None:
            for entry in marked:
                entry.marked = False
        done(error)

    journal.submit(Rows(marks=[entry.id for entry in marked]), written)
    return True


def without_marks(entries: Iterable[Entry]) -> Rows:
    """What takes the marks of these messages off. In memory they are off already."""
    rows = Rows()
    for entry in entries:
        if entry.marked:
            entry.marked = False
            rows.backouts.append((entry.id, entry.backout_count))
    return rows


def _is_held(entry: Entry) -> bool:
    """Whether the message is in a unit of work that is still open."""
    return entry.unit is not None and entry.unit.state == units.ACTIVE
