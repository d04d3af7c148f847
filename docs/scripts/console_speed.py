"""Measures what open pages of the console cost: `python docs/scripts/console_speed.py [--pages N] [--queues N]`.

A daemon of its own with very many queues, a tenth of which hold messages. Told are the processor time that it takes a
second for the streams of open pages, and the p99 of a client of the protocol that puts and gets a message by turns:
alone, and beside the pages, puts by REST, and somebody who loads the first page each second. Both are measured in
turns, since a busy machine is slow at times. The bounds: 50 ms a second, and 1.3 times the p99 of the client alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import subprocess
import sys
from base64 import b64encode
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

import broker
from broker.mqi import MQOO, MQPER
from rest_speed import PASSWORD, RestLine, processor_seconds, served_daemon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

PAGES: Final = ("/", "/queues", "/queues/APP.Q.0000", "/handlers", "/units")
"""The pages that are open, in turns."""

MILLISECONDS_A_SECOND: Final = 50.0
TIMES_ALONE: Final = 1.3
REST_PUTS_A_SECOND: Final = 50

_STARTUP: Final = """
DEFINE QLOCAL(P) MAXDEPTH(999999999)
SET AUTHREC PROFILE(P) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,GET,BROWSE,INQ)
"""


class LoadedDaemon:
    """The daemon, and who calls there."""

    def __init__(self, pid: int, protocol: str, http: str) -> None:
        self.pid = pid
        self.protocol = protocol
        self._host, _, self._port = http.rpartition(":")

    async def _line(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._host, int(self._port))

    async def watch(self, page: str) -> None:
        """Keep a page open, and read what its stream says."""
        reader, writer = await self._line()
        writer.write(_get(f"/console{page}?live=1"))
        try:
            while await reader.read(65536):
                pass
        finally:
            writer.close()

    async def load(self) -> None:
        """Load the first page each second."""
        reader, writer = await self._line()
        try:
            while True:
                writer.write(_get("/console/"))
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head)
                if length is not None:
                    await reader.readexactly(int(length[1]))
                else:
                    while size := int(await reader.readuntil(b"\r\n"), 16):
                        await reader.readexactly(size + 2)
                    await reader.readuntil(b"\r\n")
                await asyncio.sleep(1)
        finally:
            writer.close()

    async def put(self) -> None:
        """Put by REST, one after the other, some a second."""
        line = RestLine(*await self._line())
        while True:
            await line.put(1)
            await asyncio.sleep(1 / REST_PUTS_A_SECOND)

    async def fill(self, queues: int) -> None:
        """Put a message on each tenth of the queues."""
        async with broker.connect(f"mq://{self.protocol}/QM1", user="root", password=PASSWORD) as connection:
            for number in range(0, queues, 10):
                await connection.put1(f"APP.Q.{number:04}", b"x" * 256)

    async def turns(self, number: int) -> list[float]:
        """The seconds that each put and get of a client took, awaited one by one."""
        taken = []
        async with (
            broker.connect(f"mq://{self.protocol}/QM1", user="app", password=PASSWORD) as connection,
            connection.open("P", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue,
        ):
            for _ in range(number):
                before = perf_counter()
                await queue.put(b"x" * 256, persistence=MQPER.NOT_PERSISTENT)
                await queue.get()
                taken.append(perf_counter() - before)
        return taken


def _get(path: str) -> bytes:
    credentials = b64encode(f"root:{PASSWORD}".encode()).decode()
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {credentials}\r\n\r\n".encode()


@asynccontextmanager
async def beside(*others: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Have others do what they do meanwhile."""
    tasks = [asyncio.ensure_future(each) for each in others]
    await asyncio.sleep(3)  # until all of them are at it
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def streams(daemon: LoadedDaemon, pages: int, seconds: float) -> float:
    """Milliseconds of the daemon's processor a second for so many open pages."""
    async with beside(*(daemon.watch(PAGES[number % len(PAGES)]) for number in range(pages))):
        before, began = processor_seconds(daemon.pid), perf_counter()
        await asyncio.sleep(seconds)
        return (processor_seconds(daemon.pid) - before) / (perf_counter() - began) * 1000


def p99(taken: list[float]) -> float:
    """The time that a hundredth of the turns was longer than, in ms."""
    return sorted(taken)[len(taken) * 99 // 100] * 1000


def client(address: str, number: int) -> float:
    """The p99 of a client in a process of its own, which shares no processor time with who makes the load."""
    command = [sys.executable, __file__, "--client", address, "--turns", str(number)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=_environment()).stdout)


def _environment() -> dict[str, str]:
    folder = str(Path(__file__).parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH", ""))))}


async def latencies(daemon: LoadedDaemon, pages: int, number: int, rounds: int) -> tuple[float, float]:
    """The p99 of a client alone, and beside pages, puts and loads, in ms: medians of the rounds."""
    alone, loaded = [], []
    measure = partial(asyncio.to_thread, client, daemon.protocol, number)
    for _ in range(rounds):
        alone.append(await measure())
        watching = (daemon.watch(PAGES[each % len(PAGES)]) for each in range(pages))
        async with beside(*watching, daemon.load(), daemon.put()):
            loaded.append(await measure())
    return statistics.median(alone), statistics.median(loaded)


async def measured(daemon: LoadedDaemon, arguments: argparse.Namespace) -> None:
    await daemon.fill(arguments.queues)
    cost = await streams(daemon, arguments.pages, arguments.seconds)
    print(f"{arguments.pages} open pages: {cost:6.1f} ms of a processor a second (at most {MILLISECONDS_A_SECOND:g})")
    if arguments.rounds:
        alone, loaded = await latencies(daemon, arguments.pages, arguments.turns, arguments.rounds)
        print(f"p99 of a put and a get alone:  {alone:6.2f} ms")
        print(f"p99 beside pages and REST:     {loaded:6.2f} ms, {loaded / alone:.2f} times (at most {TIMES_ALONE:g})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--queues", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--turns", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        print(p99(asyncio.run(LoadedDaemon(0, arguments.client, ":0").turns(arguments.turns))))
        return
    queues = "".join(f"DEFINE QLOCAL(APP.Q.{number:04})\n" for number in range(arguments.queues))
    with served_daemon(_STARTUP + queues) as (pid, protocol, http):
        asyncio.run(measured(LoadedDaemon(pid, protocol, http), arguments))


if __name__ == "__main__":
    main()
