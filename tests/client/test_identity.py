"""Who a client says it is, and what proves it: the sources, their order, and when they are asked."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import broker
from broker import MQError, connect
from broker.client.address import parse
from broker.client.identity import identity_of, is_loopback
from broker.interface.users import process_user
from broker.mqi import MQRC
from tests.client.gate import Brought, Gate, refuse

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD, TOKEN = 1, 2


def give(secret: str) -> Any:
    return lambda: secret


async def given_later() -> str:
    await asyncio.sleep(0)
    return "later"


@pytest.mark.parametrize(
    ("url", "arguments", "environment", "brought"),
    [
        ("mq://", {}, {}, (process_user(),)),
        ("mq://", {}, {"USER": "carol"}, ("carol",)),
        ("mq://bob@", {}, {"USER": "carol"}, ("bob",)),
        ("mq://bob@", {"user": "alice"}, {"USER": "carol"}, ("alice",)),
        ("mq://", {"channel": "A"}, {}, (process_user(), "A", 0, b"")),
        ("mq://bob@", {}, {"PASSWORD": "x"}, ("bob", "", PASSWORD, b"x")),
        ("mq://bob@", {}, {"PASSWORD": "x", "PASSWORD_FILE": "file"}, ("bob", "", PASSWORD, b"x")),
        ("mq://bob@", {}, {"PASSWORD_FILE": "file", "TOKEN_FILE": "none"}, ("bob", "", PASSWORD, b"of a file")),
        ("mq://bob@", {}, {"TOKEN_FILE": "file"}, ("bob", "", TOKEN, b"of a file")),
        ("mq://bob@", {"password": "p"}, {"PASSWORD": "x"}, ("bob", "", PASSWORD, b"p")),
        ("mq://bob@", {"token": "t"}, {"PASSWORD": "x"}, ("bob", "", TOKEN, b"t")),
        ("mq://bob@", {"password": give("p")}, {"PASSWORD": "x"}, ("bob", "", PASSWORD, b"p")),
        ("mq://bob@", {"token": given_later, "channel": "A"}, {}, ("bob", "A", TOKEN, b"later")),
        ("mq://bob@", {"password": "\udcff"}, {}, ("bob", "", PASSWORD, b"\xff")),
        ("mq://bob@", {"password": ""}, {"PASSWORD": "x"}, ("bob", "", PASSWORD, b"")),
    ],
)
async def test_an_argument_comes_before_the_url_and_the_url_before_the_environment(
    url: str,
    arguments: dict[str, Any],
    environment: dict[str, str],
    brought: tuple[Any, ...],
    gate: Gate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X10.1."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"of a file\r\n")
    for name, value in environment.items():
        monkeypatch.setenv(f"EVERMQ_{name}", value)
    async with connect(f"{url}127.0.0.1:{gate.port}", **arguments):
        assert gate.connects == [Brought(*brought)]


async def test_a_url_names_the_channel_and_an_argument_another(gate: Gate) -> None:
    async with connect(f"{gate.url}?channel=A"), connect(f"{gate.url}?channel=A", channel="B"):
        assert [each.channel for each in gate.connects] == ["A", "B"]


@pytest.mark.parametrize("named", ["by an argument", "by the environment"])
async def test_a_file_that_was_replaced_counts_at_the_next_dial(
    named: str, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X10.1."""
    file = tmp_path / "password"
    if named != "by an argument":
        monkeypatch.setenv("EVERMQ_PASSWORD_FILE", str(file))
    made = connect(gate.url, password=file) if named == "by an argument" else connect(gate.url)
    for secret in ("first", "second"):
        file.write_text(f"{secret}\n")
        async with made:
            pass
    assert gate.secrets == [b"first", b"second"]


async def test_a_function_is_called_before_each_dial_of_several_places(gate: Gate) -> None:
    """X10.1."""
    secrets = iter(["first", "second"])
    gate.admit = lambda secret: refuse() if secret == b"first" else None
    async with connect(f"mq://127.0.0.1:{gate.port},127.0.0.1:{gate.port}", password=lambda: next(secrets)):
        assert gate.secrets == [b"first", b"second"]


async def test_a_further_connection_on_the_line_is_of_its_user_without_a_secret(gate: Gate) -> None:
    async with connect(gate.url, user="alice", password="x", channel="A") as connection, await connection.connect():
        assert gate.connects == [Brought("alice", "A", PASSWORD, b"x"), Brought("alice")]


async def test_a_blocking_connection_proves_its_user_too(gate: Gate) -> None:
    def converse() -> None:
        with broker.connect_sync(gate.url, user="alice", password=lambda: "x", channel="A"):
            pass

    await asyncio.to_thread(converse)
    assert gate.connects == [Brought("alice", "A", PASSWORD, b"x")]


# Where a secret may go


