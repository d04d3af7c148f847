"""Attacks that need no line: they cost the daemon sockets, handshakes and time, and say nothing that has a meaning."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final, cast

import anyio

from tests.security.network.served import PORT
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from tests.security.attack.attacker import Attacker

HALF_OPEN: Final = 10_000
_AGAIN_SECONDS: Final = 5.0
"""A half-open socket that was closed is opened again so much later."""

_PORTS: Final = range(1, 65_536)
_SCANNED_AT_ONCE: Final = 200
_SCAN_SECONDS: Final = 2.0
_HELLO_OF_TLS: Final = bytes.fromhex("16030100c8010000c40303") + bytes(range(100))
"""The beginning of a ClientHello, which has no end."""

_SLOW: Final = 100
_RANDOM: Final = 20


async def port_scan(attacker: Attacker) -> None:
    """Connect to each port: one is open, that with TLS."""
    waiting = iter(_PORTS)

    async def scan() -> None:
        for port in waiting:
            try:
                with anyio.fail_after(_SCAN_SECONDS):
                    _, writer = await asyncio.open_connection(attacker.server, port)
            except (OSError, TimeoutError):
                attacker.seen["ports that are closed"] += 1
                continue
            attacker.seen["ports that are open"] += 1
            if port != PORT:
                attacker.complain(f"port {port} is open")
            writer.transport.abort()

    async with anyio.create_task_group() as tasks:
        for _ in range(_SCANNED_AT_ONCE):
            tasks.start_soon(scan)


class _HalfOpen(asyncio.Protocol):
    """A socket that says nothing, or begins a handshake."""

    def __init__(self, said: bytes) -> None:
        self.closed = asyncio.Event()
        self._said = said

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._said)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()


async def half_open(attacker: Attacker) -> None:
    """Have 10,000 sockets open without a login: half of them say nothing, half begin to shake hands."""
    loop = asyncio.get_running_loop()

    async def hold(number: int) -> None:
        said = _HELLO_OF_TLS if number % 2 else b""
        while True:
            try:
                transport, protocol = await loop.create_connection(lambda: _HalfOpen(said), attacker.server, PORT)
            except OSError:
                attacker.seen["half-open sockets refused"] += 1
            else:
                attacker.seen["half-open sockets"] += 1
                try:
                    await protocol.closed.wait()
                    attacker.seen["half-open sockets closed"] += 1
                finally:
                    transport.abort()
            await anyio.sleep(_AGAIN_SECONDS)

    async with anyio.create_task_group() as tasks:
        for number in range(HALF_OPEN):
            tasks.start_soon(hold, number)


async def slow_frames(attacker: Attacker) -> None:
    """Say HELLO, and then the beginning of a frame, a byte at a time."""
    context = attacker.context()

    async def crawl() -> None:
        line = await attacker.dial(context)
        try:
            line.say(*HELLO)
            await line.hear()
            attacker.seen["slow lines"] += 1
            for byte in (50_000).to_bytes(4, "big") + bytes(50_000):
                line.writer.write(bytes([byte]))
                await line.writer.drain()
                await anyio.sleep(0.1)
                if line.reader.at_eof():
                    raise EOFError
        finally:
            line.close()

    await attacker.repeat(_SLOW, crawl)


async def random_bytes(attacker: Attacker) -> None:
    """Send bytes that mean nothing: in place of a handshake, of HELLO, and of a frame behind it."""
    context = attacker.context()
    kinds = iter(range(1 << 60))

    async def babble() -> None:
        kind = next(kinds) % 3
        if kind == 0:
            reader, writer = await asyncio.open_connection(attacker.server, PORT)
            try:
                attacker.seen["random bytes in place of a handshake"] += 1
                writer.write(os.urandom(4096))
                await reader.read()
            finally:
                writer.transport.abort()
            return
        line = await attacker.dial(context)
        try:
            if kind == 2:
                line.say(*HELLO)
                await line.hear()
            attacker.seen["random bytes in place of a frame"] += 1
            size = 200
            line.writer.write((size if kind == 2 else 7).to_bytes(4, "big") + os.urandom(size))
            await line.hear()
            attacker.complain("random bytes were answered")
        finally:
            line.close()

    await attacker.repeat(_RANDOM, babble)
