"""The Host, the origin and the proxies that a request may come by."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from broker.http.entrance.hosts import RequestOrigins
from tests.http.client import answer_of, ask, said
from tests.http.conftest import FREE, port_of, serving
from tests.http.door import Door, basic, doors

if TYPE_CHECKING:
    from broker import QueueManager

LOGIN = "/ibmmq/rest/v3/login"


HOSTS = [
    ("localhost", 200),
    ("LOCALHOST:9480", 200),
    ("localhost.", 200),
    ("a.localhost:1", 200),
    ("127.0.0.1", 200),
    ("127.9.9.9:80", 200),
    ("[::1]:9480", 200),
    ("mq.example.com", 200),
    ("MQ.Example.COM:443", 200),
    ("evil.example.com", 421),
    ("mq.example.com.evil.org", 421),
    ("localhost.evil.org", 421),
    ("192.0.2.1", 421),
    ("[2001:db8::1]:80", 421),
    ("127.0.0.1.nip.io", 421),
    ("x" * 5000, 421),
    ("[", 421),
    ("\xff\xfe", 421),
]


async def test_a_host_that_is_not_known_here_is_421_also_for_figures(manager: QueueManager) -> None:
    async with serving(manager, listen=FREE, probes=FREE, hosts=("mq.Example.com",)) as server:
        for host, status in HOSTS:
            for path in ("/metrics", "/livez"):
                answer = await ask(port_of(server), path, host=host)
                assert answer.status == status, host
                assert len(answer.text) < 300 or status == 200
            assert (await ask(port_of(server, 1), "/livez", host=host)).status == 200, "at the address of the probes"


async def test_a_request_has_one_host_and_a_client_that_is_no_browser_none(manager: QueueManager) -> None:
    async with serving(manager) as server:
        port = port_of(server)
        assert (await ask(port, "/livez", "Host: localhost")).status == 400
        answer = answer_of(await said(port, b"GET /livez HTTP/1.0\r\n\r\n"))
        assert (answer.status, answer.text) == (200, "ok\n")


def scope(server: str, host: str, **given: object) -> dict[str, object]:
    state = {"address": "127.0.0.1"}
    headers = [(b"host", host.encode())]
    return {
        "type": "http", "method": "GET", "scheme": "https", "headers": headers, "server": (server, 1), "state": state
    } | given  # fmt: skip


def test_the_address_that_a_line_has_come_to_is_ours_and_no_other() -> None:
    origins = RequestOrigins()
    assert origins.refusal(scope("192.0.2.1", "192.0.2.1:9480")) is None
    assert origins.refusal(scope("2001:db8::1", "[2001:DB8:0::1]")) is None
    refusal = origins.refusal(scope("192.0.2.1", "192.0.2.2"))
    assert refusal is not None
    assert refusal.status_code == 421


ORIGINS = [
    ("http://localhost", 204),
    ("HTTP://LOCALHOST", 204),
    ("https://localhost", 403),
    ("http://localhost:8080", 403),
    ("http://evil.example.com", 403),
    ("null", 403),
    ("", 403),
    ("<script>", 403),
]


async def test_nothing_that_changes_anything_is_taken_from_a_page_of_elsewhere(door: Door) -> None:
    body = {"username": "bob", "password": "secret"}
    for origin, status in ORIGINS:
        assert (await door.ask(LOGIN, f"Origin: {origin}", method="POST", body=body)).status == status, origin
        assert (await door.ask(LOGIN, f"Origin: {origin}", basic("bob"))).status == 200, "reading is no harm"


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of those who have come to log in."""
    from broker.engine.security import login

    seen: list[str] = []
    admit = login.LoginRequest.__init__

    def noted(self: login.LoginRequest, **given: object) -> None:
        seen.append(str(given.get("address")))
        admit(self, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(login.LoginRequest, "__init__", noted)
    return seen


async def test_a_proxy_that_is_not_named_is_the_caller(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    async with doors(manager, monkeypatch, by_url=False) as door:
        told = ("X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https")
        cookie = await door.ask(LOGIN, *told, method="POST", body={"username": "bob", "password": "secret"})
        assert addresses[-1] == "127.0.0.1"
        assert "Secure" not in cookie.headers["set-cookie"]


async def test_a_named_proxy_is_believed_of_the_last_that_it_has_seen_itself(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    proxies = ("127.0.0.1", "10.0.0.1")
    async with doors(manager, monkeypatch, by_url=False, forwarded_from=proxies) as door:
        for told, address in (
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.8:4711", "192.0.2.8"),
            ("[2001:db8::7]:4711", "2001:db8::7"),
            ("198.51.100.1, 192.0.2.9", "192.0.2.9"),
            ("198.51.100.1, 192.0.2.10, 10.0.0.1", "192.0.2.10"),
            ("not an address, 192.0.2.11", "192.0.2.11"),
        ):
            headers = (f"X-Forwarded-For: {told}", "X-Forwarded-Proto: https", "Origin: https://localhost")
            answer = await door.ask(LOGIN, *headers, method="POST", body={"username": "bob", "password": "secret"})
            assert (answer.status, addresses[-1]) == (204, address)
            assert "; Secure;" in answer.headers["set-cookie"], "the browser came by TLS"


async def test_what_a_named_proxy_says_has_to_be_an_address(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with doors(manager, monkeypatch, by_url=False, forwarded_from=("127.0.0.1",)) as door:
        assert (await door.ask(LOGIN, "X-Forwarded-For: unknown", basic("bob"))).status == 400


async def test_a_proxy_with_a_host_of_its_own_sends_pages_of_the_names_of_the_server(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"forwarded_from": ("127.0.0.1",), "hosts": ("mq.example.com",)}
    async with doors(manager, monkeypatch, by_url=False, **settings) as door:
        for origin, status in (("https://mq.example.com", 204), ("https://evil.example.com", 403)):
            headers = ("X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https", f"Origin: {origin}")
            body = {"username": "bob", "password": "secret"}
            assert (await door.ask(LOGIN, *headers, method="POST", body=body)).status == status


def test_names_of_hosts_need_no_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_up(*args: object) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    assert RequestOrigins().refusal(scope("192.0.2.1", "no.such.host.example")) is not None
