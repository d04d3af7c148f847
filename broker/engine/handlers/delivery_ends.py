"""The ends of deliveries, made durable by way of the journal (handlers rule 1).

The core decides what becomes of the messages. Deliveries that end in one call, and whose messages are only removed, go
to the journal in one submission.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.deliveries.steps import Fate, JointEnds
from broker.core.message.stepped import steps_coming
from broker.engine.calls.answers import nobody, succeed
from broker.engine.calls.gets import ReceivingCall
from broker.engine.mistakes import mistake
from broker.mqi.delivery_fields import DONE, Became, Failure, Outcome, Settled, Settlement
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.storage.store import DataDamagedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.core.deliveries.delivery import Delivery
    from broker.core.deliveries.steps import Ending, Step
    from broker.core.message.entry import Entry
    from broker.core.message.rows import Rows
    from broker.core.moment import Moment
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation
    from broker.engine.jobs.slices import Work
    from broker.interface.port import Call

    Then = Callable[[Settled], None]
    """Called with the answer when a delivery has ended."""


_DELAYED: Final = Fate.DELAYED  # as `DONE`


class DeliveryEnds:
    """Ends deliveries of a queue manager, for their handlers, or because of what happened to these."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._core = context.core
        self._hand_out = context.deliveries.run
        self.conversations: dict[int, Conversation] = {}  # of deliveries whose handlers have used theirs

    def connected(self, delivery: Delivery, conversation: Conversation) -> None:
        """A handler uses the connection of its delivery."""
        self.conversations[delivery.id] = conversation

    def settle(self, conversation: Conversation, call: Call[list[Settled]], settlements: Sequence[Settlement]) -> None:
        """End deliveries of a connection; answer when all of them have ended."""
        answers: list[Settled | None] = [None] * len(settlements)
        left = len(settlements)
        private: list[tuple[Ending, Then]] = []
        shared: list[tuple[Ending, Then]] = []
        together, moment = JointEnds(), self._context.moment()

        def settled(place: int, answer: Settled) -> None:
            nonlocal left
            answers[place] = answer
            left -= 1
            if not left:
                succeed(call, [each for each in answers if each is not None])

        for place, settlement in enumerate(settlements):
            then = partial(settled, place)
            delivery = self._core.deliveries.delivery(conversation.hconn, settlement.id)
            if delivery is None:
                then(Settled(settlement.id, Became.RETURNED, int(MQRC.HOBJ_ERROR)))
            elif (
                settlement.outcome == DONE
                and not settlement.failed
                and delivery.id not in self.conversations
                and not delivery.unit.reports
            ):
                own = delivery.unit.shared is None
                before = len(together.rows.removals)
                make = partial(self._core.deliveries.settle, delivery, settlement, together=together if own else None)
                ending = self._ending(make, delivery, delivery.entries, moment, settlement.outcome)
                if ending.steps[0].fate is _DELAYED:
                    del together.rows.removals[before:]
                    self.carry_out(ending, then)
                else:
                    (private if own else shared).append((ending, then))
            else:
                self._settle_one(delivery, settlement, then)
        if not settlements:
            succeed(call, [])
        if private:
            self._remove(private, together, moment)
        if shared:
            self._remove_shared(shared)

    def _remove(self, ends: list[tuple[Ending, Then]], together: JointEnds, moment: Moment) -> None:
        """Carry out ends that only remove messages of private queues: one submission, and each settles by itself."""
        rows = together.rows
        first = together.done[0][-1] if together.done else None  # the step that has the records of all
        if first is not None:
            try:
                self._core.deliveries.history.succeeded(together.done, rows, moment)
            except Exception as error:
                rows = self._core.deliveries.history.leave_out(first, mistake(error, "the records of a history"))

        def written(error: Exception | None) -> None:
            if first is not None and first.records and isinstance(error, StoreFullError):
                write(self._core.deliveries.history.leave_out(first, error))
                return
            moment = self._context.moment()
            for ending, then in ends:
                try:
                    self.written(ending, ending.steps[0], then, error, moment)
                except Exception as wrong:
                    mistake(wrong, "the end of a delivery")
            self._context.perform()
            self._hand_out()

        def write(rows: Rows) -> None:
            if rows:
                self._context.journal.submit(rows, written)
            else:
                written(None)

        write(rows)

    def _remove_shared(self, ends: list[tuple[Ending, Then]]) -> None:
        """Carry out ends that remove messages of shared queues, in one transaction."""
        thens = {id(ending): then for ending, then in ends}

        def ended(ending: Ending, error: Exception | None) -> None:
            self._step_ended(ending, thens[id(ending)], ending.steps[0], error)

        self._context.member.deliveries.commit([ending for ending, _ in ends], ended)

    def _settle_one(self, delivery: Delivery, settlement: Settlement, then: Then) -> None:
        conversation = self.conversations.pop(delivery.id, None)
        if conversation is None or conversation.broken:
            self.end_when_read(delivery, settlement, then)
            return

        def make(_: Call[int]) -> None:
            """In the order of its calls: what it has put before is in the unit."""
            cause = conversation.unit_of_work.rollback_only.end()
            ended = settlement
            if cause is not None and settlement.outcome == Outcome.DONE:
                failure = Failure("MQError", f"{cause}")
                ended = settlement._replace(outcome=Outcome.FAILED, failure=failure, failed=())
            self.end_when_read(delivery, ended, then)
            conversation.break_(MQRC.HCONN_ERROR)

        conversation.call_order.in_order(ReceivingCall[int](), make)

    def end_when_read(self, delivery: Delivery, settlement: Settlement, then: Then) -> None:
        """Have the bodies in memory that the end needs, then end."""
        if settlement.outcome == Outcome.RETURNED or (
            settlement.outcome == Outcome.DONE and not settlement.failed and not delivery.unit.reports
        ):
            self.end(delivery, settlement, then)
        else:
            self.with_bodies(delivery.entries, partial(self.end, delivery, settlement, then))

    def end(self, delivery: Delivery, settlement: Settlement, then: Then) -> None:
        make = partial(self._core.deliveries.settle, delivery, settlement)
        moment = self._context.moment()
        self.carry_out(self._ending(make, delivery, delivery.entries, moment, settlement.outcome), then)

    def give_back(self, delivery: Delivery) -> None:
        """End a delivery that reaches nobody: its messages go back, uncharged."""
        self.carry_out(self._core.deliveries.give_back(delivery), unheard)

    def bury(self, delivery: Delivery) -> None:
        """Put the messages of a delivery, which have failed too often, to the dead-letter queue."""
        self.with_bodies(delivery.entries, partial(self._bury, delivery))

    def _bury(self, delivery: Delivery) -> None:
        make = partial(self._core.deliveries.bury, delivery)
        self.carry_out(self._ending(make, delivery, delivery.entries, self._context.moment()), unheard)

    def bury_again(self, entry: Entry) -> None:
        """Try again to put a dead letter that was held to the dead-letter queue."""
        self.with_bodies([entry], partial(self._bury_again, entry))

    def _bury_again(self, entry: Entry) -> None:
        if not self._core.deliveries.may_be_buried(entry):
            return
        make = partial(self._core.deliveries.bury_again, entry)
        self.carry_out(self._ending(make, None, [entry], self._context.moment()), unheard)

    def leaving(self, conversation: Conversation, *, crashed: bool) -> Work:
        """End all that a connection, which ends, has in flight."""
        for ending in self._ends_of(conversation, crashed=crashed):
            assert ending.delivery is not None
            own = self.conversations.pop(ending.delivery.id, None)
            self.carry_out(ending, unheard)
            if own is not None:
                own.break_(MQRC.HCONN_ERROR)
            yield

    def _ends_of(self, conversation: Conversation, *, crashed: bool) -> list[Ending]:
        moment, deliveries = self._context.moment(), self._core.deliveries.in_hand(conversation.hconn)
        try:
            return self._core.deliveries.gone(conversation.hconn, moment, crashed=crashed)
        except Exception as error:
            mistake(error, "the end of a worker")
            return [self._core.deliveries.salvage(each, each.entries, moment) for each in deliveries]

    def _ending(
        self,
        make: Callable[[Moment], Ending],
        delivery: Delivery | None,
        entries: Sequence[Entry],
        moment: Moment,
        outcome: int | None = None,
    ) -> Ending:
        """Return the end that `make` decides. Where an internal error breaks that off nothing is held for good: the
        messages wait, and are handed out again.
        """
        try:
            return make(moment)
        except Exception as error:
            mistake(error, "the end of a delivery")
            return self._core.deliveries.salvage(delivery, entries, moment, outcome)

    def with_bodies(self, entries: Sequence[Entry], then: Callable[[], None]) -> None:
        """Go on when the bodies of these messages are in memory, or cannot be."""
        unread = [entry for entry in entries if entry.data is None]

        def fetched(error: Exception | None) -> None:
            if error is None or isinstance(error, DataDamagedError):
                then()

        if unread:
            self._context.bodies.fetch(unread, fetched)
        else:
            then()

    def carry_out(self, ending: Ending, then: Then) -> None:
        """Make the steps of an end durable, and settle each."""
        if any(step.shared for step in ending.steps):
            self._context.member.deliveries.end(ending, partial(self._step_ended, ending, then))
            return
        for step in list(ending.steps):
            written = partial(self._step_written, ending, step, then)
            if step.rows or any(steps_coming(entry) for entry in step.entries):
                self._context.journal.submit(step.rows, written)
            else:
                written(None)

    def _step_written(self, ending: Ending, step: Step, then: Then, error: Exception | None) -> None:
        try:
            self.written(ending, step, then, error, self._context.moment())
            self._context.perform()
        except Exception as wrong:
            mistake(wrong, "the end of a delivery")
        self._hand_out()

    def written(self, ending: Ending, step: Step, then: Then, error: Exception | None, moment: Moment) -> None:
        """A step is durable, or could not be: it takes effect. What comes of that is the caller's to perform."""
        if error is not None and not isinstance(error, StoreFullError):
            return  # the queue manager ends: nothing definite is answered
        deliveries = self._core.deliveries
        if error is not None and step.records and step.only_records:
            left = deliveries.history.leave_out(step, error)
            self._context.journal.submit(left, partial(self._step_written, ending, step, then))
            return
        undone = error is not None and step.committed
        if undone and (softened := deliveries.refuse(step, ending, moment)):
            self._context.journal.submit(softened, nobody)
        committed = step.committed and not undone
        if committed and len(step.records) == len(step.unit.puts):  # nearly always: it puts records, or nothing
            self._context.settle_ended(step.unit, moment.wall)
        else:
            self._context.settle(step.unit, committed=committed)
        deliveries.settled(ending, step, moment, undone=undone)
        if error is not None and not undone:  # not even for that: it holds until the queue manager ends
            ending.answer = ending.answer._replace(reason=int(MQRC.STORAGE_MEDIUM_FULL))
        if not ending.steps:
            then(ending.answer)
        if self._core.effects.unrecorded:
            self._context.deliveries.report_unrecorded()

    def _step_ended(self, ending: Ending, then: Then, step: Step, error: Exception | None) -> None:
        """A step that has to do with shared queues has settled; `error`: it was backed out instead."""
        if error is not None:
            reason = error.reason if isinstance(error, MQError) else MQRC.STORAGE_MEDIUM_FULL
            ending.answer = ending.answer._replace(reason=int(reason))
            if ending.answer.became in (Became.GONE, Became.DEAD) and reason != MQRC.OUTCOME_PENDING:
                ending.answer = ending.answer._replace(became=Became.RETURNED)
        self._core.deliveries.settled(ending, step, self._context.moment(), undone=error is not None and step.committed)
        if not ending.steps:
            then(ending.answer)
        self._context.perform()
        self._hand_out()


def unheard(_: Settled) -> None:
    """Nobody asked for this end."""
