"""Queues that hold no messages: a name that leads to a queue."""

from __future__ import annotations

from broker.core.queues.queue_attributes import QueueAttributes

INDIRECT_KINDS = ("QALIAS", "QREMOTE")


class IndirectQueue(QueueAttributes):
    """An alias queue, or the local definition of a remote queue or queue manager."""
