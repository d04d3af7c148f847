"""A line of HTTP: uvicorn's protocol, with the limits that it lacks.

1. A head of more than 16 KiB is answered with 431, a body longer than its path may have with 413, what is no HTTP with
   400; then the line ends. What still comes is thrown away for a second, so that the answer arrives.
2. A head that is not there 10 s after its first byte, or after the line began, ends the line without an answer. So does
   a body that comes with less than 16 KiB a second after 30 s, and an answer that nobody reads for `send_timeout`. A
   body that is not all there a second after its answer ends the line as well.
3. Lines that ask nothing have one timer together, in HttpLines. What is not said here is as uvicorn has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from broker.clock import cancel_timer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from broker.clock import Timer
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


class RequestRefusedError(Exception):
    """A request that is refused: the status and the text of the answer."""


class HttpLine(HttpToolsProtocol):
    """One line. `about` is what requests on it can learn of it, `gone` is called when it has ended."""

    def __init__(self, lines: HttpLines, about: dict[str, Any], gone: Callable[[], None]) -> None:
        super().__init__(lines.config, lines.state, about)
        self.access_log = False  # which uvicorn would write wherever a log has handlers
        self._lines = lines
        self._gone = gone
        self._in_head = True  # or before it
        self._head_bytes = 0  # received of a head that is not there yet
        self._begun = False  # it is known to be a head
        self._named_bytes = 0  # in the head that is being read
        self._body_bytes = 0
        self._body_bytes_max = 0
        self._measured_from = 0.0, 0  # since when, and how much of the body was there then
        self._refused: tuple[int, str] | None = None
        self._timer: Timer | None = None  # for what is still to come of a request
        self._send_timer: Timer | None = None

    @property
    def is_watched(self) -> bool:
        """True while something that has begun is still to come: the line ends by itself if it does not."""
        return self._timer is not None

    # The protocol of the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._watch(HEAD_SECONDS, self.cut)
        self._lines.begun(self)

    def connection_lost(self, exc: Exception | None) -> None:
        cancel_timer(self._timer)
        cancel_timer(self._send_timer)
        self._lines.ended(self)
        super().connection_lost(exc)
        self._gone()

    def data_received(self, data: bytes) -> None:
        if self._refused is not None:
            return
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
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
        super().pause_writing()
        self._send_timer = self._lines.clock.call_later(self._lines.send_timeout, self.cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        cancel_timer(self._send_timer)

    def cut(self) -> None:
        """End the line without a word."""
        self.transport.abort()

    # What the parser finds

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._named_bytes = 0
        self._begun = True

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        name = name.lower()
        if name == b"expect":
            super().on_header(name, value)
        else:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.app = application = self._lines.application  # that of this moment
        self._body_bytes_max = application.body_bytes(_path(self.url))
        for name, value in self.headers:
            if name == b"content-length" and int(value) > self._body_bytes_max:
                raise RequestRefusedError(*BODY_TOO_LONG)
        super().on_headers_complete()
        self._in_head, self._head_bytes, self._body_bytes, self._begun = False, 0, 0, False
        self._lines.asks(self)
        cancel_timer(self._timer)
        self._timer = None

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._body_bytes_max:
            raise RequestRefusedError(*BODY_TOO_LONG)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        cancel_timer(self._timer)
        self._timer = None
        if self.cycle.response_complete:  # it was answered before its body was there
            self._watch(HEAD_SECONDS, self.cut)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.pipeline:
            super().on_response_complete()
        elif not self.transport.is_closing():  # uvicorn would begin a timer of this line's own
            self.flow.resume_reading()
        if self.cycle.response_complete:  # nothing is asked behind it
            self._lines.idle(self)
            if not self._in_head:  # it was answered, and its body is still coming: nobody wants that
                self._watch(LINGER_SECONDS, self.cut)

    # Limits

    def _count(self, size: int) -> None:
        self._named_bytes += size
        if self._named_bytes > HEAD_BYTES:
            raise RequestRefusedError(*HEAD_TOO_LONG)

    def _watch_rest(self) -> None:
        """Watch what is still to come of a request."""
        if not self._in_head:
            self._measured_from = self._lines.clock.monotonic(), 0
            self._watch(BODY_SECONDS, self._look_at_body)
        elif self._begun or self._head_bytes:
            self._watch(HEAD_SECONDS, self.cut)

    def _look_at_body(self) -> None:
        now, (began, before) = self._lines.clock.monotonic(), self._measured_from
        if self.flow.read_paused:  # by whoever answers: what is slow is not the sender
            self._measured_from = now, self._body_bytes
        elif now - began >= BODY_SECONDS and self._body_bytes - before < BODY_RATE * (now - began):
            self.cut()
            return
        self._watch(LOOK_SECONDS, self._look_at_body)

    def _refuse(self, status: int, text: str) -> None:
        """Answer a request that is not to be served, and end the line: without an answer where another is under way."""
        self._refused = status, text
        cycle = self.cycle
        if cycle is not None and cycle.response_complete and not self._in_head:  # it has its answer
            self.cut()
            return
        if cycle is not None and not cycle.response_complete:
            if self._in_head or cycle.response_started or self.pipeline:
                self.cut()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        body = f"{text}\n".encode()
        head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._watch(LINGER_SECONDS, self.cut)

    def _watch(self, seconds: float, then: Callable[[], None]) -> None:
        cancel_timer(self._timer)
        self._timer = self._lines.clock.call_later(seconds, then)


def _path(url: bytes) -> str:
    """The path in the target of a request, as far as the length of its body depends on it."""
    return url.partition(b"?")[0].decode("latin-1")
