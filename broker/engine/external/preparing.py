"""PREPARE: units of work of connections, and deliveries, are frozen and made durable without effect (transactions rules
2.1 and 2.2).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from broker.core.deliveries import in_doubt
from broker.core.message.generated.reports import unread
from broker.core.prepared.branch_delivery import BranchDelivery
from broker.core.prepared.branches import Decider, PreparedBranch
from broker.core.queues.unit import Unit
from broker.engine.calls.answers import fail, fail_written, succeed
from broker.engine.calls.gets import ReceivingCall
from broker.engine.handlers.delivery_ends import unheard
from broker.engine.mistakes import mistake
from broker.mqi.delivery_fields import Failure, Outcome
from broker.mqi.errors import MQError
from broker.mqi.external_units import SHARED_UNIT
from broker.mqi.reasons import MQRC
from broker.storage.store import DataDamagedError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.core.deliveries.delivery import Delivery
    from broker.core.deliveries.steps import Ending
    from broker.core.message.rows import Rows
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation
    from broker.engine.external.external_units import ExternalUnits
    from broker.interface.port import Call
    from broker.mqi.delivery_fields import Settled, Settlement
    from broker.mqi.external_units import PreparedDelivery

    Answered = Callable[[int], None]
    """Called with the answer about one delivery: 0 or a reason."""


class _Prepared(NamedTuple):
    """A delivery that is on its way to be prepared: its branch, its rows, its end."""

    branch: PreparedBranch
    rows: Rows
    ending: Ending
    answered: Answered


class Preparations:
    """Prepares the units of a queue manager."""

    def __init__(self, context: EngineContext, external: ExternalUnits) -> None:
        self._context = context
        self._core = context.core
        self._external = external

    # The unit of a connection

    def prepare(self, conversation: Conversation, call: Call[int], id: UUID, decider: Decider) -> None:
        """Prepare the unit of work of a connection, which goes on with a new one. Raises OBJECT_IN_USE (2042),
        SYNCPOINT_LIMIT_REACHED (2024), OPTION_NOT_VALID_FOR_TYPE (2045): then it is open as before.
        """
        unit = conversation.hconn.unit
        self._check(id, unit)
        if conversation.unit_of_work.rollback_only.cause is not None:
            conversation.unit_of_work.commit(call)  # which backs it out, and says why
            return
        unit = conversation.unit_of_work.take() or Unit()
        self._freeze(conversation, call, id, decider, unit)

    def _freeze(self, conversation: Conversation, call: Call[int], id: UUID, decider: Decider, unit: Unit) -> None:
        on_disk = [entry for entry in unit.gets if entry.data is None] if unit.owner is not None else []
        on_disk = on_disk or (unread(unit.reports.items()) if unit.reports else [])
        if on_disk:
            self._fetch(conversation, call, id, decider, unit)
            return
        context = self._context
        rows = self._core.commit(unit, context.moment() if unit.reports else None)
        if unit.shared is not None:  # by a report that it causes
            context.member.units.give_up(conversation.call_order, unit, partial(_refuse_shared, call))
            return
        branch = PreparedBranch.of(unit, rows, self._core.ids.next(), context.clock.time(), id, decider)
        self._core.branches.announce(branch)
        self._core.branches.own(branch, conversation.hconn)

        def written(error: Exception | None) -> None:
            if error is None:
                self._external.entered(branch, conversation)
                succeed(call, 0)
                return
            if isinstance(error, StoreFullError):
                self._give_up(branch, partial(fail_written, call, error, MQRC.BACKED_OUT))
            else:
                fail_written(call, error, MQRC.BACKED_OUT)

        conversation.call_order.write_branch(branch.prepared_rows(rows), written)

    def _fetch(self, conversation: Conversation, call: Call[int], id: UUID, decider: Decider, unit: Unit) -> None:
        """Prepare the unit when the bodies are in memory that its reports carry, or its gets wait for."""
        go_on = conversation.call_order.hold()
        entries = [entry for entry in (*unit.gets, *unit.reports) if entry.data is None]

        def fetched(error: Exception | None) -> None:
            try:
                if error is None or isinstance(error, DataDamagedError):
                    self._freeze(conversation, call, id, decider, unit)
                else:
                    fail_written(call, error, MQRC.BACKED_OUT)
            except MQError as refused:
                fail(call, refused.reason, refused.detail)
            except Exception as wrong:
                fail_written(call, mistake(wrong, "PREPARE"), MQRC.BACKED_OUT)
            finally:
                go_on()

        self._context.bodies.fetch(entries, fetched)

    def _give_up(self, branch: PreparedBranch, then: Callable[[], None]) -> None:
        """The store has no room for a unit: it is backed out, which needs none."""
        self._core.branches.over(branch)
        self._external.decisions.come(branch.id)
        rows = self._core.give_up(branch.unit)

        def written(error: Exception | None) -> None:
            if error is None or isinstance(error, StoreFullError):
                self._context.settle(branch.unit, committed=False)
            then()

        self._context.journal.submit(rows, written)

    def _check(self, id: UUID, unit: Unit | None) -> None:
        branches = self._core.branches
        if unit is not None and unit.shared is not None:
            raise _shared()
        if id in branches.by_id or id in branches.coming:
            raise MQError(MQRC.OBJECT_IN_USE, f"there is a unit {id}: another name is to be drawn for each")
        if branches.external >= branches.maximum:
            raise MQError(
                MQRC.SYNCPOINT_LIMIT_REACHED,
                f"there are {branches.external} units in doubt, and no more may be ([limits] in_doubt_units); DISPLAY "
                "THREAD(*) TYPE(INDOUBT) lists them",
            )
        size = 0 if unit is None else sum(entry.length for entry in (*unit.puts, *unit.gets))
        if branches.bytes + self._core.sinks.bytes + size > self._core.sinks.bytes_max:
            raise MQError(
                MQRC.SYNCPOINT_LIMIT_REACHED,
                f"messages of {branches.bytes + self._core.sinks.bytes} bytes are prepared, and with {size} more there "
                f"would be more than {self._core.sinks.bytes_max} ([limits] prepared_bytes)",
            )

    # Deliveries

    def prepare_deliveries(
        self, conversation: Conversation, call: Call[list[int]], decider: Decider, items: Sequence[PreparedDelivery]
    ) -> None:
        """Prepare deliveries of a connection; answer when all of them are, or cannot be. Those that are to be written
        now go to the journal in one submission.
        """
        answers: dict[int, int] = {}
        batch: list[_Prepared] = []
        written = partial(self._written, conversation, call)
        gathering = True

        def answered(place: int, answer: int) -> None:
            answers[place] = answer
            if len(answers) == len(items):
                succeed(call, [answers[each] for each in range(len(items))])

        def frozen(prepared: _Prepared) -> None:
            if gathering:
                batch.append(prepared)
            else:  # it had to wait
                self._external.submit([prepared], written)

        for place, item in enumerate(items):
            self._prepare_delivery(conversation, item, decider, frozen, partial(answered, place))
        gathering = False
        if not items:
            succeed(call, [])
        growing = [each for each in batch if each.rows.grows]
        for together in (growing, [each for each in batch if not each.rows.grows]):
            if together:
                self._external.submit(together, written)

    def _prepare_delivery(
        self,
        conversation: Conversation,
        item: PreparedDelivery,
        decider: Decider,
        frozen: Callable[[_Prepared], None],
        answered: Answered,
    ) -> None:
        ends = self._context.delivery_ends
        delivery = self._core.deliveries.delivery(conversation.hconn, item.settlement.id)
        if delivery is None:
            answered(int(MQRC.HOBJ_ERROR))
            return
        own, id = ends.conversations.get(delivery.id), UUID(bytes=item.unit)

        def make(_: Call[int] | None = None) -> None:
            """In the order of the calls of the delivery's own connection: what it has put before is in the unit."""
            if not delivery.in_flight or delivery.pending:
                answered(int(MQRC.HOBJ_ERROR))
                return
            try:
                if delivery.service.queue.shared:
                    raise _shared()
                self._check(id, delivery.unit)
            except MQError as refused:
                answered(refused.reason)
                return
            settlement = item.settlement
            ends.conversations.pop(delivery.id, None)
            cause = None if own is None else own.unit_of_work.rollback_only.end()
            if cause is not None:
                failure = Failure("MQError", f"{cause}")
                failed = settlement._replace(outcome=Outcome.FAILED, failure=failure, failed=())
                ends.end_when_read(delivery, failed, lambda _: answered(int(MQRC.BACKED_OUT)))
            else:
                freeze = partial(
                    self._freeze_delivery, conversation, delivery, id, settlement, decider, frozen, answered
                )
                if settlement.failed or delivery.unit.reports:
                    ends.with_bodies(delivery.entries, freeze)
                else:
                    freeze()
            if own is not None:
                own.break_(MQRC.HCONN_ERROR)

        if own is None or own.broken:
            make()
        else:
            own.call_order.in_order(ReceivingCall[int](), make)

    def _freeze_delivery(
        self,
        conversation: Conversation,
        delivery: Delivery,
        id: UUID,
        settlement: Settlement,
        decider: Decider,
        frozen: Callable[[_Prepared], None],
        answered: Answered,
    ) -> None:
        ends, moment = self._context.delivery_ends, self._context.moment()

        def backed_out(_: Settled) -> None:
            answered(int(MQRC.BACKED_OUT))

        if not delivery.in_flight or delivery.pending:  # while bodies were fetched
            answered(int(MQRC.HOBJ_ERROR))
            return
        try:
            made = in_doubt.prepare(self._core, delivery, settlement, moment)
        except Exception as error:
            mistake(error, "the preparation of a delivery")
            salvaged = self._core.deliveries.salvage(delivery, delivery.entries, moment, Outcome.DONE)
            ends.carry_out(salvaged, lambda _: answered(int(MQRC.UNEXPECTED_ERROR)))
            return
        if made.failing is not None:
            ends.carry_out(made.failing, unheard if made.prepared is not None else backed_out)
        if made.prepared is None:
            return
        step = made.step
        if step.shared:  # by a report that it causes
            salvaged = self._core.deliveries.salvage(delivery, delivery.entries, moment, Outcome.DONE)
            ends.carry_out(salvaged, backed_out)
            return
        branch = PreparedBranch.of(step.unit, step.rows, self._core.ids.next(), moment.wall, id, decider)
        alone = delivery.service.exclusive is delivery
        branch.delivery = BranchDelivery.of(delivery, settlement.ran, alone=alone)
        self._core.branches.announce(branch)
        self._core.branches.own(branch, conversation.hconn)
        frozen(_Prepared(branch, branch.prepared_rows(step.rows), made.prepared, answered))

    def _written(
        self, conversation: Conversation, call: Call[list[int]], prepared: _Prepared, error: Exception | None
    ) -> None:
        """A delivery is prepared, durably, or could not be."""
        if error is not None and not isinstance(error, StoreFullError):
            fail_written(call, error, MQRC.BACKED_OUT)
            return
        branch, _, ending, answered = prepared
        (step,) = ending.steps
        if error is None:
            ending.steps.remove(step)
            self._external.entered(branch, conversation)
            answered(0)
            return
        self._core.branches.over(branch)
        self._external.decisions.come(branch.id)
        delivery = ending.delivery
        assert delivery is not None
        delivery.service.counts.running -= len(delivery.entries)
        self._context.delivery_ends.written(ending, step, unheard, error, self._context.moment())
        answered(int(MQRC.BACKED_OUT))


def _shared() -> MQError:
    return MQError(MQRC.OPTION_NOT_VALID_FOR_TYPE, SHARED_UNIT)


def _refuse_shared(call: Call[int], _: Exception | None) -> None:
    refused = _shared()
    fail(call, refused.reason, refused.detail)
