"""The security of a line: where it comes from, and what its TLS handshake has proved."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TypeAlias

Names: TypeAlias = tuple[tuple[str, str], ...]
"""A distinguished name: pairs of attribute and value, in the order of the certificate."""

LOCAL = ""
"""The address of a line over a Unix socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate: that of the listener, or that of a program, which an issuer of `[tls] ca` has signed.

    `serial` is in hexadecimal digits, `ends` in seconds since 1970 UTC.
    """

    subject: Names
    issuer: Names
    serial: str
    ends: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSecurity:
    """What is known of a line before anybody has logged in on it.

    `address` is the client's, without port; of IPv4 also where IPv6 brings it. `protocol` and `cipher` are the names
    that OpenSSL has for them, such as "TLSv1.3", both empty without TLS.
    """

    address: str = LOCAL
    protocol: str = ""
    cipher: str = ""
    certificate: Certificate | None = None

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
