"""The ways in which a program reaches a queue manager: in its own process, and over a socket.

A scenario is told once and runs over all of them. A way is entered beside an open queue manager and gives connections.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

from broker.client import connect
from broker.client.port import RemotePort
from broker.config import LimitsConfig, ListenerConfig
from broker.core.security.facts import SELF
from broker.core.security.profiles import CLASS
from broker.core.security.rights import Q_MGR, Q, Right, all_of
from broker.engine.conversation import Conversation
from broker.interface.users import process_user
from broker.mqi.constants.objects import MQOT
from broker.server import Server
from tests.security.world import give

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from broker import Connection, QueueManager


COMMANDS: Final = "runmqsc"
"""The program whose connections run the commands of scenarios."""

PROCESS: Final = MQOT.PROCESS.value


class Way(Protocol):
    """A way in which programs reach one queue manager."""

    def connect(self, appl_name: str, user: str = "") -> AbstractAsyncContextManager[Connection]:
        """A new connection, with a line of its own if there are lines."""

    def cut(self, connection: Connection) -> None:
        """Break the connection, as when its program dies."""


class Embedded:
    """The program and the queue manager share a process."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager

    def connect(self, appl_name: str, user: str = "") -> AbstractAsyncContextManager[Connection]:
        return self._manager.connect(appl_name, user)

    def cut(self, connection: Connection) -> None:
        assert isinstance(connection.port, Conversation)
        connection.port.break_()


class Judged(Embedded):
    """As embedded, but the calls of each program are judged as those of a user, who has the rights that the scenarios
    need. What prepares them are commands of the owner.
    """

    USER: Final = "tester"
    MANAGER: Final = (
        Right.CONNECT
        | Right.INQ
        | Right.SET
        | Right.SETID
        | Right.SETALL
        | Right.ALTUSR
        | Right.DSP
        | Right.CHG
        | Right.CTRL
    )

    def __init__(self, manager: QueueManager) -> None:
        super().__init__(manager)
        everything = {(object_type, "**"): all_of(object_type) for object_type in (Q, PROCESS)}
        everything |= {(object_type, CLASS): Right.CRT for object_type in (Q, PROCESS)}
        give(manager, self.USER, everything | {(Q_MGR, SELF): self.MANAGER}, shared=True)

    def connect(self, appl_name: str, user: str = "") -> AbstractAsyncContextManager[Connection]:
        if appl_name == COMMANDS:
            return super().connect(appl_name, user)
        return self._manager.connect(appl_name, user or process_user(), as_user=self.USER)


class Tcp:
    """The program reaches a server by a socket."""

    def __init__(self, manager: QueueManager, server: Server) -> None:
        self._url = f"mq://{server.addresses[0]}/{manager.name}"
        self._clock = manager.clock
        self._server = server

    def connect(self, appl_name: str, user: str = "") -> AbstractAsyncContextManager[Connection]:
        return connect(self._url, appl_name=appl_name, user=user, clock=self._clock)

    def cut(self, connection: Connection) -> None:
        assert isinstance(connection.port, RemotePort)
        connection.port.line.abort("the program has died")

    def hang_up(self) -> None:
        """Break all lines at the queue manager's end."""
        for session in list(self._server._sessions):
            session.abort()


@asynccontextmanager
async def embedded(manager: QueueManager) -> AsyncIterator[Way]:
    """In the process of the queue manager."""
    yield Embedded(manager)


@asynccontextmanager
async def judged(manager: QueueManager) -> AsyncIterator[Way]:
    """In the process of the queue manager, as a user of it."""
    yield Judged(manager)


@asynccontextmanager
async def tcp(manager: QueueManager) -> AsyncIterator[Way]:
    """Over a socket on the loopback interface, at whatever port is free."""
    async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
        yield Tcp(manager, server)


WAYS = {"embedded": embedded, "tcp": tcp}
JUDGED = {"judged": judged}
ENTRANCES = WAYS | JUDGED
