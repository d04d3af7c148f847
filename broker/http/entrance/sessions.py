"""The sessions of browsers and of clients that log in once: a random cookie stands for credentials, for 120 minutes."""

from __future__ import annotations

import secrets
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker import Clock
    from broker.http.entrance.guest import Guest

SECONDS: Final = 120 * 60.0
"""The life of a session, from its login on."""

MOST: Final = 1000
MOST_OF_USER: Final = 100
"""For one session more of a user, or of all, the one goes that was used the longest time ago."""


class BrowserSession:
    """A session: the guest whose credentials it stands for. `form_token` is what its forms bring back, `ends` its end
    in seconds of the monotonic clock.
    """

    __slots__ = ("digest", "ends", "form_token", "guest", "over")

    def __init__(self, digest: bytes, guest: Guest, ends: float) -> None:
        self.digest = digest
        self.guest = guest
        self.ends = ends
        self.form_token = secrets.token_urlsafe(24)
        self.over = False


class BrowserSessions:
    """All sessions. Of a cookie nothing is kept but a digest."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_digest: dict[bytes, BrowserSession] = {}  # the one used last at the end

    def __len__(self) -> int:
        return len(self._by_digest)

    def begin(self, guest: Guest) -> tuple[str, BrowserSession]:
        """Begin a session; the value of its cookie, which nobody has had before."""
        of_user = [each for each in self._by_digest.values() if each.guest.user.user == guest.user.user]
        if len(of_user) >= MOST_OF_USER:
            self.end(of_user[0])
        if len(self._by_digest) >= MOST:
            self.end(next(iter(self._by_digest.values())))
        cookie = secrets.token_urlsafe(32)
        session = BrowserSession(_digest(cookie), guest, self._clock.monotonic() + SECONDS)
        self._by_digest[session.digest] = session
        guest.sessions += 1
        return cookie, session

    def find(self, cookie: str) -> BrowserSession | None:
        """The session of a cookie, None if there is none any more."""
        session = self._by_digest.get(_digest(cookie))
        if session is None:
            return None
        if session.ends <= self._clock.monotonic() or session.guest.over:
            self.end(session)
            return None
        self._by_digest[session.digest] = self._by_digest.pop(session.digest)
        return session

    def end(self, session: BrowserSession) -> None:
        """End a session; harmless when it is over."""
        if not session.over:
            session.over = True
            session.guest.sessions -= 1
            del self._by_digest[session.digest]

    def end_old(self) -> None:
        """End those whose time is over."""
        for session in list(self._by_digest.values()):
            if session.ends <= self._clock.monotonic() or session.guest.over:
                self.end(session)


def cookie_name(request: Mapping[str, Any]) -> str:
    """Return the name of the cookie: clients look for the head of IBM's. Two queue managers on one machine have it by
    their ports, since browsers send a cookie to all ports of a host.
    """
    server = request.get("server")
    return f"LtpaToken2_{server[1] if server else ''}"


def set_cookie(request: Mapping[str, Any], value: str) -> str:
    """Return the Set-Cookie header that brings a session to a browser, or with no value takes it away. Only a line
    without TLS, which none but this machine reaches, has no `Secure`.
    """
    secure = "; Secure" if request["scheme"] == "https" else ""
    age = "" if value else "; Max-Age=0"
    return f"{cookie_name(request)}={value}; Path=/{age}{secure}; HttpOnly; SameSite=Strict"


def _digest(cookie: str) -> bytes:
    return sha256(cookie.encode("utf-8", "surrogatepass")).digest()
