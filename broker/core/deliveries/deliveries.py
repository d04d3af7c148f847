"""The services, workers and deliveries of a queue manager (handlers rules 1 and 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.deliveries import backoff, ending, finishing, salvaging, taking
from broker.core.deliveries.counts import HandlerCounts
from broker.core.deliveries.delivery import DeliveryWorker
from broker.core.deliveries.service import VIEW, Service, WaitingTaker, unfit
from broker.core.message.entry import AVAILABLE
from broker.core.message.put_time import put_at
from broker.core.message.stepped import rows_of, steps_of
from broker.core.message.steps import StepBudget
from broker.core.names.resolution import UnknownNameError
from broker.mqi.errors import MQError
from broker.mqi.names import no_local_queue
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.core.deliveries.delivery import Delivery
    from broker.core.deliveries.finishing import FinishedStep
    from broker.core.deliveries.history import History
    from broker.core.deliveries.steps import Ending, JointEnds, Step
    from broker.core.deliveries.taking import HandOut
    from broker.core.manager import Manager
    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.core.moment import Moment
    from broker.core.queues.handles import Hconn
    from broker.core.queues.queue import LocalQueue
    from broker.mqi.delivery_fields import ServiceOptions, Settlement


class Deliveries:
    """The services of queues, their workers, and the deliveries in flight."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._services: dict[LocalQueue, Service] = {}
        self._workers: dict[Hconn, DeliveryWorker] = {}
        self._counts: dict[tuple[str, str], HandlerCounts] = {}
        self._counted: list[tuple[str, str]] = []  # their keys in order, when somebody asked last
        self._last_id = 0
        self._last_service = 0
        self._due: list[Entry] = []  # held for a dead-letter queue, and to be tried again
        self.step_budget = StepBudget()
        self.dead_lettering: set[Entry] = set()  # those, until they have been: they count no start
        self._history: History | None = None

    # Who serves

    def check(self, queue: LocalQueue | None, q_name: str, options: ServiceOptions) -> None:
        """Raise why a queue cannot be served: UNKNOWN_OBJECT_NAME (2085), OPTION_NOT_VALID_FOR_TYPE (2045),
        OPTIONS_ERROR (2046) for a backoff that nobody can wait for and for a history that cannot be kept, OBJECT_IN_USE
        (2042) for another order.
        """
        backoff.check(options)
        if queue is None or queue.deleted:
            raise UnknownNameError(MQRC.UNKNOWN_OBJECT_NAME, no_local_queue(q_name))
        wrong = unfit(queue, queue.process_name in self._manager.objects.processes)
        if wrong:
            raise MQError(MQRC.OPTION_NOT_VALID_FOR_TYPE, f"{q_name} {wrong}")
        if options.history:
            self.history.check(queue, options)
        service = self._services.get(queue)
        if service is not None and service.workers and service.options.order_by != options.order_by:
            raise MQError(
                MQRC.OBJECT_IN_USE,
                f"{q_name} is served by {service.options.handler or 'others'} "
                f"with order_by={service.options.order_by!r}, not {options.order_by!r}",
            )

    def serve(self, hconn: Hconn, queue: LocalQueue, options: ServiceOptions) -> tuple[int, Iterator[None]]:
        """A connection serves a queue that `check` has found fit: the number of the service there, and work that is to
        be done, in steps, before anything is taken.
        """
        self.check(queue, queue.name, options)
        worker = self._workers.get(hconn)
        if worker is None:
            worker = self._workers[hconn] = DeliveryWorker(hconn)
        service = self._services.get(queue)
        if service is None:
            service = self._services[queue] = Service(queue, options, self.counts_of(queue.name, options.handler))
        service.options = options
        service.counts = self.counts_of(queue.name, options.handler)
        service.workers[worker] = service.workers.get(worker, 0) + 1
        self._last_service += 1
        worker.services[self._last_service] = service
        return self._last_service, service.put_in_order(self._manager.branches.deliveries_of)

    def counts_of(self, q_name: str, handler: str) -> HandlerCounts:
        """The counts of a queue under a handler, whether anybody serves it or not."""
        return self._counts.setdefault((q_name, handler), HandlerCounts())

    def stop_serving(self, hconn: Hconn, number: int) -> list[WaitingTaker]:
        """A connection takes no more from a queue: who waited for that. Raises HOBJ_ERROR (2019)."""
        worker = self.worker(hconn)
        service = self.service(hconn, number)
        del worker.services[number]
        service.workers[worker] -= 1
        if service.workers[worker]:
            return []
        waiting = service.drop_worker(worker)
        self._forget_idle(service)
        return waiting

    def worker(self, hconn: Hconn) -> DeliveryWorker:
        """Raises HOBJ_ERROR (2019) for a connection that serves nothing."""
        worker = self._workers.get(hconn)
        if worker is None:
            raise MQError(MQRC.HOBJ_ERROR, "this connection serves no queue")
        return worker

    def service(self, hconn: Hconn, number: int) -> Service:
        """A service of a connection; raises HOBJ_ERROR (2019)."""
        service = self.worker(hconn).services.get(number)
        if service is None:
            raise MQError(MQRC.HOBJ_ERROR, f"this connection has no service {number}")
        return service

    def find(self, queue: LocalQueue) -> Service | None:
        """The service of a queue, if somebody serves it or something of it is in flight."""
        return self._services.get(queue)

    def _forget_idle(self, service: Service) -> None:
        if not service.workers and not service.in_flight and self._services.get(service.queue) is service:
            service.queue.shelf.views.pop((VIEW,), None)
            del self._services[service.queue]

    # What they take

    def next_id(self) -> int:
        """The number of a delivery."""
        self._last_id += 1
        return self._last_id

    def wanted(self) -> list[Service]:
        """The services that somebody waits for, and whose queues have starts."""
        return [
            service
            for service in self._services.values()
            if service.takers and not service.queue.shared and (service.queue.pending_starts or service.queue.deleted)
        ]

    def mark_dirty(self, queue: LocalQueue) -> bool:
        """Note that a shared queue may have more to hand out. True if anybody waits for it."""
        service = self._services.get(queue)
        if service is None or not service.takers:
            return False
        service.dirty = queue.shared
        return True

    def dirty(self) -> list[Service]:
        """The services of shared queues that somebody waits for, and that may have more than when they were looked at
        last: they are not dirty any more.
        """
        found = [service for service in self._services.values() if service.dirty]
        for service in found:
            service.dirty = False
            service.token_due = None  # until they are looked at
        return [service for service in found if service.takers]

    @property
    def idle(self) -> bool:
        """True if nothing is to be handed out, or put to a dead-letter queue again."""
        return not (self._due or self.wanted() or any(service.dirty for service in self._services.values()))

    def services(self) -> list[Service]:
        """All of them."""
        return list(self._services.values())

    def wait(self, hconn: Hconn, service: Service, count: int, call: object) -> WaitingTaker:
        """Somebody waits for deliveries."""
        taker = WaitingTaker(self.worker(hconn), count, call)
        service.takers.append(taker)
        service.dirty = service.queue.shared
        return taker

    def stop_waiting(self, taker: WaitingTaker) -> None:
        """They wait no more; harmless when they have been served."""
        for service in self._services.values():
            if taker in service.takers:
                service.takers.remove(taker)

    def takers_of(self, hconn: Hconn) -> list[WaitingTaker]:
        """Return the takers of a connection."""
        worker = self._workers.get(hconn)
        return [each for service in self._services.values() for each in service.takers if each.worker is worker]

    def next_look(self, tick: float) -> float | None:
        """In how many seconds a rate, or a batch that waits for more, may allow what it does not allow now."""
        waits = []
        shared = [service for service in self._services.values() if service.takers and service.queue.shared]
        for service in (*self.wanted(), *shared):
            if service.batch_due is not None:
                waits.append(max(service.batch_due - tick, 0.0))
            if service.token_due is not None:
                waits.append(max(service.token_due - tick, 0.0))
        return min(waits, default=None)

    def arrived(self, entries: Iterable[Entry]) -> None:
        """Messages that waited are available: those that are held for a dead-letter queue are tried again."""
        for entry in entries:
            if entry.handling is not None and entry.handling.failure is not None and entry.handling.failure.dead:
                self._due.append(entry)
                self.dead_lettering.add(entry)

    def delayed_again(self, entry: Entry) -> None:
        """A message that was got is delayed: after an attempt it holds back those of its key."""
        service = self._services.get(entry.queue)  # type: ignore[call-overload]  # who has DELAYED messages is local
        if service is not None and service.order is not None and entry.handling and entry.handling.failure:
            service.order.hold_retried(entry)

    def held_and_due(self) -> list[Entry]:
        """Messages that are to be put to their dead-letter queue again."""
        due, self._due = self._due, []
        return due

    def hand_out(self, service: Service, moment: Moment) -> list[HandOut]:
        """Serve those who wait for deliveries of a queue."""
        return taking.hand_out(self._manager, service, moment)

    def undo(self, service: Service, handed: Sequence[HandOut]) -> None:
        """Undo handing out messages that could not be taken from a shared queue."""
        for each in reversed(handed):
            for delivery in (*each.deliveries, *each.dead):
                self.over(delivery)
            service.began(-len(each.deliveries))
            if each.taker is not None and self._workers.get(each.taker.worker.hconn) is each.taker.worker:
                service.takers.appendleft(each.taker)

    def begin(self, delivery: Delivery, moment: Moment) -> None:
        """A delivery is in flight."""
        service, worker = delivery.service, delivery.worker
        delivery.since = moment.tick
        service.in_flight[delivery.id] = delivery
        worker.deliveries[delivery.id] = delivery
        failures = [entry.handling.failure for entry in delivery.entries if entry.handling is not None]
        if failures:
            delivery.quarantined = any(failure is not None and failure.quarantined for failure in failures)
            worker.quarantined += delivery.quarantined
            finishing.begin_attempt(delivery.entries)

    def started(self, deliveries: list[Delivery], moment: Moment) -> None:
        """Deliveries are on their way to a worker."""
        for delivery in deliveries:
            counts, first = delivery.service.counts, delivery.entries[0]
            counts.started += len(delivery.entries)
            counts.running += len(delivery.entries)
            counts.retried += len([entry for entry in delivery.entries if entry.backout_count])
            counts.waited.add(self.waited(first, moment.wall))

    @staticmethod
    def waited(entry: Entry, now: float) -> float:
        """For how many seconds a message has been there, by its PutDate and PutTime."""
        return max(0.0, now - (put_at(entry.packed_md) or now))

    def delivery(self, hconn: Hconn, id: int) -> Delivery | None:
        """Return the unsettled delivery that a connection has in flight under this number."""
        worker = self._workers.get(hconn)
        delivery = None if worker is None else worker.deliveries.get(id)
        return None if delivery is None or delivery.pending else delivery

    def begin_step(self, delivery: Delivery, name: str, value: bytes) -> FinishedStep:
        """A step of the message of a delivery is finished, as `finishing.begin` has it."""
        return finishing.begin(self._manager, delivery, name, value)

    @staticmethod
    def rows_of(entries: Iterable[Entry]) -> Rows:
        """The rows that keep messages, with the steps that handlers have finished for them."""
        return rows_of(entries)

    def any_of(self, hconn: Hconn) -> bool:
        """True if a connection has deliveries whose ends are not durable."""
        return hconn in self._workers and bool(self._workers[hconn].deliveries)

    # What becomes of it

    @property
    def history(self) -> History:
        """The history, which puts the records of messages that have gone."""
        if self._history is None:
            from broker.core.deliveries.history import History  # most queues have none

            self._history = History(self._manager)
        return self._history

    def settle(
        self, delivery: Delivery, settlement: Settlement, moment: Moment, together: JointEnds | None = None
    ) -> Ending:
        """Return the steps that make this end of a delivery durable; `together` as for `ending.end`."""
        return ending.end(self._manager, delivery, settlement, moment, together)

    def give_back(self, delivery: Delivery) -> Ending:
        """A delivery that nobody takes ends as if it had not been taken."""
        return ending.give_back(self._manager, delivery)

    def bury(self, delivery: Delivery, moment: Moment) -> Ending:
        """A message whose attempts are used up goes to the dead-letter queue."""
        return ending.bury(self._manager, delivery, moment)

    def may_be_buried(self, entry: Entry) -> bool:
        """True if a message that is held for a dead-letter queue is still there; else others have got it meanwhile."""
        self.dead_lettering.discard(entry)
        return entry.state == AVAILABLE

    def bury_again(self, entry: Entry, moment: Moment) -> Ending:
        """A message that is held is tried again."""
        return ending.bury_again(self._manager, entry, moment)

    def refuse(self, step: Step, end: Ending, moment: Moment) -> Rows:
        """Return the rows to write in place of a step that commits, for which the store has no room."""
        return ending.refuse(self._manager, step, end, moment)

    def settled(self, end: Ending, step: Step, moment: Moment, *, undone: bool) -> None:
        """A step has settled."""
        ending.settled(self._manager, end, step, moment, undone=undone)

    def limit(self, delivery: Delivery) -> int:
        """The number of the last attempt of a delivery; 0: there is none."""
        return backoff.attempts(delivery.service.options, delivery.service.queue) or 0

    def in_hand(self, hconn: Hconn) -> list[Delivery]:
        """Return the unsettled deliveries of a connection."""
        worker = self._workers.get(hconn)
        return [] if worker is None else [each for each in worker.deliveries.values() if not each.pending]

    def salvage(
        self, delivery: Delivery | None, entries: Sequence[Entry], moment: Moment, outcome: int | None = None
    ) -> Ending:
        """A mistake of ours has broken off the end of a delivery: its messages wait, and nobody holds them."""
        return salvaging.salvage(self._manager, delivery, entries, moment, outcome)

    def gone(self, hconn: Hconn, moment: Moment, *, crashed: bool) -> list[Ending]:
        """A connection has ended: what it had in flight ends too (handlers rule 1.4)."""
        left = self.in_hand(hconn)
        worker = self._workers.pop(hconn, None)
        if worker is None:
            return []
        for service in worker.services.values():
            service.drop_worker(worker)
            self._forget_idle(service)
        if crashed:
            suspected = self._manager.branches.suspects_of(hconn)
            return ending.crash(self._manager, left, moment, suspected=suspected)
        return [ending.give_back(self._manager, delivery) for delivery in left]

    def over(self, delivery: Delivery) -> None:
        """All that a delivery led to has settled."""
        service, worker = delivery.service, delivery.worker
        service.dirty = service.queue.shared  # there is room, and what waited for its key may come
        service.in_flight.pop(delivery.id, None)
        worker.deliveries.pop(delivery.id, None)
        if delivery.quarantined or delivery in (service.exclusive, worker.exclusive):
            delivery.leave_worker()
        if service.order is not None and delivery.order_value is not None:
            service.order.free(delivery.order_value)
        self._forget_idle(service)

    def set_apart(self, delivery: Delivery) -> None:
        """A delivery is prepared: it is in nobody's hands, and counts in no `total`. Its key is held on, and until
        its worker has decided it nothing is given to that which may not run beside it.
        """
        delivery.service.in_flight.pop(delivery.id, None)
        delivery.worker.deliveries.pop(delivery.id, None)
        self._forget_idle(delivery.service)

    def load_marked(self, marked: Sequence[tuple[Entry, bool]], now: float) -> Rows:
        """Charge what handlers in this process had at an unclean end, each with True if alone. Return the rows."""
        return ending.charge_marked(marked, now)

    # Figures

    def counts(self) -> list[tuple[str, str, HandlerCounts]]:
        """By queue and handler, in order."""
        self._counted = sorted(self._counts) if len(self._counted) != len(self._counts) else self._counted
        return [(q_name, handler, self._counts[q_name, handler]) for q_name, handler in self._counted]

    def workers(self, queue: LocalQueue, counts: HandlerCounts) -> int:
        """Return the number of connections that serve a queue now, under the handler that is counted there."""
        service = self._services.get(queue)
        return 0 if service is None or service.counts is not counts else len(service.workers)

    def served_by(self, queue: LocalQueue) -> tuple[str, list[DeliveryWorker]]:
        """The handler under which a queue is served now, and the connections that do; "" and none where nobody does."""
        service = self._services.get(queue)
        return ("", []) if service is None else (service.options.handler, list(service.workers))

    def in_flight(self, queue: LocalQueue) -> int:
        """Return the number of messages of a queue that handlers have now."""
        service = self._services.get(queue)
        return 0 if service is None else sum(len(delivery.entries) for delivery in service.in_flight.values())

    def check_invariants(self, queues: Iterable[LocalQueue]) -> None:
        """Raise AssertionError where the room of steps is not that of those that are there. For tests."""
        found = [steps_of(entry) for queue in queues for entry in queue.shelf.entries.values()]
        assert self.step_budget.bytes == sum(steps.size for steps in found if steps is not None)
