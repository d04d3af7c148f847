"""A handler that ends its process, or the event loop, is charged for it (handlers rules 1.1, 1.4, 9.1).

Each program is started again until it ends by itself: what charges nobody would end it at each start, for ever.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from broker import Connection
from broker.mqi import MQGMO, MQOO, MQError
from broker.testing.clock import settle
from tests.cli.conftest import environment
from tests.handlers.apps import Seen, Shop
from tests.handlers.loops import both_loops
from tests.handlers.processes import daemon
from triggers import App, Retry, TriggerMessage, TriggerMonitor, process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIMIT = 3

PROGRAM = """
import asyncio, sys, anyio
from broker import QueueManager, connect
from broker.mqi import MQGMO, MQOO
from triggers import App, Retry

source, way, kind, how, puts = sys.argv[1:]
loops = []

class Wrong(Exception):
    def __str__(self):
        raise SystemExit(7)

def end():
    loop = loops[0]
    if way == "exit":
        sys.exit(7)
    elif way == "interrupt":
        raise KeyboardInterrupt
    elif way == "str":
        raise Wrong
    elif way == "cancel all":
        for task in asyncio.all_tasks(loop):
            loop.call_soon_threadsafe(task.cancel) if kind == "def" else task.cancel()
    elif way == "stop":
        loop.call_soon_threadsafe(loop.stop) if kind == "def" else loop.stop()
    elif way == "task exit":
        async def leave():
            sys.exit(7)
        loop.call_soon_threadsafe(lambda: kept.append(loop.create_task(leave())))

kept = []

def serve(app, begun):
    if kind == "def":
        @app.handler("ORDERS", retry=Retry(2, backoff=0.01))
        def handle(body: str) -> None:
            if body == "poison":
                begun.wait(30)
                end()
                if way == "stop" or way.startswith("task"):
                    import time; time.sleep(0.5)
    else:
        @app.handler("ORDERS", retry=Retry(2, backoff=0.01))
        async def handle(body: str) -> None:
            if body == "poison":
                await asyncio.sleep(0)
                end()
                await asyncio.sleep(10)

async def serve_all(manager, app):
    import threading
    begun = threading.Event()
    begun.set()
    serve(app, begun)
    async with app.running():
        loops.append(asyncio.get_running_loop())
        if puts:
            for body in ("poison", *map(str, range(3))):
                await app.put("ORDERS", body)
        opened = connect(manager) if isinstance(manager, str) else manager.connect("test")
        async with opened as connection, connection.open("ORDERS.DEAD", MQOO.INPUT_SHARED) as dead:
            letter = await dead.get(options=MQGMO.NO_SYNCPOINT, wait=20.0)
        told = [letter.properties[f"evermq.{name}"] for name in ("why", "attempts", "exception")]
        print(letter.data[172:].decode(), *told)

async def main():
    if source.startswith("mq:"):
        await serve_all(source, App(source, name="SHOP"))
    else:
        async with QueueManager.open(name="QM1", data=source) as manager:
            await serve_all(manager, App(manager, name="SHOP"))

