"""A client of HTTP that says exactly what a test wants, and reads what comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl


class Answer(NamedTuple):
    """An answer: its status, its headers by their names in small letters, and its body."""

    status: int
    headers: dict[str, str]
    text: str


def answer_of(data: bytes) -> Answer:
    """Return the answer in what was read."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _joined(body)
    return Answer(int(first.split()[1]), headers, body.decode())


def _joined(body: bytes) -> bytes:
    """Join the chunks of a body, which has to be whole."""
    joined = b""
    while True:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return joined
        joined, body = joined + rest[:length], rest[length + 2 :]


def request(path: str, *headers: str, method: str = "GET", body: bytes | None = None, host: str = "localhost") -> bytes:
    """Return a request, behind which the line ends."""
    length = () if body is None else (f"Content-Length: {len(body)}",)
    lines = (f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *length, *headers, "", "")
    return "\r\n".join(lines).encode("latin-1") + (body or b"")


class Dialled:
    """A line to a port; `said` sends, `rest` reads to the end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def rest(self) -> bytes:
        """Read until the other end hangs up."""
        try:
            return await self._reader.read()
        except ConnectionError:
            return b""

    async def head(self) -> bytes:
        """Read up to the end of a head."""
        return await self._reader.readuntil(b"\r\n\r\n")

    async def line(self) -> bytes:
        """Read up to the end of a line of text."""
        return await self._reader.readuntil(b"\r\n")

    async def exactly(self, length: int) -> bytes:
        return await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.transport.abort()


async def dial(port: int, context: ssl.SSLContext | None = None) -> Dialled:
    """Connect to a port of this machine."""
    name = "localhost" if context else None
    return Dialled(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name))


async def said(port: int, data: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """Say something, and return all that is said to it."""
    line = await dial(port, context)
    try:
        await line.say(data)
        return await line.rest()
    finally:
        line.close()


async def ask(
    port: int,
    path: str,
    *headers: str,
    method: str = "GET",
    body: bytes | None = None,
    host: str = "localhost",
    context: ssl.SSLContext | None = None,
) -> Answer:
    """Return the answer to a request."""
    return answer_of(await said(port, request(path, *headers, method=method, body=body, host=host), context))
