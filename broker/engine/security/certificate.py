"""The certificate of a program, as the handshake of its line has proved it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Names: TypeAlias = tuple[tuple[str, str], ...]
"""A distinguished name: pairs of attribute and value, in the order of the certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate: that of the listener, or that of a program, which an issuer of `[tls] ca` has signed.

    `subject` and `issuer` have the attributes by the names that `ssl` gives them, `serial` is in hexadecimal digits,
    `ends` in seconds since 1970 UTC.
    """

    subject: Names
    issuer: Names
    serial: str
    ends: float
