"""Taking: starts come off the count of a queue, and as many messages out of it, in one step (handlers rules 1, 6).

What is chosen is what a getter would be given next, but for what must not be handed out now: a message of a key that is
busy, a segment whose message is not whole, a quarantined message beside others (handlers rule 1.4). A message whose
attempts are used up is handed to nobody: it goes to the dead-letter queue.
"""

from __future__ import annotations

from itertools import groupby, islice
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.calls import expiring
from broker.core.deliveries import backoff
from broker.core.deliveries.delivery import Delivery
from broker.core.message.entry import AVAILABLE
from broker.core.message.generated import reports
from broker.core.message.logical_order import SEGMENTS
from broker.core.queues.shelf.views import START
from broker.core.queues.unit import Unit

if TYPE_CHECKING:
    from broker.core.deliveries.delivery import DeliveryWorker
    from broker.core.deliveries.service import Service, WaitingTaker
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.handling import FailureRecord
    from broker.core.moment import Moment
    from broker.core.queues.shelf.sorted_keys import SortedKeys

TAKE_BYTES: Final = 4 * 1024 * 1024
"""A take is given so much, with finished steps; a longer message alone."""

LOOKS_MAX: Final = 1000
"""So many messages are passed over in one look at a queue."""

_sequence = attrgetter("msg_seq_number")


class HandOut(NamedTuple):
    """Deliveries for somebody who waited; `dead` are messages whose attempts are used up."""

    taker: WaitingTaker | None
    deliveries: list[Delivery]
    dead: list[Delivery]


