"""Deliveries on their way to those who take them (handlers rule 1).

The core says who is given what. Here the messages are marked, their bodies fetched and the answers given. The ends of
deliveries are in `delivery_ends`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.message.rows import HANDLED, HANDLED_ALONE, Rows
from broker.core.queues.effects import Grant
from broker.engine.calls.answers import fail
from broker.engine.calls.get_answer import PLAIN
from broker.engine.calls.get_answer import delivery as delivered
from broker.engine.calls.gets import ReceivingCall
from broker.interface.handlers.delivery_answers import DeliveryAnswer, TakeAnswer
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import DataDamagedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.clock import Timer
    from broker.core.deliveries.delivery import Delivery
    from broker.core.deliveries.service import WaitingTaker
    from broker.core.deliveries.taking import HandOut
    from broker.core.moment import Moment
    from broker.core.queues.queue import LocalQueue
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation
    from broker.engine.jobs.slices import Work

logger = logging.getLogger(__name__)

HELD_LOG_SECONDS: Final = 60.0
"""That dead letters of a queue are held, or records of its history lost, is logged so often."""

_SOONEST: Final = 1e-6  # seconds: a timer may come a little early for the clock


class TakeCall(ReceivingCall[TakeAnswer]):
    """Somebody waits for deliveries. Cancelled or abandoned, what it has been given goes back at once."""

    def __init__(self, delivery_service: DeliveryService, conversation: Conversation, service: int) -> None:
        super().__init__()
        self.conversation = conversation
        self.service = service
        self.taker: WaitingTaker | None = None
        self.handed: list[Delivery] = []
        self._delivery_service = delivery_service

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting at once."""
        cancelled = super().cancel(msg)
        if cancelled:
            self._give_back()
        return cancelled

    def take(self) -> None:
        self.handed = []

    def unclaimed(self, result: TakeAnswer) -> None:
        self._give_back()

    @property
    def receipt(self) -> TakeCall:
        return self

    def abandon(self) -> None:
        """Nobody takes the answer."""
        self._give_back()

    def _give_back(self) -> None:
        taker, self.taker = self.taker, None
        handed, self.handed = self.handed, []
        self._delivery_service.untold(self)
        self._delivery_service.abandon(taker, handed)


