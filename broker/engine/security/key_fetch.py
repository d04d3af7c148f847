"""The keys of an issuer are fetched: from a file, or with one GET over HTTPS, whose server must prove who it is.

A fetch takes 5 seconds and 256 KiB at most, follows no redirection, and keeps nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

BYTES_MAX: Final = 256 * 1024
SECONDS_MAX: Final = 5.0

_HEAD_BYTES_MAX: Final = 32 * 1024


class KeysOutOfReachError(Exception):
    """There are no keys to be had now; the text says where, and why."""


def check_place(place: str) -> str | None:
    """None for the address of keys: a file, or a URL of https without a password; for anything else an error text."""
    if "://" not in place:
        return None if place and place.isprintable() else "it is no path of a file"
    try:
        url = urlsplit(place)
        port = url.port
    except ValueError:
        return "it is no URL"
    if url.scheme != "https" or not url.hostname or port == 0:
        return "it is no URL of the form https://host/path"
    if "@" in url.netloc:
        return "its URL names a user or a password: keys are public"
    plain = place.isascii() and place.isprintable() and " " not in place
    return None if plain else "its URL has characters that stand in a URL as %20 or so"


async def fetch(place: str, ca: str = "") -> bytes:
    """The bytes at a place that `check_place` passes. `ca` is a file of the certificates to trust in place of the
    system's. Raises KeysOutOfReachError.
    """
    try:
        async with asyncio.timeout(SECONDS_MAX):
            return await (_fetched(place, ca) if "://" in place else asyncio.to_thread(_read, place))
    except TimeoutError:
        raise KeysOutOfReachError(f"{shown(place)} has not answered within {SECONDS_MAX:g} seconds") from None
    except ssl.SSLCertVerificationError as error:
        raise KeysOutOfReachError(f"{shown(place)} has not proved who it is: {error.verify_message}") from error
    except asyncio.IncompleteReadError:
        raise KeysOutOfReachError(f"{shown(place)} has broken off its answer") from None
    except (OSError, ValueError, asyncio.LimitOverrunError) as error:
        raise KeysOutOfReachError(f"{shown(place)} has not given the keys: {error}") from error


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        data = file.read(BYTES_MAX + 1)
    _check_length(len(data))
    return data


async def _fetched(place: str, ca: str) -> bytes:
    url = urlsplit(place)
    context = await asyncio.to_thread(ssl.create_default_context, cafile=ca or None)
    reader, writer = await asyncio.open_connection(url.hostname, url.port or 443, ssl=context, limit=_HEAD_BYTES_MAX)
    try:
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        writer.write(
            f"GET {target} HTTP/1.1\r\nHost: {url.netloc}\r\nUser-Agent: evermq\r\nAccept: application/json\r\n"
            "Accept-Encoding: identity\r\nConnection: close\r\n\r\n".encode()
        )
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        if status.split(" ")[1:2] != ["200"]:
            raise ValueError(f"it answers {status[:80]!r}, not 200")
        pairs = (line.partition(":") for line in lines)
        return await _body(reader, {name.strip().lower(): value.strip() for name, _, value in pairs})
    finally:
        writer.transport.abort()


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    """The body of an answer, as long as its headers say; without a length, to the end of the line."""
    body = bytearray()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := _number((await reader.readuntil(b"\r\n")).partition(b";")[0], base=16):
            _check_length(len(body) + size)
            body += (await reader.readexactly(size + 2))[:size]
    elif "content-length" in headers:
        size = _number(headers["content-length"].encode(), base=10)
        _check_length(size)
        body += await reader.readexactly(size)
    else:
        while data := await reader.read(_HEAD_BYTES_MAX):
            body += data
            _check_length(len(body))
    return bytes(body)


def _number(digits: bytes, base: int) -> int:
    number = int(digits, base)
    if number < 0:
        raise ValueError("a length in its answer is below 0")
    return number


def _check_length(size: int) -> None:
    if size > BYTES_MAX:
        raise ValueError(f"there are more than {BYTES_MAX // 1024} KiB")


def shown(place: str) -> str:
    """A place as errors name it: without what stands behind the path of a URL."""
    return place.partition("?")[0]
