"""The lag of a consumer (claims rule 2.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.entry import ID_MASK
from broker.core.message.put_time import put_at
from broker.core.queues.shared_queue import ConsumerLag, SharedQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.core.queues.queue import LocalQueue


def lag_of(queues: Iterable[LocalQueue]) -> ConsumerLag:
    """The lag of a consumer of these queues, without looking at the messages one by one."""
    messages = size = 0
    oldest: list[float] = []
    for queue in queues:
        if isinstance(queue, SharedQueue):
            messages, size = messages + queue.lag.messages, size + queue.lag.bytes
            oldest.append(queue.lag.since)
            continue
        available = len(queue.shelf.available)
        messages += available
        first = next(queue.shelf.by_arrival(0, ID_MASK), None)
        if first is not None:
            size += queue.bytes - queue.claimed_bytes - queue.prepared_bytes
            oldest.append(put_at(first.packed_md))
    return ConsumerLag(messages, size, min(filter(None, oldest), default=0.0))
