"""An entering line: a line from its socket until it has shaken hands, where it has TLS, and somebody has come in on it.

It holds a place, and has little time. It stands between the socket and the protocol that the line will have.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

import anyio

from broker.clock import cancel_timer

if TYPE_CHECKING:
    import socket

    from broker.clock import Timer
    from broker.server.security.acceptor import Acceptor
    from broker.server.security.places import Place


class EnteringLine(asyncio.Protocol):
    """A line that `acceptor` has accepted as its `socket`, at `address`, and seats at its `place`."""

    place: Place
    awaited: ClassVar = "login"
    """What it has to do in time, in a word for the log."""

    def __init__(self, acceptor: Acceptor, accepted: socket.socket, address: str, *, tls: bool) -> None:
        self.address = address
        self.tls = tls
        self._acceptor = acceptor
        self._socket = accepted
        self._scope: anyio.CancelScope | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: Timer | None = None
        self._gone = False

    async def connect(self) -> None:
        """Make a line of the socket, after its handshake where it has TLS."""
        if self._gone:
            return
        self._watch()
        try:
            with anyio.CancelScope() as self._scope:
                await self._acceptor.connect(self._socket, lambda: self, address=self.address, tls=self.tls)
        finally:
            if self._transport is None:
                self.gone()

    def refuse(self, why: str) -> None:
        """Say why in the log, and end the line."""
        self._acceptor.log.line_refused(self.address, why)
        self.close()

    def close(self) -> None:
        """End the line, without a byte."""
        if self._transport is not None:
            self._transport.abort()
        elif self._scope is not None:
            self._scope.cancel()
        else:
            self._socket.close()
            self.gone()

    def gone(self) -> None:
        """The line has ended."""
        if not self._gone:
            self._gone = True
            cancel_timer(self._timer)
            self._acceptor.gone(self)

    def _watch(self) -> None:
        cancel_timer(self._timer)
        self._timer = self._acceptor.clock.call_later(self._acceptor.limits.login_timeout, self._expire)

    def _expire(self) -> None:
        self.refuse(f"no {self.awaited} within [limits] login_timeout = {self._acceptor.limits.login_timeout:g} s")
