"""The unit of work of a connection, as its calls see it: MQBEGIN, MQCMIT, MQBACK."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.engine.calls.answers import answer_written
from broker.engine.calls.rollback_only import RollbackOnly
from broker.mqi.delivery_fields import unit_of_delivery
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.queues.handles import Hconn
    from broker.core.queues.unit import Unit
    from broker.engine.calls.call_order import CallOrder
    from broker.interface.port import Call


class UnitOfWork:
    """The unit of work of a connection, if it has one, and whether it can only be backed out."""

    def __init__(self, hconn: Hconn, call_order: CallOrder) -> None:
        self._hconn = hconn
        self._call_order = call_order
        self.rollback_only = RollbackOnly()
        self.begun = False  # by MQBEGIN, and not ended

    def take(self) -> Unit | None:
        """It ends: what is put and got under syncpoint from now on is in the next."""
        self.begun = False
        unit, self._hconn.unit = self._hconn.unit, None
        return unit

    def begin(self, call: Call[int]) -> None:
        """MQBEGIN. Raises UOW_IN_PROGRESS (2128)."""
        if self._hconn.unit is not None:
            raise MQError(MQRC.UOW_IN_PROGRESS, f"{self._hconn.unit.calls} messages wait for commit or backout")
        self.begun = True
        call.set_result(0)

    def commit(self, call: Call[int]) -> None:
        """MQCMIT."""
        self.commit_or_back_out(call, self.take())

    def backout(self, call: Call[int]) -> None:
        """MQBACK."""
        self.rollback_only.end()
        unit = self.take()
        if unit is None:
            call.set_result(0)
        else:
            self._call_order.back_out(unit, partial(answer_written, call, 0, MQRC.STORAGE_MEDIUM_FULL))

    def commit_or_back_out(self, call: Call[int], unit: Unit | None) -> None:
        """Commit what was taken, or back it out and say so where it can only be that."""
        cause = self.rollback_only.end()
        if cause is not None:
            self._back_out_only(call, unit, cause)
        elif unit is None:
            call.set_result(0)
        else:
            self._call_order.commit(unit, partial(answer_written, call, 0, MQRC.BACKED_OUT))

    def _back_out_only(self, call: Call[int], unit: Unit | None, cause: MQError) -> None:
        def backed_out(_: Exception | None) -> None:
            if not call.done():
                call.set_exception(cause)

        if unit is None:
            backed_out(None)
        else:
            self._call_order.back_out(unit, backed_out)


class DeliveryUnit(UnitOfWork):
    """That of a connection whose unit of work is a delivery's: it ends with the delivery (handlers rule 1.6)."""

    def take(self) -> Unit | None:
        """It is not the connection that ends it."""
        return None

    def begin(self, call: Call[int]) -> None:
        raise unit_of_delivery("MQBEGIN")

    def commit(self, call: Call[int]) -> None:
        raise unit_of_delivery("MQCMIT")

    def backout(self, call: Call[int]) -> None:
        raise unit_of_delivery("MQBACK")
