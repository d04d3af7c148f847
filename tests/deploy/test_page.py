"""docs/how-to/run-in-production.md: its settings are some, and its commands print what it shows."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tarfile
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from click import Command, Context

from broker import QueueManager
from broker.cli import main
from broker.config import load
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore
from tests.cli.conftest import running
from tests.examples.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

TEXT = (ROOT / "docs" / "how-to" / "run-in-production.md").read_text("utf-8")
BLOCKS = [
    (match["language"], match["title"] or "", dedent(match["text"]))
    for match in re.finditer(
        r'^ *```(?P<language>\w+)(?: title="(?P<title>[\w.]+)")?\n(?P<text>.*?)^ *```$', TEXT, re.MULTILINE | re.DOTALL
    )
]
SETTINGS = {title: text for language, title, text in BLOCKS if language == "toml"}
SCRAPES = [text for language, _, text in BLOCKS if language == "yaml"]
COMMANDS = sorted(
    {
        command.partition("  #")[0].partition(" | ")[0]
        for command in re.findall(r"^(?:\$ )?(evermq .+)$|`(evermq [a-z][^`]*)`", TEXT, re.MULTILINE)
        for command in command
        if command
    }
)


def after(command: str) -> str:
    """Return what the page shows below a command."""
    (shown,) = (text.partition("\n")[2] for _, _, text in BLOCKS if text.startswith(f"$ {command}\n"))
    return shown


@pytest.mark.parametrize("title", SETTINGS)
def test_the_settings_are_some(title: str, tmp_path: Path) -> None:
    (tmp_path / title).write_text(SETTINGS[title], "utf-8")
    load(tmp_path / title, {})


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
@pytest.mark.parametrize("scrape", SCRAPES)
def test_prometheus_reads_what_it_is_told(scrape: str, tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(scrape, "utf-8")
    subprocess.run(["promtool", "check", "config", "--syntax-only", "prometheus.yml"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page_is_one(line: str) -> None:
    words = [word for word in shlex.split(line)[1:] if word not in {"QUEUE", "..."}]
    command: Command = main
    while words and (found := getattr(command, "get_command", lambda *_: None)(Context(command), words[0])):
        command = found
        words.pop(0)
    assert command is not main
    given = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= given


async def test_a_full_disk_is_told_as_the_page_shows_it() -> None:
    store = FaultStore(MemoryStore())
    async with QueueManager.open(name="QM1", store=store) as manager:
        store.fill()
        async with manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)")
        failing = manager.failing_checks(ready=True)
    assert "".join(f"{name}: {why}\n" for name, why in failing.items()) == after("curl -s http://127.0.0.1:9481/readyz")


def test_a_reload_and_a_bundle_are_as_the_page_shows_them(evermq: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[listener]\nport = 0\n", "utf-8")
    with running("--config", "broker.toml", folder=tmp_path) as daemon:
        (tmp_path / "broker.toml").write_text("[listener]\nport = 1499\n[limits]\nconnections = 500\n", "utf-8")
        shown = after("evermq reload").replace("(was 1414)", "(was 0)")
        assert evermq("reload", "--url", daemon.url).stdout == shown
        (line,) = (command for command in COMMANDS if command.startswith("evermq support "))
        _, *words = line.replace(" bundle", " /etc/evermq/bundle").replace("/etc/evermq", str(tmp_path)).split()
        assert evermq(*words, "--url", daemon.url).exit_code == 0
    with tarfile.open(tmp_path / "bundle.tar.gz") as bundle:
        assert bundle.getnames()