class DeliveryService:
    """Hands out the deliveries of a queue manager to those who serve its queues (`broker.core.deliveries.service`)."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._core = context.core
        self._timer: Timer | None = None
        self._running = self._again = False
        self._refusal: MQError | None = None
        self._triggers: dict[LocalQueue, tuple[int, bytes]] = {}
        self._notified: dict[tuple[Conversation, int], bytes] = {}
        self._logged: dict[tuple[str, str], float] = {}  # when what of which queue was, monotonic
        self.marks_awaited_below = 0
        """Messages with a lower arrival number are marked before they are handed to a handler in this process: they may
        be why the queue manager ended.
        """

    # Taking

    def take(self, call: TakeCall, count: int) -> None:
        """Let a call wait for up to `count` deliveries. Raises HOBJ_ERROR (2019), Q_DELETED (2052)."""
        if self._refusal is not None:
            raise self._refusal
        deliveries, hconn = self._core.deliveries, call.conversation.hconn
        service = deliveries.service(hconn, call.service)
        if service.queue.deleted:
            raise MQError(MQRC.Q_DELETED, f"{service.queue.name} was deleted")
        call.taker = deliveries.wait(hconn, service, count, call)
        self.run()

    def abandon(self, taker: WaitingTaker | None, handed: Iterable[Delivery]) -> None:
        """Nobody waits any more; what was handed out goes back."""
        if taker is not None:
            self._core.deliveries.stop_waiting(taker)
        for delivery in handed:
            if delivery.in_flight and not delivery.pending:  # else it has gone with its connection
                self._context.delivery_ends.give_back(delivery)
        self.run()

    def untold(self, call: TakeCall) -> None:
        """The trigger message in its answer, if one was, has reached nobody."""
        self._notified.pop((call.conversation, call.service), None)

    def run(self) -> None:
        """Hand out what can be handed out. To be called whenever that may be more than before."""
        if self._running:
            self._again = True
            return
        if self._core.deliveries.idle and not self._core.effects.held and self._timer is None:
            return  # nobody waits, or nothing is there for those who do
        self._running = self._again = True
        try:
            while self._again:
                self._again = False
                moment = self._context.moment()
                for entry in self._core.deliveries.held_and_due():
                    self._context.delivery_ends.bury_again(entry)
                for service in self._core.deliveries.wanted():
                    if service.queue.deleted:
                        self._end_takers(service.takers, MQRC.Q_DELETED)
                        continue
                    for handed in self._core.deliveries.hand_out(service, moment):
                        self.hand_over(handed, moment)
                for service in self._core.deliveries.dirty():
                    if service.queue.deleted:
                        self._end_takers(service.takers, MQRC.Q_DELETED)
                    else:
                        self._context.member.deliveries.hand_out(service)
                self._tell_held()
                self._context.perform()
        finally:
            self._running = False
        self.arm()

    def hand_over(self, handed: HandOut, moment: Moment) -> None:
        """Messages have been taken for somebody, or for the dead-letter queue."""
        for delivery in handed.dead:
            self._context.delivery_ends.bury(delivery)
        if handed.taker is None:
            return
        call = handed.taker.call
        assert isinstance(call, TakeCall)
        call.taker = None
        call.handed = handed.deliveries
        self._core.deliveries.started(handed.deliveries, moment)
        if call.done() or call.conversation.broken:  # since messages of a shared queue began to be taken
            call.abandon()
            fail(call, MQRC.CONNECTION_BROKEN)
            return
        size = sum(entry.length for delivery in handed.deliveries for entry in delivery.entries)
        call.held += size
        call.conversation.room.got(size)
        awaited = self._mark(handed.deliveries)
        if awaited is None:
            self._fetch(call)
        else:
            self._context.journal.submit(awaited, lambda _: self._fetch(call))

    def _mark(self, deliveries: list[Delivery]) -> Rows | None:
        """Write that messages are in somebody's hands (handlers rule 1.5): rows to be awaited, if there are any."""
        if deliveries[0].service.queue.shared:
            return None  # the database knows in whose hands they are
        rows, awaited = Rows(), Rows()
        own = not deliveries[0].worker.hconn.channel
        if not own and not deliveries[0].service.queue.hardens_backout:
            return None
        mark = HANDLED_ALONE if deliveries[0].worker.exclusive is not None else HANDLED
        for delivery in deliveries:
            for entry in delivery.entries:
                if not entry.persistence:
                    continue
                entry.hardened = True
                if own:
                    (awaited if entry.place < self.marks_awaited_below else rows).marked.append((entry.id, mark))
                else:
                    rows.hardened.append(entry.id)
        if rows:
            self._context.journal.note(rows)
        return awaited if awaited else None

    def _fetch(self, call: TakeCall) -> None:
        unread = [entry for delivery in call.handed for entry in delivery.entries if entry.data is None]
        if unread:
            self._context.bodies.fetch(unread, partial(self._fetched, call))
        else:
            self._answer(call)

    def _fetched(self, call: TakeCall, error: Exception | None) -> None:
        if isinstance(error, DataDamagedError):
            good = []
            for delivery in call.handed:
                if all(entry.data is not None for entry in delivery.entries):
                    good.append(delivery)
                    continue
                for entry in delivery.entries:
                    if entry.data is None:
                        self._context.set_aside(entry, error)
                self._context.delivery_ends.give_back(delivery)
            call.handed = good
        elif error is not None:
            fail(call, MQRC.CONNECTION_BROKEN, "the store failed")
            return
        self._answer(call)

    def _answer(self, call: TakeCall) -> None:
        if call.done():
            return
        now = self._context.clock.time()
        handed = []
        for delivery in call.handed:
            first = delivery.entries[0]
            messages = [delivered(Grant(piece), PLAIN, now) for piece in delivery.pieces()]
            limit = self._core.deliveries.limit(delivery)
            waited = self._core.deliveries.waited(first, now)
            answer = DeliveryAnswer(delivery.id, first.backout_count + 1, limit, waited, messages)
            if first.handling is not None and (steps := first.handling.steps) is not None:
                answer = answer._replace(steps=dict(steps.values))
            handed.append(answer)
        trigger = b""
        if call.handed:
            trigger = self._trigger(call.handed[0].service.queue)
            if self._notified.get((call.conversation, call.service)) == trigger:
                trigger = b""
            else:
                self._notified[call.conversation, call.service] = trigger
        call.set_result(TakeAnswer(trigger, handed))

    def _trigger(self, queue: LocalQueue) -> bytes:
        """The trigger message of a queue, made anew when a definition has changed."""
        changes = self._core.objects.changes
        made = self._triggers.get(queue)
        if made is None or made[0] != changes:
            made = self._triggers[queue] = (changes, self._core.triggers.message(queue))
        return made[1]

    def arm(self) -> None:
        """Look again when a rate, or a batch that is not full, allows more. To be called after each look."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wait = self._core.deliveries.next_look(self._context.clock.monotonic())
        if wait is not None:
            self._timer = self._context.clock.call_later(max(wait, _SOONEST), self._look_again)

    def _look_again(self) -> None:
        for service in self._core.deliveries.services():
            self._core.deliveries.mark_dirty(service.queue)
        self.run()

    # Connections

    def leaving(self, conversation: Conversation, reason: int) -> Work:
        """A connection ends: what it has in flight ends with it, as a crash unless it has ended in order."""
        crashed = reason == MQRC.CONNECTION_BROKEN and not self._core.quiescing
        for key in [key for key in self._notified if key[0] is conversation]:
            del self._notified[key]
        for taker in self._core.deliveries.takers_of(conversation.hconn):
            _end_take(taker, reason)
        yield from self._context.delivery_ends.leaving(conversation, crashed=crashed)
        self.run()

    def stop_serving(self, conversation: Conversation, service: int) -> None:
        """A connection takes no more from a queue."""
        for taker in self._core.deliveries.stop_serving(conversation.hconn, service):
            _end_take(taker, MQRC.HOBJ_ERROR, "it serves the queue no more")
        self._notified.pop((conversation, service), None)
        self.run()

    def quiesce(self, error: MQError) -> None:
        """Nothing more is handed out."""
        self._refusal = error
        for service in self._core.deliveries.services():
            self._end_takers(service.takers, error.reason)
        if self._timer is not None:
            self._timer.cancel()

    def _end_takers(self, takers: Iterable[WaitingTaker], reason: int) -> None:
        for taker in list(takers):
            self._core.deliveries.stop_waiting(taker)
            _end_take(taker, reason)

    def _tell_held(self) -> None:
        held, self._core.effects.held = self._core.effects.held, []
        for q_name, target, count, error in held:
            if self._is_to_log("held", q_name):
                logger.error(
                    "dead letters held queue=%s dead_letter=%s messages=%d: %s", q_name, target or "none", count, error
                )

    def report_unrecorded(self) -> None:
        """Say of which queues what became of messages could not be recorded."""
        unrecorded, self._core.effects.unrecorded = self._core.effects.unrecorded, {}
        for q_name, (history, error) in unrecorded.items():
            if self._is_to_log("unrecorded", q_name):
                logger.warning(
                    "history lost, the work stands queue=%s history=%s: %s", q_name, history, error,
                    extra={"event": "history_lost"},
                )  # fmt: skip

    def _is_to_log(self, what: str, q_name: str) -> bool:
        """True if this of a queue was not logged in the last minute."""
        now = self._context.clock.monotonic()
        last = self._logged.get((what, q_name))
        if last is not None and now - last < HELD_LOG_SECONDS:
            return False
        self._logged[what, q_name] = now
        return True


def _end_take(taker: WaitingTaker, reason: int, detail: str = "") -> None:
    """Answer a call that waited for deliveries with an error."""
    call = taker.call
    assert isinstance(call, TakeCall)
    call.taker = None
    fail(call, reason, detail)
