"""A request and its answer, over a line that keeps what is written: how an answer is framed, and what is no answer."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import pytest

from broker.http.exchange import HELD_BYTES, HttpExchange

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

START = {"type": "http.response.start", "status": 200}


class KeptLine:
    """A line, and its transport, that keep what is written, piece by piece."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.read_paused = self.write_paused = self.closed = False
        self.answers = 0

    @property
    def transport(self) -> asyncio.Transport:
        return cast("asyncio.Transport", self)

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.read_paused = True

    def resume_reading(self) -> None:
        self.read_paused = False

    async def writable(self) -> None:
        raise AssertionError("nothing was paused")

    def answered(self, exchange: HttpExchange) -> None:
        self.answers += 1


class Asked:
    """An exchange that was asked for, and its line."""

    def __init__(self, method: str = "GET", version: str = "1.1", *, keep_alive: bool = True) -> None:
        self.line = KeptLine()
        scope = {"type": "http", "method": method, "http_version": version}
        self.exchange = HttpExchange(self.line, scope, keep_alive=keep_alive, expects=False)

    async def answered(self, *messages: dict[str, Any]) -> list[bytes]:
        """Have these messages sent; what was written."""

        async def application(scope: object, receive: object, send: Callable[[object], Awaitable[None]]) -> None:
            for each in messages:
                await send(each)

        await self.exchange.run(application)
        return self.line.written


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def test_a_short_answer_is_one_write_with_its_length() -> None:
    asked = Asked()
    head = {**START, "headers": [(b"X-Name", b"some")]}
    assert await asked.answered(head, body(b"ok")) == [
        b"HTTP/1.1 200 OK\r\nx-name: some\r\ncontent-length: 2\r\n\r\nok"
    ]
    assert (asked.exchange.complete, asked.line.answers, asked.line.closed) == (True, 1, False)


async def test_a_length_that_the_application_says_stands_and_is_held_to() -> None:
    head = {**START, "headers": [(b"content-length", b"4")]}
    said = await Asked().answered(head, body(b"ab", more=True), body(b"cd"))
    assert said == [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab", b"cd"]


@pytest.mark.parametrize("pieces", [[b"ab", b"cde"], [b"abcde"], [b"abc"]], ids=["then longer", "longer", "shorter"])
async def test_an_answer_of_another_length_than_it_says_ends_the_line_and_is_told_in_the_log(
    pieces: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    asked = Asked()
    *before, last = pieces
    head = {**START, "headers": [(b"content-length", b"4")]}
    await asked.answered(head, *(body(each, more=True) for each in before), body(last))
    assert asked.line.closed
    assert [record.getMessage() for record in caplog.records] == ["HTTP request failed method=GET"]


async def test_a_body_of_no_known_length_goes_in_chunks() -> None:
    said = await Asked().answered(START, body(b"abc", more=True), body(b"", more=True), body(b"de"))
    assert said == [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n",
    ]  # fmt: skip


async def test_to_http_1_0_it_goes_up_to_the_end_of_the_line() -> None:
    asked = Asked(version="1.0", keep_alive=False)
    assert await asked.answered(START, body(b"abc", more=True), body(b"de")) == [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc", b"de",
    ]  # fmt: skip
    assert asked.line.closed


async def test_head_has_the_length_and_no_body_and_204_has_neither() -> None:
    assert await Asked("HEAD").answered(START, body(b"abc")) == [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"]
    assert await Asked().answered({**START, "status": 204}, body(b"")) == [b"HTTP/1.1 204 No Content\r\n\r\n"]


async def test_an_application_may_end_the_line_and_the_word_is_said_once() -> None:
    asked = Asked()
    said = await asked.answered({**START, "headers": [(b"connection", b"Close")]}, body(b""))
    assert said == [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"]
    assert asked.line.closed


@pytest.mark.parametrize("value", [b"a\r\nx: y", b"a\nb", b"a\rb", b"\0", b"\x7f"])
async def test_no_value_ends_a_header(value: bytes) -> None:
    asked = Asked()
    (said,) = await asked.answered({**START, "headers": [(b"x", value)]}, body(b"never"))
    assert said.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert value not in said
    assert b"never" not in said


async def test_an_application_that_fails_or_says_nothing_is_answered_with_500(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(scope: object, receive: object, send: object) -> None:
        raise ValueError("a mistake")

    caplog.set_level(logging.ERROR)
    asked = Asked()
    await asked.exchange.run(fails)
    assert asked.line.written[0].endswith(b"connection: close\r\n\r\nan internal error\n")
    assert (asked.line.closed, asked.line.answers) == (True, 1)
    assert "a mistake" in caplog.text
    assert (await Asked().answered())[0].startswith(b"HTTP/1.1 500 ")
    assert (await Asked().answered(START))[0].startswith(b"HTTP/1.1 500 ")
    begun = Asked()
    assert await begun.answered(START, body(b"abc", more=True)) == [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"
    ]
    assert begun.line.closed  # without the last chunk: the client knows that it is not all


async def test_what_comes_of_a_body_is_received_once_and_more_of_it_than_that_pauses_the_line() -> None:
    asked = Asked("POST")
    exchange, line = asked.exchange, asked.line
    exchange.body_came(b"x" * HELD_BYTES)
    assert [line.read_paused] == [False]
    exchange.body_came(b"y")
    assert [line.read_paused] == [True]
    assert await exchange.receive() == {
        "type": "http.request", "body": b"x" * HELD_BYTES + b"y", "more_body": True,
    }  # fmt: skip
    assert [line.read_paused] == [False]
    waits = asyncio.ensure_future(exchange.receive())
    await asyncio.sleep(0)
    assert not waits.done()
    exchange.body_complete()
    assert await waits == {"type": "http.request", "body": b"", "more_body": False}
    late = asyncio.ensure_future(exchange.receive())
    await asyncio.sleep(0)
    exchange.disconnect()
    assert await late == await exchange.receive() == {"type": "http.disconnect"}
    await exchange.send({**START})
    await exchange.send(body(b"to nobody"))
    assert line.written == []


async def test_who_waits_for_the_body_is_told_first_where_the_client_asks() -> None:
    line = KeptLine()
    exchange = HttpExchange(line, {"method": "POST", "http_version": "1.1"}, keep_alive=True, expects=True)
    exchange.body_came(b"x")
    await exchange.receive()
    exchange.body_complete()
    await exchange.receive()
    assert line.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]
