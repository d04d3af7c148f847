"""Socket activation: the daemon serves on sockets that were opened for it."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager, connect
from broker.config import Config, HttpConfig, LimitsConfig, ListenerConfig
from broker.server import Server, StartError
from broker.server.http_serving import http_serving
from broker.server.service.activation import activated_sockets
from broker.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def tcp(undo: ExitStack, host: str = "127.0.0.1", *, listens: bool = True) -> socket.socket:
    found = undo.enter_context(socket.socket())
    found.bind((host, 0))
    if listens:
        found.listen()
    return found


def handed_over(undo: ExitStack, *sockets: socket.socket) -> int:
    """Number the descriptors of sockets one after the other, as systemd does, from one on that is free."""
    first = max((int(each) for each in os.listdir("/proc/self/fd")), default=0) + 10
    for place, each in enumerate(sockets):
        os.dup2(each.fileno(), first + place)
    return first


def environ(names: str, count: int) -> dict[str, str]:
    return {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(count), "LISTEN_FDNAMES": names, "HOME": "/"}


async def test_a_server_listens_on_the_sockets_that_were_handed_over(undo: ExitStack, tmp_path: Path) -> None:
    unix = undo.enter_context(socket.socket(socket.AF_UNIX))
    unix.bind(str(tmp_path / "socket"))
    unix.listen()
    opened = tcp(undo)
    variables = environ("tcp:unix", 2)
    sockets = activated_sockets(variables, first=handed_over(undo, opened, unix))
    assert variables == {"HOME": "/"}
    async with (
        QueueManager.open(name="QM1") as manager,
        Server(manager, ListenerConfig(port=0), LimitsConfig(), sockets=sockets) as server,
    ):
        port = opened.getsockname()[1]
        assert server.addresses == (f"127.0.0.1:{port}", str(tmp_path / "socket"))
        for url in (f"mq://127.0.0.1:{port}", f"mq+unix://{tmp_path}/socket"):
            async with connect(url) as connection:
                assert connection.q_mgr_name == "QM1"
    assert (tmp_path / "socket").exists()  # it is of who has made it


def test_sockets_of_another_process_are_not_ours(undo: ExitStack) -> None:
    assert activated_sockets({**environ("tcp", 1), "LISTEN_PID": "1"}, first=99) == {}
    assert activated_sockets({}, first=99) == {}


def test_what_is_handed_over_without_a_name_or_under_another_is_refused(undo: ExitStack) -> None:
    for names in ("", "evermq.socket"):
        with pytest.raises(StartError, match="one of tcp, unix, tls, http, probes"):
            activated_sockets(environ(names, 1), first=handed_over(undo, tcp(undo)))


def test_a_socket_that_does_not_listen_is_refused(undo: ExitStack) -> None:
    with pytest.raises(StartError, match=r"handed over as tcp does not listen for TCP \(ListenStream=\)"):
        activated_sockets(environ("tcp", 1), first=handed_over(undo, tcp(undo, listens=False)))
    with pytest.raises(StartError, match="handed over as unix does not listen for Unix"):
        activated_sockets(environ("unix", 1), first=handed_over(undo, tcp(undo)))
    with pytest.raises(StartError, match="handed over as tcp cannot be used: "):
        activated_sockets(environ("tcp", 1), first=handed_over(undo) + 5)


def test_a_socket_without_tls_listens_on_loopback_alone(undo: ExitStack) -> None:
    with pytest.raises(StartError, match=r"listens on 0\.0\.0\.0: without TLS .* Hand it over as tls"):
        activated_sockets(environ("tcp", 1), first=handed_over(undo, tcp(undo, "0.0.0.0")))


async def test_a_socket_for_tls_needs_the_section(undo: ExitStack) -> None:
    async with QueueManager.open(name="QM1") as manager:
        server = Server(manager, ListenerConfig(port=0), LimitsConfig(), sockets={"tls": [tcp(undo)]})
        with pytest.raises(StartError, match=r"handed over as tls, and there is no \[tls\] host"):
            async with server:
                pass


async def test_probes_are_answered_on_a_socket_that_was_handed_over(undo: ExitStack) -> None:
    opened = tcp(undo)
    config = Config(http=HttpConfig(probes="127.0.0.1:1"))
    sockets = activated_sockets(environ("probes", 1), first=handed_over(undo, opened))
    serve = http_serving(config, sockets)
    async with QueueManager.open(config=config, store=MemoryStore()) as manager, serve(manager) as http:
        assert http.addresses == (f"http://127.0.0.1:{opened.getsockname()[1]}",)
        reader, writer = await asyncio.open_connection(*opened.getsockname())
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"200"
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(("name", "key"), [("http", "listen"), ("probes", "probes")])
def test_a_socket_for_http_needs_the_section(undo: ExitStack, name: str, key: str) -> None:
    with pytest.raises(StartError, match=rf"handed over as {name}, and there is no \[http\] {key}"):
        http_serving(Config(), {name: [tcp(undo)]})
