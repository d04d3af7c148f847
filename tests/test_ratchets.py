"""The limits on complexity and arguments: no file is let off one that it does not break."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent

RATCHETS = {"C901", "FBT003", "PLR0913"}


def listed() -> set[tuple[str, str]]:
    """The files of the product that pyproject.toml lets off, each with the rule."""
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]["lint"]
    assert set(lint["select"]) >= RATCHETS
    return {(path, rule) for path, rules in lint["per-file-ignores"].items() if "*" not in path for rule in rules}


def broken() -> set[tuple[str, str]]:
    """The files of the product that break one, each with the rule."""
    rules = ["--select", ",".join(sorted(RATCHETS)), "--config", "lint.per-file-ignores={}"]
    command = [sys.executable, "-m", "ruff", "check", "--exit-zero", "--output-format", "json", *rules]
    reported = subprocess.run([*command, "broker", "triggers"], cwd=ROOT, capture_output=True, check=True, text=True)
    return {(Path(each["filename"]).relative_to(ROOT).as_posix(), each["code"]) for each in json.loads(reported.stdout)}


def test_a_file_that_no_longer_breaks_a_limit_is_taken_off_the_list() -> None:
    assert listed() == broken()
