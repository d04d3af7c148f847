"""The listener: the sockets on which programs reach the queue manager, and the sessions that they become.

Without TLS it listens on loopback and on Unix sockets only; with `[tls]` it serves other machines as well, on sockets
of their own. The acceptor (`broker.server.security`) says who becomes a session.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final, Self

import anyio

from broker.clock import cancel_timer
from broker.engine.health import LISTENER
from broker.engine.mistakes import mistake
from broker.mqi.reasons import MQRC
from broker.server.errors import StartError
from broker.server.flow import MemoryReserve
from broker.server.listening import printed, tcp_sockets, unix_socket
from broker.server.open_files import allow_open_files
from broker.server.security.acceptor import Listening
from broker.server.security.changes import follow_changes
from broker.server.security.channel_lines import ChannelLines
from broker.server.security.entry_policy import EntryPolicy
from broker.server.security.session_acceptor import SessionAcceptor
from broker.server.session import CLOSE_SECONDS, Session
from broker.wire.frames import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from socket import socket
    from types import TracebackType

    from broker.clock import Timer
    from broker.config import Config, LimitsConfig, ListenerConfig
    from broker.engine import QueueManager
    from broker.engine.jobs.slices import Work
    from broker.server.security.certificates import Certificates

logger = logging.getLogger(__name__)

IDLE_LOOK_SECONDS: Final = 0.05
"""Between two looks at which connections have become idle, while the queue manager quiesces."""


class Server:
    """A queue manager's listener: an async context manager that listens while it is entered.

    `addresses` are the addresses bound, "127.0.0.1:1414" or the path of a Unix socket; a configured port 0 shows there
    as the port taken; those with TLS are the last. `sockets` that listen already, by the names `tcp`, `unix` and `tls`,
    take the place of addresses. `heartbeat` is in seconds: an end that has nothing to say says so at least that often.
    Entering raises StartError when an address cannot be had, or those who come cannot be kept out.
    """

    def __init__(
        self,
        manager: QueueManager,
        listener: ListenerConfig,
        limits: LimitsConfig,
        admission: EntryPolicy | None = None,
        sockets: Mapping[str, Sequence[socket]] | None = None,
        *,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.manager = manager
        self.limits = limits
        self.heartbeat = heartbeat
        self.addresses: tuple[str, ...] = ()
        self._listener = listener
        self.channel_lines = ChannelLines(manager)
        self._sockets = sockets or {}
        self._admission = admission or EntryPolicy.by(manager)
        self._certificates: Certificates | None = None
        self._acceptor: SessionAcceptor
        self._accepting = anyio.CancelScope()
        self._hung_up: anyio.Event | None = None  # while it listens
        self._sessions: set[Session] = set()
        self.reserve = MemoryReserve(limits.server_bytes)
        self._empty = anyio.Event()
        self._idle_timer: Timer | None = None

    async def __aenter__(self) -> Self:
        self._admission.check()
        with ExitStack() as undo:
            listening = await self._listen(undo)
            self.addresses = tuple(printed(each.socket) for each in listening)
            self._acceptor = SessionAcceptor(
                self.manager.clock, self.limits, self._session, self._admission, self.manager.authentication.log,
                self._certificates,
            )  # fmt: skip
            self._hung_up = anyio.Event()
            undo.callback(follow_changes(self))
            self.manager.start_soon(self._accept, listening, undo.pop_all(), self._hung_up)
        self.manager.missing.pop(LISTENER, None)
        self.manager.context.figures.listeners.append(self)
        logger.info("listening addresses=%s", ",".join(self.addresses))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, tell every client that the queue manager stops, and hang up."""
        await self._hang_up()
        with suppress(ValueError):  # it may have stopped before
            self.manager.context.figures.listeners.remove(self)
        for session in list(self._sessions):
            session.close(MQRC.Q_MGR_STOPPING, f"{self.manager.name} is stopping")
        if self._sessions:
            self._empty = anyio.Event()
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await self._empty.wait()
        for session in list(self._sessions):
            session.abort()

    def end_idle(self) -> None:
        """From now on end each connection that has no unit of work, no delivery and no trigger start, and no call under
        way but gets that wait: at once, and others as soon as they have come to that. Their clients are told.
        """
        self.manager.slices.run(self._ending_idle(), self._idle_ended)

    def _ending_idle(self) -> Work:
        for session in list(self._sessions):
            if session in self._sessions:  # it may have ended since
                session.calls.end_idle(f"{self.manager.name} is stopping")
            yield

    def _idle_ended(self, error: Exception | None) -> None:
        if error is not None:
            mistake(error, "the end of idle connections")
        if self._hung_up is not None:
            self._idle_timer = self.manager.clock.call_later(IDLE_LOOK_SECONDS, self.end_idle)

    @property
    def sessions(self) -> int:
        """The number of open lines."""
        return len(self._sessions)

    @property
    def in_flight_bytes(self) -> int:
        """The bytes of frames and answers on their way, of all lines."""
        return self.reserve.held

    @property
    def newcomers(self) -> int:
        """The number of lines that have to log in and hold a place meanwhile."""
        return self._acceptor.places.taken

    @property
    def lines(self) -> list[Session]:
        """The open lines."""
        return list(self._sessions)

    def admit(self, session: Session) -> bool:
        """Count a session in. False if there is no room for it."""
        self._sessions.add(session)
        roomy = len(self._sessions) <= self.limits.connections
        if not roomy:
            self.manager.context.security_log.count_refused("connections")
        return roomy

    def forget(self, session: Session) -> None:
        """A session has ended."""
        self._sessions.discard(session)
        self.channel_lines.end(session)
        if session.newcomer is not None:
            session.newcomer.gone()
        if not self._sessions:
            self._empty.set()

    def _session(self) -> Session:
        return Session(self)

    async def _listen(self, undo: ExitStack) -> list[Listening]:
        """Bind the sockets, which `undo` closes. Those with TLS come last."""
        listener, tls = self._listener, self._admission.tls
        given = {name: list(map(undo.enter_context, self._sockets.get(name, ()))) for name in ("tcp", "unix", "tls")}
        bound = given["tcp"] or await tcp_sockets(listener.host, listener.port, undo, loopback=True)
        bound += given["unix"]
        if listener.unix is not None and not given["unix"]:
            bound.append(unix_socket(listener, listener.unix, undo))
        if given["tls"] and not tls.host:
            raise StartError("a socket is handed over as tls, and there is no [tls] host")
        listening = [Listening(each) for each in bound]
        if tls.host:
            from broker.server.security.certificates import Certificates  # without [tls] nothing is paid for it

            self._certificates = Certificates(tls, self.manager.clock)
            await self._certificates.start()
            secured = given["tls"] or await tcp_sockets(tls.host, tls.port, undo, loopback=False)
            listening += [Listening(each, tls=True) for each in secured]
        return listening

    async def _accept(self, listening: list[Listening], undo: ExitStack, hung_up: anyio.Event) -> None:
        try:
            with undo, self._accepting:
                await self._acceptor.run(listening)
        finally:
            hung_up.set()

    async def _hang_up(self) -> None:
        cancel_timer(self._idle_timer)
        hung_up, self._hung_up = self._hung_up, None
        if hung_up is not None:
            self._accepting.cancel()
            with anyio.CancelScope(shield=True):
                await hung_up.wait()
            self.manager.missing[LISTENER] = "the listener is closed"

    async def prepare(self, config: Config) -> Callable[[], None]:
        """Load the certificates of another configuration; what is returned takes them and the limits over, for those
        who connect from then on. Raises ReloadError where they cannot be used.
        """
        certificates = self._certificates
        take_certificates = None if certificates is None else await certificates.prepare(config.tls)

        def take() -> None:
            self.limit(config.limits)
            if take_certificates is not None:
                take_certificates()

        return take

    def limit(self, limits: LimitsConfig) -> None:
        """Let programs make it hold so much. What lines have been told when they began holds for them."""
        if limits.connections > self.limits.connections:
            allow_open_files(limits.connections)
        self.limits = limits
        self.reserve.limit = limits.server_bytes
        self.reserve.wake()
        self._acceptor.limit(limits)

    async def reload_certificates(self) -> bool:
        """Serve those who come from now on with the files of `[tls]` as they are now. False, with a line in the log, if
        they cannot be used, or there is no `[tls]`.
        """
        return self._certificates is not None and await self._certificates.reload()

    def end_tls_lines(self) -> None:
        """End all lines with TLS; their clients dial again, and show their certificates again."""
        for session in list(self._sessions):
            if session.line.protocol:
                session.close(MQRC.CONNECTION_BROKEN, "the security of TLS was refreshed: connect again")
