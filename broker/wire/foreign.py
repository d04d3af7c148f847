"""Other protocols that come to this port by mistake: which they are, and what their clients can show."""

from __future__ import annotations

from typing import Final, NamedTuple

_HTTP_METHODS: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"TRAC", b"PATC", b"PRI ")
_HTTP_TEXT: Final = (
    b"This is the port of an EverMQ queue manager, not of a web server. Programs reach it with broker.connect,\n"
    b"people with the command evermq.\n"
)
_HTTP_HEAD: Final = (
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
    f"Content-Length: {len(_HTTP_TEXT)}\r\nConnection: close\r\n\r\n"
)
_TLS_ALERT: Final = b"\x15\x03\x01\x00\x02\x02\x46"  # fatal: protocol_version


class Foreign(NamedTuple):
    """A protocol by its name, the last bytes to say to a client of it, and what to tell people."""

    name: str
    answer: bytes
    advice: str = ""


def foreign(head: bytes) -> Foreign | None:
    """Return the protocol that begins so; `head` is the first four bytes of a line."""
    if head.startswith(_HTTP_METHODS):
        return Foreign("HTTP", _HTTP_HEAD.encode("ascii") + _HTTP_TEXT)
    if head.startswith(b"\x16\x03"):
        return Foreign("TLS", _TLS_ALERT, "; this port is without: mq:// leads to it, and mqs:// to the one of [tls]")
    if head.startswith((b"TSH", b"\xe3\xe2\xc8")):  # in ASCII, in EBCDIC
        return Foreign("IBM MQ", b"")
    return None
