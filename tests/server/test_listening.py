"""The listener: which addresses it takes, how clients find it, and how it ends."""

from __future__ import annotations

import asyncio
import grp
import os
import random
import shutil
import socket
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError, connect
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQOO, MQRC
from broker.server import Server, StartError
from broker.wire import Endpoint, Role, Verb
from tests.wire.ends import HELLO

if TYPE_CHECKING:
    from pathlib import Path

    from broker import QueueManager


def serving(manager: QueueManager, *, limits: LimitsConfig | None = None, **listener: Any) -> Server:
    return Server(manager, ListenerConfig(**{"port": 0, **listener}), limits or LimitsConfig())


async def cannot_listen(manager: QueueManager, **listener: Any) -> str:
    """The error with which a listener does not start."""
    with pytest.raises(StartError) as caught:
        await serving(manager, **listener).__aenter__()
    return str(caught.value)


async def reason(url: str) -> tuple[int, str]:
    """The error with which connecting fails."""
    with pytest.raises(MQError) as caught:
        async with connect(url):
            pass
    return caught.value.reason, caught.value.detail


async def test_port_0_takes_a_free_port_and_shows_it(manager: QueueManager) -> None:
    async with serving(manager) as one, serving(manager) as two:
        assert one.addresses[0] != two.addresses[0]
        for server in (one, two):
            async with connect(f"mq://{server.addresses[0]}") as connection:
                assert connection.q_mgr_name == "QM1"


async def test_localhost_and_the_loopback_of_ipv6_will_do(manager: QueueManager) -> None:
    async with serving(manager, host="localhost") as server, connect(f"mq://{server.addresses[0]}"):
        pass
    if socket.has_dualstack_ipv6():
        async with serving(manager, host="::1") as server, connect(f"mq://{server.addresses[0]}"):
            assert server.addresses[0].startswith("[::1]:")


async def test_answers_leave_at_once_and_do_not_wait_for_those_before_them(manager: QueueManager) -> None:
    async with serving(manager) as server, connect(f"mq://{server.addresses[0]}"):
        (session,) = server._sessions
        line = session.transport.get_extra_info("socket")
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", ""])
async def test_no_other_address_than_loopback_is_taken(manager: QueueManager, host: str) -> None:
    assert "loopback addresses only" in await cannot_listen(manager, host=host)


async def test_a_port_in_use_is_an_error_that_names_it(manager: QueueManager) -> None:
    async with serving(manager) as server:
        host, _, port = server.addresses[0].rpartition(":")
        assert await cannot_listen(manager, port=int(port)) == f"cannot listen on {host}:{port}: Address already in use"


async def test_nobody_listening_is_2538_with_the_address(manager: QueueManager, tmp_path: Path) -> None:
    async with serving(manager) as server:
        address = server.addresses[0]
    assert await reason(f"mq://{address}") == (
        2538,
        f"nobody answers at {address}: Connection refused; start one with: evermq run",
    )
    path = tmp_path / "mq.sock"
    assert await reason(f"mq+unix://{path}") == (
        2538,
        f"nobody answers at {path}: No such file or directory; start one with: evermq run",
    )


async def test_a_listener_that_is_no_queue_manager_is_2059() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        code, detail = await reason(f"mq://127.0.0.1:{port}")
    assert code == MQRC.Q_MGR_NOT_AVAILABLE
    assert detail.startswith(f"127.0.0.1:{port}: ")


async def test_another_queue_managers_name_is_2058(manager: QueueManager) -> None:
    async with serving(manager) as server:
        assert await reason(f"mq://{server.addresses[0]}/QM2") == (2058, "QM2 is not here; this is QM1")


async def test_sockets_over_the_limit_are_2025(manager: QueueManager) -> None:
    only_one = serving(manager, limits=LimitsConfig(connections=1))
    async with only_one as server, connect(f"mq://{server.addresses[0]}"):
        assert (await reason(f"mq://{server.addresses[0]}"))[0] == MQRC.MAX_CONNS_LIMIT_REACHED


async def test_a_quiescing_queue_manager_is_2161(manager: QueueManager) -> None:
    async with serving(manager) as server:
        await manager.quiesce(0)
        assert (await reason(f"mq://{server.addresses[0]}"))[0] == MQRC.Q_MGR_QUIESCING


async def test_a_listener_that_stops_ends_waits_with_2162_and_hangs_up(manager: QueueManager) -> None:
    async with serving(manager) as server:
        connecting = connect(f"mq://{server.addresses[0]}")
        connection = await connecting.__aenter__()
        queue = await connection.open("Q", MQOO.INPUT_SHARED)
        waiting = asyncio.ensure_future(queue.get(wait=float("inf")))
        await connection.status()
    with pytest.raises(MQError, match=r"2162\): .* QM1 is stopping"):
        await waiting
    assert server.sessions == 0
    assert manager.status()["connections"] == 0
    await connecting.__aexit__(None, None, None)


# Unix sockets.


async def test_a_unix_socket_serves_beside_the_port_and_goes_with_the_server(
    manager: QueueManager, tmp_path: Path
) -> None:
    path = tmp_path / "mq.sock"
    async with serving(manager, unix=path) as server:
        assert server.addresses[1] == str(path)
        async with connect(f"mq+unix://{path}?name=QM1") as connection:
            await connection.put1("Q", b"hello")
        assert (await reason(f"mq+unix://{path}?name=QM2"))[0] == MQRC.Q_MGR_NAME_ERROR
    assert not path.exists()


async def test_a_socket_that_a_dead_daemon_left_is_replaced(manager: QueueManager, tmp_path: Path) -> None:
    path = tmp_path / "mq.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    async with serving(manager, unix=path), connect(f"mq+unix://{path}"):
        pass


