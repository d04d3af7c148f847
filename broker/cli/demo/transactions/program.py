"""The apps that the workers of the demonstration serve, as `evermq worker` takes them: the same work, done twice.

`exact` says `database=`: the row and both messages are there, or none. `by_hand` has a transaction of its own, and
what it puts is committed when its handler has returned: between the two it may be killed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from broker.cli.demo.transactions.death import Mortal
from broker.cli.demo.transactions.orders import PLACES
from broker.cli.demo.transactions.task import WorkerTask
from broker.transactions import TransactionStep
from triggers import App, Retry

if TYPE_CHECKING:
    from triggers.serving.session import AppSession

ORDERS: Final = "SHOP.ORDERS"
MESSAGES: Final = ("SHOP.INVOICES", "SHOP.PARCELS")
DEAD: Final = "SHOP.ORDERS.DEAD"

_SETTLE_SECONDS: Final = 0.05
"""The time in which a handler that has returned is settled, near enough."""

RETRY: Final = Retry(None, backoff=(0.01, 0.2), crashes=1_000_000)
"""The workers are killed on purpose: no order is given up for that."""


class MortalApp(App):
    """An app whose process dies at a step of one of its transactions."""

    mortal: Mortal | None = None

    def running(self, **options: Any) -> AppSession:
        session = super().running(**options)
        if self.mortal is not None:
            session.databases.reached_step = self.mortal.reached
        return session

    async def reached(self, step: TransactionStep) -> None:
        """A transaction that is made by hand has made a step."""
        if self.mortal is not None:
            await self.mortal.reached(step)


@dataclass
class ShopOrder:
    number: int


task = WorkerTask.read()
orders = task.orders()
exact = MortalApp("mq://127.0.0.1:1414", name="exact")
by_hand = MortalApp("mq://127.0.0.1:1414", name="by hand")
mortal = None if task.death is None else Mortal(task.death)
for _app in (exact, by_hand):
    _app.mortal = mortal
    for _queue in MESSAGES:
        _app.queue(_queue)


async def ship(order: ShopOrder, connection: Any) -> None:
    """Write an order's row and put its messages, both in one transaction."""
    await orders.write(connection, order.number)
    for queue in MESSAGES:
        await exact.put(queue, order)


ship.__annotations__["connection"] = orders.connection_type
exact.handler(ORDERS, database=orders.database(), concurrency=PLACES, retry=RETRY)(ship)


@by_hand.handler(ORDERS, concurrency=PLACES, retry=RETRY)
async def ship_by_hand(order: ShopOrder) -> None:
    """Write an order's row in a transaction, and put its messages."""
    async with orders.opened() as connection:
        await orders.begin(connection)
        await by_hand.reached(TransactionStep.BEGIN)
        await orders.write(connection, order.number)
        for queue in MESSAGES:
            await by_hand.put(queue, order)
        for step in (TransactionStep.WORK, TransactionStep.MARK, TransactionStep.PREPARE):
            await by_hand.reached(step)
        await orders.commit(connection)
        await by_hand.reached(TransactionStep.COMMIT)
    asyncio.get_running_loop().call_later(_SETTLE_SECONDS, _settled)


def _settled() -> None:
    """By now its delivery is settled, and what it has put is there."""
    task = asyncio.get_running_loop().create_task(by_hand.reached(TransactionStep.DECIDE))
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


_tasks: set[asyncio.Task[None]] = set()
