"""Discarding a prepared unit: its messages go in slices, the last of them first, and its name with the last slice.

A unit that is discarded in part can only be discarded: a start does the rest of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.message.rows import Rows
from broker.core.prepared.sinks import by_queue
from broker.core.prepared.unit import SPACE
from broker.core.queues.unit import BACKED_OUT, BACKING_OUT, PREPARED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.manager import Manager
    from broker.core.message.entry import PreparedEntry
    from broker.core.prepared.unit import PreparedUnit

SLICE: Final = 5000


def freeze(unit: PreparedUnit) -> Rows:
    """Return the rows that discard the next slice of a unit, which is PREPARED."""
    unit.become(BACKING_OUT)
    rows = Rows(removals=[entry.number for entry in unit.entries[-SLICE:]])
    if len(unit.entries) <= SLICE:
        rows.dropped.append((SPACE, unit.name.text))
    return rows


def settle(manager: Manager, unit: PreparedUnit, *, written: bool) -> Sequence[PreparedEntry]:
    """That is durable, or there was no room even for that: the messages that are gone. The unit is PREPARED again as
    long as some are left.
    """
    if not written:
        unit.become(PREPARED)
        return ()
    ends = len(unit.entries) <= SLICE
    before = unit.bytes
    gone = unit.give_up(SLICE)
    manager.sinks.bytes -= before - unit.bytes
    for queue, entries in by_queue(gone).items():
        queue.drop(entries)
    unit.become(BACKED_OUT if ends else PREPARED)
    if ends:
        manager.sinks.leave(unit)
    return gone