anyio.run(main, backend_options={"use_uvloop": how == "uvloop"})
"""

CAUGHT = {"exit": "SystemExit", "interrupt": "KeyboardInterrupt", "str": "Wrong"}
"""What is a failed attempt like others: the process lives."""


def ends(source: str, way: str, kind: str, loop: str) -> tuple[int, list[str]]:
    """Return how often the program was started until it ended by itself, and what it said."""
    for starts in range(1, LIMIT + 3):
        words = [sys.executable, "-c", PROGRAM, source, way, kind, loop, "puts" if starts == 1 else ""]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment())
        if done.returncode == 0:
            return starts, done.stdout.split()
    raise AssertionError(f"it ends at each start: {done.stderr[-3000:]}")


WAYS = ("exit", "interrupt", "str", "cancel all", "stop", "task exit")
EMBEDDED = [(way, kind, loop) for way in WAYS for kind in ("async def", "def") for loop in ("asyncio", "uvloop")]
USUAL = [
    ("exit", "def", "uvloop"), ("cancel all", "async def", "uvloop"), ("stop", "def", "asyncio"),
    ("task exit", "async def", "uvloop"),
]  # fmt: skip


def check(way: str, starts: int, said: list[str]) -> None:
    if way in CAUGHT:
        assert (starts, said) == (1, ["poison", "failed", "3", CAUGHT[way]])
    else:
        assert 1 < starts <= LIMIT + 2
        assert said[:2] in (["poison", "failed"], ["poison", "crashed"])


def among(usual: Sequence[tuple[str, ...]], every: Sequence[tuple[str, ...]]) -> list[Any]:
    """The usual ones; the others among the slow tests."""
    return [*usual, *(pytest.param(*each, marks=pytest.mark.slow) for each in every if each not in usual)]


@pytest.mark.parametrize(("way", "kind", "loop"), among(USUAL, EMBEDDED))
def test_h1_15_what_ends_the_process_is_charged_to_its_handler(way: str, kind: str, loop: str, tmp_path: Path) -> None:
    check(way, *ends(str(tmp_path / "data"), way, kind, loop))


@pytest.mark.parametrize(("way", "kind", "loop"), among([("stop", "async def", "uvloop")], EMBEDDED))
def test_h1_15_the_same_of_a_worker(way: str, kind: str, loop: str, tmp_path: Path) -> None:
    with daemon(tmp_path) as running:
        check(way, *ends(running.url, way, kind, loop))


class Wrong(Exception):
    def __str__(self) -> str:
        raise SystemExit(7)


RAISED: dict[str, type[BaseException]] = {
    "exit": SystemExit, "interrupt": KeyboardInterrupt, "str": Wrong, "cancelled": asyncio.CancelledError,
    "generator": GeneratorExit, "iteration": StopIteration,
}  # fmt: skip


@both_loops
@pytest.mark.parametrize("plain", [False, True], ids=["async def", "def"])
@pytest.mark.parametrize("way", ["embedded", "tcp"])
@pytest.mark.parametrize("kind", RAISED)
async def test_h1_15_what_can_be_caught_is_a_failed_attempt(kind: str, way: str, *, plain: bool) -> None:
    async with Shop(way) as shop:
        seen, loop = Seen(), asyncio.get_running_loop()

        def raise_it(body: str) -> None:
            loop.call_soon_threadsafe(seen.add, body)
            if body == "bad":
                raise RAISED[kind]

        async def raise_that(body: str) -> None:
            raise_it(body)

        shop.app.handler("ORDERS", retry=Retry(0))(raise_it if plain else raise_that)
        async with shop.running():
            await shop.app.put("ORDERS", "bad")
            letter = await shop.get("ORDERS.DEAD")
            await shop.app.put("ORDERS", "good")
            assert await seen.so_many(2) == ["bad", "good"]
        assert letter.properties["evermq.why"] in ("failed", "rejected")
        assert letter.properties["evermq.attempts"] == 1


@both_loops
@pytest.mark.parametrize("kind", ["exit", "interrupt", "str"])
async def test_h1_15_in_the_test_kit_too(kind: str) -> None:
    app = App("mq://127.0.0.1:1", name="KIT")

    @app.handler("ORDERS", retry=Retry(1, backoff=60.0))
    def handle(body: str) -> None:
        raise RAISED[kind]

    async with app.test() as t:
        await t.put("ORDERS", "bad")
        with t.failures() as seen:
            await t.idle(delayed=True)
        assert [type(each) for each in seen] == [RAISED[kind]] * 2
        assert await t.messages("ORDERS.DEAD") == ["bad"]


@both_loops
@pytest.mark.parametrize("kind", ["exit", "interrupt"])
async def test_h1_15_a_plain_handler_of_a_process_too(kind: str) -> None:
    async with Shop() as shop:
        await shop.mqsc("DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
        module = ModuleType("handlers_of_p")

        @process("P")
        def handle(trigger: TriggerMessage, connection: Connection) -> None:
            raise RAISED[kind]

        module.handle = handle  # type: ignore[attr-defined]
        async with TriggerMonitor(shop.manager, handlers=[module], clock=shop.clock) as monitor:
            await shop.connection.put1("Q", b"a")
            while monitor.statistics().failed < 2:
                await shop.clock.advance(0.1)


@both_loops
@pytest.mark.parametrize("plain", [False, True], ids=["async def", "def"])
async def test_h9_1_who_cancels_what_serves_it_is_charged_and_its_neighbour_is_not(*, plain: bool) -> None:
    async with Shop() as shop:
        both, over = threading.Event(), threading.Event()
        ended, loop = asyncio.Event(), asyncio.get_running_loop()

        def end_it() -> None:
            for task in asyncio.all_tasks(loop):
                if task.get_name() in ("take ORDERS", "serve ORDERS"):
                    loop.call_soon_threadsafe(task.cancel)
            loop.call_soon_threadsafe(ended.set)

        if plain:

            @shop.app.handler("ORDERS", retry=Retry(3, backoff=600.0))
            def handle(body: str) -> None:
                if body == "bad":
                    both.wait(30)
                    end_it()
                    over.wait(30)  # its end is not to come before that of what serves it
                else:
                    both.set()

        else:

            @shop.app.handler("ORDERS", retry=Retry(3, backoff=600.0))
            async def handle_it(body: str) -> None:
                if body == "bad":
                    end_it()
                await asyncio.Event().wait()

        async with shop.running():
            for body in ("neighbour", "bad"):
                await shop.app.put("ORDERS", body)
            await ended.wait()
            await settle()
            over.set()
        async with shop.connection.open("ORDERS", MQOO.BROWSE) as queue:
            found = {}
            with suppress(MQError):
                while True:
                    message = await queue.get(options=MQGMO.BROWSE_NEXT, delayed=True)
                    found[message.data] = message.backout_count
        assert found == ({b"bad": 1} if plain else {b"neighbour": 0, b"bad": 1})
