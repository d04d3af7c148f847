"""`evermq http`: the HTTP server as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from broker.cli.http import _urls
from tests.cli.conftest import command, environment, running
from tests.security.lines import PASSWORD, users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import RunningDaemon


@contextmanager
def serving(*words: str, folder: Path, **variables: str) -> Iterator[str]:
    """An HTTP server in a process of its own; the URL of the address that its ready line names."""
    with subprocess.Popen(
        command("http", *words), stderr=subprocess.PIPE, text=True, cwd=folder, env=environment(**variables)
    ) as process:
        assert process.stderr is not None
        try:
            log = []
            for line in process.stderr:
                log.append(line)
                if found := re.search(r"evermq http ready on (http://[\d.:]+)", line):
                    yield found[1]
                    break
            else:
                raise AssertionError("".join(log))
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
        assert process.returncode == 0


def fetched(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urlopen(Request(url, headers=headers), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def until(url: str, status: int) -> str:
    """Ask until an answer has this status, which the test's own timeout bounds; its text."""
    while (answer := fetched(url))[0] != status:
        pass
    return answer[1]


def test_it_serves_the_figures_of_another_process(daemon: RunningDaemon, tmp_path: Path) -> None:
    with serving("--url", daemon.url, "--listen", "127.0.0.1:0", folder=tmp_path) as url:
        assert fetched(f"{url}/livez") == (200, "ok\n")
        assert until(f"{url}/readyz", 200) == "ok\n"
        status, text = fetched(f"{url}/metrics?queue=SYSTEM.*")
        assert (status, 'evermq_queue_depth{queue="SYSTEM.' in text) == (200, True)


def test_it_is_alive_and_not_ready_without_its_queue_manager(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[listener]\nport = 0\n", "utf-8")
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        port = daemon.url.rpartition(":")[2]
        (tmp_path / "again.toml").write_text(f"[listener]\nport = {port}\n", "utf-8")
    with serving("--url", daemon.url, "--listen", "127.0.0.1:0", folder=tmp_path) as url:
        assert fetched(f"{url}/livez") == (200, "ok\n")
        text = until(f"{url}/readyz", 503)
        assert text.startswith("connection: ")
        status, text = fetched(f"{url}/metrics")
        assert (status, text.startswith("MQRC_HOST_NOT_AVAILABLE (2538)")) == (503, True)
        with running("--config", "again.toml", folder=tmp_path):
            assert until(f"{url}/readyz", 200) == "ok\n"


def test_callers_log_in_to_the_queue_manager_and_nobody_comes_in_as_the_server(tmp_path: Path) -> None:
    (tmp_path / "users.mqsc").write_text(f"DEFINE QLOCAL(Q)\n{users()}", "utf-8")
    settings = '[queue_manager]\nstartup = ["users.mqsc"]\n[listener]\nport = 0\n'
    (tmp_path / "broker.toml").write_text(settings, "utf-8")
    (tmp_path / "http.toml").write_text('[http]\nlisten = "127.0.0.1:0"\nmetrics = "users"\n', "utf-8")
    root = {"EVERMQ_USER": "root", "EVERMQ_PASSWORD": PASSWORD}
    with (
        running("--config", "broker.toml", folder=tmp_path) as daemon,
        serving("--url", daemon.url, "--config", "http.toml", folder=tmp_path, **root) as url,
    ):
        assert until(f"{url}/readyz", 200) == "ok\n"
        assert fetched(f"{url}/metrics")[0] == 401
        assert fetched(f"{url}/metrics", Authorization="Basic cm9vdDp3cm9uZw==")[0] == 401  # root:wrong
        assert fetched(f"{url}/metrics", Authorization="Basic cm9vdDpzZWNyZXQ=")[0] == 200  # root:secret
        assert fetched(f"{url}/metrics", Authorization="Basic Ym9iOnNlY3JldA==")[0] == 403  # bob:secret


@pytest.mark.parametrize(
    ("url", "variables", "own", "callers"),
    [
        ("mq://h:1/QM", {}, "mq://h:1/QM", "mq://h:1/QM"),
        ("mq://al@h:1?channel=C", {}, "mq://al@h:1?channel=C", "mq://h:1?channel=C"),
        (
            "mqs://al@h/QM?ca=/x/ca.pem&cert=c.pem&key=c.key",
            {},
            "mqs://al@h/QM?ca=/x/ca.pem&cert=c.pem&key=c.key",
            "mqs://h/QM?ca=/x/ca.pem",
        ),
        ("mqs://h", {"EVERMQ_CERT": "c.pem", "EVERMQ_KEY": "c.key"}, "mqs://h?cert=c.pem&key=c.key", "mqs://h"),
        ("mq+unix:///a@b.sock", {}, "mq+unix:///a@b.sock", "mq+unix:///a@b.sock"),
    ],
)
def test_callers_are_not_given_what_proves_the_server(
    url: str, variables: dict[str, str], own: str, callers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EVERMQ_CERT", "EVERMQ_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _urls(url) == (own, callers)
    assert not {"EVERMQ_CERT", "EVERMQ_KEY"} & os.environ.keys()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--listen", "9480"), "--listen and --probes want HOST:PORT"),
        (("--listen", "0.0.0.0:0"), "cannot serve HTTP on 0.0.0.0:0: without TLS the daemon answers this machine only"),
    ],
)
def test_an_address_that_cannot_be_served_ends_it(
    evermq: Callable[..., Result], words: tuple[str, ...], told: str
) -> None:
    result = evermq("http", *words)
    assert result.exit_code == 20
    assert told in result.stderr
