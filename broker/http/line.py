"""A line of HTTP: httptools parses, and what comes too long, too slowly, or is none is refused here.

1. A head of more than 16 KiB is answered with 431, a body longer than its path may have with 413, what is no HTTP with
   400; then the line ends. What still comes is thrown away for a second, so that the answer arrives.
2. A head that is not there 10 s after its first byte, or after the line began, ends the line without an answer. So does
   a body that comes with less than 16 KiB a second after 30 s, and an answer that nobody reads for `send_timeout`. A
   body that is not all there a second after its answer ends the line as well.
3. Requests that come at once are answered one after the other. While one of them waits, no more is read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

import httptools

from broker.clock import cancel_timer
from broker.http.exchange import HttpExchange, plain_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Timer
    from broker.http.application import Application
    from broker.http.lines import HttpLines

HEAD_BYTES: Final = 16 * 1024
HEAD_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
BODY_RATE: Final = 16 * 1024
LOOK_SECONDS: Final = 1.0
LINGER_SECONDS: Final = 1.0

BAD_REQUEST: Final = 400, "this is no request of HTTP/1.1"
BODY_TOO_LONG: Final = 413, "the body is longer than this path takes"
HEAD_TOO_LONG: Final = 431, f"the request line and headers are longer than {HEAD_BYTES} bytes"


_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class RequestRefusedError(Exception):
    """A request that is refused: the status and the text of the answer."""


class HttpLine(asyncio.Protocol):
    """One line. `about` is what requests on it can learn of it, `gone` is called when it has ended."""

    def __init__(self, lines: HttpLines, about: dict[str, Any], gone: Callable[[], None]) -> None:
        self.read_paused = self.write_paused = False
        self.transport: asyncio.Transport
        self._lines = lines
        self._about = about
        self._gone = gone
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)  # what is sent at once has its answers
        self._place: dict[str, Any] = {}  # of the scope: what is known of the line
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._exchange: HttpExchange | None = None  # the one that is being received; answered or not
        self._waiting: deque[tuple[HttpExchange, Application]] = deque()  # for the answer to one before
        self._in_head = True  # or before it
        self._head_bytes = 0  # received of a head that is not there yet
        self._begun = False  # it is known to be a head
        self._named_bytes = 0  # in the head that is being read
        self._body_bytes = 0
        self._body_bytes_max = 0
        self._measured_from = 0.0, 0  # since when, and how much of the body was there then
        self._refused = False
        self._timer: Timer | None = None  # for what is still to come of a request
        self._send_timer: Timer | None = None
        self._writable = asyncio.Event()

    @property
    def is_watched(self) -> bool:
        """True while something that has begun is still to come: the line ends by itself if it does not."""
        return self._timer is not None

    # The protocol of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._place = {
            "server": _address(transport.get_extra_info("sockname")),
            "client": _address(transport.get_extra_info("peername")),
            "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
        }
        self._watch(HEAD_SECONDS, self.cut)
        self._lines.begun(self)

    def connection_lost(self, exc: Exception | None) -> None:
        cancel_timer(self._timer)
        cancel_timer(self._send_timer)
        self._lines.ended(self)
        for each in (self._exchange, *(waiting for waiting, _ in self._waiting)):
            if each is not None:
                each.disconnect()
        self._waiting.clear()
        self._exchange = self._parser = None
        self._writable.set()
        self._gone()

    def data_received(self, data: bytes) -> None:
        if self._refused or self._parser is None:
            return
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
            if self._in_head and self._head_bytes > HEAD_BYTES:
                self._refuse(*HEAD_TOO_LONG)
            elif self._timer is None:  # most requests come in one piece, and need none
                self._watch_rest()
        except httptools.HttpParserUpgrade:  # to what is not spoken here: the request is answered as it is
            pass
        except httptools.HttpParserError as error:
            refused = error.__context__
            self._refuse(*(refused.args if isinstance(refused, RequestRefusedError) else BAD_REQUEST))

    def pause_writing(self) -> None:
        self.write_paused = True
        self._writable.clear()
        self._send_timer = self._lines.clock.call_later(self._lines.send_timeout, self.cut)

    def resume_writing(self) -> None:
        self.write_paused = False
        self._writable.set()
        cancel_timer(self._send_timer)

    async def writable(self) -> None:
        """Wait until more can be written, or the line has ended."""
        await self._writable.wait()

    def pause_reading(self) -> None:
        """Read no more for now."""
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def end(self) -> None:
        """End the line behind the answer that is under way, if there is one."""
        exchange = self._exchange
        if exchange is None or exchange.complete:
            self.transport.close()
        else:
            exchange.keep_alive = False

    def cut(self) -> None:
        """End the line without a word."""
        self.transport.abort()

    # What the parser finds

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._named_bytes = 0
        self._begun = True

    def on_url(self, url: bytes) -> None:
        self._named_bytes += len(url)
        if self._named_bytes > HEAD_BYTES:
            raise RequestRefusedError(*HEAD_TOO_LONG)
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._named_bytes += len(name) + len(value)
        if self._named_bytes > HEAD_BYTES:
            raise RequestRefusedError(*HEAD_TOO_LONG)
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        application = self._lines.application  # that of this moment
        self._body_bytes_max = application.body_bytes(_path(self._url))
        expects = False
        for name, value in self._headers:
            if name == b"content-length" and int(value) > self._body_bytes_max:
                raise RequestRefusedError(*BODY_TOO_LONG)
            if name == b"expect" and value.lower() == b"100-continue":
                expects = True
        before, parser = self._exchange, self._parser
        assert parser is not None
        version = parser.get_http_version()
        self._exchange = exchange = HttpExchange(
            self, self._scope(version, parser.get_method().decode("ascii")),
            keep_alive=version != "1.0" and parser.should_keep_alive(), expects=expects,
        )  # fmt: skip
        self._in_head, self._head_bytes, self._body_bytes, self._begun = False, 0, 0, False
        self._lines.asks(self)
        cancel_timer(self._timer)
        self._timer = None
        if before is None or before.complete:
            self._lines.answer(exchange, application)
        else:
            self.pause_reading()
            self._waiting.append((exchange, application))

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._body_bytes_max:
            raise RequestRefusedError(*BODY_TOO_LONG)
        exchange = self._exchange
        if exchange is not None and not exchange.complete:
            exchange.body_came(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        cancel_timer(self._timer)
        self._timer = None
        exchange = self._exchange
        if exchange is None or exchange.complete:  # it was answered before its body was there
            self._watch(HEAD_SECONDS, self.cut)
        else:
            exchange.body_complete()

    def _scope(self, version: str, method: str) -> dict[str, Any]:
        """The scope of a request, as ASGI has it."""
        url = httptools.parse_url(self._url)
        raw_path = url.path
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method,
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": url.query or b"",
            "headers": self._headers,
            "state": self._about.copy(),
            **self._place,
        }

    def answered(self, exchange: HttpExchange) -> None:
        """The whole answer is written: the next is made, or the line is idle."""
        if self.transport.is_closing():
            self._lines.idle(self)
        elif self._waiting:
            self.resume_reading()
            self._lines.answer(*self._waiting.popleft())
        else:
            self.resume_reading()
            self._lines.idle(self)
        if exchange is self._exchange and not self._in_head:  # its body is still coming: nobody wants that
            self._watch(LINGER_SECONDS, self.cut)

    # Limits

    def _watch_rest(self) -> None:
        """Watch what is still to come of a request."""
        if not self._in_head:
            self._measured_from = self._lines.clock.monotonic(), 0
            self._watch(BODY_SECONDS, self._look_at_body)
        elif self._begun or self._head_bytes:
            self._watch(HEAD_SECONDS, self.cut)

    def _look_at_body(self) -> None:
        now, (began, before) = self._lines.clock.monotonic(), self._measured_from
        if self.read_paused:  # by whoever answers: what is slow is not the sender
            self._measured_from = now, self._body_bytes
        elif now - began >= BODY_SECONDS and self._body_bytes - before < BODY_RATE * (now - began):
            self.cut()
            return
        self._watch(LOOK_SECONDS, self._look_at_body)

    def _refuse(self, status: int, text: str) -> None:
        """Answer a request that is not to be served, and end the line: without an answer where another is under way."""
        self._refused = True
        exchange = self._exchange
        if exchange is not None and exchange.complete and not self._in_head:  # it has its answer
            self.cut()
            return
        if exchange is not None and not exchange.complete:
            if self._in_head or exchange.started or self._waiting:
                self.cut()
                return
            exchange.disconnect()
        self.transport.write(plain_answer(status, text))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._watch(LINGER_SECONDS, self.cut)

    def _watch(self, seconds: float, then: Callable[[], None]) -> None:
        cancel_timer(self._timer)
        self._timer = self._lines.clock.call_later(seconds, then)


def _path(url: bytes) -> str:
    """The path in the target of a request, as far as the length of its body depends on it."""
    return url.partition(b"?")[0].decode("latin-1")


def _address(name: object) -> tuple[str, int] | None:
    """The host and the port in an address of a socket of this machine's; None where it has none."""
    return (str(name[0]), int(name[1])) if isinstance(name, (list, tuple)) else None