async def test_a_socket_that_somebody_answers_on_is_left_alone(manager: QueueManager, tmp_path: Path) -> None:
    path = tmp_path / "mq.sock"
    async with serving(manager, unix=path):
        assert await cannot_listen(manager, unix=path) == f"cannot listen on {path}: another process does"
        async with connect(f"mq+unix://{path}"):
            pass


async def test_a_file_that_is_no_socket_is_left_alone(manager: QueueManager, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")
    assert "the file there is not a socket" in await cannot_listen(manager, unix=path)
    assert path.read_text() == "precious"


async def test_a_folder_that_is_not_there_is_an_error(manager: QueueManager, tmp_path: Path) -> None:
    assert "No such file" in await cannot_listen(manager, unix=tmp_path / "missing" / "mq.sock")


async def test_a_listener_that_fails_leaves_nothing_behind(manager: QueueManager, tmp_path: Path) -> None:
    async with serving(manager) as server:
        port = int(server.addresses[0].rpartition(":")[2])
        await cannot_listen(manager, port=port, unix=tmp_path / "mq.sock")
    assert not (tmp_path / "mq.sock").exists()
    await cannot_listen(manager, port=port, unix=tmp_path / "missing" / "mq.sock")
    async with serving(manager, port=port):
        pass


def access(path: Path) -> tuple[str, int]:
    found = path.stat()
    return oct(stat.S_IMODE(found.st_mode)), found.st_gid


@pytest.mark.parametrize("mask", [0, 0o777], ids=oct)
async def test_a_unix_socket_is_the_owners_alone_unless_told_otherwise(
    manager: QueueManager, tmp_path: Path, mask: int
) -> None:
    path = tmp_path / "mq.sock"
    before = os.umask(mask)
    try:
        async with serving(manager, unix=path):
            assert access(path) == ("0o600", os.getgid())
            assert os.umask(mask) == mask
        async with serving(manager, unix=path, unix_mode="660", unix_group=str(os.getgid())):
            assert access(path) == ("0o660", os.getgid())
    finally:
        os.umask(before)


async def test_a_unix_socket_is_at_no_time_open_to_more_than_it_will_be(
    manager: QueueManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mq.sock"
    story: list[tuple[str, str]] = []
    chown, chmod = shutil.chown, os.chmod

    def noted_chown(where: Path, group: str | int) -> None:
        story.append(("chown", access(path)[0]))
        chown(where, group=group)

    def noted_chmod(where: Path, mode: int) -> None:
        story.append(("chmod", access(path)[0]))
        chmod(where, mode)

    monkeypatch.setattr(shutil, "chown", noted_chown)
    monkeypatch.setattr(os, "chmod", noted_chmod)
    async with serving(manager, unix=path, unix_mode="0666", unix_group=grp.getgrgid(os.getgid()).gr_name):
        assert (story, access(path)[0]) == ([("chown", "0o0"), ("chmod", "0o0")], "0o666")


async def test_a_group_that_cannot_be_had_is_an_error_and_leaves_no_socket(
    manager: QueueManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mq.sock"
    reported = await cannot_listen(manager, unix=path, unix_group="nobodies-group")
    assert reported == f"cannot listen on {path}: there is no group 'nobodies-group' here (unix_group)"

    def refused(where: Path, group: str | int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(shutil, "chown", refused)
    reported = await cannot_listen(manager, unix=path, unix_group="wheel")
    assert reported == f"cannot give {path} to group 'wheel' (unix_group): Operation not permitted"
    assert not path.exists()


# Hostile clients.


async def test_noise_on_a_line_ends_that_line_and_nothing_else(manager: QueueManager) -> None:
    noise = random.Random(1)
    async with serving(manager) as server, connect(f"mq://{server.addresses[0]}") as connection:
        host, _, port = server.addresses[0].rpartition(":")
        for number in range(200):
            reader, writer = await asyncio.open_connection(host, int(port))
            if number % 2:
                end = Endpoint(Role.CLIENT)
                writer.write(end.send(*HELLO))
                length = noise.randrange(1, 40)
                writer.write(length.to_bytes(4, "big"))
            writer.write(noise.randbytes(noise.randrange(4, 60)))
            writer.write_eof()
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
        await connection.put1("Q", b"hello")


async def test_a_client_that_never_reads_does_not_hold_up_the_others(manager: QueueManager) -> None:
    async with serving(manager) as server:
        host, _, port = server.addresses[0].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        end = Endpoint(Role.CLIENT)
        writer.write(end.send(*HELLO))
        end.receive(await reader.readuntil(b"\xcd\x75\x30\xce\x06\x90\x00\x00"))
        writer.write(end.send(Verb.CONNECT, 1, 1, "", "", ""))
        for number in range(2, 2000):
            writer.write(end.send(Verb.STATUS, 1, number))
        async with connect(f"mq://{server.addresses[0]}") as connection:
            for _ in range(100):
                await connection.put1("Q", b"hello")
        writer.transport.abort()


@pytest.mark.parametrize("turns", range(8))
async def test_a_line_that_is_made_in_the_turn_in_which_the_listener_ends_is_ended_as_any_other(
    turns: int, manager: QueueManager
) -> None:
    """uvloop tells the protocol of a line nothing whose making is cancelled."""
    async with serving(manager) as server:
        host, _, port = server.addresses[0].rpartition(":")
        clients = [socket.create_connection((host, int(port))) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
    assert server.sessions == 0
    for client in clients:
        client.settimeout(5)
        with client, suppress(ConnectionResetError):
            while client.recv(4096):
                pass