def hand_out(manager: Manager, service: Service, moment: Moment) -> list[HandOut]:
    """Serve those who wait for deliveries of a queue, in their order, as far as there are starts and messages."""
    handed: list[HandOut] = []
    queue, triggers = service.queue, manager.triggers
    service.token_due = None
    if not service.takers or not service.starts or queue.get_inhibited or not triggers.fast_path(queue):
        return handed
    if queue.exclusive is not None or queue.clearing:
        return handed
    for taker in list(service.takers):
        room = service.room(moment.tick)
        if room < 1 or not service.starts:
            break
        share = max(1, service.starts // len(service.takers))
        deliveries, dead = _Choice(manager, service, taker.worker, moment).choose(min(taker.count, share, room))
        if deliveries:
            service.takers.remove(taker)
            service.began(len(deliveries))
            handed.append(HandOut(taker, deliveries, dead))
        elif dead:
            handed.append(HandOut(None, [], dead))
    surplus = 0 if queue.shared else queue.pending_starts - len(queue.shelf.available)
    if surplus > 0:  # what they were for, others have got
        triggers.count(queue, queue.pending_starts - surplus)
        service.counts.empty += surplus
    return handed


class _Choice:
    """The choice of messages that one worker is given of a queue now."""

    def __init__(self, manager: Manager, service: Service, worker: DeliveryWorker, moment: Moment) -> None:
        self._manager = manager
        self._service = service
        self._worker = worker
        self._moment = moment
        self._queue = service.queue
        attempts = backoff.attempts(service.options, service.queue)
        self._attempts = inf if attempts is None else attempts
        self._bytes = 0
        self._singles_only = False  # those that failed in a batch come alone, and wait for no others
        self._bundle: list[Entry] = []  # of a batch that is not complete yet
        self._made: list[Delivery] = []
        self._dead: list[Delivery] = []

    def choose(self, count: int) -> tuple[list[Delivery], list[Delivery]]:
        """Up to `count` deliveries, and messages for the dead-letter queue."""
        worker, service, batch = self._worker, self._service, self._service.options.batch
        draining = worker.draining_for is not None
        if worker.exclusive is not None or (draining and (worker.draining_for is not service or worker.deliveries)):
            return [], []
        self._singles_only = batch > 1 and not draining and self._waits_for_more(batch * count)
        keys, after, looks = self._keys(), START, 0
        while looks < LOOKS_MAX:
            window = list(islice(keys.after(after), max(count * batch - len(self._made), 8)))
            if not window or not self._look_through(window, count):
                break
            after, looks = window[-1], looks + len(window)
        if self._bundle:
            self._make_batch()
        if draining and worker.exclusive is None:  # the message for which it was drained has gone
            worker.draining_for = service.draining = None
        return self._made, self._dead

    def _keys(self) -> SortedKeys[int]:
        """Return the keys of the messages that may be taken, or with which a group begins that may be."""
        service, shelf = self._service, self._queue.shelf
        if service.order is not None:
            return service.order.keys
        return shelf.wholes().keys if service.options.groups else shelf.available

    def _look_through(self, keys: list[int], count: int) -> bool:
        """Take of these messages what may be taken, in up to `count` deliveries with those made before. Return False
        when nothing more is to be taken now.
        """
        entries, batch = self._queue.shelf.entries, self._service.options.batch
        for key in keys:
            entry = entries[key]
            if entry.state != AVAILABLE:
                continue  # it was taken with one before it
            if not self._service.starts or not self._look_at(entry):
                return False
            if len(self._bundle) == batch > 1:
                self._make_batch()
            if len(self._made) >= count:
                return False
        return True

    def _look_at(self, entry: Entry) -> bool:
        """Take a message if it may be taken. Return False when nothing more is to be taken now."""
        if entry.deadline is not None and entry.expired(self._moment.wall):
            expiring.discard(self._manager, (entry,))
            return True
        pieces = self._pieces(entry)
        if pieces is None:
            return True
        size = _size(pieces)
        if entry.handling is not None and entry.handling.steps is not None:
            size += entry.handling.steps.size
        if (self._made or self._bundle) and self._bytes + size > TAKE_BYTES:
            return False
        if entry in self._manager.deliveries.dead_lettering:
            return True
        failure = None if entry.handling is None else entry.handling.failure
        if failure is not None and failure.quarantined and not failure.dead:
            return self._look_at_quarantined(entry, failure, pieces)
        if self._worker.draining_for is not None or (self._singles_only and failure is None):
            return True
        if entry.backout_count >= self._attempts or (failure is not None and failure.dead):
            self._give_up(pieces)
        elif failure is not None or self._service.options.batch <= 1:
            self._make(pieces)
        elif self._service.order is None:
            self._bundle.append(entry)
        else:
            self._make(self._run(entry))
        self._bytes += size
        return True

    def _look_at_quarantined(self, entry: Entry, failure: FailureRecord, pieces: list[list[Entry]]) -> bool:
        """Take a quarantined message, of which a worker is given one at a time. One that crashes were charged to runs
        alone before the attempt that may be its last (handlers rule 1.4). Return False when nothing more is to be taken
        now.
        """
        worker, crashes, crashes_max = self._worker, failure.crashes, self._service.options.crashes
        used_up, draining = entry.backout_count >= self._attempts, worker.draining_for is not None
        if not crashes and used_up:
            self._give_up(pieces)  # by other failures: the crash has charged a neighbour
        elif failure.exclusive and not draining and (used_up or crashes >= crashes_max):
            self._give_up(pieces)  # it crashed the queue manager while it ran alone
        elif crashes and (entry.backout_count + 1 >= self._attempts or crashes + 1 >= crashes_max):
            return self._run_alone(pieces)
        elif not worker.quarantined and not draining:
            self._make(pieces)
        return True

    def _run_alone(self, pieces: list[list[Entry]]) -> bool:
        """Take a message that must run alone, if the worker is the one that is drained for it and has nothing else. If
        none is drained yet, drain the least busy. Return False when nothing more is to be taken now.
        """
        worker, service = self._worker, self._service
        if service.draining is None and service.exclusive is None:
            self._drain_least_busy()
        if worker.draining_for is not service:
            return True
        if not worker.deliveries and not self._made:
            self._make(pieces)
            worker.exclusive = service.exclusive = self._made[-1]
            worker.draining_for = service.draining = None
        return False

    def _drain_least_busy(self) -> None:
        """Let the worker with the fewest deliveries run empty, of those that are free to."""

        def busy(worker: DeliveryWorker) -> int:
            return len(worker.deliveries) + (len(self._made) if worker is self._worker else 0)

        service = self._service
        free = [each for each in service.workers if each.draining_for is None and each.exclusive is None]
        if free:
            service.draining = min(free, key=busy)
            service.draining.draining_for = service

    def _pieces(self, entry: Entry) -> list[list[Entry]] | None:
        """Return the messages that go together with this one: those of its group, each with its segments. None when it
        does not begin that, or not all is there.
        """
        shelf = self._queue.shelf
        if self._service.options.groups:
            together = [shelf.entries[key] for key in shelf.groups.in_order(entry)]
            return [list(piece) for _, piece in groupby(together, _sequence)]
        if not entry.msg_flags & SEGMENTS:
            return [[entry]]
        if entry.offset or not shelf.groups.message_complete(entry):
            return None
        return [[shelf.entries[key] for key in shelf.groups.segments(entry)]]

    def _run(self, entry: Entry) -> list[list[Entry]]:
        """A batch of an order by key: the first messages of one value that have not failed."""
        order, shelf = self._service.order, self._queue.shelf
        assert order is not None
        most = min(self._service.options.batch, self._service.starts)
        pieces: list[list[Entry]] = []
        size = 0
        for key in order.following(order.value(entry), most):
            each = shelf.entries[key]
            size += each.length
            if pieces and (each.handling is not None or size > TAKE_BYTES or each.msg_flags & SEGMENTS):
                break
            pieces.append([each])
        return pieces

    def _waits_for_more(self, wanted: int) -> bool:
        """True if an incomplete batch is to wait for more messages."""
        service = self._service
        if len(self._queue.shelf.available) >= min(wanted, service.options.batch):
            service.batch_due = None
            return False
        if service.batch_due is None and self._queue.shelf.available:
            service.batch_due = self._moment.tick + service.options.batch_wait
        if service.batch_due is None or self._moment.tick < service.batch_due:
            return True
        service.batch_due = None
        return False

    def _make_batch(self) -> None:
        """A delivery of the messages that were gathered for a batch."""
        self._make([[entry] for entry in self._bundle])
        self._bundle = []

    def _make(self, pieces: list[list[Entry]]) -> None:
        """A delivery of these messages."""
        self._made.append(self._taken(pieces))

    def _give_up(self, pieces: list[list[Entry]]) -> None:
        """Take messages whose attempts are used up: no worker has them, so none can take them along."""
        delivery = self._taken(pieces)
        delivery.pending = 1
        self._dead.append(delivery)

    def _taken(self, pieces: list[list[Entry]]) -> Delivery:
        """Take messages, in a unit of work of their own, and their starts."""
        service, queue, manager, moment = self._service, self._queue, self._manager, self._moment
        if service.options.groups:
            pieces = [message for piece in pieces for message in _logical_messages(piece)]
        unit = Unit()
        unit.owner, unit.since = self._worker.hconn, moment.wall
        delivery = Delivery(manager.deliveries.next_id(), service, self._worker, pieces, unit)
        if service.order is not None:
            delivery.order_value = service.order.value(delivery.entries[0])
            service.order.hold(delivery.order_value)
        for entry in delivery.entries:
            queue.take(entry, unit, moment.wall)
            unit.gets[entry] = True
            if reports.asked(entry, reports.COD):
                unit.confirm(entry, reports.COD)
        if manager.events.counting:
            manager.events.got(queue, len(delivery.entries), moment.wall)
        if not queue.shared:
            manager.triggers.count(queue, max(0, queue.pending_starts - len(delivery.entries)))
        manager.deliveries.begin(delivery, moment)
        return delivery


def _size(pieces: list[list[Entry]]) -> int:
    """The bytes of their bodies."""
    if len(pieces) == len(pieces[0]) == 1:
        return pieces[0][0].length
    return sum([each.length for piece in pieces for each in piece])


def _logical_messages(group: list[Entry]) -> list[list[Entry]]:
    """The messages of a group in its order, each with its segments."""
    messages: list[list[Entry]] = []
    for entry in group:
        if entry.offset and messages:
            messages[-1].append(entry)
        else:
            messages.append([entry])
    return messages
