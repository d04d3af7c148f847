"""The security of a line: where it comes from, and what its TLS handshake has proved."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.engine.security.login import Certificate

_PEER: Final = Struct("3i")  # process, user and group
LOCAL = ""
"""The address of a line over a Unix socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSecurity:
    """The facts about a line before anybody has logged in on it.

    `address` is the client's, without port; of IPv4 also where IPv6 brings it. `protocol` and `cipher` are the names
    that OpenSSL has for them, such as "TLSv1.3", both empty without TLS. `uid` is the number of the user whose process
    is at the other end of a Unix socket.
    """

    address: str = LOCAL
    protocol: str = ""
    cipher: str = ""
    certificate: Certificate | None = None
    uid: int | None = None

    @property
    def local(self) -> bool:
        """True if it comes from this machine."""
        return self.address == LOCAL or ip_address(self.address).is_loopback


UNKNOWN_LINE = LineSecurity()


def address_of(peer: object) -> str:
    """Return the address in what `accept` tells of a client: an IPv4 address that is mapped into IPv6 as itself."""
    if not isinstance(peer, tuple):
        return LOCAL
    address = str(peer[0]).partition("%")[0]
    return str(IPv6Address(address).ipv4_mapped or address) if ":" in address else address


def peer_uid(line: socket.socket) -> int | None:
    """Return the number of the user whose process is at the other end of a Unix socket, None of other lines."""
    if line.family != socket.AF_UNIX:
        return None
    return int(_PEER.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1])
