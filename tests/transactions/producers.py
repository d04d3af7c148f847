"""A producer for the rig of `evermq demo --database`: it is imported by workers alone.

For each order it makes a transaction with `app.transaction`, of which the delivery is no part: an order that comes
again is looked for first, in the same transaction. So what is lost or doubled is lost or doubled by that.
"""

from __future__ import annotations

from broker.cli.demo.transactions.orders import PLACES, PostgresOrders
from broker.cli.demo.transactions.program import MESSAGES, ORDERS, RETRY, MortalApp, ShopOrder, mortal, orders

app = MortalApp("mq://127.0.0.1:1414", name="producer")
app.mortal = mortal
database = app.database(orders.database())
for _queue in MESSAGES:
    app.queue(_queue)


@app.handler(ORDERS, concurrency=PLACES, retry=RETRY)
async def place(order: ShopOrder) -> None:
    """Write an order that is not written yet, and put its messages."""
    async with app.transaction(database) as t:
        if isinstance(orders, PostgresOrders):  # which lets two be at it at a time
            await t.connection.execute("SELECT pg_advisory_xact_lock($1)", order.number)
        if await orders.has(t.connection, order.number):
            return
        await orders.write(t.connection, order.number)
        for queue in MESSAGES:
            await app.put(queue, order)
