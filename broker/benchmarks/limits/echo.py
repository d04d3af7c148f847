"""Measure the wire by itself: msgpack requests with a body, and short replies, over loopback between two processes.

No future, no check, no message: length-prefixed frames, a write for all that arrived together.
"""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final, cast

import msgpack

from broker.benchmarks.batches import OUTSTANDING
from broker.benchmarks.child import child
from broker.benchmarks.workload import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from broker.benchmarks.child import Ready, Told

_HEAD_BYTES: Final = 4


class _Frames(asyncio.Protocol):
    def __init__(self) -> None:
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def _write(self, frames: list[bytes]) -> None:
        assert self._transport is not None
        self._transport.write(b"".join([len(frame).to_bytes(_HEAD_BYTES, "big") + frame for frame in frames]))

    def _frames(self, data: bytes) -> Iterator[Any]:
        data = self._rest + data if self._rest else data
        at = 0
        while len(data) >= (begin := at + _HEAD_BYTES):
            end = begin + int.from_bytes(data[at:begin], "big")
            if len(data) < end:
                break
            yield msgpack.unpackb(data[begin:end])
            at = end
        self._rest = data[at:]


class _EchoServer(_Frames):
    def data_received(self, data: bytes) -> None:
        self._write([msgpack.packb((number, 0)) for number, *_ in self._frames(data)])


class _Client(_Frames):
    """Keeps `outstanding` requests on their way until `count` are answered, which ends `done`."""

    def __init__(self, size: int, count: int, outstanding: int) -> None:
        super().__init__()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.times: list[float] = []
        self._body = bytes(size)
        self._left_to_ask = self._left_to_hear = count
        self._outstanding = outstanding

    def begin(self) -> None:
        self.times.append(time.perf_counter())
        self._ask(self._outstanding)

    def data_received(self, data: bytes) -> None:
        self.times.append(time.perf_counter())
        heard = sum(1 for _ in self._frames(data))
        self._left_to_hear -= heard
        if self._left_to_hear:
            self._ask(heard)
        else:
            self.done.set_result(None)

    def _ask(self, count: int) -> None:
        count = min(count, self._left_to_ask)
        self._left_to_ask -= count
        if count:
            self._write([msgpack.packb((number, 1, "BENCH", self._body, {})) for number in range(count)])


async def serve(ready: Ready) -> Told:
    server = await asyncio.get_running_loop().create_server(_EchoServer, "127.0.0.1", 0)
    async with server:
        await ready(port=server.sockets[0].getsockname()[1])
    return {}


async def ask(ready: Ready, port: int, size: int, count: int, outstanding: int) -> Told:
    """`seconds` for all, and `median` of the times between answers."""
    loop = asyncio.get_running_loop()
    transport, client = await loop.create_connection(lambda: _Client(size, count, outstanding), "127.0.0.1", port)
    await ready()
    client.begin()
    await client.done
    transport.close()
    times = client.times
    return {"seconds": times[-1] - times[0], "median": median(after - before for before, after in pairwise(times))}


async def _asked(size: int, count: int, outstanding: int) -> Told:
    async with child(serve) as server:
        port = (await server.prepared())["port"]
        async with child(ask, port=port, size=size, count=count, outstanding=outstanding) as client:
            return await client.measured()


async def _request(folder: Path, size: int, count: int) -> float:
    return float((await _asked(size, count, OUTSTANDING))["seconds"]) / count


async def _round_trip(folder: Path, size: int, count: int) -> float:
    return float((await _asked(size, count, 1))["median"])


REQUEST: Final = Limit(
    name="request",
    title="msgpack request and reply over loopback, 256 outstanding",
    sizes=(256, 2048),
    count=30_000,
    run=_request,
)

ROUND_TRIP: Final = Limit(
    name="round-trip",
    title="msgpack request and reply over loopback, one at a time, p50",
    sizes=(256, 2048),
    count=1_000,
    run=_round_trip,
)
