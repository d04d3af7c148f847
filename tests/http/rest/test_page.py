"""The curl lines of docs/how-to/rest.md print what the page shows."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import pytest

from broker.config import load
from broker.engine.security import passwords
from tests.examples.test_readme import blocks
from tests.http.door import doors

if TYPE_CHECKING:
    from broker import QueueManager
    from tests.http.door import Door

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/how-to/rest.md"
LISTEN = "127.0.0.1:9480"


def transcripts(page: Path) -> list[tuple[str, str]]:
    """The commands that a page shows, each with what it prints."""
    shown: list[tuple[str, str]] = []
    for block in blocks(page.read_text("utf-8")):
        if block.language == "console":
            for part in block.text.removeprefix("$ ").split("\n$ "):
                command, _, printed = part.partition("\n")
                shown.append((command, printed.strip()))
    return shown


async def run_as_shown(page: Path, door: Door, folder: Path) -> None:
    """Run the commands of a page, and compare."""
    for command, printed in transcripts(page):
        words = [word.encode().decode("unicode_escape") if "%{" in word else word for word in shlex.split(command)]
        words = [word.replace(LISTEN, f"127.0.0.1:{door.port}") for word in words]

        def ran(words: list[str] = words) -> str:
            return subprocess.run(
                words, cwd=folder, capture_output=True, text=True, check=True, timeout=60
            ).stdout.strip()  # fmt: skip

        assert (await anyio.to_thread.run_sync(ran)) == printed, command


async def test_the_commands_of_the_page_print_what_it_shows(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with doors(manager, monkeypatch, by_url=False) as door:
        await door.command(f"DELETE USER('admin')\nDEFINE USER('admin') GROUPS('mqm') PASSWORD('{hashed()}')")
        await run_as_shown(PAGE, door, tmp_path)


def hashed() -> str:
    return passwords.hash_of("passw0rd")


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    for block in blocks(PAGE.read_text("utf-8")):
        if block.language == "toml":
            (tmp_path / "broker.toml").write_text(block.text, "utf-8")
            assert load(tmp_path / "broker.toml").http.listen
