"""The calls of a port about units that a database of the program's own decides (`docs/rules/transactions.md`).

A unit, and a database, is named by 16 bytes. OPTIONS_ERROR (2046) for others, and for a call about too many units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.interface.forwarding import Forwarding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.interface.port import Call
    from broker.mqi.external_units import Decision, Doubt, PreparedDelivery


class ExternalPort(Forwarding):
    """A part of `Port`."""

    def prepare(self, unit: bytes, database: bytes, name: str) -> Call[int]:
        """Prepare the unit of work, under this name, for the decision of a database, which people know by `name`; the
        connection goes on with a new one. Answered when it is durable.

        BACKED_OUT (2003) as MQCMIT; and with the unit left as it is: OBJECT_IN_USE (2042) for a name that is taken,
        SYNCPOINT_LIMIT_REACHED (2024) over a limit, OPTION_NOT_VALID_FOR_TYPE (2045) with a shared queue in it.
        """
        return self.forward("prepare", unit, database, name)

    def prepare_deliveries(self, database: bytes, name: str, prepared: Sequence[PreparedDelivery]) -> Call[list[int]]:
        """Prepare deliveries of this connection, each with all that was put and got through its own connection before:
        for each 0, or a reason. HOBJ_ERROR (2019): this connection does not hold it. BACKED_OUT (2003): it could not be
        prepared, and has ended. With other reasons, as for `prepare`, it is still to be settled.
        """
        return self.forward("prepare_deliveries", database, name, prepared)

    def decide(self, database: bytes, decisions: Sequence[Decision]) -> Call[list[int]]:
        """End units of a database as that has decided. Answered when that is durable: for each a `Decided`, or a
        reason. UOW_COMMITTED (2408), UOW_CANCELED (2297): an administrator has decided otherwise. STORAGE_MEDIUM_FULL
        (2192): the decision is known, and is carried out when there is room.
        """
        return self.forward("decide", database, decisions)

    def doubts(self, database: bytes, wait: bool) -> Call[list[Doubt]]:
        """Units of a database that nobody is about to decide, leased to this connection until it ends: at once if there
        are any, else when there is one, or none without `wait`. `abandon` gives them back.
        """
        return self.forward("doubts", database, wait)

    def in_doubt(self, database: bytes, units: Sequence[bytes]) -> Call[list[bytes]]:
        """Those of these units that this database has not decided, as far as that is durable."""
        return self.forward("in_doubt", database, units)
