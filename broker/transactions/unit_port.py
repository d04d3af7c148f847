"""The connection whose unit of work is that of a transaction: what a program puts and gets with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Never

from broker.interface.connection import Connection
from broker.interface.options import get_options, put_options
from broker.interface.port import answer
from broker.mqi.constants.options import MQGMO, MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.interface.units import UnitOfWork
    from broker.mqi.structures import GetMessageOptions, PutMessageOptions

_PUT_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_GET_SYNCPOINT: Final = (MQGMO.SYNCPOINT | MQGMO.SYNCPOINT_IF_PERSISTENT).value


class TransactionConnection(Connection):
    """A connection whose unit of work is that of a transaction, and ends with it.

    A put or get that names no syncpoint option is in it, whatever task makes it; NO_SYNCPOINT stands aside as ever.
    `begin`, `commit`, `backout`, `unit_of_work` and `disconnect` raise ENVIRONMENT_ERROR (2012).
    """

    @property
    def in_unit_of_work(self) -> bool:
        return True

    async def begin(self) -> Never:
        raise _unit_of_transaction("MQBEGIN")

    async def commit(self) -> Never:
        raise _unit_of_transaction("MQCMIT")

    async def backout(self) -> Never:
        raise _unit_of_transaction("MQBACK")

    async def disconnect(self) -> MQRC | int:
        raise _unit_of_transaction("MQDISC")

    def unit_of_work(self) -> UnitOfWork:
        raise _unit_of_transaction("unit_of_work()")

    def put_options(self, options: PutMessageOptions | int) -> PutMessageOptions:
        pmo = put_options(options, in_unit=True)
        self._works = self._works or bool(int(pmo.options) & _PUT_SYNCPOINT)
        return pmo

    def get_options(self, options: GetMessageOptions | int, wait: float | None) -> GetMessageOptions:
        gmo = get_options(options, wait, in_unit=True)
        self._works = self._works or bool(int(gmo.options) & _GET_SYNCPOINT)
        return gmo

    async def back_out(self) -> None:
        """Back out what is in the unit, for whoever gave the program this connection. Raises MQError."""
        self._unit_ends()
        await answer(self.port.backout())

    async def end(self) -> None:
        """End the connection, which backs out what is in its unit. Raises MQError."""
        await self._end(commit=False)


async def unit_connection(connection: Connection, appl_name: str = "") -> TransactionConnection:
    """A connection for transactions, beside another one to the same queue manager. Raises MQError."""
    return TransactionConnection(await answer(connection.port.connect(appl_name)))


def _unit_of_transaction(call: str) -> MQError:
    return MQError(
        MQRC.ENVIRONMENT_ERROR,
        f"{call}: the unit of work is that of the transaction, which commits where its block is left and backs out "
        "where it raises; for another one take connection.connect()",
    )
