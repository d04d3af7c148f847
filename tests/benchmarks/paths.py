"""How long the ways of calls are: `python -m tests.benchmarks.paths [WAY]` prints how many functions each calls, and in
how many files they are; of one way the functions too, in the order of the calls.

A way is warm, and the shortest of some tries counts. Counted are functions in Python, wherever they are, but for
comprehensions and generator expressions, which later versions of Python call no more. The event loop is uvloop, which
calls none of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import coroutine
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
import uvloop

from broker import QueueManager, connect
from broker.clock import Clock
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQOO
from broker.server import Server
from broker.storage import upkeep
from broker.storage.log import pace
from tests.stores import log_store
from triggers import App
from triggers.serving import loop_watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator
    from types import FrameType

    Way = Callable[[], Awaitable[object]]

ROOT: Final = Path(__file__).parents[2]
_INLINED: Final = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_WARM: Final = 3
_TRIES: Final = 9
_DATA: Final = b"x" * 256


class Function(NamedTuple):
    """A function that is called, and its file."""

    name: str
    file: str


async def path(way: Way) -> list[Function]:
    """The functions that a way calls when it is warm, in the order of the calls."""
    tries: list[list[Function]] = []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name not in _INLINED and code.co_filename != __file__:
            tries[-1].append(Function(code.co_qualname, code.co_filename.removeprefix(f"{ROOT}/")))

    for _ in range(_WARM):
        await way()
    for _ in range(_TRIES):
        tries.append([])
        sys.setprofile(profile)
        try:
            await way()
        finally:
            sys.setprofile(None)
    return min(tries, key=len)


@asynccontextmanager
async def fast_manager(folder: Path) -> AsyncIterator[QueueManager]:
    """A queue manager on a disk that is always fast: it writes on the event loop. Its date stands still, its store is
    never idle, and nobody looks after its handlers' hold on the loop: a tick between two calls would cost some more.
    """
    with pytest.MonkeyPatch.context() as patch:
        now = time.time()
        patch.setattr(upkeep, "IDLE_SECONDS", 3600.0)
        patch.setattr(loop_watch, "_LOOK", 3600.0)
        patch.setattr(Clock, "time", staticmethod(lambda: now))
        patch.setattr(pace, "_FAST", 1e9)
        patch.setattr(pace, "_SLOW", 1e9)
        patch.setattr("broker.storage.disk.file_system.warnings", lambda _: [])
        async with QueueManager.open(name="QM1", store=log_store(folder / "data")) as manager:
            yield manager


@asynccontextmanager
async def tcp_put(manager: QueueManager) -> AsyncIterator[Way]:
    """A client puts a persistent message outside syncpoint: from its call to its answer, on both ends."""
    async with (
        Server(manager, ListenerConfig(port=0), LimitsConfig()) as server,
        connect(f"mq://{server.addresses[0]}") as connection,
    ):
        await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)", check=True)
        async with connection.open("Q", MQOO.OUTPUT) as queue:
            yield lambda: queue.put(_DATA)


@asynccontextmanager
async def app_handler(manager: QueueManager) -> AsyncIterator[Way]:
    """An app puts a message to a handler of its own, which does nothing: from the put until the delivery is settled."""
    app = App(manager, name="SHOP")

    @app.handler("Q")
    async def handle(body: bytes) -> None: ...

    async with app.running() as session:
        service = session.services["Q"]

        async def handled() -> None:
            await app.put("Q", _DATA)
            while service._unsettled:
                await _turn()

        yield handled


@coroutine
def _turn() -> Generator[None]:
    """A turn of the event loop, of which nothing is counted."""
    yield


WAYS: Final = {"tcp-put": tcp_put, "app-handler": app_handler}


async def measured(name: str) -> list[Function]:
    """The path of the way of this name."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="evermq-paths-"))
        manager = await stack.enter_async_context(fast_manager(Path(folder)))
        return await path(await stack.enter_async_context(WAYS[name](manager)))


def _main() -> None:
    parser = argparse.ArgumentParser(description="Print how many functions calls go through.")
    parser.add_argument("way", nargs="?", choices=WAYS)
    given = parser.parse_args().way
    for name in [given] if given else WAYS:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(measured(name))
        sys.stdout.write(f"{name}: {len(found)} calls, {len({each.file for each in found})} files\n")
        for each in found if given else ():
            sys.stdout.write(f"    {each.name}  {each.file}\n")


if __name__ == "__main__":
    _main()
