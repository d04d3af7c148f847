"""The queue manager that the HTTP server serves, in this process or at the other end of a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from broker import MQError, connect
from broker.mqi import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from broker import Clock, Connection, QueueManager
    from broker.http.entrance import CallerCredentials

APPLICATION: Final = "evermq http"
"""The name by which its connections are known."""

LOOK_SECONDS: Final = 1.0
"""Between two looks at a connection to another process."""


class Admitted(NamedTuple):
    """One who was let in. `connecting` makes a connection whose calls are judged as its own; raises NOT_AUTHORIZED
    (2035) where it may come in no more. `holds` is false when the user has changed since; None where only a connection
    can tell.
    """

    connecting: Callable[[], Awaitable[Connection]]
    holds: Callable[[], bool] | None = None


class ServedManager(Protocol):
    """A queue manager as the HTTP server knows it."""

    @property
    def q_mgr_name(self) -> str:
        """The name of the queue manager; empty until it is known."""

    def failing_checks(self, *, ready: bool) -> dict[str, str]:
        """Return the checks that fail, by their names, each with its reason (`QueueManager.failing_checks`)."""

    async def admitted(self, credentials: CallerCredentials) -> Admitted:
        """Let a caller in. Raises NOT_AUTHORIZED (2035); where its first connection tells, that does."""

    def as_server(self) -> AbstractAsyncContextManager[Connection]:
        """A connection that may do everything that the server may."""


class ManagerInProcess:
    """A queue manager in this process."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager

    @property
    def q_mgr_name(self) -> str:
        """The name of the queue manager."""
        return self._manager.name

    def failing_checks(self, *, ready: bool) -> dict[str, str]:
        """Return the checks of the queue manager that fail."""
        return self._manager.failing_checks(ready=ready)

    async def admitted(self, credentials: CallerCredentials) -> Admitted:
        """Let a caller in as the listener lets programs in, but for its trust in this machine: a page in a browser is
        on it, too.
        """
        login = await self._manager.login(
            address=credentials.address,
            user=credentials.user,
            password=credentials.password,
            token=credentials.token,
            certificate=credentials.certificate,
            must_prove=True,
        )

        async def connecting() -> Connection:
            return await self._manager.connect(APPLICATION, as_user=login)

        return Admitted(connecting, lambda: self._manager.holds(login))

    def as_server(self) -> AbstractAsyncContextManager[Connection]:
        """A connection of the owner of the queue manager."""
        return self._manager.connect(APPLICATION)


class ManagerAtUrl:
    """A queue manager at the other end of `url`, and a connection to it, kept while `run` runs. Callers come by
    `callers_url`, with their own passwords and tokens; their certificates cannot be passed on.
    """

    def __init__(self, url: str, callers_url: str, clock: Clock) -> None:
        self._url = url
        self._callers_url = callers_url
        self._clock = clock
        self._why = "not connected yet"
        self.q_mgr_name = ""

    async def run(self) -> None:
        """Keep a connection, and make it again whenever it has ended, until cancelled."""
        while True:
            try:
                async with connect(self._url, appl_name=APPLICATION) as connection:
                    self.q_mgr_name = connection.q_mgr_name
                    while True:
                        await connection.commit()  # of nothing: it is answered, or the connection has ended
                        self._why = ""
                        await self._clock.sleep(LOOK_SECONDS)
            except MQError as error:
                self._why = str(error)
            await self._clock.sleep(LOOK_SECONDS)

    def failing_checks(self, *, ready: bool) -> dict[str, str]:
        """Return `connection` if there is none: this process is alive, and not ready."""
        return {"connection": self._why} if ready and self._why else {}

    async def admitted(self, credentials: CallerCredentials) -> Admitted:
        """Let a caller in whom the queue manager lets in; its first connection tells. One who brings nothing is let in
        by nobody: what the environment of this process has would prove another.
        """
        password, token = (_text(each) for each in (credentials.password, credentials.token))
        if password is None and token is None:
            raise MQError(MQRC.NOT_AUTHORIZED, "not authorized")

        async def connecting() -> Connection:
            return await connect(
                self._callers_url, appl_name=APPLICATION, user=credentials.user, password=password, token=token
            )

        return Admitted(connecting)

    def as_server(self) -> AbstractAsyncContextManager[Connection]:
        """A connection of the server's, beside the one that is kept."""
        return connect(self._url, appl_name=APPLICATION)


def _text(secret: bytes | None) -> str | None:
    return None if secret is None else secret.decode("utf-8", "surrogateescape")
