"""One who calls by HTTP, and was let in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from broker import Connection
    from broker.http.entrance.guest import Guest
    from broker.http.entrance.roles import WebRole
    from broker.http.entrance.sessions import BrowserSession


class Caller:
    """One who asks, and was let in: `user` is the user that its calls are judged as, `roles` the doors that are open to
    it. A `session` is that of its cookie, None for one who brings credentials with each request.
    """

    __slots__ = ("_guest", "form_token", "session")

    def __init__(self, guest: Guest, form_token: str, session: BrowserSession | None = None) -> None:
        self._guest = guest
        self.form_token = form_token
        """The text that a form of this caller brings back: pages of elsewhere cannot know it."""
        self.session = session

    @property
    def user(self) -> str:
        """The user that its calls are judged as."""
        return self._guest.user.user

    @property
    def roles(self) -> frozenset[WebRole]:
        """The roles of the user."""
        return self._guest.roles

    @property
    def administrator(self) -> bool:
        """True if the user has every right without records."""
        return self._guest.user.administrator

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection of this user for one request, which nobody else has meanwhile. It is kept for the next: close
        what you open. What is left under syncpoint is backed out.

        Raises MQError: NOT_AUTHORIZED (2035) when the user may come in no more, MAX_CONNS_LIMIT_REACHED (2025) while as
        many as `[http] connections_per_user` are in use for 30 seconds.
        """
        return self._guest.pool.connection()

    async def still_admitted(self) -> bool:
        """True if this caller would be let in now as well: for answers that go on for long. Raises MQError where the
        queue manager cannot be asked.
        """
        return (self.session is None or not self.session.over) and await self._guest.stays()

    def __repr__(self) -> str:
        return f"<Caller {self.user}>"
