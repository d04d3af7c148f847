"""`evermq health`: whom it asks, what it says, and what it does not load for that."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.cli.health import HELLO
from tests.cli.conftest import running
from tests.cli.test_starting import loaded_by, rooms
from tests.server.security.conftest import Files
from tests.wire.test_golden_frames import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

    from tests.cli.conftest import RunningDaemon

MODULES_MAX = 190


def error(result: Result) -> tuple[int, str]:
    return result.exit_code, result.stderr


@contextmanager
def answering(*answers: bytes, family: int = socket.AF_INET, path: str = "") -> Iterator[tuple[str, list[bytes]]]:
    """A socket that gives these answers, one a client; its place, and what was said to it."""
    said: list[bytes] = []
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.bind(path or ("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            for answer in answers:
                line, _ = listening.accept()
                with line:
                    said.append(line.recv(4096))
                    line.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        name = listening.getsockname()
        try:
            yield name if isinstance(name, str) else f"127.0.0.1:{name[1]}", said
        finally:
            thread.join()


def answer(status: str, text: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n{text}".encode()


def configured(folder: Path, text: str) -> str:
    path = folder / "broker.toml"
    path.write_text(text, "utf-8")
    return str(path)


def test_the_greeting_is_the_first_frame_of_a_client() -> None:
    assert GOLDEN.read_text("utf-8").splitlines()[0] == f"client HELLO {HELLO.hex()}"


@pytest.mark.parametrize(("words", "path"), [((), "/livez"), (("--live",), "/livez"), (("--ready",), "/readyz")])
@pytest.mark.parametrize("key", ["listen", "probes"])
def test_it_asks_the_address_of_the_configuration(
    evermq: Callable[..., Result], tmp_path: Path, words: tuple[str, ...], path: str, key: str
) -> None:
    with answering(answer("200 OK", "ok\n")) as (place, said):
        file = configured(tmp_path, f'[http]\n{key} = "{place}"\n')
        result = evermq("health", *words, "--config", file)
    assert (result.exit_code, result.output) == (0, "ok\n")
    assert said == [f"GET {path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode()]


def test_it_asks_the_probes_where_there_are_both(evermq: Callable[..., Result], tmp_path: Path) -> None:
    with answering(answer("200 OK", "ok\n")) as (place, _):
        port = place.rpartition(":")[2]
        file = configured(tmp_path, f'[http]\nlisten = "127.0.0.1:1"\ntls = true\nprobes = "0.0.0.0:{port}"\n')
        assert evermq("health", "--config", file).exit_code == 0


def test_the_checks_that_fail_are_told_a_line_each(evermq: Callable[..., Result]) -> None:
    text = "store_full: there is no room\ngroup: QM1 has no lease\n"
    with answering(answer("503 Service Unavailable", text)) as (place, _):
        result = evermq("health", "--ready", "--url", f"http://{place}")
    assert (result.exit_code, result.stdout, result.stderr) == (20, "", text)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"", "does not answer as a queue manager does"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer as a queue manager does"),
        (answer("404 Not Found", ""), "answers 404 Not Found"),
    ],
)
def test_another_answer_is_no_health(evermq: Callable[..., Result], said: bytes, told: str) -> None:
    with answering(said) as (place, _):
        assert error(evermq("health", "--url", f"http://{place}")) == (20, f"{place} {told}\n")


def test_nobody_there_is_no_health(evermq: Callable[..., Result]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
    assert error(evermq("health", "--url", f"http://{place}")) == (20, f"no answer from {place}: Connection refused\n")
    assert error(evermq("health", "--url", f"mq://{place}")) == (20, f"no answer from {place}: Connection refused\n")


def test_who_does_not_answer_in_time_is_not_healthy(
    evermq: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cli.health.TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        assert error(evermq("health", "--url", f"http://{place}")) == (20, f"no answer from {place}: timed out\n")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_without_http_it_greets_the_port_or_the_unix_socket(
    evermq: Callable[..., Result], tmp_path: Path, family: int
) -> None:
    welcome = bytes.fromhex("0000001898020000a6457665724d5101a3514d31cd7530ce06900000")
    refused = bytes.fromhex("0000000a9503000000cd07e9a0")
    path = str(tmp_path / "QM1.sock") if family == socket.AF_UNIX else ""
    with answering(welcome, refused, family=family, path=path) as (place, said):
        where = f'unix = "{place}"' if path else f"port = {place.rpartition(':')[2]}"
        file = configured(tmp_path, f"[listener]\n{where}\n")
        assert evermq("health", "--live", "--config", file).exit_code == 0
        url = f"mq+unix://{place}" if path else f"mq://{place}"
        assert error(evermq("health", "--url", url)) == (20, f"{place} does not answer as a queue manager does\n")
    assert said == [HELLO, HELLO]


def test_ready_without_http_says_what_to_write(evermq: Callable[..., Result], tmp_path: Path) -> None:
    told = '--ready is asked by HTTP, which is not served: write probes = "127.0.0.1:9481" below [http]'
    assert error(evermq("health", "--ready", "--config", configured(tmp_path, ""))) == (20, f"evermq: {told}\n")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9480", "ftp://host", "http://", "http://u@host", "mq+unix://x", "http://[::1"]
)
def test_a_url_that_is_none_is_told(evermq: Callable[..., Result], url: str) -> None:
    code, text = error(evermq("health", "--url", url))
    assert (code, text.startswith("evermq: --url is none of ")) == (20, True)


def test_a_port_that_is_not_known_is_told(evermq: Callable[..., Result], tmp_path: Path) -> None:
    code, text = error(evermq("health", "--config", configured(tmp_path, '[http]\nprobes = "127.0.0.1:0"\n')))
    assert (code, text) == (20, 'evermq: [http] has "127.0.0.1:0", a port that is not known: name one\n')


def test_a_daemon_is_asked_and_nothing_is_loaded_for_that_but_a_socket(daemon: RunningDaemon, tmp_path: Path) -> None:
    modules = loaded_by("health", "--live", "--url", daemon.url, folder=tmp_path)
    assert len(modules) <= MODULES_MAX
    assert rooms(modules) == {"broker.__main__", "broker.cli", "broker.presentation"}
    assert not modules & {"ssl", "anyio", "msgpack", "logging"}


def test_a_configuration_loads_the_configuration_and_no_more(daemon: RunningDaemon, tmp_path: Path) -> None:
    file = configured(tmp_path, f"[listener]\nport = {daemon.url.rpartition(':')[2]}\n")
    found = rooms(loaded_by("health", "--config", file, folder=tmp_path))
    assert found == {
        "broker.__main__", "broker.cli", "broker.config", "broker.mqi", "broker.presentation", "broker.secret_files",
    }  # fmt: skip


def test_a_daemon_with_http_is_alive_and_ready_also_with_tls(evermq: Callable[..., Result], tmp_path: Path) -> None:
    Files(tmp_path)
    settings: Any = '[listener]\nport = 0\n[http]\nlisten = "127.0.0.1:0"\ntls = true\n'
    file = configured(tmp_path, settings + '[tls]\ncertificate = "server.pem"\nkey = "server.key"\n')
    with running("--config", file, folder=tmp_path) as started:
        (url,) = (each for each in started.addresses if each.startswith("https://"))
        for word in ("--live", "--ready"):
            assert evermq("health", word, "--url", url).output == "ok\n"
