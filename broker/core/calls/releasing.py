"""The instants come that messages wait for (handlers rules 2.3, 3.4): these are available then.

A release is an arrival, outside any unit, and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.calls import arriving
from broker.core.message.entry import AVAILABLE, WAITING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.moment import Moment
    from broker.core.queues.queue import LocalQueue


def release_due(manager: Manager, moment: Moment, count: int) -> int:
    """Release messages whose instants have come: some of them, about so many, and how many there were."""
    due = manager.waits.due(moment, count)
    if due:
        _release(manager, due, moment)
    return len(due)


def release_early(manager: Manager, entries: Iterable[Entry], moment: Moment) -> int:
    """Release messages before their time; those that do not wait any more are left as they are. How many there were."""
    waiting = [entry for entry in entries if entry.state == WAITING]
    for entry in waiting:
        manager.waits.left(entry)
    _release(manager, waiting, moment)
    return len(waiting)


def _release(manager: Manager, entries: Sequence[Entry], moment: Moment) -> None:
    by_queue: dict[LocalQueue, list[Entry]] = {}
    for entry in sorted(entries, key=_key):
        queue = entry.queue
        queue.fall_due(entry)
        assert entry.handling is not None
        entry.handling.not_before = 0.0
        if entry.state != AVAILABLE:  # its data is damaged
            continue
        by_queue.setdefault(queue, []).append(entry)  # type: ignore[arg-type]  # who has WAITING messages is local
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
            entry.handling = None
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
    """Messages that were on the queue when the queue manager ended: those whose instant is to come wait for it, by the
    wall clock.
    """
    there, waiting = entries, []
    if any(entry.handling is not None for entry in entries):
        there = []
        for entry in entries:
            handling = entry.handling
            if handling is not None and handling.not_before > moment.wall:
                waiting.append(entry)
                continue
            if handling is not None:
                handling.not_before = 0.0
                entry.handling = handling if handling.failure is not None else None
            there.append(entry)
    if there:
        queue.load(there)
    if waiting:
        queue.load_waiting(waiting)
        for entry in waiting:
            manager.waits.add(entry, None, moment)


def waiting(queue: LocalQueue, msg_id: bytes | None) -> list[Entry]:
    """The messages of a queue that wait: those with this MsgId, or all."""
    shelf = queue.shelf
    entries = shelf.entries
    if msg_id is None:
        return [entries[key] for key in shelf.waiting]
    return [entries[key] for key in shelf.waiting_with(msg_id)]


def _key(entry: Entry) -> int:
    return entry.key
