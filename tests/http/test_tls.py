"""HTTP over TLS: its sockets come from the acceptor of the daemon, with its places and its log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from broker.testing import VirtualClock
from tests.http.client import answer_of, ask, dial, request, said
from tests.http.conftest import FREE, port_of, serving
from tests.http.test_metrics import run
from tests.server.security.conftest import Files, until

if TYPE_CHECKING:
    from pathlib import Path

    from broker import QueueManager
    from broker.server.http_server import HttpServer
    from broker.server.security.acceptor import Acceptor


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


SETTINGS: Any = {"listen": FREE, "tls": True}


def acceptor_of(server: HttpServer) -> Acceptor:
    (address,) = server._addresses
    return address.acceptor


async def test_a_line_holds_no_place_once_it_has_shaken_hands(manager: QueueManager, files: Files) -> None:
    async with serving(manager, files=files.config, **SETTINGS) as server:
        places = acceptor_of(server).places
        line = await dial(port_of(server), files.client())
        await line.say(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in await line.head()
        assert (places.taken, server.lines) == (0, 1)
        line.close()
        await until(lambda: server.lines == 0)
        assert acceptor_of(server)._entering == {}


async def test_a_client_without_tls_is_told_nothing_and_the_log_why(
    manager: QueueManager, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(manager, files=files.config, **SETTINGS) as server:
        assert b"HTTP" not in await said(port_of(server), request("/livez"))
        await until(lambda: "no TLS handshake: the client speaks HTTP" in caplog.text)
        assert (await ask(port_of(server), "/livez", context=files.client())).status == 200


async def test_a_handshake_that_does_not_come_ends_the_line(
    manager: QueueManager, clock: VirtualClock, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving(manager, files=files.config, **SETTINGS) as server:
        places = acceptor_of(server).places
        line = await dial(port_of(server))
        await until(lambda: places.taken == 1)
        await clock.advance(4.9)
        assert places.taken == 1
        await clock.advance(0.2)
        assert await line.rest() == b""
        await until(lambda: places.taken == 0)
        assert "no handshake within [limits] login_timeout = 5 s" in caplog.text
        line.close()


async def test_the_end_waits_for_no_handshake(manager: QueueManager, files: Files) -> None:
    async with serving(manager, files=files.config, **SETTINGS) as server:
        line = await dial(port_of(server))
        await until(lambda: acceptor_of(server).places.taken == 1)
    assert await line.rest() == b""
    line.close()


async def test_an_address_that_is_blocked_is_not_answered(manager: QueueManager) -> None:
    await run(manager, "SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('127.0.0.1')\nALTER QMGR CHLAUTH(ENABLED)")
    async with serving(manager) as server:
        assert await said(port_of(server), request("/livez")) == b""


async def test_a_request_too_long_is_answered_over_tls_as_well(manager: QueueManager, files: Files) -> None:
    async with serving(manager, files=files.config, **SETTINGS) as server:
        line = await dial(port_of(server), files.client())
        await line.say(b"GET /livez HTTP/1.1\r\nX: " + b"x" * 17_000)
        assert answer_of(await line.head()).status == 431
        line.close()
