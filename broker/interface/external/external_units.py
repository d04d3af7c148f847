"""The calls of a connection about units that a database of its program's own decides (`docs/rules/transactions.md`)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from broker.interface.administration.status import StatusQuestions
from broker.interface.handlers.deliveries import answers_of, settlement_parts
from broker.interface.port import Call, answer
from broker.mqi.delivery_fields import Outcome, Settlement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.interface.connection import Connection
    from broker.mqi.external_units import Decision, Doubt
    from broker.transactions.transaction import ConnectionDatabases, ConnectionTransaction


_NONE: Final = Settlement(0, Outcome.DONE)


class ExternalUnitCalls(StatusQuestions):
    """A part of `Connection`: units that are prepared here and decided in a database of the program's own. Units, and
    databases, are named by 16 bytes.
    """

    databases: ConnectionDatabases | None = None
    """Those whose transactions this connection has had."""

    def transaction(self, database: Any) -> ConnectionTransaction:
        """`async with connection.transaction(pool) as t:` commits what is put and got through `t.mq` together with what
        the program writes by `t.connection`, or neither. `database` is a `broker.Database`, or what that takes.

        To leave it raises what the database refuses with (CommitRefusedError), MQError OUTCOME_PENDING (2124) where it
        has not answered in time: then it is decided later, by itself. To enter it raises DatabaseAwayError,
        DatabaseUnusableError, and RuntimeError inside another one.
        """
        from broker.transactions.transaction import ConnectionTransaction  # with the databases, loaded with the first

        return ConnectionTransaction(cast("Connection", self), database)

    @property
    def q_mgr_instance(self) -> str:
        """The UUID of the queue manager's data: another one where it was created anew under its name. It is in the
        markers of its units.
        """
        return self.port.q_mgr_instance

    async def prepare(self, unit: bytes, database: bytes, name: str = "") -> None:
        """Prepare the unit of work, which is durable then and has no effect before the database has decided; the
        connection goes on with a new one. `unit` names it, `name` is the program's name of the database.

        Raises BACKED_OUT (2003) when it was undone; and with the unit left as it is OBJECT_IN_USE (2042) for a name
        that is taken, SYNCPOINT_LIMIT_REACHED (2024), OPTION_NOT_VALID_FOR_TYPE (2045) with a shared queue in it.
        """
        self._give_back()
        await answer(self.port.prepare(unit, database, name))
        self._unit_ends()

    async def decide(self, database: bytes, decisions: Sequence[Decision]) -> list[int]:
        """Tell what a database has decided about its units. Return, when that is durable, for each `Decided.DONE`,
        `Decided.UNKNOWN` where there is no such unit or another was faster, or a reason: UOW_COMMITTED (2408) and
        UOW_CANCELED (2297) where an administrator has decided otherwise, STORAGE_MEDIUM_FULL (2192) for what is
        carried out when there is room.
        """
        calls, rest = deque[Call[list[int]]](), iter(decisions)
        for part in settlement_parts([each.settlement or _NONE for each in decisions]):
            sent = [_with(next(rest), settlement) for settlement in part]
            calls.append(self.port.decide(database, sent))
        return await answers_of(calls)

    async def doubts(self, database: bytes, wait: bool = True) -> list[Doubt]:
        """Units of a database that nobody is about to decide, up to 500, leased to this connection until it ends or
        gives them up. With `wait`, return when there is one. Cancelled, it leases none.
        """
        return await answer(self.port.doubts(database, wait))

    async def in_doubt(self, database: bytes, units: Sequence[bytes]) -> list[bytes]:
        """Return those of these units that the database has not decided, as far as that is durable."""
        from broker.mqi.external_units import UNITS_MAX

        parts = range(0, len(units), UNITS_MAX)
        return await answers_of(deque([self.port.in_doubt(database, units[at : at + UNITS_MAX]) for at in parts]))

    def _give_back(self) -> None:
        raise NotImplementedError

    def _unit_ends(self) -> None:
        raise NotImplementedError


def _with(decision: Decision, settlement: Settlement) -> Decision:
    return decision if decision.settlement is None else decision._replace(settlement=settlement)
