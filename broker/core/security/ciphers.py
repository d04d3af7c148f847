"""SSLCIPH: what a channel asks of the transport of its lines (security 3.4)."""

from __future__ import annotations

from typing import Final

_ANY: Final = {
    "ANY": ("TLSv1.2", "TLSv1.3"),
    "ANY_TLS12": ("TLSv1.2",),
    "ANY_TLS12_OR_HIGHER": ("TLSv1.2", "TLSv1.3"),
    "ANY_TLS13": ("TLSv1.3",),
    "ANY_TLS13_OR_HIGHER": ("TLSv1.3",),
}
"""The words for more than one suite, with the protocols that each takes."""

_DROPPED: Final = ("TLS_", "WITH_", "-", "_")
"""Parts of a suite's name in which IBM MQ, IANA and OpenSSL differ."""


def agrees(wanted: str, protocol: str, suite: str) -> bool:
    """True if what was agreed on a line is what SSLCIPH asks for. Blank takes any line, also a plain one."""
    if not wanted.strip():
        return True
    protocols = _ANY.get(wanted.upper())
    return protocol in protocols if protocols is not None else bool(suite) and _plain(wanted) == _plain(suite)


def _plain(suite: str) -> str:
    name = suite.upper()
    for each in _DROPPED:
        name = name.replace(each, "")
    return name
