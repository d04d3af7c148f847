"""The neighbours of a session: a queue manager whose calls a test answers, and a socket that is two lists."""

from __future__ import annotations

import asyncio
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from broker.config import LimitsConfig, ListenerConfig
from broker.engine.jobs.slices import Slices
from broker.engine.journal.afterwards import Afterwards
from broker.engine.security.login import Login, LoginProof
from broker.interface.port import Call
from broker.mqi import MQGMO, MQMO, MQRC, GetMessageOptions, MQError, PutMessageOptions
from broker.server import Server
from broker.server.session import Session
from broker.testing import VirtualClock
from broker.wire import Endpoint, Role, Verb
from broker.wire.frames import FRAME_BYTES, PRODUCT, VERSION
from broker.wire.structures import packed_get_options, packed_put_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.engine import QueueManager
    from broker.engine.calls.room import Room
    from broker.engine.security.login import LoginRequest
    from broker.interface.port import Receipt

HELLO = (PRODUCT, VERSION, VERSION, 30_000, FRAME_BYTES)
PMO = packed_put_options(PutMessageOptions())
GMO = packed_get_options(GetMessageOptions(options=MQGMO.WAIT, wait_interval=5000, match_options=MQMO.NONE))


class FakeReceipt:
    """The receipt of a call, which notes what becomes of it."""

    def __init__(self) -> None:
        self.fate = ""

    def take(self) -> None:
        self.fate += "taken "

    def abandon(self) -> None:
        self.fate += "abandoned "


class FakeCall(Call[Any]):
    """A call that notes what becomes of it. Its receipt is itself unless another is given."""

    receives = True
    given_receipt: FakeReceipt | None = None

    @property
    def receipt(self) -> Receipt:
        return self.given_receipt or self

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        super().__init__()
        self.name = name
        self.arguments = arguments
        self.fate = ""

    def take(self) -> None:
        self.fate += "taken "

    def abandon(self) -> None:
        self.fate += "abandoned "


class FakePort:
    """A conversation whose calls wait in `calls` for a test to answer them, unless `answer` does when they are made."""

    def __init__(self, appl_name: str, user: str, channel: str) -> None:
        self.names = appl_name, user, channel
        self.calls: list[FakeCall] = []
        self.end_reported: list[tuple[Any, ...]] = []
        self.answer: Callable[[FakeCall], None] = lambda call: None
        self.broken = False
        self.breaks = 0

    def __getattr__(self, name: str) -> Any:
        def method(*arguments: Any, **options: Any) -> FakeCall:
            call = FakeCall(name, (*arguments, *options.values()))
            self.calls.append(call)
            self.answer(call)
            return call

        return method

    def trigger_done(self, leases: list[int]) -> None:
        self.end_reported.append(("done", leases))

    def trigger_return(self, leases: list[int]) -> None:
        self.end_reported.append(("return", leases))

    def give_back(self, *items: Any) -> None:
        self.end_reported.append(("give back", *items))

    def break_(self) -> None:
        self.broken = True
        self.breaks += 1


class FakeProofs:
    """Holds for ever."""

    def seconds_left(self, login: Login) -> float:
        return inf


class FakeLog:
    """Lets every line be logged."""

    def allows(self, event: str, origin: str) -> bool:
        return True


class FakeAuthentication:
    """Believes everybody."""

    def __init__(self) -> None:
        self.proofs = FakeProofs()
        self.log = FakeLog()

    def admit_at_once(self, request: LoginRequest) -> Login:
        return Login(request.user, owner=True, trusted=True)

    def proof_of(self, login: Login, appl_name: str, request: LoginRequest) -> LoginProof:
        return LoginProof(login, None, request)

    def rate_of(self, proof: LoginProof) -> None:
        return None

    def lowest_heartbeat(self) -> float:
        return inf


class FakeManager:
    """A queue manager that opens conversations."""

    name = "QM1"

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.slices = Slices(self.clock)
        self.afterwards = Afterwards()
        self.ports: list[FakePort] = []
        self.refusal: MQError | None = None
        self.authentication = FakeAuthentication()
        self.core = SimpleNamespace(instance="")
        self.context = SimpleNamespace(security_log=SimpleNamespace(count_refused=list[str]().append))

    def check_named(self, name: str) -> None:
        if name not in ("", self.name):
            raise MQError(MQRC.Q_MGR_NAME_ERROR, f"{name} is not here; this is {self.name}")

    def converse(self, appl_name: str, user: str, channel: str, room: Room, proof: LoginProof) -> FakePort:
        if self.refusal is not None:
            raise self.refusal
        self.ports.append(FakePort(appl_name, user, channel))
        return self.ports[-1]


class FakeTransport:
    """The socket of a session. `writes` is what was written, a write an item."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.reading = True
        self.closed = self.aborted = False
        self.high = 0

    def write(self, data: bytes) -> None:
        assert not self.aborted
        self.writes.append(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 40_000)


class Client:
    """A client of a session, frame by frame. `heard` is what the session has said to it."""

    def __init__(
        self,
        *,
        hello: tuple[Any, ...] | None = HELLO,
        connected: bool = True,
        server: Server | None = None,
        **limits: Any,
    ) -> None:
        self.manager = FakeManager() if server is None else cast("FakeManager", server.manager)
        self.server = server or Server(cast("QueueManager", self.manager), ListenerConfig(), LimitsConfig(**limits))
        self.session = Session(self.server)
        self.transport = FakeTransport()
        self.end = Endpoint(Role.CLIENT)
        self.heard: list[list[Any]] = []
        self._read = 0
        self.session.connection_made(cast("asyncio.Transport", self.transport))
        if hello is not None:
            self.say(Verb.HELLO, 0, 0, *hello)
            if connected:
                self.session.replies.flush()
                self._listen()
                self.say(Verb.CONNECT, 1, 1, "", "test", "")
        self._port = self.manager.ports[-1] if self.manager.ports else None

    async def beside(self) -> Client:
        """Another client of the same server, with a conversation."""
        client = Client(server=self.server)
        await client.hears()
        return client

    @property
    def port(self) -> FakePort:
        """The conversation opened last; of several clients, the first one of this client."""
        if self._port is not None and self.server.sessions > 1:
            return self._port
        return self.manager.ports[-1]

    @property
    def last(self) -> FakeCall:
        """The call made last."""
        return self.port.calls[-1]

    def say(self, *frame: Any) -> None:
        self.session.data_received(self.end.send(*frame))

    def say_together(self, *frames: tuple[Any, ...]) -> None:
        self.session.data_received(b"".join(self.end.send(*frame) for frame in frames))

    async def hears(self) -> list[list[Any]]:
        """Return what the session says from now until it has nothing more to say, and has said before unheard."""
        for _ in range(5):
            await asyncio.sleep(0)
        return self._listen()

    def _listen(self) -> list[list[Any]]:
        data = b"".join(self.transport.writes[self._read :])
        self._read = len(self.transport.writes)
        said = self.end.receive(data)
        self.heard += said
        return said


async def connected(**limits: Any) -> Client:
    """A client with one conversation, its number 1, and nothing unheard."""
    client = Client(**limits)
    await client.hears()
    return client
