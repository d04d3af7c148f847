"""The connection of a delivery: what a handler puts and gets with is in the unit of work of what it handles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from broker.interface.connection import Connection
from broker.interface.options import get_options, put_options
from broker.mqi.delivery_fields import unit_of_delivery

if TYPE_CHECKING:
    from types import TracebackType

    from broker.interface.units import UnitOfWork
    from broker.mqi.reasons import MQRC
    from broker.mqi.structures import GetMessageOptions, PutMessageOptions


class DeliveryConnection(Connection):
    """A connection whose unit of work is that of a delivery: committed with it when its handler has returned, backed
    out with it otherwise (handlers rule 1.6).

    A put or get that names no syncpoint option is in it, whatever task makes it; NO_SYNCPOINT stands aside as ever.
    `begin`, `commit`, `backout`, `unit_of_work` and `disconnect` raise ENVIRONMENT_ERROR (2012): a unit of its own has
    another connection, by `connect()`. It ends with its delivery, and every call raises HCONN_ERROR (2018) from then
    on. To leave its context ends nothing.
    """

    @property
    def in_unit_of_work(self) -> bool:
        return True

    async def begin(self) -> Never:
        raise unit_of_delivery("MQBEGIN")

    async def commit(self) -> Never:
        raise unit_of_delivery("MQCMIT")

    async def backout(self) -> Never:
        raise unit_of_delivery("MQBACK")

    async def disconnect(self) -> MQRC | int:
        raise unit_of_delivery("MQDISC")

    def unit_of_work(self) -> UnitOfWork:
        raise unit_of_delivery("unit_of_work()")

    def put_options(self, options: PutMessageOptions | int) -> PutMessageOptions:
        return put_options(options, in_unit=True)

    def get_options(self, options: GetMessageOptions | int, wait: float | None) -> GetMessageOptions:
        return get_options(options, wait, in_unit=True)

    def delivery_ends(self) -> None:
        """Its delivery is about to be settled: what loops have read ahead of their messages is not in it."""
        self._give_back()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return
