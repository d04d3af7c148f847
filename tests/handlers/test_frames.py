"""How many frames a handled message takes (handlers section 12)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from broker.mqi import Outcome
from broker.wire.protocol import Endpoint
from tests.handlers.desk import settle
from tests.handlers.wire import remote

if TYPE_CHECKING:
    import pytest

    from broker import Deliveries

PLACES = 100


async def handle(worker: Deliveries, count: int) -> None:
    """As a worker does: one take under way for its free places, settlements of one turn in one call."""
    done = 0
    while done < count:
        taken = await worker.take(PLACES)
        await asyncio.sleep(0)  # the handlers run
        await settle(worker, Outcome.DONE, *taken)
        done += len(taken)


async def test_h12_3_frames_for_a_handled_message_at_load_and_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """At load at most 0.1. One by one, five: take, its answer, that it has come, settle, its answer."""
    sent = 0
    send = Endpoint.send

    def counting(self: Endpoint, *frame: Any) -> bytes:
        nonlocal sent
        sent += 1
        return send(self, *frame)

    monkeypatch.setattr(Endpoint, "send", counting)
    async with remote() as r, r.worker() as (_, worker):
        await r.desk.put(*["x"] * 2000)
        sent = 0
        await handle(worker, 2000)
        assert sent <= 0.1 * 2000
        sent = 0
        for _ in range(50):
            handling = asyncio.ensure_future(handle(worker, 1))
            await asyncio.sleep(0)
            await r.desk.put("x")
            await handling
        assert sent <= 5 * 50
        assert r.desk.depth() == 0
