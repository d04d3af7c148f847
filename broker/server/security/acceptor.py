"""The acceptor: it takes the sockets of clients, looks at who may come, and lets lines begin in turns.

For TCP with and without TLS, and for Unix sockets, alike. A socket with TLS is given the context of its moment, so new
certificates hold for whoever comes next. A line that nobody has come in on yet is an `EnteringLine` at one of the
`places`.
What a line becomes is said by `SessionAcceptor` for programs with the MQI, by `HttpAcceptor` for those with HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import anyio

from broker.clock import cancel_timer
from broker.engine.mistakes import mistake
from broker.server.security.lines import LOCAL, LineSecurity, address_of
from broker.server.security.places import Places

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from broker.clock import Clock, Timer
    from broker.config import LimitsConfig
    from broker.server.security.certificates import Certificates
    from broker.server.security.entering_line import EnteringLine
    from broker.server.security.entry_policy import EntryPolicy
    from broker.server.security.places import PlaceChanges

logger = logging.getLogger(__name__)

AT_ONCE_MAX: Final = 8
"""The most clients that are accepted in one turn of the loop: however many come, others wait for 0.15 ms. An empty turn
is short, so as many are accepted in a second as with more at once.
"""

PAUSE_SECONDS: Final = 1.0
"""The pause after sockets cannot be accepted, such as when the process has as many files open as it may."""

_SHUTDOWN_SECONDS: Final = 5.0


class Listening(NamedTuple):
    """A socket on which clients are accepted."""

    socket: socket.socket
    tls: bool = False


class LineLog(Protocol):
    """Is told of lines that come to nothing."""

    def line_refused(self, address: str, why: str) -> None:
        """A line was ended before anybody had come in on it."""

    def handshake_failed(self, address: str, why: str) -> None:
        """A handshake with TLS came to nothing."""


class Acceptor(ABC):
    """Accepts clients while `run` runs. What a line becomes is the matter of a subclass, in `_admit`.

    `admission` says who may come, `log` is told who may not, `certificates` are those of the sockets with TLS.
    """

    def __init__(
        self,
        clock: Clock,
        limits: LimitsConfig,
        admission: EntryPolicy,
        log: LineLog,
        certificates: Certificates | None = None,
    ) -> None:
        self.clock = clock
        self.limits = limits
        self.places = Places(limits, clock.monotonic())
        self.log = log
        self._certificates = certificates
        self._admission = admission
        self._entering: dict[object, EnteringLine] = {}  # by their places
        self._loop = asyncio.get_running_loop()
        self._at_once = 1  # so that whoever comes alone is not looked behind
        self._pauses: dict[Listening, Timer] = {}
        self._next_handshake: Timer | None = None  # where one waits for the rate of all
        self._tasks: asyncio.TaskGroup
        self._connecting: set[asyncio.Task[object]] = set()  # those in which a line without TLS is being made
        self._ended = False

    def limit(self, limits: LimitsConfig) -> None:
        """Let so many come, within such times, from now on."""
        self.limits = limits
        self.places.limit(limits)
        self._begin_due()

    async def run(self, listening: Sequence[Listening]) -> None:
        """Accept clients until cancelled; lines that still arrive end with it."""
        async with asyncio.TaskGroup() as self._tasks:  # its tasks begin in a fifth of the time of anyio's
            if self._certificates is not None:
                self._tasks.create_task(self._certificates.watch(), name="watch of the certificates")
            for each in listening:
                self._listen(each)
            try:
                await anyio.sleep_forever()
            finally:
                self._ended = True
                for each in listening:
                    self._loop.remove_reader(each.socket)
                for timer in (*self._pauses.values(), self._next_handshake):
                    cancel_timer(timer)
                with anyio.CancelScope(shield=True):
                    await asyncio.sleep(0)  # the tasks of those who were just accepted begin, and have their sockets
                    for entering in list(self._entering.values()):
                        entering.close()
                    if self._connecting:
                        await asyncio.wait(self._connecting)

    # Sockets

    def _listen(self, listening: Listening) -> None:
        self._loop.add_reader(listening.socket, self._accept, listening)

    def _accept(self, listening: Listening) -> None:
        """Accept those who are there, or many of them: the rest in the next turn of the loop."""
        for _ in range(self._at_once):
            try:
                accepted, peer = listening.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                self._at_once = 1  # there is nobody any more
                return
            except OSError as error:
                logger.error("no client accepted: %s; the next try is in %g s", error.strerror, PAUSE_SECONDS)
                self._pause(listening)
                return
            accepted.settimeout(0)
            self._take(accepted, address_of(peer), tls=listening.tls)
        self._at_once = min(self._at_once * 2, AT_ONCE_MAX)

    def _pause(self, listening: Listening) -> None:
        self._loop.remove_reader(listening.socket)
        self._pauses[listening] = self.clock.call_later(PAUSE_SECONDS, partial(self._listen, listening))

    def _take(self, accepted: socket.socket, address: str, *, tls: bool) -> None:
        if address != LOCAL and self._admission.blocked(address):
            self._refuse(accepted, address, "its address is blocked")
        else:
            self._admit(accepted, address, tls=tls)

    @abstractmethod
    def _admit(self, accepted: socket.socket, address: str, *, tls: bool) -> None:
        """Begin a line: at once, or as one that enters, and is given a seat."""

    def _seat(self, entering: EnteringLine, accepted: socket.socket) -> None:
        line = LineSecurity(address=entering.address)
        now = self.clock.monotonic()
        place, changes = self.places.arrive(entering.address, now, tls=entering.tls, local=line.local)
        if place is None:
            self._refuse(accepted, entering.address, "too many lines come from its address")
        else:
            entering.place = place
            self._entering[place] = entering
        self._follow(changes)

    def _refuse(self, accepted: socket.socket, address: str, why: str) -> None:
        accepted.close()
        self.log.line_refused(address, why)

    async def connect(
        self, accepted: socket.socket, protocol: Callable[[], asyncio.Protocol], *, address: str, tls: bool
    ) -> None:
        """Make a line of a socket: its protocol is made at once, and is connected when its handshake is over."""
        try:
            if tls:
                assert self._certificates is not None
                await self._loop.connect_accepted_socket(
                    protocol, accepted, ssl=self._certificates.context,
                    ssl_handshake_timeout=self.limits.login_timeout, ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
                )  # fmt: skip
            else:
                await self._connect_plain(accepted, protocol)
        except OSError as error:
            error.__traceback__ = None  # of frames of asyncio that hold the error: a circle with the line in it
            accepted.close()
            if tls:
                self.log.handshake_failed(address, handshake_failure(error))
        except BaseException as error:
            accepted.close()
            if not isinstance(error, Exception):
                raise
            mistake(error, f"the line of {address or 'local'}")

    async def _connect_plain(self, accepted: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Make a line without TLS, in a turn of the loop. Cancelled in it, uvloop would close the socket and never tell
        the protocol that its line is lost: so the end of `run` waits for it.
        """
        connecting = asyncio.current_task()
        assert connecting is not None
        self._connecting.add(connecting)
        try:
            await self._loop.connect_accepted_socket(protocol, accepted)
        finally:
            self._connecting.discard(connecting)

    # Arrivals

    def line_security(self, entering: EnteringLine, transport: asyncio.BaseTransport) -> LineSecurity:
        """Return what is known of a line whose handshake is over."""
        if not entering.tls:
            return LineSecurity(address=entering.address)
        assert self._certificates is not None
        return self._certificates.line_security(entering.address, transport)

    def shaken(self, entering: EnteringLine) -> None:
        """Its handshake is over."""
        self.places.shaken(entering.place)
        self._begin_due()

    def gone(self, entering: EnteringLine) -> None:
        """Its line has ended."""
        self._entering.pop(entering.place, None)
        self._follow(self.places.gone(entering.place))

    def _follow(self, changes: PlaceChanges) -> None:
        if self._ended:
            return
        for place in changes.begun:
            self._tasks.create_task(self._entering[place].connect())
        for place in changes.closed:
            self._entering[place].refuse("others need its place, and it is the oldest without a user")
        self._begin_due()

    def _begin_due(self) -> None:
        """Let handshakes begin that are due, now and when the next one is."""
        if self._ended:
            return
        now = self.clock.monotonic()
        for place in self.places.due(now):
            self._tasks.create_task(self._entering[place].connect())
        if self._next_handshake is None and (delay := self.places.delay(now)):
            self._next_handshake = self.clock.call_later(delay, self._handshake_due)

    def _handshake_due(self) -> None:
        self._next_handshake = None
        self._begin_due()


_FOREIGN: Final = {
    "HTTP_REQUEST": "the client speaks HTTP",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS; mqs:// is the address of this port, not mq://",
}


def handshake_failure(error: OSError) -> str:
    """Return in words why a handshake has failed."""
    reason = getattr(error, "reason", None)  # of ssl.SSLError
    if reason in _FOREIGN:
        return _FOREIGN[reason]
    verified = getattr(error, "verify_message", None)
    if verified:
        return f"the certificate of the client is refused: {verified}"
    return reason.replace("_", " ").lower() if reason else (error.strerror or str(error) or type(error).__name__)
