"""A queue manager that checks its users, and programs that come to its listener, with frames of their own too."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from broker import QueueManager
from broker.config import Config, LimitsConfig, ListenerConfig, QueueManagerConfig, SecurityConfig, TokensConfig
from broker.engine.security.passwords import hash_of
from broker.mqi.security_parameters import CredentialKind
from broker.server import Server
from broker.testing import VirtualClock, settle
from broker.wire import Verb
from tests.server.security.conftest import Line, dial
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

PASSWORD: Final = "secret"


@cache
def hashed(password: str = PASSWORD) -> str:
    """A hash of a password, made once."""
    return hash_of(password)


def users() -> str:
    """The commands that define an administrator, and bob, who may put to Q, get from it and browse it."""
    return f"""
DEFINE USER('root') GROUPS('mqm') PASSWORD('{hashed()}')
DEFINE USER('bob') PASSWORD('{hashed()}')
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)
SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(GET,PUT,BROWSE,INQ)
ALTER AUTHINFO(SYSTEM.DEFAULT.AUTHINFO.IDPWOS) AUTHTYPE(IDPWOS) FAILDLAY(0)
"""


class Listener:
    """A queue manager and its listener."""

    def __init__(self, manager: QueueManager, server: Server, clock: VirtualClock) -> None:
        self.manager = manager
        self.server = server
        self.clock = clock

    @property
    def port(self) -> int:
        return int(self.server.addresses[0].rpartition(":")[2])

    @property
    def url(self) -> str:
        return f"mq://{self.server.addresses[0]}"

    async def command(self, text: str) -> None:
        """Run commands as the owner."""
        async with self.manager.connect("owner") as owner:
            for reply in await owner.mqsc(text):
                assert reply.ok, reply.text

    async def dial(self) -> Program:
        """A line past its handshake."""
        line = await dial(self.port)
        line.say(*HELLO)
        assert (await line.hear())[0] == Verb.WELCOME
        return Program(line)

    async def bob(self) -> Program:
        """A line on which bob has logged in, as conversation 1."""
        program = await self.dial()
        assert (await program.connect())[0] == Verb.ANSWER
        return program


class Program:
    """A program that says frames."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.number = 0

    async def hear(self) -> list[Any]:
        """The next frame but for heartbeats."""
        while (frame := await self.line.hear())[0] == Verb.HEARTBEAT:
            pass
        return frame

    def say(self, verb: Verb, *items: Any, conversation: int = 1) -> int:
        """Make a call; its number."""
        self.number += 1
        self.line.say(verb, conversation, self.number, *items)
        return self.number

    async def call(self, verb: Verb, *items: Any, conversation: int = 1) -> list[Any]:
        """Make a call, and return its final frame."""
        number = self.say(verb, *items, conversation=conversation)
        while (frame := await self.hear())[2] != number:
            pass
        return frame

    async def connect(
        self,
        user: str = "bob",
        secret: str | bytes = PASSWORD,
        kind: int = CredentialKind.PASSWORD,
        *,
        channel: str = "",
        conversation: int = 1,
    ) -> list[Any]:
        """CONNECT, and its final frame."""
        data = secret.encode() if isinstance(secret, str) else secret
        return await self.call(Verb.CONNECT, "", "test", user, channel, int(kind), data, conversation=conversation)

    async def connect_asserting(self, user: str, *, conversation: int = 1) -> list[Any]:
        """CONNECT with a name, and nothing that proves it."""
        return await self.call(Verb.CONNECT, "", "test", user, conversation=conversation)

    def close(self) -> None:
        self.line.close()


@asynccontextmanager
async def listening(
    commands: str = "",
    *,
    data: Path | None = None,
    loopback: str = "auto",
    tokens: TokensConfig | None = None,
    **listener: Any,
) -> AsyncIterator[Listener]:
    """A listener of a queue manager with the queue Q, in which these commands have been run."""
    clock = VirtualClock()
    config = Config(
        queue_manager=QueueManagerConfig(name="QM1", data=data),
        security=SecurityConfig(loopback=loopback),
        tokens=tokens or TokensConfig(),
    )
    async with QueueManager.open(config, clock=clock) as manager:
        async with manager.connect("owner") as owner:
            for reply in await owner.mqsc(f"DEFINE QLOCAL(Q) REPLACE\n{commands}"):
                assert reply.ok, reply.text
        async with Server(manager, ListenerConfig(port=0, **listener), LimitsConfig()) as server:
            yield Listener(manager, server, clock)


async def delayed_answers(listener: Listener, seconds: float) -> None:
    """Let the answers to failed logins come."""
    await settle()
    await listener.clock.advance(seconds)
