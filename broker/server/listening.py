"""The sockets on which the daemon listens, bound and not yet served."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from broker.config import tls_lines
from broker.server.errors import StartError

if TYPE_CHECKING:
    from pathlib import Path

    from broker.config import ListenerConfig

_BACKLOG: Final = 1024


async def tcp_sockets(host: str, port: int, undo: ExitStack, *, loopback: bool) -> list[socket.socket]:
    """Listen on the addresses of a host; `loopback`: on no other than loopback addresses. `undo` closes the sockets.
    Raises StartError.
    """
    where = _joined(host, port)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)
        addresses = {info[4][0]: info for info in found}
        if loopback and not all(ip_address(str(each).partition("%")[0]).is_loopback for each in addresses):
            raise StartError(
                f"cannot listen on {where}: without TLS the daemon listens on loopback addresses only, such as "
                "127.0.0.1. Other machines are served by a listener with TLS",
                tls_lines(host or "0.0.0.0"),
            )
        return [undo.enter_context(_tcp_socket(info[0], info[4])) for info in addresses.values()]
    except OSError as error:
        raise StartError(f"cannot listen on {where}: {_plain(error)}") from error


def _tcp_socket(family: int, address: tuple[Any, ...]) -> socket.socket:
    # With its protocol, which accepted sockets have too: asyncio sets TCP_NODELAY on no others.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.settimeout(0)
        bound.bind(address)
        bound.listen(_BACKLOG)
    except BaseException:
        bound.close()
        raise
    return bound


def unix_socket(config: ListenerConfig, path: Path, undo: ExitStack) -> socket.socket:
    """Listen on a path; `undo` closes the socket and removes its file. Raises StartError."""
    try:
        _remove_stale(path)
        bound = undo.enter_context(_bound(path))
        undo.callback(_remove_own, path, os.stat(path).st_ino)
        _let_in(path, int(config.unix_mode, 8), config.unix_group)
        bound.settimeout(0)
        bound.listen(_BACKLOG)
    except OSError as error:
        raise StartError(f"cannot listen on {path}: {_plain(error)}") from error
    return bound


def _remove_own(path: Path, inode: int) -> None:
    """Remove the file of a socket, unless it is a successor's."""
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


def printed(each: socket.socket) -> str:
    """Return the address of a socket, as clients write it."""
    name = each.getsockname()
    if isinstance(name, str):
        return name
    return _joined(*name[:2])


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
