"""A queue manager that only lets clients in: the test says whom, and reads what they brought."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from broker import Clock
from broker.mqi import MQRC, MQError
from broker.wire import Endpoint, Role, Verb
from broker.wire.answers import error_fields
from broker.wire.frames import FRAME_BYTES, PRODUCT, VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Brought(NamedTuple):
    """The fields of a CONNECT."""

    user: str
    channel: str = ""
    kind: int = 0
    secret: bytes = b""


class HastyClock(Clock):
    """A clock by which no pause takes time."""

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(0)


_HEARTBEAT_MS = 10**9  # a virtual clock that jumps drops no line

REFUSED = MQError(MQRC.NOT_AUTHORIZED, "not authorized")


def refuse() -> NoReturn:
    """Raise what refuses a user."""
    raise MQError(REFUSED.reason, REFUSED.detail)


class Gate:
    """Lines of clients. `admit` says of what a client brings how long it lasts, or raises."""

    def __init__(self) -> None:
        self.connects: list[Brought] = []
        self.proofs: list[tuple[int, bytes]] = []
        self.read = 0
        """The number of bytes that have come."""
        self.port = 0
        self.admit: Callable[[bytes], float | None] = lambda secret: None
        self._lines: set[_GateLine] = set()

    @property
    def url(self) -> str:
        return f"mq://127.0.0.1:{self.port}"

    @property
    def secrets(self) -> list[bytes]:
        """Those of the CONNECTs."""
        return [each.secret for each in self.connects]

    @asynccontextmanager
    async def listening(self, **options: Any) -> AsyncIterator[None]:
        server = await asyncio.get_running_loop().create_server(lambda: _GateLine(self), "127.0.0.1", 0, **options)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        """Break all lines."""
        for line in list(self._lines):
            line.transport.abort()

    def entered(self, line: _GateLine) -> None:
        self._lines.add(line)

    def left(self, line: _GateLine) -> None:
        self._lines.discard(line)


class _GateLine(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._end = Endpoint(Role.SERVER)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._gate.entered(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gate.left(self)

    def data_received(self, data: bytes) -> None:
        self._gate.read += len(data)
        for frame in self._end.receive(data):
            self._handle(*frame)

    def _handle(self, verb: int, conversation: int, number: int, *items: Any) -> None:
        answer: tuple[Any, ...] = (0,)
        try:
            match verb:
                case Verb.HELLO:
                    self._say(Verb.WELCOME, 0, 0, PRODUCT, VERSION, "QM1", _HEARTBEAT_MS, FRAME_BYTES)
                    return
                case Verb.CONNECT:
                    brought = Brought(*items[2:])
                    self._gate.connects.append(brought)
                    left = self._gate.admit(brought.secret)
                    answer = ("QM1",) if left is None else ("QM1", left)
                case Verb.AUTHENTICATE:
                    self._gate.proofs.append((items[0], items[1]))
                    answer = (self._gate.admit(items[1]),)
                case Verb.STATUS:
                    answer = ({"name": "QM1"},)
                case Verb.HEARTBEAT:
                    return
        except MQError as error:
            self._say(Verb.FAILED, conversation, number, *error_fields(error))
        else:
            self._say(Verb.ANSWER, conversation, number, *answer)

    def _say(self, *frame: Any) -> None:
        self.transport.write(self._end.send(*frame))
