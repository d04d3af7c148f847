"""The age of the oldest message of a queue: read off when somebody asks, never counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.put_time import put_at

if TYPE_CHECKING:
    from broker.core.queues.queue import LocalQueue


def oldest_age(queue: LocalQueue, now: float) -> float | None:
    """Return the seconds since the put of the oldest message that a get can be given, by its PutDate and PutTime; 0
    where there is none, None where it has no time or is elsewhere.
    """
    if queue.shared:
        return None
    shelf = queue.shelf
    first = shelf.first()
    if first is None:
        return 0
    oldest = first
    if len(queue.depths) - queue.depths.count(0) > 1:  # other priorities have messages too
        oldest = next(shelf.by_arrival(0, first.place), first)
    put = put_at(oldest.packed_md)
    return max(0.0, round(now - put, 3)) if put else None