@pytest.mark.parametrize("host", ["192.0.2.7", "[2001:db8::7]", "far.example"])
async def test_a_secret_goes_to_no_other_machine_in_the_clear(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    async def found(*names: Any, **options: Any) -> list[Any]:
        return [(2, 1, 6, "", ("127.0.0.1", 1414)), (2, 1, 6, "", ("192.0.2.7", 1414))]

    class Loop:
        getaddrinfo = staticmethod(found)

        def __getattr__(self, name: str) -> Any:
            assert name not in ("create_connection", "create_unix_connection")
            return getattr(loop, name)

    monkeypatch.setattr("broker.client.reaching.asyncio.get_running_loop", Loop)
    with pytest.raises(MQError, match="connect to mqs://") as raised:
        await connect(f"mq://{host}", password="canary")
    assert raised.value.reason == MQRC.SECURITY_ERROR
    assert "canary" not in str(raised.value)


async def test_a_name_that_leads_elsewhere_at_the_dial_gets_no_secret(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def at_first(host: str) -> bool:
        seen.append(host)
        return len(seen) == 1

    monkeypatch.setattr("broker.client.reaching.is_loopback", at_first)
    with pytest.raises(MQError) as raised:
        await connect(gate.url, password="canary")
    assert raised.value.reason == MQRC.SECURITY_ERROR
    assert seen == ["127.0.0.1", "127.0.0.1"]
    assert gate.connects == []


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False), ("::ffff:10.0.0.1", False), ("0.0.0.0", False), ("fe80::1%lo", False),
        ("localhost", False), ("127.0.0.1.example", False),
    ],
)  # fmt: skip
def test_an_address_is_of_this_machine_alone(host: str, private: bool) -> None:
    assert is_loopback(host) == private


async def test_a_name_of_this_machine_gets_a_secret(gate: Gate) -> None:
    async with connect(f"mq://localhost:{gate.port}", password="x"):
        assert gate.secrets == [b"x"]


# What is wrong


@pytest.mark.parametrize(("content", "complaint"), [(None, "No such file"), (b"", "is empty"), (b"\n", "is empty")])
async def test_a_file_without_a_secret_is_2063(
    content: bytes | None, complaint: str, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    monkeypatch.setenv("EVERMQ_TOKEN_FILE", str(tmp_path / "secret"))
    with pytest.raises(MQError, match=complaint) as raised:
        await connect(gate.url)
    assert raised.value.reason == MQRC.SECURITY_ERROR
    assert gate.read == 0


@pytest.mark.parametrize("by_variable", [False, True])
async def test_a_file_that_others_may_write_is_2063(
    by_variable: bool, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text("canary", "utf-8")
    file.chmod(0o666)
    if by_variable:
        monkeypatch.setenv("EVERMQ_PASSWORD_FILE", str(file))
    told = rf"others may write {file} \(mode 0666\), and choose the secret: chmod go-w {file}"
    with pytest.raises(MQError, match=told) as raised:
        await connect(gate.url, password=None if by_variable else file)
    assert raised.value.reason == MQRC.SECURITY_ERROR
    assert "canary" not in str(raised.value)
    assert gate.read == 0


@pytest.mark.parametrize("secret", [b"canary", ["canary"], None, "\ud800canary"])
async def test_what_is_no_text_is_no_secret(secret: Any, gate: Gate) -> None:
    with pytest.raises(TypeError, match="the password of alice") as raised:
        await connect(gate.url, user="alice", password=lambda: secret)
    told = "".join(traceback.format_exception(raised.value))
    assert "canary" not in told.replace('"\\ud800canary"', "")
    assert gate.read == 0


async def test_what_a_function_raises_the_program_gets(gate: Gate) -> None:
    async def failing() -> str:
        raise LookupError("no vault")

    with pytest.raises(LookupError, match="no vault"):
        await connect(gate.url, token=failing)
    assert gate.read == 0


def test_a_password_and_a_token_are_too_many() -> None:
    with pytest.raises(ValueError, match="a password or a token, not both"):
        connect("mq://h", password="x", token="y")


@pytest.mark.parametrize("url", ["mq://h", "mq+unix:///run/mq.sock"])
def test_tls_is_for_mqs(url: str) -> None:
    with pytest.raises(ValueError, match="tls= is for mqs://"):
        connect(url, tls=broker.TLS())


async def test_a_secret_is_in_no_log_no_repr_and_no_error(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """X9.3."""
    caplog.set_level(logging.DEBUG)
    identity = identity_of(parse(gate.url), user="alice", password="canary")
    made = connect(gate.url, user="alice", password="canary")
    gate.admit = lambda secret: refuse()
    with pytest.raises(MQError, match="not authorized") as raised:
        await made
    assert gate.secrets == [b"canary"]
    told = repr(identity), repr(await identity.parameters()), repr(made), repr(raised.value), caplog.text
    assert all("canary" not in each for each in told)
    assert "canary" not in "".join(traceback.format_exception(raised.value)).replace('"canary"', "")
