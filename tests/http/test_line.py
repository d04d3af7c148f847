"""The limits of a line of HTTP: what is too long, too slow, or none; and how many lines there are."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from broker import QueueManager
from broker.config import HttpConfig
from broker.http.application import Application, Mounted
from broker.http.lines import HttpLines
from broker.http.probes import Probes
from broker.http.served_manager import ManagerInProcess
from broker.testing import VirtualClock, settle
from tests.http.client import answer_of, ask, dial, request, said
from tests.http.conftest import FREE, port_of, serving
from tests.server.security.conftest import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from broker.http.line import HttpLine
    from broker.server.http_server import HttpServer
    from tests.http.client import Dialled

GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
KIB = 1024


# What is none


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # TLS
        b"GET\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"\0" * 1000,
        b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\n\r\n",
        b"CONNECT host:443 HTTP/1.1\r\nHost: host\r\n\r\n",
        b"\x00\x00\x00\x15\x98\x01\x00\x00\xa6EverMQ\x01\x01\xcdu0\xce\x06\x90\x00\x00",  # the HELLO of the MQI
    ],
    ids=range(10),
)
async def test_what_is_no_http_is_answered_with_400_and_ends_the_line(
    port: int, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    answer = answer_of(await said(port, garbage))
    assert (answer.status, answer.text) == (400, "this is no request of HTTP/1.1\n")
    assert answer.headers["connection"] == "close"
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []
    assert (await ask(port, "/livez")).status == 200


async def test_a_wish_for_another_protocol_is_not_heard(port: int) -> None:
    answer = await ask(port, "/livez", "Upgrade: websocket", "Connection: upgrade")
    assert answer.status == 200


async def test_a_line_serves_one_request_after_the_other_also_those_sent_at_once(port: int) -> None:
    line = await dial(port)
    await line.say(GET * 3 + request("/readyz"))
    answers = await line.rest()
    assert answers.count(b"HTTP/1.1 200 OK") == 4
    line.close()


async def test_garbage_behind_a_request_takes_no_answer_away(port: int) -> None:
    line = await dial(port)
    await line.say(GET)
    assert b"200 OK" in await line.head()
    assert await line.exactly(3) == b"ok\n"
    await line.say(b"\0\0\0")
    assert answer_of(await line.rest()).status == 400
    line.close()


PARTS = (
    b"GET", b"POST", b" ", b"/livez", b"/metrics?queue=", b"*", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\r\n\r\n", b"\n",
    b"Host: x", b"Host: localhost", b"Content-Length: ", b"5", b"99999999999999999999", b"-1", b"0", b"ffff",
    b"Transfer-Encoding: chunked",
    b"Expect: 100-continue", b"Connection: close", b"Connection: upgrade", b"Upgrade: h2c", b"Authorization: Basic ",
    b"%", b"%ff", b"\0", b"\xff", b":", b"\t", b";", b"x" * 300, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"OPTIONS *",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_said_the_next_is_served_and_nothing_is_left(
    server: HttpServer, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    random = Random(seed)
    for _ in range(60):
        line = await dial(port_of(server))
        for _ in range(random.randint(1, 3)):
            await line.say(b"".join(random.choices(PARTS, k=random.randint(1, 12))))
            await asyncio.sleep(0)
        line.close()
    assert (await ask(port_of(server), "/livez")).text == "ok\n"
    await until(lambda: server.lines == 0)
    assert caplog.records == []


async def test_nothing_is_left_in_memory_of_a_line_that_has_ended(manager: QueueManager) -> None:
    async with serving(manager) as server:
        (address,) = server._addresses
        gc.collect()
        gc.disable()
        try:
            lines = []
            for ends in (request("/livez"), b"garbage\r\n\r\n", b"GET /livez HT"):
                line = await dial(port_of(server))
                await until(lambda: len(address.lines) == 1)
                lines += [weakref.ref(each) for each in address.lines._open]
                await line.say(ends)
                if not ends.endswith(b"HT"):
                    await line.rest()
                line.close()
                await until(lambda: len(address.lines) == 0)
                await settle()
            assert [line() for line in lines] == [None] * 3
        finally:
            gc.enable()


# What is too long


@pytest.mark.parametrize(
    "head",
    [
        f"GET /livez HTTP/1.1\r\nX: {'x' * 16 * KIB}\r\n\r\n".encode(),
        f"GET /livez?{'x' * 16 * KIB} HTTP/1.1\r\n\r\n".encode(),
        b"GET /livez HTTP/1.1\r\n" + b"X: x\r\n" * 10_000 + b"\r\n",
        f"GET /livez HTTP/1.1\r\nX: {'x' * 17 * KIB}".encode(),  # and it goes on
        b"GET /livez HTTP/1.1\r\n" + b"x" * 17 * KIB,
        b"\r\n" * 17 * KIB,
    ],
    ids=["value", "target", "many", "unfinished value", "unfinished name", "before it"],
)
async def test_a_head_of_more_than_16_kib_is_answered_with_431(port: int, head: bytes) -> None:
    answer = answer_of(await said(port, head))
    assert (answer.status, answer.text) == (431, "the request line and headers are longer than 16384 bytes\n")


async def test_a_head_of_nearly_16_kib_is_served_however_it_comes(port: int) -> None:
    head = request("/livez", f"X: {'x' * (15 * KIB)}")
    line = await dial(port)
    for start in range(0, len(head), 1000):
        await line.say(head[start : start + 1000])
    assert answer_of(await line.rest()).status == 200
    line.close()
    answer = answer_of(await said(port, head[:-2] + b"Content-Length: 60000\r\n\r\n" + b"x" * 60_000))
    assert answer.status == 200


def _post(length: int, body: bytes = b"", path: str = "/livez") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode() + body


async def test_a_body_longer_than_its_path_takes_is_answered_with_413(port: int) -> None:
    for said_first in (_post(64 * KIB + 1), _post(10**18), _post(64 * KIB + 1, b"x" * 64 * KIB)):
        answer = answer_of(await said(port, said_first))
        assert (answer.status, answer.text) == (413, "the body is longer than this path takes\n")


class Echo:
    """An application that answers with how much of a body it was given, once it is told to read."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.reads.set()
        self.bodies: list[int] = []

    async def __call__(self, scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        await self.reads.wait()
        length, more = 0, True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                return
            length += len(event.get("body", b""))
            more = event.get("more_body", False)
        self.bodies.append(length)
        text = str(length).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
        await send({"type": "http.response.body", "body": text})


class Mount:
    """An address with an application mounted at /echo, which takes bodies of a MiB, and lines that may be eight."""

    def __init__(self, lines: HttpLines, echo: Echo, port: int) -> None:
        self.lines = lines
        self.echo = echo
        self.port = port


@pytest.fixture
async def mount(manager: QueueManager) -> AsyncIterator[Mount]:
    echo = Echo()
    served = ManagerInProcess(manager)
    application = Application(served, Probes(served), None, [Mounted("/echo", echo, 1024 * KIB)])
    lines = HttpLines(application, manager.clock, 8, 60.0)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: lines.line({"address": "127.0.0.1"}, lambda: None), "127.0.0.1", 0)
    try:
        yield Mount(lines, echo, listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        await lines.end(0)


async def test_a_mounted_part_says_how_long_its_bodies_are(mount: Mount) -> None:
    answer = answer_of(await said(mount.port, _post(1024 * KIB + 1, path="/echo/x")))
    assert answer.status == 413
    line = await dial(mount.port)
    await line.say(_post(1024 * KIB, b"x" * 1024 * KIB, "/echo/x"))
    assert b"200 OK" in await line.head()
    assert await line.exactly(7) == b"1048576"
    line.close()


async def test_chunks_are_counted_too(mount: Mount) -> None:
    head = b"POST /echo/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 64 * KIB + b"\r\n"
    answer = answer_of(await said(mount.port, head + chunk * 17))
    assert answer.status == 413
    assert mount.echo.bodies == []


# What is too slow


async def advance(manager: QueueManager, seconds: float) -> None:
    assert isinstance(manager.clock, VirtualClock)
    await manager.clock.advance(seconds)


@pytest.mark.parametrize("begun", [b"", GET[:-2], GET + GET[:10]], ids=["nothing", "half a head", "half a second one"])
async def test_a_head_that_is_not_there_after_10_seconds_ends_the_line(
    manager: QueueManager, server: HttpServer, begun: bytes
) -> None:
    line = await dial(port_of(server))
    await line.say(begun)
    await until(lambda: server.lines == 1)
    if begun.startswith(GET):
        await line.head()
    await settle()
    await advance(manager, 9.9)
    assert server.lines == 1
    await advance(manager, 0.2)
    await until(lambda: server.lines == 0)
    assert await line.rest() in (b"", b"ok\n")
    line.close()


async def test_a_line_whose_body_comes_behind_its_answer_is_not_kept_for_ever(
    manager: QueueManager, server: HttpServer
) -> None:
    line = await dial(port_of(server))
    await line.say(_post(10))
    assert b"405 Method Not Allowed" in await line.head()
    await line.say(b"x" * 10)
    (served,) = server._addresses[0].lines._open
    await until(lambda: served._in_head)
    await advance(manager, 9.9)
    assert server.lines == 1
    await advance(manager, 0.2)
    await until(lambda: server.lines == 0)
    line.close()


async def test_a_line_that_has_its_answer_is_kept(manager: QueueManager, server: HttpServer) -> None:
    line = await dial(port_of(server))
    await line.say(GET)
    await line.head()
    await line.exactly(3)
    await advance(manager, 20)
    assert server.lines == 1
    await line.say(request("/livez"))
    assert answer_of(await line.rest()).status == 200
    line.close()


async def test_a_line_that_asks_nothing_for_a_minute_ends_and_one_that_asks_again_is_kept(
    manager: QueueManager, server: HttpServer
) -> None:
    quiet, busy = [await dial(port_of(server)) for _ in range(2)]
    for line in (quiet, busy):
        await line.say(GET)
        await line.head()
        await line.exactly(3)
    await advance(manager, 40)
    await busy.say(GET)
    await busy.head()
    await busy.exactly(3)
    await advance(manager, 19.9)
    assert server.lines == 2
    await advance(manager, 0.2)
    assert await quiet.rest() == b""
    assert server.lines == 1
    await advance(manager, 60)
    assert await busy.rest() == b""
    for line in (quiet, busy):
        line.close()


async def test_a_line_that_begins_to_ask_within_its_minute_has_the_time_of_a_head(
    manager: QueueManager, server: HttpServer
) -> None:
    line, other = [await dial(port_of(server)) for _ in range(2)]
    for each in (line, other):
        await each.say(GET)
        await each.head()
        await each.exactly(3)
    await advance(manager, 59)
    for each in (line, other):
        await each.say(GET[:10])
    (address,) = server._addresses
    await until(lambda: all(each.is_watched for each in address.lines._open))
    await advance(manager, 5)
    assert server.lines == 2
    await other.say(GET[10:])
    assert b"200 OK" in await other.head()
    await advance(manager, 5.1)
    assert await line.rest() == b""
    assert server.lines == 1
    await other.exactly(3)
    await advance(manager, 60)
    assert await other.rest() == b""
    for each in (line, other):
        each.close()


async def test_while_an_answer_is_under_way_one_more_request_is_read_and_no_third(mount: Mount) -> None:
    mount.echo.reads.clear()
    line = await dial(mount.port)
    await line.say(_post(1, b"x", "/echo/"))
    await until(lambda: bool(mount.lines.state.tasks))
    (served,) = mount.lines._open
    await line.say(GET)
    await until(lambda: served.flow.read_paused)
    await line.say(GET)
    await settle()
    assert len(served.pipeline) == 1
    mount.echo.reads.set()
    answers = b""
    while answers.count(b"200 OK") < 3:
        answers += await line.head()
    line.close()


def _has(served: HttpLine, length: int) -> bool:
    return served._body_bytes >= length


@pytest.mark.parametrize(("a_second", "goes_on"), [(16 * KIB, True), (15 * KIB, False)])
async def test_a_body_slower_than_16_kib_a_second_ends_the_line_after_30_seconds(
    manager: QueueManager, mount: Mount, a_second: int, goes_on: bool
) -> None:
    line = await dial(mount.port)
    await line.say(_post(1024 * KIB, path="/echo/"))
    await until(lambda: bool(mount.lines._open))
    (served,) = mount.lines._open
    for second in range(1, 35):
        await line.say(b"x" * a_second)
        await until(partial(_has, served, second * a_second))
        await advance(manager, 1)
        if not goes_on and second >= 30:
            break
        assert len(mount.lines) == 1, second
    await settle()
    assert len(mount.lines) == goes_on
    line.close()


async def test_the_time_of_a_body_stands_still_while_the_application_does_not_read(
    manager: QueueManager, mount: Mount
) -> None:
    mount.echo.reads.clear()
    line = await dial(mount.port)
    await line.say(_post(200 * KIB, b"x" * 100 * KIB, "/echo/"))
    await until(lambda: bool(mount.lines._open) and next(iter(mount.lines._open)).flow.read_paused)
    await advance(manager, 100)
    assert len(mount.lines) == 1
    mount.echo.reads.set()
    await line.say(b"x" * 100 * KIB)
    assert b"200 OK" in await line.head()
    assert await line.exactly(6) == b"204800"
    line.close()


# How many lines there are


async def quiet_line(port: int, lines: HttpLines | HttpServer) -> Dialled:
    """A line that says nothing, once the server has it."""
    line = await dial(port)
    await settle()
    return line


async def test_for_one_line_too_many_the_one_goes_that_has_asked_nothing_for_the_longest_time(mount: Mount) -> None:
    kept = [await quiet_line(mount.port, mount.lines) for _ in range(8)]
    await until(lambda: len(mount.lines) == 8)
    await kept[0].say(GET)
    await kept[0].head()
    another = await quiet_line(mount.port, mount.lines)
    await until(lambda: len(mount.lines) == 8)
    assert await kept[1].rest() == b""
    for line in (kept[0], another):
        await line.say(request("/livez"))
        assert (await line.rest()).endswith(b"ok\n")
    for line in (*kept, another):
        line.close()


async def test_a_line_that_waits_for_its_answer_goes_for_nobody(mount: Mount) -> None:
    mount.echo.reads.clear()
    asking = [await dial(mount.port) for _ in range(8)]
    for line in asking:
        await line.say(_post(1, b"x", "/echo/"))
    await until(lambda: len(mount.lines) == 8 and not mount.lines._idle)
    late = await dial(mount.port)
    assert await late.rest() == b""
    mount.echo.reads.set()
    for line in asking:
        assert b"200 OK" in await line.head()
        line.close()
    late.close()


async def test_o1_2_probes_are_answered_beside_a_thousand_half_open_sockets(manager: QueueManager) -> None:
    async with serving(manager, listen=FREE) as server:
        lines = []
        for number in range(1000):
            line = await dial(port_of(server))
            if number % 2:
                await line.say(b"GET /livez HT")
            lines.append(line)
            if number % 100 == 0:
                assert (await ask(port_of(server), "/livez")).status == 200
        assert (await ask(port_of(server), "/readyz")).status == 200
        assert server.lines <= 256
        for line in lines:
            line.close()


async def test_an_answer_that_nobody_reads_ends_the_line_after_the_send_timeout(
    manager: QueueManager, mount: Mount
) -> None:
    async def pours(scope: Any, receive: Any, send: Callable[[Any], Any]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 256 * KIB, "more_body": True})

    pours.body_bytes = lambda path: 0  # type: ignore[attr-defined]
    mount.lines.application = pours  # type: ignore[assignment]
    line = await dial(mount.port)
    await line.say(GET)
    await until(lambda: bool(mount.lines._open) and next(iter(mount.lines._open))._send_timer is not None)
    await advance(manager, 59.9)
    assert len(mount.lines) == 1
    await advance(manager, 0.2)
    await until(lambda: not mount.lines._open)
    line.close()


