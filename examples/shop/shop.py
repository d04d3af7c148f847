"""The handlers of a shop: what happens to an order after the customer has got an answer.

The daemon keeps the messages, a worker in a process of its own runs the handlers, and a web server (`web.py` beside it)
puts them:

    evermq run                                    # the queue manager
    evermq worker shop:app                        # in this folder
    uvicorn web:web                               # in this folder, in a third terminal
    curl -d '{"item": "chair", "count": 3}' -H 'content-type: application/json' localhost:8000/orders
"""

import logging
import os
from dataclasses import dataclass

from triggers import App, Attempt, Reject, Retry

logger = logging.getLogger(__name__)

app = App(os.environ.get("EVERMQ_URL", "mq://127.0.0.1:1414"))


@dataclass
class Order:
    item: str
    count: int
    customer: str = "cash"


@dataclass
class Invoice:
    customer: str
    text: str


@app.handler("SHOP.ORDERS", retry=Retry(5, backoff=(0.1, 60)), dead_letter="SHOP.ORDERS.DEAD", timeout=30)
async def ship(order: Order, attempt: Attempt) -> None:
    """Ship an order, and have it invoiced.

    The order is gone and the invoice is put, or neither. When this raises, the order waits on its queue and comes
    again, at most five times; then it is a dead letter, with the exception.
    """
    if order.count < 1:
        raise Reject(f"{order.count} of {order.item}: nothing to ship")  # no attempt more will help
    if order.item == "fog" and attempt.number == 1:
        raise ConnectionError("the warehouse does not answer")  # the next attempt may help
    await app.put("SHOP.INVOICES", Invoice(order.customer, f"{order.count} x {order.item}"))
    logger.info("shipped %d x %s", order.count, order.item)


@app.handler("SHOP.INVOICES", order_by="customer", rate="50/s")
async def invoice(invoice: Invoice) -> None:
    """Write an invoice: fifty a second at most, whatever the number of workers."""
    logger.info("invoiced %s: %s", invoice.customer, invoice.text)


@app.handler("SHOP.QUOTES")
async def quote(order: Order) -> dict[str, float]:
    """Answer how much an order would be: what a handler returns is the reply."""
    return {"price": 40.0 * order.count}
