"""The HTTP server: the sockets of `[http]`, and the lines of HTTP that they become.

Sockets are accepted by the acceptor, as those of programs with the MQI are: with a fresh context of TLS each, within
places and rates. What is said on them is the matter of `broker.http`.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import anyio

from broker.config import http_lines, tls_lines
from broker.config.kinds import host_and_port
from broker.http.application import Application
from broker.http.entrance import Entrance
from broker.http.entrance.hosts import RequestOrigins
from broker.http.lines import HttpLines
from broker.http.metrics import Metrics, Scrapes
from broker.http.probes import Probes
from broker.server.errors import StartError
from broker.server.flow import BodyRoom, MemoryReserve
from broker.server.listening import printed, tcp_sockets
from broker.server.security.acceptor import Listening
from broker.server.security.http_acceptor import HttpAcceptor

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from socket import socket
    from types import TracebackType

    from broker.clock import Clock
    from broker.config import Config, HttpConfig
    from broker.http.served_manager import ServedManager
    from broker.server.http_parts import HttpParts
    from broker.server.security.acceptor import LineLog
    from broker.server.security.certificates import Certificates
    from broker.server.security.entry_policy import EntryPolicy
    from broker.server.security.lines import LineSecurity

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 2.0
"""How long a line that has asked something is waited for at the end."""


def check_http(config: Config) -> None:
    """Raise StartError where the settings of `[http]` cannot be followed; the note has the lines to write."""
    http = config.http
    if http.serves_others and not http.tls:
        raise StartError(
            f"cannot serve HTTP on {http.listen}: without TLS the daemon answers this machine only, but for [http] "
            "probes. Write, with the paths of your certificate:",
            http_lines(http.listen),
        )
    if http.tls and config.tls.certificate is None:
        raise StartError(
            "[http] tls is true, and there is no certificate. Write, with the paths of yours:",
            tls_lines(config.tls.host),
        )


class HttpAddress(NamedTuple):
    """One address that is listened on: the sockets, who accepts there, the lines that there are; if it is `probes`."""

    listening: list[Listening]
    acceptor: HttpAcceptor
    lines: HttpLines
    probes: bool


class HttpServer:
    """The HTTP server of a queue manager, an async context manager that listens while it is entered.

    `addresses` are those bound, as URLs; a configured port 0 shows there as the port taken. `admission` says who may
    come to `listen`, `log` is told of lines that come to nothing, `start_soon` runs its task. `sockets` that listen
    already, by the names `http` and `probes`, take the place of addresses. Entering raises StartError.
    """

    def __init__(
        self,
        served: ServedManager,
        config: Config,
        clock: Clock,
        admission: EntryPolicy,
        log: LineLog,
        start_soon: Callable[..., object],
        sockets: Mapping[str, Sequence[socket]] | None = None,
    ) -> None:
        self.addresses: tuple[str, ...] = ()
        self._probes = Probes(served)
        self.entrance = Entrance(served, clock, config.http.connections_per_user)
        self._scrapes = Scrapes(served, clock, config.http.queues_max)
        self.parts: HttpParts | None = None  # at `listen`
        self._served = served
        self._config = config
        self._clock = clock
        self._admission = admission
        self._log = log
        self._start_soon = start_soon
        self._sockets = sockets or {}
        self._certificates: Certificates | None = None
        self._addresses: list[HttpAddress] = []
        self._accepting = anyio.CancelScope()
        self._hung_up: anyio.Event | None = None  # while it listens
        self._reserve = MemoryReserve(config.limits.server_bytes)

    async def __aenter__(self) -> Self:
        check_http(self._config)
        with ExitStack() as undo:
            await self._listen(undo)
            self._hung_up = anyio.Event()
            self._start_soon(self._accept, undo.pop_all(), self._hung_up)
            self._start_soon(self.entrance.run)
        logger.info("HTTP listening addresses=%s", ",".join(self.addresses))
        self._warn_of_names()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, and end the lines when they have their answers."""
        hung_up, self._hung_up = self._hung_up, None
        if hung_up is not None:
            self._accepting.cancel()
            if self.parts is not None:
                self.parts.console.end()
            with anyio.CancelScope(shield=True):
                await hung_up.wait()
                for address in self._addresses:
                    await address.lines.end(CLOSE_SECONDS)
                if self.parts is not None:
                    await self.parts.messaging.end()
                await self.entrance.close()

    def share(self, reserve: MemoryReserve) -> None:
        """Count long bodies with what the lines of the MQI hold: `[limits] server_bytes` is for both."""
        self._reserve = reserve

    def _room(self) -> BodyRoom:
        return BodyRoom(self._reserve)

    def check_users(self) -> None:
        """Raise StartError where other machines are served, and nobody could prove who they are."""
        if self._config.http.serves_others:
            self._admission.check_users("[http] listen")

    def started(self) -> None:
        """The start of the daemon is over: it may have been ready now, though nobody asks."""
        self._probes.started()

    async def reload_certificates(self) -> bool:
        """Serve those who come from now on with the files of `[tls]` as they are now. False, with a line in the log, if
        they cannot be used, or there is no TLS.
        """
        return self._certificates is not None and await self._certificates.reload()

    async def prepare(self, config: Config) -> Callable[[], None]:
        """Load the certificates of another configuration; what is returned takes them, the limits and the settings of
        `[http]` over. Raises ReloadError where they cannot be used.
        """
        certificates = self._certificates
        take_certificates = None if certificates is None else await certificates.prepare(config.tls)

        def take() -> None:
            self.change(config.http)
            for address in self._addresses:
                address.acceptor.limit(config.limits)
            self._reserve.limit = config.limits.server_bytes
            if take_certificates is not None:
                take_certificates()

        return take

    def change(self, http: HttpConfig) -> None:
        """Answer by other settings of `[http]` from now on, but for those that say where it listens, and with TLS."""
        self._scrapes.queues_max = http.queues_max
        self.entrance.most = http.connections_per_user
        if self.parts is not None:
            self.parts.change(http)
        for address in self._addresses:
            address.lines.most = http.connections
            address.lines.application = self._application(http, probes=address.probes)

    @property
    def lines(self) -> int:
        """The number of open lines."""
        return sum(len(address.lines) for address in self._addresses)

    async def _listen(self, undo: ExitStack) -> None:
        """Bind the sockets, which `undo` closes."""
        http = self._config.http
        if http.listen:
            if http.tls:
                from broker.server.security.certificates import Certificates  # without TLS nothing is paid for it

                self._certificates = Certificates(self._config.tls, self._clock)
                await self._certificates.start()
            from broker.server.http_parts import HttpParts  # the probes have none

            self.parts = HttpParts(self._served, self.entrance, self._clock, self._start_soon, self._room)
            self.parts.change(http)
            await self._listen_on(http.listen, undo, probes=False)
        if http.probes:
            await self._listen_on(http.probes, undo, probes=True)

    async def _listen_on(self, address: str, undo: ExitStack, *, probes: bool) -> None:
        """Listen on an address; without TLS on loopback alone, unless it is that of the probes."""
        http, limits = self._config.http, self._config.limits
        tls = http.tls and not probes
        bound = [undo.enter_context(each) for each in self._sockets.get("probes" if probes else "http", ())]
        bound = bound or await tcp_sockets(*host_and_port(address), undo, loopback=not (tls or probes))
        lines = HttpLines(self._application(http, probes=probes), self._clock, http.connections, limits.send_timeout)
        acceptor = HttpAcceptor(
            self._clock, limits, partial(_line, lines), self._admission, self._log,
            self._certificates if tls else None,
        )  # fmt: skip
        self._addresses.append(HttpAddress([Listening(each, tls=tls) for each in bound], acceptor, lines, probes))
        scheme = "https" if tls else "http"
        self.addresses += tuple(f"{scheme}://{printed(each)}" for each in bound)

    def _application(self, http: HttpConfig, *, probes: bool) -> Application:
        """Return what is answered at an address by these settings."""
        shown = http.probes_metrics or not probes
        need_users = http.metrics_need_users and not probes
        metrics = Metrics(self._scrapes, self.entrance, need_users=need_users) if shown else None
        if probes:
            return Application(self._served, self._probes, metrics)
        assert self.parts is not None
        origins = RequestOrigins(http.names, frozenset(http.forwarded_from), http.pages)
        return Application(self._served, self._probes, metrics, self.parts.mounted, origins)

    async def _accept(self, undo: ExitStack, hung_up: anyio.Event) -> None:
        try:
            with undo, self._accepting:
                async with anyio.create_task_group() as tasks:
                    for address in self._addresses:
                        tasks.start_soon(address.acceptor.run, address.listening)
        finally:
            hung_up.set()

    def _warn_of_names(self) -> None:
        http = self._config.http
        if http.probes_serve_others and http.probes_metrics:
            logger.warning(
                "names told address=%s: whoever reaches it learns the names of queues, by /metrics; write "
                "probes_metrics = false below [http] to tell none",
                http.probes,
            )


def _line(lines: HttpLines, security: LineSecurity, gone: Callable[[], None]) -> asyncio.Protocol:
    return lines.line({"address": security.address, "certificate": security.certificate}, gone)
