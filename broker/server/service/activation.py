"""Socket activation: listening sockets that the service manager has opened, and hands over (sd_listen_fds).

A socket takes the place of the addresses that the configuration names for its listener: `tcp` and `unix` of
[listener], `tls` of [tls], `http` and `probes` of [http]. What holds for an address holds for it: `tcp` has to be a
loopback address.
"""

from __future__ import annotations

import os
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from broker.server.errors import StartError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

NAMES: Final = ("tcp", "unix", "tls", "http", "probes")
"""The names that a socket may have (`FileDescriptorName=`)."""

FIRST: Final = 3
"""The descriptor of the first socket."""

_PID: Final = "LISTEN_PID"
_COUNT: Final = "LISTEN_FDS"
_NAMES: Final = "LISTEN_FDNAMES"

Sockets = dict[str, list[socket.socket]]


def activated_sockets(environ: MutableMapping[str, str] = os.environ, *, first: int = FIRST) -> Sockets:
    """Return the sockets that were handed over, by their names, and forget the variables that say so: programs that
    the daemon starts are given none. Raises StartError for one that cannot be used.
    """
    pid, count, names = (environ.pop(each, "") for each in (_PID, _COUNT, _NAMES))
    if pid != str(os.getpid()) or not count.isdecimal():
        return {}
    given = names.split(":") if names else []
    sockets: Sockets = {}
    for place in range(int(count)):
        name = given[place] if place < len(given) else ""
        sockets.setdefault(name, []).append(_socket(name, first + place))
    return sockets


def _socket(name: str, descriptor: int) -> socket.socket:
    """The socket of a descriptor, ready to accept."""
    if name not in NAMES:
        raise StartError(f"a socket is handed over as {name!r} (FileDescriptorName=): one of {', '.join(NAMES)}")
    try:
        os.set_inheritable(descriptor, False)
        found = socket.socket(fileno=descriptor)
    except OSError as error:
        raise StartError(f"the socket that is handed over as {name} cannot be used: {error.strerror}") from error
    try:
        _check(name, found)
    except StartError:
        found.close()
        raise
    found.settimeout(0)
    return found


def _check(name: str, found: socket.socket) -> None:
    families = (socket.AF_UNIX,) if name == "unix" else (socket.AF_INET, socket.AF_INET6)
    listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if found.type != socket.SOCK_STREAM or not listens or found.family not in families:
        wanted = "Unix" if name == "unix" else "TCP"
        raise StartError(f"the socket that is handed over as {name} does not listen for {wanted} (ListenStream=)")
    if name == "tcp" and not ip_address(str(found.getsockname()[0]).partition("%")[0]).is_loopback:
        raise StartError(
            f"the socket that is handed over as tcp listens on {found.getsockname()[0]}: without TLS the daemon "
            "listens on loopback addresses only. Hand it over as tls"
        )
