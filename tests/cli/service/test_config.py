"""`evermq config` and `evermq reload`."""

from __future__ import annotations

import re
import signal
import tomllib
from typing import TYPE_CHECKING

import pytest

from broker.config import SECTIONS, load, settings
from broker.config.printing import toml, without_password
from tests.cli.conftest import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

DSN = "postgresql://me:canary@db:5432/evermq?sslmode=require&sslpassword=canary"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(f'[listener]\nport = 1499\n[queue_sharing_group]\ndsn = "{DSN}"\n', "utf-8")
    return path


def test_config_names_the_file_and_the_variable_that_each_value_comes_from(
    evermq: Callable[..., Result], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERMQ_LIMITS_KEYS", "20000")
    result = evermq("config", "--config", str(file))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "[listener]",
        f"port = 1499  # {file}",
        "",
        "[limits]",
        "keys = 20_000  # EVERMQ_LIMITS_KEYS",
        "",
        "[queue_sharing_group]",
        f'dsn = "postgresql://me:***@db:5432/evermq?sslmode=require&sslpassword=***"  # {file}',
    ]


def test_config_effective_prints_a_file_that_says_the_same(evermq: Callable[..., Result], file: Path) -> None:
    result = evermq("config", "--effective", "--config", str(file))
    assert "canary" not in result.stdout
    printed = tomllib.loads(result.stdout)
    assert {section: list(table) for section, table in printed.items()} == {
        section: list(settings(section)) for section in SECTIONS
    }
    assert re.search(r'^name = "QM1" +# default$', result.stdout, re.MULTILINE)
    again = file.with_name("again.toml")
    again.write_text(result.stdout.replace("***", "canary"), "utf-8")
    assert load(again, {}) == load(file, {})


def test_a_configuration_that_cannot_be_used_is_not_printed(evermq: Callable[..., Result], file: Path) -> None:
    file.write_text("[listener]\nprot = 1\n", "utf-8")
    result = evermq("config", "--config", str(file))
    assert (result.exit_code, result.stdout) == (20, "")
    assert "[listener] prot: unknown key; did you mean port?" in result.stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://me:p@ss:word@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:a:b%40c@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?password=canary", "postgresql://host/db?password=***"),
        ("postgresql://host/db?pass%77ord=canary", "postgresql://host/db?pass%77ord=***"),
        (
            "postgresql://db/mq?user=me&sslpassword=x&passfile=/p",
            "postgresql://db/mq?user=me&sslpassword=***&passfile=***",
        ),
        ("https://me:canary@login.example.com/keys", "https://me:***@login.example.com/keys"),
        ("any text: with a colon @ a place", "any text: with a colon @ a place"),
    ],
)
def test_a_value_is_shown_without_its_password(text: str, shown: str) -> None:
    assert without_password(text) == shown


def test_a_text_is_written_as_toml_reads_it() -> None:
    text = 'a "quoted" \\ text\nof lines é'
    assert tomllib.loads(f"value = {toml(text)}") == {"value": text}


def test_o6_1_evermq_reload_and_a_hangup_take_what_can_change(evermq: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("[listener]\nport = 0\n", "utf-8")
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        path.write_text('[listener]\nport = 1\n[limits]\nkeys = 5\n[logging]\nformat = "json"\n', "utf-8")
        result = evermq("reload", "--url", daemon.url)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.splitlines() == [
            "Configuration reloaded: changed 2, waiting for the next start 1.",
            "   changed: [limits] keys = 5 (was 1_000_000)",
            '   changed: [logging] format = "json" (was "text")',
            "   waiting: [listener] port = 1 (was 0)",
        ]
        stderr = daemon.process.stderr
        assert stderr is not None
        while "configuration_reloaded" not in (line := stderr.readline()):
            assert line
        assert line.startswith('{"time": ')
        path.write_text('[logging]\nlevel = "LOUD"\n', "utf-8")
        result = evermq("reload", "--url", daemon.url)
        assert result.exit_code == 10
        assert "nothing has changed: " in result.stderr
        assert "[logging] level: wants one of DEBUG, INFO, WARNING, ERROR" in result.stderr
        path.write_text('[logging]\nlevel = "WARNING"\n[listener]\nport = 0\n', "utf-8")
        daemon.process.send_signal(signal.SIGHUP)
        while "setting changed setting=[logging] level" not in (line := stderr.readline()):
            assert line
