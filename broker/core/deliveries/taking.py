"""Taking: starts come off the count of a queue, and as many messages out of it, in one step (handlers rules 1, 6).

What is chosen is what a getter would be given next, but for what must not be handed out now: a message of a key that is
busy, a segment whose message is not whole, a quarantined message beside others (handlers rule 1.4). A message whose
attempts are used up is handed to nobody: it goes to the dead-letter queue.
"""

from __future__ import annotations

from itertools import groupby, islice
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
    from broker.core.moment import Moment

TAKE_BYTES: Final = 4 * 1024 * 1024
"""A take is given so much; a longer message alone."""

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
        self._attempts = backoff.attempts(service.options, service.queue)
        self._bytes = 0
        self._singles_only = False  # those that failed in a batch come alone, and wait for no others
        self._made: list[Delivery] = []
        self._dead: list[Delivery] = []

    def choose(self, count: int) -> tuple[list[Delivery], list[Delivery]]:
        """Up to `count` deliveries, and messages for the dead-letter queue."""
        worker, service = self._worker, self._service
        if worker.exclusive is not None:
            return [], []
        exclusive = worker.draining_for
        if exclusive is not None and (exclusive is not service or worker.deliveries):
            return [], []
        batch = service.options.batch
        self._singles_only = batch > 1 and exclusive is None and self._waits_for_more(batch * count)
        bundle: list[Entry] = []
        after, looks = START, 0
        while len(self._made) < count and looks < LOOKS_MAX:
            keys = list(islice(self._keys(after), max(count * batch - len(self._made), 8)))
            if not keys:
                break
            looks += len(keys)
            after = keys[-1]
            for key in keys:
                entry = self._queue.shelf.entries[key]
                if entry.state != AVAILABLE or not self._service.starts:
                    continue
                if not self._look_at(entry, bundle) or worker.exclusive is not None:
                    looks = LOOKS_MAX
                    break
                if len(bundle) == batch > 1:
                    self._bundled(bundle)
                if len(self._made) >= count:
                    break
        self._bundled(bundle)
        if exclusive is not None and worker.exclusive is None:  # what it was to run alone has gone
            worker.draining_for = service.draining = None
        return self._made, self._dead

    def _keys(self, after: int) -> islice[int]:
        """The keys behind `after` of what may be taken, as they are now."""
        service, shelf = self._service, self._queue.shelf
        if service.order is not None:
            keys = service.order.keys
        elif service.options.groups:
            keys = shelf.wholes().keys
        else:
            keys = shelf.available
        return islice(keys.after(after), None)

    def _look_at(self, entry: Entry, bundle: list[Entry]) -> bool:
        """Take a message if it may be taken; false when nothing more is to be taken now."""
        now = self._moment.wall
        if entry.deadline is not None and entry.expired(now):
            expiring.discard(self._manager, (entry,))
            return True
        pieces = self._pieces(entry)
        if pieces is None:
            return True
        size = _size(pieces)
        if (self._made or bundle) and self._bytes + size > TAKE_BYTES:
            return False
        handling = entry.handling
        failure = None if handling is None else handling.failure
        if entry in self._manager.deliveries.dead_lettering:
            return True
        if failure is None:
            if self._worker.draining_for is not None or self._singles_only:
                return True
            if self._attempts is not None and entry.backout_count >= self._attempts:
                self._give_up(pieces)
            elif self._service.options.batch > 1 and self._service.order is None:
                bundle.append(entry)
            else:
                self._make(pieces if self._service.options.batch <= 1 else self._run(entry))
            self._bytes += size
            return True
        if failure.quarantined and not failure.dead:
            return self._look_at_quarantined(entry, pieces)
        if self._worker.draining_for is None:
            over = failure.dead or (self._attempts is not None and entry.backout_count >= self._attempts)
            if over:
                self._give_up(pieces)
            else:
                self._make(pieces)
            self._bytes += size
        return True

    def _look_at_quarantined(self, entry: Entry, pieces: list[list[Entry]]) -> bool:
        """Take one quarantined message a worker; one that a crash was charged to runs alone before its last attempt
        (handlers rule 1.4).
        """
        service, worker = self._service, self._worker
        assert entry.handling is not None
        assert entry.handling.failure is not None
        failure = entry.handling.failure
        crashes = failure.crashes
        if failure.exclusive and self._worker.draining_for is None and self._used_up(entry, crashes):
            self._give_up(pieces)
            return True
        if not crashes and self._attempts is not None and entry.backout_count >= self._attempts:
            self._give_up(pieces)  # by other failures: the crash has charged a neighbour
            return True
        last = self._attempts is not None and entry.backout_count + 1 >= self._attempts
        if not crashes or not (last or crashes + 1 >= service.options.crashes):
            if not worker.quarantined and worker.draining_for is None:
                self._make(pieces)
            return True
        if worker.draining_for is service:
            if worker.deliveries or self._made:
                return False
            self._make(pieces)
            worker.exclusive = service.exclusive = self._made[-1]
            worker.draining_for = service.draining = None
            return False
        if service.draining is None and service.exclusive is None:
            free = [each for each in service.workers if each.draining_for is None and each.exclusive is None]
            if free:
                fewest = min(free, key=lambda each: len(each.deliveries) + (len(self._made) if each is worker else 0))
                fewest.draining_for, service.draining = service, fewest
                if fewest is worker and not worker.deliveries and not self._made:
                    return self._look_at_quarantined(entry, pieces)
                return fewest is not worker
        return True

    def _used_up(self, entry: Entry, crashes: int) -> bool:
        """True if the attempts of a message are used up, or it has crashed its workers too often."""
        used_up = self._attempts is not None and entry.backout_count >= self._attempts
        return used_up or crashes >= self._service.options.crashes

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

    def _bundled(self, bundle: list[Entry]) -> None:
        if bundle:
            self._make([[entry] for entry in bundle])
            bundle.clear()

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
            queue.take(entry, unit)
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
