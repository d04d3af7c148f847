"""A newcomer: a line that has to log in, from its socket to its login.

It stands between the socket and the session and bounds what a stranger may send, and for how long. When somebody has
logged in it steps aside: the session is the protocol of the socket from then on, and nothing is paid for it any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from broker.clock import cancel_timer
from broker.server.security.entering_line import EnteringLine
from broker.server.security.lines import peer_uid
from broker.wire.frames import Verb

if TYPE_CHECKING:
    import asyncio
    import socket

    from broker.server.security.session_acceptor import SessionAcceptor
    from broker.server.session import Session
    from broker.wire.frames import Frame


class Newcomer(EnteringLine):
    """A line before its login. `logged_in`, `login_failed` and `login_over` tell it what becomes of a CONNECT; its time
    stands still meanwhile.
    """

    session: Session
    _acceptor: SessionAcceptor

    def __init__(self, acceptor: SessionAcceptor, accepted: socket.socket, address: str, *, tls: bool) -> None:
        super().__init__(acceptor, accepted, address, tls=tls)
        self.uid = peer_uid(accepted)
        self._received = 0
        self._on_its_own = False  # since somebody has logged in

    # The protocol of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.session = self._acceptor.session_of(self, transport)
        self.session.others[Verb.CONNECT] = self._connect
        self._acceptor.shaken(self)
        self.session.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > self._acceptor.limits.login_bytes:
            self.refuse(f"over [limits] login_bytes = {self._acceptor.limits.login_bytes} before a login")
        else:
            self.session.data_received(data)

    def pause_writing(self) -> None:
        self.session.pause_writing()

    def resume_writing(self) -> None:
        self.session.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.session.connection_lost(exc)

    # The login

    def _connect(self, frame: Frame) -> None:
        cancel_timer(self._timer)
        self.session.calls.connect(frame)
        if not self.session.logins.busy:
            self.login_over()

    def logged_in(self) -> None:
        """Somebody has logged in. The session is on its own."""
        if self._on_its_own:
            return
        self._on_its_own = True
        assert self._transport is not None
        cancel_timer(self._timer)
        self._acceptor.logged_in(self)
        self.session.others[Verb.CONNECT] = self.session.calls.connect
        if not self._transport.is_closing():
            self._transport.set_protocol(self.session)

    def login_failed(self) -> None:
        """Somebody has failed to log in."""
        if not self._on_its_own:
            self._acceptor.login_failed(self)

    def login_over(self) -> None:
        """Nobody is being verified: whoever has not logged in may try again, for a while."""
        if not self._on_its_own and not self._gone:
            self._watch()
