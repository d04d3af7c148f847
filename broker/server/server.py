"""The listener: the sockets on which programs reach the queue manager, and the sessions that they become.

It listens on loopback and on Unix sockets only, until the protocol has encryption and users.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import stat
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Self

import anyio

from broker.clock import cancel_timer
from broker.engine.mistakes import mistake
from broker.mqi.reasons import MQRC
from broker.server.errors import StartError
from broker.server.flow import MemoryReserve
from broker.server.session import CLOSE_SECONDS, Session
from broker.wire.frames import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from broker.clock import Timer
    from broker.config import LimitsConfig, ListenerConfig
    from broker.engine import QueueManager
    from broker.engine.jobs.slices import Work

logger = logging.getLogger(__name__)

_BACKLOG: Final = 1024

IDLE_LOOK_SECONDS: Final = 0.05
"""Between two looks at which connections have become idle, while the queue manager quiesces."""


class Server:
    """A queue manager's listener: an async context manager that listens while it is entered.

    `addresses` are the addresses bound, "127.0.0.1:1414" or the path of a Unix socket; a configured port 0 shows there
    as the port taken. `heartbeat` is in seconds: an end that has nothing to say says so at least that often. Entering
    raises StartError when an address cannot be had.
    """

    def __init__(
        self,
        manager: QueueManager,
        listener: ListenerConfig,
        limits: LimitsConfig,
        *,
        heartbeat: float = HEARTBEAT_SECONDS,
    ) -> None:
        self.manager = manager
        self.limits = limits
        self.heartbeat = heartbeat
        self.addresses: tuple[str, ...] = ()
        self._listener = listener
        self._servers: list[asyncio.Server] = []
        self._sessions: set[Session] = set()
        self.reserve = MemoryReserve(limits.server_bytes)
        self._empty = anyio.Event()
        self._idle_timer: Timer | None = None
        self._unix: tuple[Path, int] | None = None  # the socket's file and its inode, which tells it from a successor's

    async def __aenter__(self) -> Self:
        try:
            await self._listen_tcp(self._listener.host, self._listener.port)
            if self._listener.unix is not None:
                await self._listen_unix(self._listener, self._listener.unix)
            for server in self._servers:
                await server.start_serving()
        except BaseException:
            self._hang_up()
            raise
        self.addresses = tuple(_printed(each) for server in self._servers for each in server.sockets)
        logger.info("listening addresses=%s", ",".join(self.addresses))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, tell every client that the queue manager stops, and hang up."""
        self._hang_up()
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
            session.calls.end_idle(f"{self.manager.name} is stopping")
            yield

    def _idle_ended(self, error: Exception | None) -> None:
        if error is not None:
            mistake(error, "the end of idle connections")
        if self._servers:  # else it has hung up
            self._idle_timer = self.manager.clock.call_later(IDLE_LOOK_SECONDS, self.end_idle)

    @property
    def sessions(self) -> int:
        """The number of open lines."""
        return len(self._sessions)

    def admit(self, session: Session) -> bool:
        """Count a session in. False if there is no room for it."""
        self._sessions.add(session)
        return len(self._sessions) <= self.limits.connections

    def forget(self, session: Session) -> None:
        """A session has ended."""
        self._sessions.discard(session)
        if not self._sessions:
            self._empty.set()

    def _session(self) -> Session:
        return Session(self)

    async def _listen_tcp(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            found = await loop.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)
            hosts = list(dict.fromkeys(str(info[4][0]) for info in found))
            if not all(ip_address(each.partition("%")[0]).is_loopback for each in hosts):
                raise StartError(
                    f"cannot listen on {where}: without TLS and users this version listens on loopback addresses only, "
                    "such as 127.0.0.1"
                )
            server = await loop.create_server(self._session, hosts, port, backlog=_BACKLOG, start_serving=False)
        except OSError as error:
            raise StartError(f"cannot listen on {where}: {_plain(error)}") from error
        self._servers.append(server)

    async def _listen_unix(self, listener: ListenerConfig, path: Path) -> None:
        try:
            _remove_stale(path)
            with ExitStack() as undo:
                bound = undo.enter_context(_bound(path))
                self._unix = path, os.stat(path).st_ino
                _let_in(path, int(listener.unix_mode, 8), listener.unix_group)
                server = await asyncio.get_running_loop().create_unix_server(
                    self._session, sock=bound, backlog=_BACKLOG, start_serving=False
                )
                self._servers.append(server)
                undo.pop_all()
        except OSError as error:
            raise StartError(f"cannot listen on {path}: {_plain(error)}") from error

    def _hang_up(self) -> None:
        cancel_timer(self._idle_timer)
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self._unix is not None:
            path, inode = self._unix
            self._unix = None
            with suppress(FileNotFoundError):
                if os.stat(path).st_ino == inode:
                    os.unlink(path)


def _remove_stale(path: Path) -> None:
    """Remove the socket that a daemon left behind; raises StartError for one that somebody answers on."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise StartError(f"cannot listen on {path}: the file there is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass  # its backlog is full, so there is somebody
    raise StartError(f"cannot listen on {path}: another process does")


def _bound(path: Path) -> socket.socket:
    """A socket bound to a path, on which nobody can connect yet."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777)  # other threads give the files that they make meanwhile their modes themselves
    try:
        bound.bind(os.fspath(path))
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(before)
    return bound


def _let_in(path: Path, mode: int, group: str) -> None:
    """Give a socket its group, then its mode."""
    if group:
        try:
            shutil.chown(path, group=int(group) if group.isdecimal() else group)
        except LookupError:
            raise StartError(f"cannot listen on {path}: there is no group {group!r} here (unix_group)") from None
        except OSError as error:
            raise StartError(f"cannot give {path} to group {group!r} (unix_group): {_plain(error)}") from error
    os.chmod(path, mode)


def _plain(error: OSError) -> str:
    """Return the text of the operating system, without what asyncio makes of it."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def _printed(each: socket.socket) -> str:
    name = each.getsockname()
    if isinstance(name, str):
        return name
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
