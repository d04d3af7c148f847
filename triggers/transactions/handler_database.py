"""The database of a handler, as the runs of one service need it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from broker.mqi import MQGS, MQSS
from broker.transactions import TurnCalls
from triggers.serving.outcomes import brief

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from random import Random

    from broker import Clock, Connection
    from broker.transactions import Coordinator, Decision, PreparedDelivery
    from triggers.transactions.handling import TransactionRun, TransactionServer

logger = logging.getLogger(__name__)

LATER_MIN: Final = 1.0
LATER_MAX: Final = 60.0
"""Seconds until a message comes again for which the database gave no transaction, doubling from the one to the other
while it is away (handlers rule 1, row 8).
"""

LOG_EVERY: Final = 60.0

DECIDE_WITHIN: Final = 0.02
"""Seconds for which a commit that nobody waits for may wait at most."""

DECIDE_BEHIND: Final = 0.01
"""Seconds after which such commits go with what is prepared next, and need no write of the journal of their own. Sent
with everything that is prepared, they would be single calls, each of which keeps a PREPARE waiting.
"""

TAKEN_TOGETHER: Final = 8
"""While most transactions wait to begin, deliveries are taken for one in so many of all places at once."""


class Absence:
    """A database that gives no transactions, from when: for all handlers of a program."""

    def __init__(self, clock: Clock, random: Random, label: str) -> None:
        self._clock = clock
        self._random = random
        self._label = label
        self._since: float | None = None
        self._logged: float | None = None

    def noted(self, error: Exception) -> float:
        """It is away: return in how many seconds a message is to come again. The longer it is away, the later."""
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
        if self._logged is None or now - self._logged >= LOG_EVERY:
            self._logged = now
            logger.warning(
                "the database gives no transaction, messages wait for it and nobody is charged: database=%s %s",
                self._label, brief(error), extra={"event": "database_away"},
            )  # fmt: skip
        away = min(max(now - self._since, LATER_MIN), LATER_MAX)
        return away * (0.5 + self._random.random() / 2) if away > LATER_MIN else away

    def over(self) -> None:
        """It has given a transaction."""
        if self._since is not None:
            self._since = None
            logger.info("database is back: database=%s", self._label)


class Prepares(Protocol):
    """A receiver of preparations: `broker.Deliveries` is one, for all deliveries of its connection."""

    async def prepare(self, database: bytes, prepared: Sequence[PreparedDelivery], name: str = "") -> list[int]: ...


class HandlerDatabase:
    """The transactions of a handler's service with one database."""

    def __init__(self, coordinator: Coordinator, absence: Absence, connection: Connection, through: Prepares) -> None:
        self.coordinator = coordinator
        self.committing: set[Any] = set()  # runs
        self.connects = False  # the last delivery has used its connection
        self.beginning = 0  # the transactions that wait for a connection, or for their BEGIN
        self._absence = absence
        self._connection = connection
        self._through = through
        self._preparations = TurnCalls(self._prepare, "prepare deliveries")

    @property
    def q_mgr(self) -> str:
        """The instance of the queue manager."""
        return self._connection.q_mgr_instance

    def least_free(self, places: int) -> int:
        """Return how many of so many places are to be free before deliveries are taken for them. While most of those
        that were taken wait for their transactions to begin, as in SQLite, a call for each that ends would only hold
        these up.
        """
        return max(1, places // TAKEN_TOGETHER) if 2 * self.beginning > places else 1

    def prepare(self, prepared: PreparedDelivery) -> asyncio.Future[int]:
        """Prepare a delivery, with what else is prepared in this turn of the loop, and with the commits that have
        waited for one. The answer is 0, or why it is refused; MQError where nobody knows.
        """
        self.coordinator.decisions.hurry(DECIDE_WITHIN - DECIDE_BEHIND)
        return self._preparations.add(self._through, prepared)

    async def _prepare(self, through: Prepares, prepared: Sequence[PreparedDelivery]) -> Sequence[int]:
        return await through.prepare(self.coordinator.opened.id, prepared, self.coordinator.name)

    def decide(self, decision: Decision, run: TransactionRun) -> asyncio.Future[int]:
        """Decide the unit of a run, with what else is decided in this turn of the loop. A commit for whose end nobody
        waits goes with what is prepared a little later.
        """
        within = DECIDE_WITHIN if decision.commit and _is_in_company(run) else 0.0
        return self.coordinator.decide(self._connection, decision, within=within)

    def away(self, error: Exception) -> float:
        """The database gave no transaction. Return in how many seconds the message is to come again."""
        return self._absence.noted(error)

    def is_there(self) -> None:
        """The database has given a transaction."""
        self._absence.over()


def _is_in_company(run: TransactionRun) -> bool:
    """True if other deliveries run beside it, and it is not in an order, in which the next waits for its end."""
    server = cast("TransactionServer", run.server)
    if len(server.runs) < 2:
        return False
    order_by = server.handler.options.order_by
    if order_by == "group_id":  # as it is where none is named; the descriptor is not unpacked to find it empty
        first = run.messages[0]
        return first.group_status is MQGS.NOT_IN_GROUP and first.segment_status is MQSS.NOT_A_SEGMENT
    return not order_by
