"""The entrance of the HTTP server, as the console knows it: it lets callers in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request

    from broker import Connection


class ConsoleCaller(Protocol):
    """Somebody who was let in."""

    @property
    def user(self) -> str:
        """The user that calls are judged as."""

    @property
    def roles(self) -> Collection[str]:
        """The roles of the user: MQWebAdmin, MQWebAdminRO, MQWebUser."""

    @property
    def form_token(self) -> str:
        """The word that the forms of this caller's have to say."""

    @property
    def administrator(self) -> bool:
        """True if the user has every right without records."""

    async def still_admitted(self) -> bool:
        """True if the caller would be let in now as well."""

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection of this user, for one request."""


class ConsoleAdmission(Protocol):
    """The entrance, as the console knows it."""

    async def admit(self, request: Request) -> ConsoleCaller:
        """Let in who a request says that it is. Raises NotAdmittedError, and MQError where nobody can be let in."""

    async def log_in(self, request: Request, user: str, password: str) -> tuple[ConsoleCaller, str]:
        """Begin a session: the caller, and the Set-Cookie header. Raises NotAdmittedError and MQError."""

    def log_out(self, request: Request) -> str:
        """End the session of a request: the Set-Cookie header that takes its cookie away."""

    async def has_users(self) -> bool:
        """True if a user is defined, so that somebody can be let in."""
