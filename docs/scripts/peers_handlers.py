"""The handlers that the daemon runs for `peers_adapter.py`: each stamps when it began.

A message on PEERS.ASK says how many handlers are waited for. Its answer on PEERS.TOLD has 16 bytes for each that ran:
the first eight bytes of its message, and the clock when its handler began.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Final

import broker  # noqa: TC001  # an annotation of a handler
from broker.mqi import MQOO
from triggers import TriggerMessage, process

ASK: Final = "PEERS.ASK"
TOLD: Final = "PEERS.TOLD"
STAMPS: Final = struct.Struct("<8sq")

MESSAGE: Final = "PEERS.MESSAGE"
TRIGGER: Final = "PEERS.TRIGGER"
"""A process definition for each way to deliver. Stamps are in one list: one workload runs at a time."""

_now = time.monotonic_ns


class _Stamps:
    """The stamps of tasks that ran, and who waits for them."""

    def __init__(self) -> None:
        self.made: list[tuple[bytes, int]] = []
        self._wanted = 0
        self._all = asyncio.Event()

    def add(self, data: bytes) -> None:
        self.made.append((data[:8], _now()))
        if len(self.made) == self._wanted:
            self._all.set()

    async def all(self, count: int) -> bytes:
        """Return the stamps since the last call, when there are `count` or more."""
        self._wanted = count
        self._all = asyncio.Event()
        if len(self.made) < count:
            await self._all.wait()
        made, self.made = self.made, []
        return b"".join([STAMPS.pack(*each) for each in made])


_stamps = _Stamps()


@process(MESSAGE, deliver="message", concurrency=1000)
async def handed(body: bytes) -> None:
    """A handler that is handed its message."""
    _stamps.add(body)


@process(TRIGGER)
async def triggered(trigger: TriggerMessage, connection: broker.Connection) -> None:
    """A handler that gets its message, and commits."""
    async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue, connection.unit_of_work():
        _stamps.add((await queue.get()).data)


@process(ASK, deliver="message")
async def tell(body: bytes, connection: broker.Connection) -> None:
    """Tell the stamps when there are so many."""
    await connection.put1(TOLD, await _stamps.all(int(body)))
