"""The settings of `[http]`: which addresses there are, and whom they serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config import HttpConfig, http_lines, load
from broker.config.kinds import SocketAddress, host_and_port


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("127.0.0.1:9480", "127.0.0.1", 9480),
        ("localhost:0", "localhost", 0),
        ("[::1]:9480", "::1", 9480),
        ("mq-1.example.com:65535", "mq-1.example.com", 65535),
    ],
)
def test_an_address_has_a_host_and_a_port(address: str, host: str, port: int) -> None:
    assert SocketAddress().check(address, Path()) == address
    assert host_and_port(address) == (host, port)


@pytest.mark.parametrize(
    "address", ["9480", ":9480", "127.0.0.1", "127.0.0.1:", "::1:9480", "[::1:9480", "[]:1", "h:65536", "h:-1", "a b:1"]
)
def test_anything_else_is_none(address: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        SocketAddress().check(address, Path())


@pytest.mark.parametrize(
    ("listen", "others"),
    [
        ("", False),
        ("127.0.0.1:9480", False),
        ("127.9.9.9:9480", False),
        ("[::1]:9480", False),
        ("localhost:9480", False),
        ("0.0.0.0:9480", True),
        ("[::]:9480", True),
        ("mq.example.com:9480", True),
    ],
)
def test_metrics_are_open_to_this_machine_and_else_to_users(listen: str, others: bool) -> None:
    config = HttpConfig(listen=listen)
    assert (config.serves_others, config.metrics_need_users) == (others, others)
    assert HttpConfig(listen=listen, metrics="users").metrics_need_users
    assert not HttpConfig(listen=listen, metrics="open").metrics_need_users


def test_the_environment_names_the_addresses() -> None:
    config = load(None, {"EVERMQ_HTTP_LISTEN": "127.0.0.1:9480", "EVERMQ_HTTP_PROBES": "0.0.0.0:9481"}).http
    assert config == HttpConfig(listen="127.0.0.1:9480", probes="0.0.0.0:9481")


def test_the_lines_that_serve_other_machines_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(http_lines("0.0.0.0:9480"))
    config = load(path, {})
    assert config.http == HttpConfig(listen="0.0.0.0:9480", tls=True)
    assert (config.tls.host, config.tls.certificate) == ("", tmp_path / "server.pem")
