"""Hosts of a network are there, and nobody else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.security.network import namespaces
from tests.security.network.conftest import ELSEWHERE, SERVER
from tests.security.network.namespaces import NoNamespacesError, network

if TYPE_CHECKING:
    from tests.security.network.namespaces import Host

ACCEPT = """
import socket
with socket.create_server(("0.0.0.0", 99)) as server:
    print("listening", flush=True)
    accepted, (address, _) = server.accept()
    print(address, accepted.recv(100).decode())
"""
CONNECT = "import socket; socket.create_connection(('mq.example.com', 99)).sendall(b'hello')"


def test_a_host_reaches_another_by_its_name_and_is_seen_by_its_address(hosts: dict[str, Host], tmp_path: Path) -> None:
    with subprocess.Popen(
        [*hosts["server"].inside(tmp_path), sys.executable, "-c", ACCEPT], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        hosts["elsewhere"].run(sys.executable, "-c", CONNECT)
        assert server.stdout.read() == f"{ELSEWHERE} hello\n"


def test_a_host_has_its_network_and_no_way_out_of_it(hosts: dict[str, Host]) -> None:
    assert hosts["server"].run("ip", "-4", "route") == f"192.0.2.0/24 dev eth0 proto kernel scope link src {SERVER} \n"


def test_of_a_network_nothing_is_left() -> None:
    try:
        with network({"host": SERVER}) as made:
            pid = made["host"].enter[1].partition("=")[2]
            assert Path(f"/proc/{pid}").exists()
    except NoNamespacesError as error:
        pytest.skip(str(error))
    assert not Path(f"/proc/{pid}").exists()


def test_where_there_can_be_no_network_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "PROGRAMS", ("unshare", "no-such-program"))
    with pytest.raises(NoNamespacesError, match="need no-such-program"), network({"host": SERVER}):
        pass
