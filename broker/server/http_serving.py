"""What a daemon serves by HTTP: a server where `[http]` names an address, and nothing where it does not, unloaded."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from broker.commands.requests import RefreshSecurityRequest
from broker.server.errors import StartError
from broker.server.security.entry_policy import EntryPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from socket import socket

    from broker.clock import Clock
    from broker.commands.requests import SecurityRequest
    from broker.config import Config
    from broker.engine import QueueManager
    from broker.server.flow import MemoryReserve

logger = logging.getLogger(__name__)

NEEDS_EXTRA: Final = "[http] needs starlette, uvicorn and others: pip install 'evermq[http]'"


class HttpServing(Protocol):
    """What the daemon tells its HTTP server. `addresses` are those on which it listens."""

    addresses: tuple[str, ...]

    def check_users(self) -> None:
        """Raise StartError where other machines are served, and nobody could prove who they are."""

    def started(self) -> None:
        """The start of the daemon is over."""

    def share(self, reserve: MemoryReserve) -> None:
        """Count long bodies with what the lines of the MQI hold."""

    async def prepare(self, config: Config) -> Callable[[], None]:
        """Load the certificates of another configuration; what is returned takes them and the limits over. Raises
        ReloadError where they cannot be used.
        """


class NoHttpServer:
    """Stands where no address is served."""

    addresses: tuple[str, ...] = ()

    def check_users(self) -> None:
        """Nobody comes."""

    def started(self) -> None:
        """Nobody asks."""

    def share(self, reserve: MemoryReserve) -> None:
        """There are no bodies."""

    async def prepare(self, config: Config) -> Callable[[], None]:
        """There is nothing to take over."""
        return lambda: None


def http_serving(
    config: Config, sockets: Mapping[str, Sequence[socket]] | None = None
) -> Callable[[QueueManager], AbstractAsyncContextManager[HttpServing]]:
    """Return what makes the HTTP server of a queue manager that is open. `sockets` that listen already, by the names
    `http` and `probes`, take the place of addresses. Raises StartError, before anything is opened, for settings that
    cannot be followed, and where the extra is missing.
    """
    sockets = sockets or {}
    for name, address in (("http", "listen"), ("probes", "probes")):
        if name in sockets and not getattr(config.http, address):
            raise StartError(f"a socket is handed over as {name}, and there is no [http] {address}")
    if not (config.http.listen or config.http.probes):
        return lambda manager: nullcontext(NoHttpServer())
    _check(config)
    return partial(_server, config, sockets)


def _check(config: Config) -> None:
    try:
        from broker.server.http_server import check_http
    except ImportError as error:
        raise StartError(NEEDS_EXTRA) from error
    check_http(config)


@asynccontextmanager
async def _server(
    config: Config, sockets: Mapping[str, Sequence[socket]], manager: QueueManager
) -> AsyncIterator[HttpServing]:
    from broker.http.served_manager import ManagerInProcess
    from broker.server.http_server import HttpServer

    server = HttpServer(
        ManagerInProcess(manager), config, manager.clock, EntryPolicy.by(manager), manager.authentication.log,
        manager.start_soon, sockets,
    )  # fmt: skip

    async def reload() -> None:
        await server.reload_certificates()

    def follow(request: SecurityRequest) -> None:
        if request == RefreshSecurityRequest("SSL"):
            manager.start_soon(reload)

    async with server:
        manager.commands.security.followers.append(follow)
        try:
            yield server
        finally:
            manager.commands.security.followers.remove(follow)


@asynccontextmanager
async def serve_remote(config: Config, clock: Clock, url: str, callers_url: str) -> AsyncIterator[tuple[str, ...]]:
    """Serve the queue manager at a URL; the addresses. Callers come to it by a URL of theirs. Raises StartError."""
    _check(config)
    from broker.http.served_manager import ManagerAtUrl
    from broker.server.http_server import HttpServer

    served = ManagerAtUrl(url, callers_url, clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.run)
        async with HttpServer(served, config, clock, EntryPolicy(), LoggedLines(), tasks.start_soon) as server:
            server.started()
            yield server.addresses
        tasks.cancel_scope.cancel()


class LoggedLines:
    """Logs lines that come to nothing. The log of the process counts a flood of them."""

    def line_refused(self, address: str, why: str) -> None:
        """A line was ended before anybody had come in on it."""
        logger.info("connection_refused peer=%s: %s", address, why)

    def handshake_failed(self, address: str, why: str) -> None:
        """A handshake with TLS came to nothing."""
        self.line_refused(address, f"no TLS handshake: {why}")
