"""A web server that puts orders and answers at once. See `shop.py` beside it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from shop import Order, app


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    """Be connected while the server runs. The handlers run in workers, not here."""
    async with app.running(handlers=False):
        yield


web = FastAPI(lifespan=lifespan)


@web.post("/orders", status_code=202)
async def order(order: Order) -> dict[str, str]:
    """Take an order. When this answers, the order is on disk; while the queue manager is away, it waits for it."""
    put = await app.put("SHOP.ORDERS", order)
    return {"order": put.md.msg_id.hex()}


@web.post("/quotes")
async def quote(order: Order) -> dict[str, float]:
    """Ask a worker, and wait for its answer for two seconds."""
    try:
        answer: dict[str, float] = await app.request("SHOP.QUOTES", order, timeout=2, type=dict)
    except TimeoutError:
        raise HTTPException(503, "no worker has answered") from None
    return answer
