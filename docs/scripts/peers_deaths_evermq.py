"""The apps of EverMQ in `peers_deaths.py`: `exact` says `database=`, `by_hand` has a transaction of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg_pool import AsyncConnectionPool

from broker import Database
from broker.transactions import TransactionStep
from peers_deaths_work import AT_ONCE, FOLLOW_UPS, ORDERS, KillPlace, PeerTask, reached
from triggers import App, Retry

if TYPE_CHECKING:
    from triggers.serving.session import AppSession

Q_ORDERS: Final = ORDERS.upper()
Q_FOLLOW_UPS: Final = FOLLOW_UPS.upper().replace("-", ".")

RETRY: Final = Retry(None, backoff=(0.01, 0.2), crashes=1_000_000)
"""The workers are killed on purpose: no order is given up for that."""

STEPS: Final = {TransactionStep.PREPARE: KillPlace.WORKED, TransactionStep.COMMIT: KillPlace.COMMITTED}
"""The row's commit is the acknowledgement: all work is done when it is prepared."""


class WatchedApp(App):
    """An app whose process may die at a step of a transaction."""

    def running(self, **options: Any) -> AppSession:
        session = super().running(**options)
        session.databases.reached_step = self._reached
        return session

    async def _reached(self, step: TransactionStep) -> None:
        if step in STEPS:
            reached(STEPS[step])


work = PeerTask.read()
exact = WatchedApp("mq://127.0.0.1:1414", name="exact")
by_hand = App("mq://127.0.0.1:1414", name="by hand")
for _app in (exact, by_hand):
    _app.queue(Q_FOLLOW_UPS)


def pool() -> AsyncConnectionPool:
    """The connections of a worker."""
    return AsyncConnectionPool(work.dsn, min_size=1, max_size=AT_ONCE + 2, open=False)


@exact.handler(Q_ORDERS, database=Database(pool, name="deaths"), concurrency=AT_ONCE, retry=RETRY)
async def handle(order: dict[str, int], connection: psycopg.AsyncConnection) -> None:
    """Write the row of an order and put its follow-up, in one transaction."""
    reached(KillPlace.BEFORE)
    await connection.execute(work.insert, (order["number"],))
    await exact.put(Q_FOLLOW_UPS, order)
    reached(KillPlace.FOLLOWED)


@by_hand.handler(Q_ORDERS, concurrency=AT_ONCE, retry=RETRY)
async def handle_by_hand(order: dict[str, int]) -> None:
    """Write the row of an order in a transaction, and put its follow-up."""
    reached(KillPlace.BEFORE)
    async with await psycopg.AsyncConnection.connect(work.dsn) as connection:
        await connection.execute(work.insert, (order["number"],))
    reached(KillPlace.COMMITTED)
    await by_hand.put(Q_FOLLOW_UPS, order)
    reached(KillPlace.FOLLOWED)
    reached(KillPlace.WORKED)
