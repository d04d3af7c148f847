"""A queue whose messages are handled: who takes them, with which options, and how many there are in flight."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.core.deliveries.counts import HandlerCounts
    from broker.core.deliveries.delivery import Delivery, DeliveryWorker
    from broker.core.deliveries.order import Order
    from broker.core.queues.queue import LocalQueue
    from broker.mqi.delivery_fields import ServiceOptions

VIEW: Final = "deliveries"
"""Names the order by key among the views of a shelf."""

_ROUNDING: Final = 1e-9


class WaitingTaker:
    """Somebody who waits for up to `count` deliveries. `call` is whom to give them to."""

    __slots__ = ("call", "count", "worker")

    def __init__(self, worker: DeliveryWorker, count: int, call: object) -> None:
        self.worker = worker
        self.count = count
        self.call = call


class Service:
    """`draining` is the worker that is let run empty for a quarantined message, `exclusive` the delivery of that
    message.
    """

    def __init__(self, queue: LocalQueue, options: ServiceOptions, counts: HandlerCounts) -> None:
        self.queue = queue
        self.options = options
        self.counts = counts
        self.workers: dict[DeliveryWorker, int] = {}  # how often each serves it
        self.takers: deque[WaitingTaker] = deque()
        self.in_flight: dict[int, Delivery] = {}
        self.order: Order | None = None
        self.draining: DeliveryWorker | None = None
        self.exclusive: Delivery | None = None
        self.refusals: dict[int, int] = {}  # by key: how often the store refused the commit
        self.batch_due: float | None = None  # when an incomplete batch is given all the same, monotonic
        self.dirty = False  # of a shared queue: there may be more to hand out than when it was looked at last
        self.token_due: float | None = None  # when the rate allows what it refused in the last look, monotonic
        self._tokens = 0.0
        self._filled: float | None = None  # when the tokens were counted, monotonic

    @property
    def starts(self) -> int:
        """The number of messages that may begin to be handled: pending starts; of a shared queue the messages on its
        page, since its starts are counted where messages were put, and handlers run wherever they are.
        """
        return len(self.queue.shelf.available) if self.queue.shared else self.queue.pending_starts

    def room(self, tick: float) -> int:
        """Return the number of deliveries that may begin now, by `total` and `rate`. Where the rate allows none,
        `token_due` is when it allows the next: who sets a timer by another look at the clock may find that instant
        gone, and sets none.
        """
        options = self.options
        room = options.total - len(self.in_flight) if options.total > 0 else 1 << 30
        self.token_due = None
        if options.rate > 0:
            self._fill(tick)
            if self._tokens < 1 - _ROUNDING:
                self.token_due = tick + (1 - self._tokens) / options.rate
            room = min(room, int(self._tokens + _ROUNDING))
        return room

    def began(self, count: int) -> None:
        """So many deliveries have begun."""
        if self.options.rate > 0:
            self._tokens -= count

    def _fill(self, tick: float) -> None:
        most = max(self.options.burst, 1)
        if self._filled is None:
            self._tokens = float(most)
        else:
            self._tokens = min(float(most), self._tokens + (tick - self._filled) * self.options.rate)
        self._filled = tick
