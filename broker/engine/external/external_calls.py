"""The calls of a connection about units that a database of its program's own decides (`docs/rules/transactions.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.core.prepared.branches import Decider
from broker.interface.port import Call
from broker.mqi.delivery_fields import Outcome, unit_of_delivery
from broker.mqi.errors import MQError
from broker.mqi.exception_text import head
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.queues.handles import Hconn
    from broker.engine.calls.call_order import CallOrder
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation
    from broker.engine.external.doubts import DoubtsCall
    from broker.mqi.external_units import Decision, Doubt, PreparedDelivery


class PrepareCall(Call[list[int]]):
    """Deliveries are to be prepared: these."""

    def __init__(self, prepared: Sequence[PreparedDelivery]) -> None:
        super().__init__()
        self.deliveries = [each.settlement.id for each in prepared]


class ExternalCalls:
    """A part of `Conversation`."""

    context: EngineContext
    call_order: CallOrder
    hconn: Hconn
    of_delivery: bool

    @property
    def q_mgr_instance(self) -> str:
        return self.context.core.instance

    def prepare(self, unit: bytes, database: bytes, name: str) -> Call[int]:
        return self.call_order.in_order(Call(), self._prepare, unit, database, name)

    def prepare_deliveries(self, database: bytes, name: str, prepared: Sequence[PreparedDelivery]) -> Call[list[int]]:
        return self.call_order.in_order(PrepareCall(prepared), self._prepare_deliveries, database, name, prepared)

    def decide(self, database: bytes, decisions: Sequence[Decision]) -> Call[list[int]]:
        return self.call_order.in_order(Call(), self._decide, database, decisions)

    def doubts(self, database: bytes, wait: bool) -> Call[list[Doubt]]:
        from broker.engine.external.doubts import DoubtsCall

        call = DoubtsCall(self)  # type: ignore[arg-type]  # it is a part of one
        return self.call_order.in_order(call, self._doubts, database, wait)

    def in_doubt(self, database: bytes, units: Sequence[bytes]) -> Call[list[bytes]]:
        return self.call_order.in_order(Call(), self._in_doubt, database, units)

    def _prepare(self, call: Call[int], unit: bytes, database: bytes, name: str) -> None:
        from broker.mqi.external_units import check_id

        if self.of_delivery:
            raise unit_of_delivery("PREPARE")
        conversation: Conversation = self  # type: ignore[assignment]  # it is a part of one
        id, decider = UUID(bytes=check_id(unit, "unit")), _decider(database, name)
        external = self.context.external_units()
        external.follow(conversation, call)
        external.preparations.prepare(conversation, call, id, decider)

    def _prepare_deliveries(
        self, call: Call[list[int]], database: bytes, name: str, prepared: Sequence[PreparedDelivery]
    ) -> None:
        from broker.mqi.external_units import check_id

        _check_count(len(prepared))
        for each in prepared:
            check_id(each.unit, "unit")
            if each.settlement.outcome != Outcome.DONE:
                raise MQError(MQRC.OPTIONS_ERROR, "a delivery is prepared that ends DONE, and no other")
        conversation: Conversation = self  # type: ignore[assignment]
        decider = _decider(database, name)
        external = self.context.external_units()
        external.follow(conversation, call)
        external.preparations.prepare_deliveries(conversation, call, decider, prepared)

    def _decide(self, call: Call[list[int]], database: bytes, decisions: Sequence[Decision]) -> None:
        from broker.core.deliveries import backoff
        from broker.mqi.external_units import check_id

        _check_count(len(decisions))
        for each in decisions:
            check_id(each.unit, "unit")
        backoff.check_settlements([each.settlement for each in decisions if each.settlement is not None])
        conversation: Conversation = self  # type: ignore[assignment]
        database = check_id(database, "database")
        external = self.context.external_units()
        external.follow(conversation, call)
        external.decisions.decide(conversation, call, database, decisions)

    def _doubts(self, call: DoubtsCall, database: bytes, wait: bool) -> None:
        from broker.mqi.external_units import check_id

        self.context.external_units().doubts.ask(call, check_id(database, "database"), wait=wait)

    def _in_doubt(self, call: Call[list[bytes]], database: bytes, units: Sequence[bytes]) -> None:
        from broker.mqi.external_units import check_id

        _check_count(len(units))
        ids = [UUID(bytes=check_id(each, "unit")) for each in units]
        call.set_result(self.context.external_units().in_doubt(check_id(database, "database"), ids))


def _decider(database: bytes, name: str) -> Decider:
    from broker.mqi.external_units import NAME_BYTES, check_id

    printable = "".join(each if each.isprintable() else "?" for each in name)
    return Decider(check_id(database, "database"), head(printable, NAME_BYTES))


def _check_count(count: int) -> None:
    from broker.mqi.external_units import UNITS_MAX

    if count > UNITS_MAX:
        raise MQError(MQRC.OPTIONS_ERROR, f"{count} units in one call: {UNITS_MAX} at most")
