"""A queue whose messages are handled: who takes them, with which options, and how many there are in flight."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from broker.core.deliveries.order import Order, value_of
from broker.core.message.entry import AVAILABLE, DELAYED
from broker.mqi.constants.attribute_values import MQTT
from broker.mqi.delivery_fields import failure_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from broker.core.deliveries.counts import HandlerCounts
    from broker.core.deliveries.delivery import Delivery, DeliveryWorker
    from broker.core.message.entry import Entry
    from broker.core.queues.queue import LocalQueue
    from broker.mqi.delivery_fields import Failure, ServiceOptions

VIEW: Final = "deliveries"
"""Names the order by key among the views of a shelf."""

_INDEXED_A_STEP: Final = 200
_ROUNDING: Final = 1e-9


class HoldsKey(Protocol):
    """A delivery that has left its worker, and holds the value by which its messages are ordered."""

    order_value: object

    @property
    def entries(self) -> Sequence[Entry]:
        """Its messages."""


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
        self._put_off = ("", 0.0, 0)  # why its handler could not begin, when (wall clock), and how many it had done
        self._tokens = 0.0
        self._filled: float | None = None  # when the tokens were counted, monotonic

    @property
    def starts(self) -> int:
        """The number of messages that may begin to be handled: pending starts; of a shared queue the messages on its
        page, since its starts are counted where messages were put, and handlers run wherever they are.
        """
        return len(self.queue.shelf.available) if self.queue.shared else self.queue.pending_starts

    def could_not_begin(self, failure: Failure, now: float) -> None:
        """Its handler could not begin: what it was given comes later, and is charged nothing."""
        counts = self.counts
        counts.last_error, counts.last_error_at = failure_text(failure.exception, failure.error), now
        self._put_off = counts.last_error, now, counts.succeeded

    @property
    def put_off(self) -> tuple[str, float] | None:
        """The reason why its handler could not begin, and when (wall clock); None when it has done something since."""
        error, at, succeeded = self._put_off
        return (error, at) if error and succeeded == self.counts.succeeded else None

    def put_in_order(self, prepared_of: Callable[[LocalQueue], Sequence[HoldsKey]]) -> Iterator[None]:
        """Make the order by key that the options want. The messages that are there are looked at in steps. Deliveries
        that are prepared hold their keys.
        """
        by = self.options.order_by
        if self.queue.shared or (self.order is not None and self.order.by == by):
            return  # of a shared queue each page is put in order
        shelf = self.queue.shelf
        self.order = None
        shelf.views.pop((VIEW,), None)
        prepared = prepared_of(self.queue)
        for held in prepared:
            held.order_value = value_of(held.entries[0], by) if by else None
        if not by:
            return
        order = shelf.views[VIEW,] = Order(by)
        for held in prepared:
            order.hold(held.order_value)
        for delivery in self.in_flight.values():
            delivery.order_value = value_of(delivery.entries[0], by)
            order.hold(delivery.order_value)
        for count, key in enumerate((*shelf.delayed, *shelf.available), 1):
            entry = shelf.entries.get(key)
            if entry is not None and entry.state == AVAILABLE:
                order.refresh(entry)
            elif entry is not None and entry.state == DELAYED and entry.handling and entry.handling.failure:
                order.hold_retried(entry)
            if not count % _INDEXED_A_STEP:
                yield
        self.order = order

    def free(self, value: object) -> None:
        """A delivery with this value of the order by key is over, be it while the order is made."""
        order = self.order if self.order is not None else self.queue.shelf.views.get((VIEW,))
        if isinstance(order, Order) and value is not None:
            order.free(value)

    def drop_worker(self, worker: DeliveryWorker) -> list[WaitingTaker]:
        """A worker does not serve the queue any more: return its takers, which wait no more."""
        self.workers.pop(worker, None)
        waiting = [taker for taker in self.takers if taker.worker is worker]
        for taker in waiting:
            self.takers.remove(taker)
        if self.draining is worker:
            self.draining = worker.draining_for = None
        return waiting

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


def unfit(queue: LocalQueue, process_exists: bool) -> str:
    """Return the reason why a queue cannot be served; "" when it can."""
    if queue.initiation_q_name:
        return f"has an initiation queue, INITQ({queue.initiation_q_name}): ALTER QLOCAL({queue.name}) INITQ(' ')"
    if queue.trigger_type != MQTT.EVERY.value:
        return f"is not TRIGTYPE(EVERY): ALTER QLOCAL({queue.name}) TRIGTYPE(EVERY) TRIGGER"
    if not queue.process_name:
        return f"names no process: ALTER QLOCAL({queue.name}) PROCESS(name)"
    if not process_exists:
        return f"names process {queue.process_name}, which does not exist: DEFINE PROCESS({queue.process_name})"
    return ""
