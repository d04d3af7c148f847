"""The calls of a connection about deliveries, and delayed messages (`docs/rules/handlers.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.core.deliveries import backoff
from broker.core.security.rights import Right
from broker.engine.calls.unit_of_work import DeliveryUnit
from broker.engine.external.external_calls import ExternalCalls
from broker.engine.handlers.deliveries import TakeCall
from broker.engine.jobs.awaits import PAUSE
from broker.engine.jobs.group_awaits import secured
from broker.engine.releases import release_early
from broker.interface.handlers.delivery_answers import ServeAnswer
from broker.interface.port import Call
from broker.mqi import checks
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.manager import Manager
    from broker.core.queues.handles import Hconn
    from broker.engine.calls.call_order import CallOrder
    from broker.engine.calls.room import Room
    from broker.engine.context import EngineContext
    from broker.engine.conversation import Conversation
    from broker.engine.manager import QueueManager
    from broker.engine.security.login import LoginProof
    from broker.interface.handlers.delivery_answers import TakeAnswer
    from broker.interface.port import Port
    from broker.mqi.delivery_fields import ServiceOptions, Settled, Settlement


class DeliveryCalls(ExternalCalls):
    """A part of `Conversation`."""

    manager: QueueManager
    context: EngineContext
    core: Manager
    call_order: CallOrder
    hconn: Hconn
    channel: str
    room: Room
    verbs: dict[str, int]
    proof: LoginProof | None
    """By which it lives: none in the hands of the owner."""

    def serve(self, q_name: str, options: ServiceOptions) -> Call[ServeAnswer]:
        return self.call_order.after_own_writes(Call(), self._serve, q_name, options)

    def stop_serving(self, service: int) -> Call[int]:
        return self.call_order.in_order(Call(), self._stop_serving, service)

    def take_deliveries(self, service: int, count: int) -> Call[TakeAnswer]:
        self.verbs["take_deliveries"] += 1
        call = TakeCall(self.context.deliveries, self, service)  # type: ignore[arg-type]  # it is a part of one
        return self.call_order.in_order(call, self.context.deliveries.take, checks.count(count))

    def settle_deliveries(self, settlements: Sequence[Settlement]) -> Call[list[Settled]]:
        self.verbs["settle_deliveries"] += 1
        return self.call_order.in_order(Call(), self._settle, settlements)

    def delivery_connection(self, delivery: int, appl_name: str) -> Call[Port]:
        return self.call_order.in_order(Call(), self._delivery_connection, delivery, appl_name)

    def release_delayed(self, q_name: str, msg_id: bytes | None) -> Call[int]:
        return self.call_order.after_own_writes(Call(), self._release_delayed, q_name, msg_id)

    def _serve(self, call: Call[ServeAnswer], q_name: str, options: ServiceOptions) -> None:
        name = checks.name(q_name)
        self._judge_serve(name, options)
        queue = self.core.objects.queues.get(name)
        self.core.deliveries.check(queue, name, options)
        assert queue is not None
        number, steps = self.core.deliveries.serve(self.hconn, queue, options)

        async def looking() -> ServeAnswer:
            if queue.shared and self.hconn.caller is not None:
                try:
                    await secured(self.context.member)
                    if self.call_order.ended is not None:
                        raise MQError(self.call_order.ended, "the connection ended before it served the queue")
                    self._judge_serve(name, options)
                except MQError:
                    self.context.deliveries.stop_serving(self, number)  # type: ignore[arg-type]
                    raise
            for _ in steps:
                await PAUSE
            return ServeAnswer(number)

        self.call_order.look(call, looking())

    def _judge_serve(self, q_name: str, options: ServiceOptions) -> None:
        self.hconn.require(Right.GET, q_name)
        self.hconn.require(Right.PUT | Right.PASSALL, *filter(None, (options.dead_letter, options.last_dead_letter)))

    def _release_delayed(self, call: Call[int], q_name: str, msg_id: bytes | None) -> None:
        name = checks.name(q_name)
        self.hconn.require(Right.GET, name)
        queue = self.core.objects.destination(name, "").queue
        msg_id = checks.identifier(msg_id, "msg_id", MQRC.MSG_ID_ERROR)
        self.call_order.change(call, release_early(self.context, queue, msg_id))

    def _stop_serving(self, call: Call[int], service: int) -> None:
        self.context.deliveries.stop_serving(self, service)  # type: ignore[arg-type]
        call.set_result(0)

    def _settle(self, call: Call[list[Settled]], settlements: Sequence[Settlement]) -> None:
        backoff.check_settlements(settlements)
        self.context.delivery_ends.settle(self, call, settlements)  # type: ignore[arg-type]

    def _delivery_connection(self, call: Call[Any], number: int, appl_name: str) -> None:
        delivery = self.core.deliveries.delivery(self.hconn, number)
        if delivery is None:
            raise MQError(MQRC.HOBJ_ERROR, f"this connection has no delivery {number} under way")
        name = appl_name or self.hconn.appl_name
        like: Conversation = self  # type: ignore[assignment]  # it is a part of one
        conversation = self.manager.converse(
            name, self.hconn.user, self.channel, self.room, of_delivery=True, like=like
        )
        conversation.unit_of_work = DeliveryUnit(conversation.hconn, conversation.call_order)
        conversation.hconn.unit = delivery.unit
        delivery.unit.owner = conversation.hconn
        self.context.delivery_ends.connected(delivery, conversation)
        call.set_result(conversation)
