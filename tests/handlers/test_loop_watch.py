"""Handlers that hold the event loop are named (handlers rule 13.2)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from tests.handlers.apps import Seen, Shop
from triggers.serving.loop_watch import HandlerWatch, where

HANDLERS: dict[asyncio.Task[object], str] = {}


@pytest.fixture
async def watch() -> Iterator[HandlerWatch]:  # type: ignore[misc]
    """A watch that knows its handlers by `HANDLERS`."""
    HANDLERS.clear()
    watch = HandlerWatch(HANDLERS.get)
    yield watch
    watch.stop()


def hold(seconds: float) -> None:
    """Do what holds the loop."""
    time.sleep(seconds)


async def run(watch: HandlerWatch, name: str, seconds: float) -> None:
    """A handler of this name that holds the loop for so long."""

    async def handler() -> None:
        hold(seconds)

    watch.began()
    task = asyncio.ensure_future(handler())
    HANDLERS[task] = name
    await task
    watch.ended()


async def test_h13_4_a_handler_that_holds_the_loop_is_named_with_the_line(
    watch: HandlerWatch, caplog: pytest.LogCaptureFixture
) -> None:
    await run(watch, "shop:ship", 0.5)
    (record,) = caplog.records
    assert "handler=shop:ship" in record.getMessage()
    assert f"{__file__}:" in record.getMessage()
    assert record.getMessage().partition(" in ")[2].startswith("hold;")


async def test_a_handler_of_an_app_that_holds_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q")
        async def handle(body: str) -> None:
            hold(0.5)
            seen.add(body)

        async with shop.running():
            await shop.app.put("Q", "a")
            await seen.so_many(1)
    (record,) = (each for each in caplog.records if each.name == "triggers.serving.loop_watch")
    assert "<locals>.handle held_s=" in record.getMessage()


async def test_each_handler_is_named_once_a_minute(watch: HandlerWatch, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("shop:ship", "shop:ship", "shop:bill"):
        await run(watch, name, 0.3)
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == ["shop:ship", "shop:bill"]
    watch._named["shop:ship"] -= 60
    await run(watch, "shop:ship", 0.3)
    assert len(caplog.records) == 3


async def test_what_is_no_handler_is_not_named(watch: HandlerWatch, caplog: pytest.LogCaptureFixture) -> None:
    watch.began()
    hold(0.3)
    watch.ended()
    assert caplog.records == []


async def test_steps_that_are_short_are_not_named(watch: HandlerWatch, caplog: pytest.LogCaptureFixture) -> None:
    async def handler() -> None:
        for _ in range(15):
            hold(0.02)
            await asyncio.sleep(0)

    watch.began()
    task = asyncio.ensure_future(handler())
    HANDLERS[task] = "shop:ship"
    await task
    watch.ended()
    assert caplog.records == []


async def test_nothing_is_watched_while_no_handler_runs(watch: HandlerWatch) -> None:
    await run(watch, "shop:ship", 0)
    watch._come_round(threading.Event())
    assert not watch._watched.is_set()
    watch.began()
    assert watch._watched.is_set()


async def test_its_thread_ends_with_it() -> None:
    watch = HandlerWatch(HANDLERS.get)
    watch.began()
    assert "event loop watch" in {thread.name for thread in threading.enumerate()}
    watch.stop()
    assert "event loop watch" not in {thread.name for thread in threading.enumerate()}
    watch.began()
    assert "event loop watch" not in {thread.name for thread in threading.enumerate()}


def test_a_frame_that_is_gone() -> None:
    assert where(None) == "?"
