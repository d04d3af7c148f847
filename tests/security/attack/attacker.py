"""The attacker: a process on a host of its own, which attacks as it is told, and the lines that it makes.

It takes what the processors have to spare: its work is that of another machine.
"""

from __future__ import annotations

import asyncio
import os
import resource
import ssl
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.wire import Endpoint, Role, Verb
from broker.wire.frames import WireError
from tests.security.attack.scene import ADDRESSES, CANARY
from tests.security.lines import Program
from tests.security.network.served import HOST_NAME, PORT
from tests.server.security.conftest import Line
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.benchmarks.child import Ready, Told

SOCKETS: Final = 12_000
HUNG_UP: Final = (OSError, EOFError, WireError)
"""The daemon has ended the line. (WireError: it said why, and more came.)"""

PACE_SECONDS: Final = 0.01
"""The time between two tries of one of those who try side by side."""

_WRONG_MAX: Final = 20


class Attacker:
    """The attacker: `seen` counts what it has met with, `wrong` are the things that must not have come of it."""

    def __init__(self, ca: str, forged: dict[str, str]) -> None:
        self.server = ADDRESSES["server"]
        self.forged = forged
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.sessions: list[tuple[ssl.SSLContext, ssl.SSLSession]] = []
        """Sessions of TLS that were kept, to be resumed when the certificates have been loaded again."""
        self.reloaded = False
        self._ca = ca

    def context(self, version: str = "") -> ssl.SSLContext:
        """The context of a client, of one version of TLS if it is named."""
        context = ssl.create_default_context(cafile=self._ca)
        if version:
            context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        return context

    def complain(self, what: str) -> None:
        """Something has come of an attack."""
        if len(self.wrong) < _WRONG_MAX:
            self.wrong.append(what)

    async def dial(self, context: ssl.SSLContext) -> Line:
        """A line past its TLS handshake."""
        connected = await asyncio.open_connection(self.server, PORT, ssl=context, server_hostname=HOST_NAME)
        return WatchedLine(self, *connected)

    async def program(self, context: ssl.SSLContext) -> Program:
        """A line past HELLO and WELCOME."""
        line = await self.dial(context)
        line.say(*HELLO)
        if (await line.hear())[0] != Verb.WELCOME:
            raise EOFError
        return Program(line)

    async def repeat(self, side_by_side: int, step: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again, so many side by side, until cancelled."""
        async with anyio.create_task_group() as tasks:
            for _ in range(side_by_side):
                tasks.start_soon(self._go_on, step)

    async def _go_on(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
            except HUNG_UP:
                self.seen["lines ended by the daemon"] += 1
            except Exception as error:
                self.complain(f"the attacker failed: {error!r}")
            await anyio.sleep(PACE_SECONDS)


class WatchedLine(Line):
    """A line whose frames must have no message of others."""

    def __init__(self, attacker: Attacker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.end = Endpoint(Role.CLIENT)
        self._attacker = attacker

    async def hear(self) -> list[Any]:
        frame = await super().hear()
        if CANARY in repr(frame):
            self._attacker.complain(f"a message was read: {frame!r}")
        if frame[0] == Verb.REFUSED:
            raise EOFError(frame[4])
        return frame


def _give_way() -> None:
    """Take what the others leave, and let them go first whenever they have something to do."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.setpriority(os.PRIO_PROCESS, 0, 19)


async def attack(ready: Ready, *, ca: str, forged: dict[str, str]) -> Told:
    """Attack as each order says, by `attacks` for so many `seconds`; an order that is None ends it. Told after each,
    when it is `ready` for the next: what was `seen`. Told in the end: what is `wrong`.
    """
    from tests.security.attack.run import ATTACKS

    _give_way()
    files = max(SOCKETS, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    attacker = Attacker(ca, forged)
    while (order := await ready(seen=attacker.seen)) is not None:
        attacker.seen.clear()
        attacker.reloaded = bool(attacker.sessions)
        with anyio.move_on_after(order["seconds"]):
            async with anyio.create_task_group() as tasks:
                for name in order["attacks"]:
                    tasks.start_soon(ATTACKS[name], attacker)
            await anyio.sleep_forever()
    return {"wrong": attacker.wrong}
