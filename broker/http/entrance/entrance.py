"""The entrance: lets callers in, and remembers them, so that no password is verified for each request.

1. Credentials that were good are remembered for 15 minutes by a digest with the key of this process, at most 1,000.
2. At each request the queue manager is asked who the user is now: one whose password, status or groups have changed
   since has to prove anew who it is, and its sessions are over.
3. That the queue manager trusts programs of its own machine never lets anybody in here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker import MQError
from broker.http.entrance.caller import Caller
from broker.http.entrance.credentials import CallerCredentials, NotAdmittedError, cookie_of, credentials_of
from broker.http.entrance.guest import Guest
from broker.http.entrance.sessions import BrowserSessions, cookie_name, set_cookie
from broker.mqi import MQRC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker import Clock
    from broker.http.served_manager import ServedManager

GUESTS_MAX: Final = 1000
REMEMBERED_SECONDS: Final = 15 * 60.0
SWEEP_SECONDS: Final = 15.0

USER_CHARACTERS: Final = 64
"""No user has a longer name; nobody is asked about one."""


class Entrance:
    """The entrance of the HTTP server. `most` connections are lent to the requests of one guest at a time. `run` ends
    what nobody uses any more; `close` ends all.
    """

    def __init__(self, served: ServedManager, clock: Clock, most: int) -> None:
        self.clock = clock
        self.most = most
        self.sessions = BrowserSessions(clock)
        self._served = served
        self._guests: OrderedDict[bytes, Guest] = OrderedDict()  # the one used last at the end
        self._leaving: set[Guest] = set()  # whose credentials are to be verified again, and who are needed still
        self._coming: dict[bytes, anyio.Lock] = {}
        self._busy = anyio.Event()
        self._scope = anyio.CancelScope()

    async def admit(self, request: Mapping[str, Any], *, though_away: bool = False) -> Caller:
        """Let the sender of a request, of which its scope tells, in: by its Authorization header, else its cookie,
        else the certificate of its line. Raises NotAdmittedError, and MQError where the queue manager cannot say; with
        `though_away` those whom it has let in before are let in all the same.
        """
        credentials = credentials_of(request)
        if credentials.password is None and credentials.token is None:
            cookie = cookie_of(request, cookie_name(request))
            if cookie:
                return await self._by_cookie(cookie, though_away=though_away)
        guest = await self._guest(credentials, though_away=though_away)
        return Caller(guest, guest.form_token)

    async def log_in(self, request: Mapping[str, Any], user: str, password: str) -> tuple[Caller, str]:
        """Begin a session for a user with its password: the caller, and the Set-Cookie header. The session of a cookie
        that the request brings is over. Raises NotAdmittedError, and MQError where the queue manager cannot say.
        """
        address = request["state"]["address"]
        secret = password.encode("utf-8", "surrogatepass")
        guest = await self._guest(CallerCredentials(address, user, secret))
        self.log_out(request)
        cookie, session = self.sessions.begin(guest)
        return Caller(guest, session.form_token, session), set_cookie(request, cookie)

    def log_out(self, request: Mapping[str, Any]) -> str:
        """End the session of the cookie that a request brings, if there is one: the Set-Cookie header that takes it
        away.
        """
        session = self.sessions.find(cookie_of(request, cookie_name(request)))
        if session is not None:
            self.sessions.end(session)
        return set_cookie(request, "")

    async def has_users(self) -> bool:
        """True if the queue manager has a USER: until it has one nobody can log in. Raises MQError where it cannot be
        asked, or where this server may not.
        """
        async with self._served.as_server() as connection:
            (reply,) = await connection.mqsc("DISPLAY USER(*)")
        return bool(reply.attributes)

    async def run(self) -> None:
        """End what nobody uses any more, until `close`."""
        with self._scope:
            while True:
                await self._busy.wait()
                await self.clock.sleep(SWEEP_SECONDS)
                await self._sweep()

    async def close(self) -> None:
        """End all sessions and all connections."""
        self._scope.cancel()
        for guest in [*self._guests.values(), *self._leaving]:
            await self._send_away(guest)
        self.sessions.end_old()

    async def _by_cookie(self, cookie: str, *, though_away: bool) -> Caller:
        session = self.sessions.find(cookie)
        if session is None:
            raise NotAdmittedError(session_over=True)
        guest = session.guest
        if not await self._stays(guest, though_away=though_away):
            raise NotAdmittedError(session_over=True)
        return Caller(guest, session.form_token, session)

    async def _guest(self, credentials: CallerCredentials, *, though_away: bool = False) -> Guest:
        """The guest of these credentials. Those who bring the same at one time are let in once for all."""
        if credentials.empty or len(credentials.user) > USER_CHARACTERS:
            raise NotAdmittedError
        digest = credentials.digest
        known = await self._known(digest, though_away=though_away)
        if known is not None:
            return known
        turn = self._coming.setdefault(digest, anyio.Lock())
        try:
            async with turn:
                return await self._known(digest) or await self._newcomer(digest, credentials)
        finally:
            if not turn.locked():
                self._coming.pop(digest, None)

    async def _known(self, digest: bytes, *, though_away: bool = False) -> Guest | None:
        """One who has been let in by these credentials, and not so long ago that they are to be verified again."""
        guest = self._guests.get(digest)
        if guest is None or not await self._stays(guest, though_away=though_away):
            return None
        if guest.since <= self.clock.monotonic() - REMEMBERED_SECONDS:
            self._guests.pop(digest, None)
            self._leaving.add(guest)
            return None
        return guest

    async def _stays(self, guest: Guest, *, though_away: bool) -> bool:
        """True if a guest is still one; who is none any more is sent away."""
        try:
            stays = await guest.stays()
        except MQError:
            if not though_away:
                raise
            stays = not guest.over
        if not stays:
            await self._send_away(guest)
        elif guest.digest in self._guests:
            self._guests.move_to_end(guest.digest)
        return stays

    async def _newcomer(self, digest: bytes, credentials: CallerCredentials) -> Guest:
        try:
            admitted = await self._served.admitted(credentials)
        except MQError as error:
            if error.reason != MQRC.NOT_AUTHORIZED:
                raise
            raise NotAdmittedError from error
        guest = Guest(digest, admitted, self.clock, self.most)
        await guest.come_in()
        self._guests[digest] = guest
        self._busy.set()
        while len(self._guests) > GUESTS_MAX:
            idle = (each for each in self._guests.values() if not each.is_needed)
            await self._send_away(next(idle, next(iter(self._guests.values()))))
        return guest

    async def _send_away(self, guest: Guest) -> None:
        if self._guests.get(guest.digest) is guest:
            del self._guests[guest.digest]
        self._leaving.discard(guest)
        await guest.leave()

    async def _sweep(self) -> None:
        self.sessions.end_old()
        old = self.clock.monotonic() - REMEMBERED_SECONDS
        for guest in [*self._guests.values(), *self._leaving]:
            if not guest.is_needed and (guest in self._leaving or guest.since <= old):
                await self._send_away(guest)
            else:
                await guest.rest()
        if not self._guests and not self._leaving:
            self._busy = anyio.Event()
