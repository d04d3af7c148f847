"""`rate=` on the loops as they are, whose timers fire when they like (handlers rule 6.3)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from broker import QueueManager
from broker.config import LimitsConfig, ListenerConfig
from broker.server import Server
from tests.handlers.loops import both_loops
from triggers import App

COUNT, RATE = 60, 200


@both_loops
@pytest.mark.parametrize("way", ["embedded", "tcp"])
@pytest.mark.parametrize("plain", [False, True], ids=["async def", "def"])
async def test_h6_6_what_a_rate_holds_back_comes_when_it_may(way: str, plain: bool) -> None:
    seen: list[float] = []
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def see() -> None:
        seen.append(time.monotonic())
        if len(seen) == COUNT:
            done.set()

    async with (
        QueueManager.open(name="QM1") as manager,
        Server(manager, ListenerConfig(port=0), LimitsConfig()) as server,
    ):
        app = App(manager if way == "embedded" else f"mq://{server.addresses[0]}", name="SHOP")
        options: Any = {"rate": f"{RATE}/s", "burst": 1}
        if plain:

            @app.handler("ORDERS", **options)
            def ship_in_a_thread(order: str) -> None:
                loop.call_soon_threadsafe(see)

        else:

            @app.handler("ORDERS", **options)
            async def ship_it(order: str) -> None:
                see()

        async with app.running(), asyncio.timeout(20):
            for number in range(COUNT):
                await app.put("ORDERS", str(number))
            await done.wait()
    assert len(seen) == COUNT
    assert seen[-1] - seen[0] > (COUNT - 5) / RATE, "none before its instant"
