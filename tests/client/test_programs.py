"""Apps, workers and commands say who they are as `connect` does."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest

from broker import TLS
from broker.cli.conversation import with_url
from broker.cli.program import CannotRunError
from broker.cli.worker.loading import load_all
from broker.cli.worker.serving import Settings
from tests.client.gate import Brought, Gate
from triggers import App
from triggers.app.source import UrlSource, source_of

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD, TOKEN = 1, 2


async def enter(app: App, gate: Gate) -> list[Brought]:
    async with app.source.connect("test"):
        return gate.connects


async def test_an_app_proves_its_user(gate: Gate) -> None:
    app = App(gate.url, user="alice", token=lambda: "x", channel="A")
    assert await enter(app, gate) == [Brought("alice", "A", TOKEN, b"x")]


@pytest.mark.parametrize("source", ["folder", "."])
def test_an_app_in_this_process_proves_nothing(source: str) -> None:
    with pytest.raises(TypeError, match="App takes password, user with a URL alone"):
        App(source, user="alice", password="x")


def test_an_app_refuses_a_secret_in_its_url_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="has a password") as raised:
        App("mq://alice:canary@h")
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "identity", "brought"),
    [
        (None, {}, Brought("alice", "A", PASSWORD, b"x")),
        (None, {"user": "bob"}, Brought("bob", "A", PASSWORD, b"x")),
        (None, {"channel": "B"}, Brought("alice", "B", PASSWORD, b"x")),
        ("url", {"user": "bob", "channel": "B"}, Brought("bob", "B", PASSWORD, b"x")),
        ("url", {}, Brought("alice", "A", PASSWORD, b"x")),
    ],
)
async def test_the_command_line_of_a_worker_goes_before_its_app(
    url: str | None, identity: dict[str, str], brought: Brought,
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "w_proved.py").write_text(
        "from triggers import App\n"
        f"app = App({gate.url!r}, user='alice', password=lambda: 'x', channel='A')\n"
        "@app.handler('Q')\nasync def handle(body: str) -> None: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "w_proved", raising=False)
    loaded = load_all(["w_proved"], url and gate.url, None, identity)
    assert await enter(loaded.apps["w_proved:app"], gate) == [brought]


def test_a_workers_certificate_takes_the_place_of_its_apps() -> None:
    source = source_of("mqs://h", user="alice", tls=TLS(ca="a.pem"))
    assert isinstance(source, UrlSource)
    other = source.at("mqs://h?ca=b.pem", {"ca": "b.pem"})
    assert str(other) == "mqs://h?ca=b.pem"
    assert other._identity == {"user": "alice"}


def test_the_settings_of_a_worker_name_what_was_given() -> None:
    assert Settings(("m",)).identity == {}
    assert Settings(("m",), user="alice", cert="c.pem", cert_key="k.pem").identity == {
        "user": "alice", "cert": "c.pem", "key": "k.pem"
    }  # fmt: skip


async def test_a_command_says_who_connects(gate: Gate, evermq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERMQ_PASSWORD", "canary")
    words = ("pause", "Q", "--url", gate.url, "--user", "alice", "--channel", "A")
    loop = asyncio.get_running_loop()
    done = await loop.run_in_executor(None, evermq, *words)  # without the context, by which it would be on this loop
    assert gate.connects == [Brought("alice", "A", PASSWORD, b"canary")]
    assert "canary" not in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ca", "a.pem"], "ca is not for mq://"),
        (["--url", "mqs://127.0.0.1:1", "--ca", "/nowhere.pem"], "cannot connect to mqs://127.0.0.1:1?ca=/nowhere.pem"),
        (["--url", "mq://alice:canary@h"], "has a password"),
        (["--url", "mq://alice:canary@h", "--user", "bob"], "has a password"),
    ],
)
def test_a_command_that_cannot_say_so_is_told(words: list[str], told: str, evermq: Any) -> None:
    done = evermq("status", *words)
    assert told in done.output
    assert "canary" not in done.output
    assert done.exit_code == 20


def test_no_command_takes_a_password() -> None:
    def given(url: str) -> str:
        return url

    command: Any = with_url(given)
    names = [option.opts[0] for option in command.__click_params__]
    assert sorted(names) == ["--ca", "--cert", "--cert-key", "--channel", "--url", "--user"]
    assert command(url="mq://h", user="a", channel="", ca="", cert="", cert_key="") == "mq://a@h"
    with pytest.raises(CannotRunError, match="cert is not for mq://"):
        command(url="mq://h", user="a", channel="", ca="", cert="c", cert_key="")
