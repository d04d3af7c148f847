"""Lines under load: each puts a message and gets one under syncpoint, again and again, and notes which.

A line gets behind its own put, so that a message is always there: not to find one means that one is lost.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import broker
from broker.mqi import MQGMO, MQOO, GetMessageOptions, MQError

if TYPE_CHECKING:
    from broker import Connection, Queue
    from broker.benchmarks.child import Ready, Told

QUEUE: Final = "LOAD"
DEFINITIONS: Final = f"""
DEFINE QLOCAL({QUEUE}) DEFPSIST(YES) MAXDEPTH(999999999)
SET AUTHREC PROFILE({QUEUE}) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(GET,PUT)
"""

_AT_ONCE: Final = 20
_GET: Final = GetMessageOptions(options=MQGMO.NO_WAIT | MQGMO.SYNCPOINT)


class LoadLine:
    """A line of this number. `put` counts its messages, `got` has those that it got: whose, and which of them."""

    def __init__(self, number: int, connection: Connection, queue: Queue) -> None:
        self.number = number
        self.put = 0
        self.got: list[tuple[int, int]] = []
        self.longest = 0.0
        self.lost = ""
        self._connection = connection
        self._queue = queue

    async def work(self, stop: asyncio.Event) -> None:
        """Put and get until told to stop, or until something goes wrong."""
        try:
            while not stop.is_set():
                begun = time.monotonic()
                await self._queue.put(f"{self.number} {self.put}")
                self.put += 1
                message = await self._queue.get(None, _GET)
                await self._connection.commit()
                whose, which = message.data.split()
                self.got.append((int(whose), int(which)))
                self.longest = max(self.longest, time.monotonic() - begun)
        except MQError as error:
            self.lost = f"line {self.number}, behind its message {self.put}: {error}"


async def work(ready: Ready, url: str, folder: str, first: int, count: int) -> Told:
    """So many lines, numbered from `first` on. They are ready, then they work, and end when they are told so. What they
    put and got is in a file.
    """
    files = Path(folder)
    tls = broker.TLS(ca=files / "hosts.pem", certificate=files / "line.pem", key=files / "line.key")
    async with AsyncExitStack() as stack:
        numbers = iter(range(first, first + count))
        lines: list[LoadLine] = []

        async def dial() -> None:
            for number in numbers:
                connection = await stack.enter_async_context(broker.connect(url, tls=tls))
                queue = await stack.enter_async_context(connection.open(QUEUE, MQOO.INPUT_SHARED | MQOO.OUTPUT))
                lines.append(LoadLine(number, connection, queue))

        await asyncio.gather(*(dial() for _ in range(_AT_ONCE)))
        await ready()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for line in lines:
                tasks.create_task(line.work(stop))
            await ready()
            stop.set()
    ledger = files / f"ledger-{first}.json"
    ledger.write_text(json.dumps({line.number: [line.put, line.got] for line in lines}), "ascii")
    return {
        "ledger": str(ledger),
        "lost": [line.lost for line in lines if line.lost],
        "fewest": min(line.put for line in lines),
        "longest": max(line.longest for line in lines),
    }
