"""HARDENBO queues (journal rule 8): it is on disk that a message is in somebody's hands.

A message that is found hardened at a start counts one backout more. So what is on disk goes with the message when that
is removed, and is taken back when the message goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.rows import Rows
from broker.core.queues import unit as units
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.message.entry import Entry
    from broker.engine.journal.journal import Journal
    from broker.storage.store import Done


def harden(journal: Journal, got: Iterable[Entry], done: Done) -> bool:
    """Write of messages got under syncpoint, those that need it, that they are in somebody's hands, then call `done`;
    False if none needs it.

    A message whose unit of work is ending needs it no more, but that its end is on disk. So that there was no room for
    it is no error either.
    """
    needed = [entry for entry in got if entry.persistence and entry.queue.hardens_backout and entry.unit is not None]
    if not needed:
        return False
    held = list(filter(_is_held, needed))
    for entry in held:
        entry.hardened = True  # from now on: for what goes back meanwhile it is taken back behind this

    def hardening_written(error: Exception | None) -> None:
        if isinstance(error, StoreFullError) and not any(map(_is_held, held)):
            error = None
        elif error is not None:
            for entry in held:
                entry.hardened = False
        done(error)

    journal.submit(Rows(hardened=[entry.id for entry in held]), hardening_written)
    return True


def _is_held(entry: Entry) -> bool:
    """True if the message is in a unit of work that is still open."""
    return entry.unit is not None and entry.unit.state == units.ACTIVE
