"""The acceptor of lines with the protocol of the MQI: each becomes a session, at once where its machine is trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.server.security.acceptor import Acceptor
from broker.server.security.lines import LineSecurity, peer_uid
from broker.server.security.newcomer import Newcomer

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

    from broker.clock import Clock
    from broker.config import LimitsConfig
    from broker.server.security.acceptor import LineLog
    from broker.server.security.certificates import Certificates
    from broker.server.security.entry_policy import EntryPolicy
    from broker.server.session import Session


class SessionAcceptor(Acceptor):
    """Makes a `session` for each line. One that has to log in is a `Newcomer` until it has."""

    def __init__(
        self,
        clock: Clock,
        limits: LimitsConfig,
        session: Callable[[], Session],
        admission: EntryPolicy,
        log: LineLog,
        certificates: Certificates | None = None,
    ) -> None:
        super().__init__(clock, limits, admission, log, certificates)
        self._session = session

    def _admit(self, accepted: socket.socket, address: str, *, tls: bool) -> None:
        if tls or self._admission.must_log_in(address):
            self._seat(Newcomer(self, accepted, address, tls=tls), accepted)
        else:
            self._tasks.create_task(self._connect_trusted(accepted, address))

    async def _connect_trusted(self, accepted: socket.socket, address: str) -> None:
        line = LineSecurity(address=address, uid=peer_uid(accepted))

        def session() -> Session:
            made = self._session()
            made.line = line
            return made

        await self.connect(accepted, session, address=address, tls=False)

    def session_of(self, newcomer: Newcomer, transport: asyncio.BaseTransport) -> Session:
        """Make the session of a line whose handshake is over."""
        session = self._session()
        session.newcomer = newcomer
        session.line = (
            self.line_security(newcomer, transport)
            if newcomer.tls
            else LineSecurity(address=newcomer.address, uid=newcomer.uid)
        )
        return session

    def logged_in(self, newcomer: Newcomer) -> None:
        """Somebody has logged in on its line."""
        self._follow(self.places.logged_in(newcomer.place, self.clock.monotonic()))

    def login_failed(self, newcomer: Newcomer) -> None:
        """Somebody has failed to log in on its line."""
        self.places.failed(newcomer.place, self.clock.monotonic())
