"""The instants of delayed messages come (handlers rules 2.3, 3.4): these are available then.

A release is an arrival, outside any unit, and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls import arriving
from broker.core.message.entry import AVAILABLE, DELAYED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.core.queues.queue import LocalQueue


def release_due(manager: Manager, moment: Moment, count: int) -> int:
    """Release messages whose instants have come: some of them, about so many, and how many there were."""
    due = manager.delays.due(moment, count)
    if due:
        _release(manager, due, moment)
    return len(due)


def release_early(manager: Manager, entries: Iterable[Entry], moment: Moment) -> int:
    """Release messages before their time; those that are available are left as they are. How many there were."""
    early = [entry for entry in entries if entry.state == DELAYED]
    for entry in early:
        manager.delays.left(entry)
    _release(manager, early, moment)
    return len(early)


def _release(manager: Manager, entries: Sequence[Entry], moment: Moment) -> None:
    by_queue: dict[LocalQueue, list[Entry]] = {}
    for entry in sorted(entries, key=_key):
        queue = entry.queue
        queue.fall_due(entry)
        assert entry.handling is not None
        entry.handling.not_before = 0.0
        if entry.state != AVAILABLE:  # its data is damaged
            continue
        by_queue.setdefault(queue, []).append(entry)  # type: ignore[arg-type]  # who has DELAYED messages is local
    for queue, released in by_queue.items():
        _arrived(manager, queue, released, moment)


def _arrived(manager: Manager, queue: LocalQueue, entries: Sequence[Entry], moment: Moment) -> None:
    """A delayed put is judged as a put is now; an attempt that failed asks for a start in any case
    (handlers rule 2.3). What is held for a dead-letter queue is for nobody else.
    """
    put: list[Entry] = []
    retried: list[Entry] = []
    held: list[Entry] = []
    for entry in entries:
        failure = entry.handling.failure if entry.handling is not None else None
        if failure is None:
            entry.handling = entry.handling and entry.handling.left
            put.append(entry)
        elif failure.dead:
            held.append(entry)
        else:
            retried.append(entry)
    if held:
        manager.deliveries.arrived(held)
        manager.effects.posted = True
    if retried:
        arriving.arrived_again(manager, queue, retried, moment)
    if put:
        arriving.arrived(manager, queue, put, moment)


def load(manager: Manager, queue: LocalQueue, entries: Sequence[Entry], moment: Moment) -> None:
    """Messages that were on the queue when the queue manager ended: those whose instant is to come are delayed until
    then, by the wall clock.
    """
    there, later = entries, []
    if any(entry.handling is not None for entry in entries):
        there = []
        for entry in entries:
            handling = entry.handling
            if handling is not None and handling.not_before > moment.wall:
                later.append(entry)
                continue
            if handling is not None:
                handling.not_before = 0.0
                entry.handling = handling.left
            there.append(entry)
    if there:
        queue.load(there)
    if later:
        queue.load_delayed(later)
        for entry in later:
            manager.delays.add(entry, None, moment)


def delayed(queue: LocalQueue, msg_id: bytes | None) -> list[Entry]:
    """The delayed messages of a queue: those with this MsgId, or all."""
    shelf = queue.shelf
    entries = shelf.entries
    if msg_id is None:
        return [entries[key] for key in shelf.delayed]
    return [entries[key] for key in shelf.with_msg_id(msg_id, state=DELAYED)]


def _key(entry: Entry) -> int:
    return entry.key
