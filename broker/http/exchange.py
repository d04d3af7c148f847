"""A request on a line and its answer, as ASGI has them: `receive` gives the body, `send` takes the answer.

1. The head of an answer is written with the first piece of its body, so that a short answer is one write.
2. A body of no known length goes in chunks; to HTTP/1.0, which has none, it goes up to the end of the line.
3. More than 64 KiB of a body that nobody has received yet keep the line from being read.
"""

from __future__ import annotations

import asyncio
import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

logger = logging.getLogger(__name__)

HELD_BYTES: Final = 64 * 1024
"""So much of a body is taken before somebody receives it."""

INTERNAL: Final = 500
BODILESS: Final = (204, 304)

_STATUS_LINES: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}".encode() for each in HTTPStatus}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_UNSAFE: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_GONE: Final = {"type": "http.disconnect"}


class ExchangeLine(Protocol):
    """A line, as its exchanges know it."""

    read_paused: bool
    write_paused: bool

    @property
    def transport(self) -> asyncio.Transport:
        """What is written goes there."""

    def pause_reading(self) -> None:
        """Read no more for now."""

    def resume_reading(self) -> None:
        """Read on."""

    async def writable(self) -> None:
        """Wait until more can be written, or the line has ended."""

    def answered(self, exchange: HttpExchange) -> None:
        """The whole answer is written."""


class HttpExchange:
    """A request, of which `scope` tells, and its answer. `keep_alive`: the line goes on behind it; `expects`: the
    client waits for a word before it sends the body. `complete` is true when the answer is written, `disconnected` when
    the line has ended before.
    """

    __slots__ = (
        "_bodiless", "_chunked", "_event", "_expects", "_head", "_held", "_left", "_line", "_more_body", "_news",
        "_parts", "_silent", "complete", "disconnected", "keep_alive", "scope", "started", "task",
    )  # fmt: skip

    def __init__(self, line: ExchangeLine, scope: dict[str, Any], *, keep_alive: bool, expects: bool) -> None:
        self._line = line
        self.scope = scope
        self.keep_alive = keep_alive
        self.task: asyncio.Task[None] | None = None
        self.started = self.complete = self.disconnected = False
        self._expects = expects
        self._parts: list[bytes] = []  # of the body, which nobody has received yet
        self._held = 0  # bytes of them
        self._more_body = True
        self._news = False  # for who receives next
        self._event: asyncio.Event | None = None  # once somebody has waited for news
        self._head = b""  # from the beginning of the answer until the first piece of its body
        self._left: int | None = None  # bytes that the body still has, by its Content-Length
        self._bodiless = self._silent = self._chunked = False

    async def run(self, application: Callable[..., Awaitable[None]]) -> None:
        """Have the request answered."""
        try:
            await application(self.scope, self.receive, self.send)
        except Exception:
            logger.exception("HTTP request failed method=%s", self.scope["method"])
        if not self.complete and not self.disconnected:
            self._fail()

    # What the line tells

    def body_came(self, data: bytes) -> None:
        """A piece of the body has come."""
        self._parts.append(data)
        self._held += len(data)
        if self._held > HELD_BYTES:
            self._line.pause_reading()
        self._tell()

    def body_complete(self) -> None:
        """All of the body has come."""
        self._more_body = False
        self._tell()

    def disconnect(self) -> None:
        """Nobody reads the answer any more."""
        self.disconnected = True
        self._tell()

    def _tell(self) -> None:
        self._news = True
        if self._event is not None:
            self._event.set()

    # What the application calls

    async def receive(self) -> Mapping[str, Any]:
        """Return what has come of the body, or that the exchange is over; wait for the one or the other."""
        if self._expects:
            self._expects = False
            if not self._line.transport.is_closing():
                self._line.transport.write(_CONTINUE)
        if self._more_body and self._line.read_paused:
            self._line.resume_reading()
        if not self._news:
            event = self._event = self._event or asyncio.Event()
            await event.wait()
            event.clear()
        if self.disconnected or self.complete:
            return _GONE
        self._news = False
        parts, self._parts, self._held = self._parts, [], 0
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        return {"type": "http.request", "body": body, "more_body": self._more_body}

    async def send(self, message: Mapping[str, Any]) -> None:
        """Take the head of the answer, or a piece of its body. Raises RuntimeError for what is no answer."""
        if self._line.write_paused and not self.disconnected:
            await self._line.writable()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
        else:
            self._go_on(message.get("body", b""), more=message.get("more_body", False))

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self.started:
            raise RuntimeError("the answer has begun already")
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status]
        for name, value in headers:
            name = name.lower()
            if name == b"connection":  # it is said below
                self.keep_alive = self.keep_alive and b"close" not in value.lower()
                continue
            if name == b"content-length":
                self._left = int(value)
            lines.append(b"%s: %s" % (name, value))
        head = b"\r\n".join(lines)
        if _UNSAFE.search(head) or head.count(b"\n") + 1 != len(lines) or head.count(b"\r") + 1 != len(lines):
            raise RuntimeError("a header of the answer has a character that no header can have")
        self._head = head
        self._bodiless = status in BODILESS
        self._silent = self._bodiless or self.scope["method"] == "HEAD"
        self.started = True

    def _go_on(self, body: bytes, *, more: bool) -> None:
        if self.complete or not self.started:
            raise RuntimeError("the answer is over" if self.complete else "the answer has not begun")
        head, self._head = self._head, b""
        if head:
            head += self._framing(None if more else len(body))
        if self._silent:
            body = b""
        elif self._chunked:
            body = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + (b"" if more else _LAST_CHUNK)
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the answer is not as long as its content-length says")
        if head or body:
            self._line.transport.write(head + body)
        if not more:
            self._finish()

    def _framing(self, length: int | None) -> bytes:
        """The headers that tell where the answer ends, and the end of the head. `length` is that of the body; None: it
        is not known yet.
        """
        lines = b"\r\n" if self.keep_alive else b"\r\nconnection: close\r\n"
        if self._left is None and not self._bodiless:
            if length is not None:
                self._left = length
                lines += b"content-length: %d\r\n" % length
            elif self.scope["http_version"] != "1.0":
                self._chunked = True
                lines += b"transfer-encoding: chunked\r\n"
        return lines + b"\r\n"

    def _finish(self) -> None:
        self.complete = True
        self._tell()
        if not self.keep_alive:
            self._line.transport.close()
        self._line.answered(self)

    def _fail(self) -> None:
        """Tell the client that there is no answer, or not all of it: by 500, or by the end of the line."""
        if self._head or not self.started:
            self._line.transport.write(plain_answer(INTERNAL, "an internal error"))
        self.keep_alive = False
        self._finish()


def plain_answer(status: int, text: str) -> bytes:
    """Return a whole answer in plain text, behind which the line ends."""
    body = f"{text}\n".encode()
    head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return _STATUS_LINES[status] + b"\r\n" + head.encode() + body