async def test_at_the_end_answers_that_are_under_way_are_waited_for_and_streams_are_not(mount: Mount) -> None:
    line = await dial(mount.port)
    mount.echo.reads.clear()
    await line.say(_post(1, b"x", "/echo/"))
    idle = await quiet_line(mount.port, mount.lines)
    await until(lambda: len(mount.lines) == 2 and len(mount.lines._idle) == 1)
    ending = asyncio.ensure_future(mount.lines.end(60))
    assert await idle.rest() == b""
    mount.echo.reads.set()
    assert b"200 OK" in await line.head()
    await ending
    assert (len(mount.lines), mount.lines.state.tasks) == (0, set())
    line.close()
    idle.close()
    late = await dial(mount.port)
    mount.echo.reads.clear()
    await late.say(_post(1, b"x", "/echo/"))
    await until(lambda: bool(mount.lines.state.tasks))
    await mount.lines.end(0)
    assert (len(mount.lines), mount.lines.state.tasks) == (0, set())
    late.close()


async def test_other_settings_hold_for_what_is_asked_from_now_on_also_on_lines_that_there_are(
    manager: QueueManager,
) -> None:
    settings: dict[str, Any] = {"listen": FREE, "probes": FREE}
    async with serving(manager, **settings) as server:
        kept = await dial(port_of(server, 1))
        await kept.say(GET)
        await kept.head()
        await kept.exactly(3)
        server.change(HttpConfig(**settings, probes_metrics=False, queues_max=1, connections=8))
        await kept.say(request("/metrics"))
        assert answer_of(await kept.rest()).status == 404
        assert "evermq_queues_left_out 1\n" in (await ask(port_of(server), "/metrics")).text
        lines = [await dial(port_of(server)) for _ in range(12)]
        await settle()
        assert (await ask(port_of(server), "/livez")).status == 200
        assert server.lines <= 8
        for line in (*lines, kept):
            line.close()
