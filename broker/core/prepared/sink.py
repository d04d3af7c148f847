"""A sink: what publishes prepared units, batch by batch, each exactly once (claims rules 3.3 and 3.4).

Its ledger says which query it belongs to and which batch was published last. A batch is decided in the transaction that
writes the ledger; whatever else it leads to is worked out again after a crash. A sink whose batches belong to no query
has no ledger: what it publishes is known only for as long as the queue manager runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from broker.core.message.rows import ObjectRow
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.prepared.unit import PreparedUnit, UnitName

SPACE: Final = "SINK"

KEYED: Final = ""
"""The query of sinks that stand for one batch each, under a key that makes it happen once. Such ledgers end in time."""


class Ledger(NamedTuple):
    """The query that a sink belongs to, its last batch, how many messages that had and how many bytes, and when it was
    decided (wall clock).
    """

    query: str
    batch: int
    messages: int
    bytes: int
    when: float


class Sink:
    """One sink. `units` are those that are prepared for it; while it is `deciding` a batch, nothing is staged."""

    __slots__ = ("deciding", "ledger", "name", "number", "units")

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0  # that of its row; 0 as long as there is none
        self.ledger: Ledger | None = None
        self.units: dict[UnitName, PreparedUnit] = {}
        self.deciding = False

    # What is kept of it

    def row(self, ledger: Ledger, number: int) -> ObjectRow:
        """Return its stored row, with this ledger."""
        attributes: bytes = msgpack.packb(ledger._asdict())
        return ObjectRow(SPACE, self.name, number, SPACE, attributes)

    def load(self, row: ObjectRow) -> None:
        """Load its stored row."""
        fields: dict[str, Any] = msgpack.unpackb(row.attributes)
        self.ledger, self.number = Ledger(**fields), row.number

    # Its rules

    def is_published(self, batch: int, query: str | None) -> bool:
        """True if this batch is the last that was published. Raises SUBSCRIPTION_IN_USE (2429) for a sink of another
        query, UOW_COMMITTED (2408) for a batch before the last.
        """
        ledger = self.ledger
        if ledger is None:
            return False
        if query != ledger.query:
            raise MQError(
                MQRC.SUBSCRIPTION_IN_USE,
                f"sink {self.name} belongs to {_named(ledger.query)}, and this is {_named(query)}: write to another "
                f"sink, or end that one's ownership with RESET SINK('{self.name}')",
            )
        if batch < ledger.batch:
            raise MQError(
                MQRC.UOW_COMMITTED,
                f"sink {self.name} has published batch {ledger.batch}, and this is batch {batch}: its checkpoint is "
                "older than the sink",
            )
        return batch == ledger.batch

    def check_next(self, batch: int) -> None:
        """Raise NO_DATA_AVAILABLE (2379) for a batch that does not follow the last."""
        ledger = self.ledger
        if ledger is not None and batch > ledger.batch + 1:
            raise MQError(
                MQRC.NO_DATA_AVAILABLE,
                f"sink {self.name} has published batch {ledger.batch}, and this is batch {batch}: what was published "
                "between them is not there, as where the queue manager was restored from a backup; to go on all the "
                f"same: RESET SINK('{self.name}')",
            )


def _named(query: str | None) -> str:
    if query is None:
        return "a batch of no query"
    return f"query {query}" if query else "a batch written under its name as a key"
