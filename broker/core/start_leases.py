"""The leases on trigger starts: a start that a monitor has taken is its connection's until it is done or given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.core.queues.handles import Hconn
    from broker.core.queues.message_queue import MessageQueue


class StartLeases:
    """The starts under way, by lease, by connection and by queue."""

    def __init__(self) -> None:
        self._leases: dict[int, tuple[MessageQueue, Hconn]] = {}
        self._held: dict[Hconn, dict[int, None]] = {}  # the leases of each connection that has any
        self._running: dict[MessageQueue, int] = {}  # how many there are for each queue that has any
        self._last = 0

    def grant(self, queue: MessageQueue, hconn: Hconn) -> int:
        """Return a new lease: a connection takes a start of a queue."""
        self._last += 1
        self._leases[self._last] = (queue, hconn)
        self._held.setdefault(hconn, {})[self._last] = None
        self._running[queue] = self._running.get(queue, 0) + 1
        return self._last

    def end(self, hconn: Hconn, lease: int) -> MessageQueue | None:
        """End a lease. Return the queue of the start; None when the connection does not hold this lease."""
        queue, holder = self._leases.get(lease, (None, None))
        if queue is None or holder is not hconn:
            return None
        del self._leases[lease]
        held = self._held[hconn]
        del held[lease]
        if not held:
            del self._held[hconn]
        self._running[queue] -= 1
        if not self._running[queue]:
            del self._running[queue]
        return queue

    def held_by(self, hconn: Hconn) -> list[int]:
        """The leases of a connection."""
        return list(self._held.get(hconn, ()))

    def running(self, queue: MessageQueue) -> int:
        """Return the number of starts of this queue that are under way."""
        return self._running.get(queue, 0)
