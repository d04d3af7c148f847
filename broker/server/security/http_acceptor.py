"""The acceptor of lines with HTTP: each request brings its own credentials, so a line itself never logs in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from broker.clock import cancel_timer
from broker.server.security.acceptor import Acceptor
from broker.server.security.entering_line import EnteringLine
from broker.server.security.lines import LineSecurity

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    from broker.clock import Clock
    from broker.config import LimitsConfig
    from broker.server.security.acceptor import LineLog
    from broker.server.security.certificates import Certificates
    from broker.server.security.entry_policy import EntryPolicy


class LineProtocol(Protocol):
    """Makes the protocol of a line, of what is known of the line. `gone` is to be called when the line has ended."""

    def __call__(self, security: LineSecurity, gone: Callable[[], None]) -> asyncio.Protocol: ...


class HttpAcceptor(Acceptor):
    """Makes a `protocol` for each line. A line with TLS holds a place until it has shaken hands."""

    def __init__(
        self,
        clock: Clock,
        limits: LimitsConfig,
        protocol: LineProtocol,
        admission: EntryPolicy,
        log: LineLog,
        certificates: Certificates | None = None,
    ) -> None:
        super().__init__(clock, limits, admission, log, certificates)
        self._protocol = protocol

    def _admit(self, accepted: socket.socket, address: str, *, tls: bool) -> None:
        if tls:
            self._seat(EnteringHttpLine(self, accepted, address, tls=True), accepted)
        else:
            made = partial(self._protocol, LineSecurity(address=address), _nothing)
            self._tasks.create_task(self.connect(accepted, made, address=address, tls=False))

    def protocol_of(self, entering: EnteringHttpLine, transport: asyncio.BaseTransport) -> asyncio.Protocol:
        """Make the protocol of a line whose handshake is over. It holds no place any more."""
        self.shaken(entering)
        self._entering.pop(entering.place, None)  # it goes on when nobody is accepted any more
        self._follow(self.places.passed(entering.place))
        return self._protocol(self.line_security(entering, transport), entering.gone)


class EnteringHttpLine(EnteringLine):
    """A line until its handshake is over."""

    awaited: ClassVar = "handshake"
    _acceptor: HttpAcceptor

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        cancel_timer(self._timer)
        protocol = self._acceptor.protocol_of(self, transport)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


def _nothing() -> None:
    """A line without a place is missed by nobody."""
