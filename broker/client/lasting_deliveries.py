"""Deliveries over one line after the other: services go on, what was taken on a former line is gone with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from broker.client.deferred_calls import answered, failed
from broker.client.lasting_handles import NUMBER
from broker.interface.handlers.delivery_port import DeliveryPort
from broker.mqi.delivery_fields import Became, ServiceOptions, Settled
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Sequence

    from broker.client.port import RemotePort
    from broker.interface.handlers.delivery_answers import ServeAnswer, TakeAnswer
    from broker.interface.port import Call, Port
    from broker.mqi.delivery_fields import Settlement
    from broker.mqi.external_units import PreparedDelivery

T = TypeVar("T")

_UNKNOWN: Final = "", ServiceOptions(), 0


class LastingDeliveries(DeliveryPort):
    """A part of `ReconnectingPort`."""

    _port: RemotePort
    _down: bool
    _services: dict[int, tuple[str, ServiceOptions, int]]

    def _call(self, make: Callable[[], Call[T]]) -> Call[T]:
        raise NotImplementedError

    def serve(self, q_name: str, options: ServiceOptions) -> Call[ServeAnswer]:
        call = self._call(lambda: self._port.serve(q_name, options))
        call.add_done_callback(lambda serving: self._serving(q_name, options, serving))
        return call

    def _serving(self, q_name: str, options: ServiceOptions, call: Future[ServeAnswer]) -> None:
        if not call.cancelled() and call.exception() is None:
            service = call.result().service
            self._services[service] = q_name, options, service & NUMBER

    def stop_serving(self, service: int) -> Call[int]:
        *_, number = self._services.pop(service, _UNKNOWN)
        return answered(0) if self._down else self._port.stop_serving(number)

    def take_deliveries(self, service: int, count: int) -> Call[TakeAnswer]:
        return self._call(lambda: self._port.take_deliveries(self._services.get(service, _UNKNOWN)[-1], count))

    def settle_deliveries(self, settlements: Sequence[Settlement]) -> Call[list[Settled]]:
        if not self._down:
            return self._port.settle_deliveries(settlements)
        reason = int(MQRC.HOBJ_ERROR)
        return answered([Settled(each.id, Became.RETURNED, reason) for each in settlements])

    def delivery_connection(self, delivery: int, appl_name: str) -> Call[Port]:
        if not self._down:
            return self._port.delivery_connection(delivery, appl_name)
        return failed(MQError(MQRC.HOBJ_ERROR, "the delivery was gone when the connection broke"))

    def prepare_deliveries(self, database: bytes, name: str, prepared: Sequence[PreparedDelivery]) -> Call[list[int]]:
        if not self._down:
            return self._port.prepare_deliveries(database, name, prepared)
        return answered([int(MQRC.HOBJ_ERROR)] * len(prepared))
