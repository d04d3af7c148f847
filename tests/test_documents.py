"""What the documents for contributors name is there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]

GUIDES = {"CONTRIBUTING.md": "", "SECURITY.md": "", "tests/README.md": "tests", "docs/architecture.md": "broker"}
"""Documents for those who look at the files, each with the folder from which it may name them, beside the top."""

FILE = re.compile(r"[\w.*-]+\.(?:cfg|csv|jsonl|lark|md|mqsc|py|sql|toml|txt|ya?ml)")
FOLDER = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/")
PATH = re.compile(rf"(?:[\w.*-]+/)+[\w.*-]+|{FILE.pattern}|{FOLDER.pattern}")
MADE = (".venv/", "build/")
"""Where to find what a command of the document makes."""


def code(markdown: str) -> Iterable[str]:
    """What stands in backticks, or in a block of code."""
    blocks = re.compile(r"^```.*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return chain(blocks.findall(markdown), re.findall(r"`([^`\n]+)`", blocks.sub("", markdown)))


def paths(markdown: str) -> set[str]:
    """The files and folders that a document names."""
    words = chain.from_iterable(each.split() for each in code(markdown))
    named = (word.partition("::")[0].strip("'\"[](),;:") for word in words)
    return {word for word in named if PATH.fullmatch(word) and not word.startswith(MADE)}


@pytest.mark.parametrize(("guide", "folder"), GUIDES.items())
def test_every_file_that_a_guide_names_is_there(guide: str, folder: str) -> None:
    named = paths((ROOT / guide).read_text("utf-8"))
    assert named
    assert sorted(path for path in named if not any(any(top.glob(path)) for top in (ROOT, ROOT / folder))) == []


@pytest.mark.parametrize("guide", GUIDES)
def test_every_module_that_a_guide_runs_is_there(guide: str) -> None:
    run = re.findall(r"python -m ([\w.]+)", (ROOT / guide).read_text("utf-8"))
    assert [module for module in run if find_spec(module) is None] == []


@pytest.mark.parametrize("document", [each for each in GUIDES if not each.startswith("docs/")])
def test_every_link_leads_somewhere(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [each for each in targets if not ((ROOT / document).parent / each).exists()] == []


def test_paths_are_told_from_other_words() -> None:
    text = "See `broker/core/`, `Call.take` and `wire/frames.py`, [`a.md`]:\n```sh\npython b/c.py --out=x\n```"
    assert paths(text) == {"broker/core/", "wire/frames.py", "a.md", "b/c.py"}


def test_the_commands_to_run_while_working_are_those_that_must_pass() -> None:
    must = (ROOT / ".ci" / "run").read_text("utf-8").replace('"$venv/bin/', ".venv/bin/").replace('"', "")
    commands = re.findall(r"^\.venv/bin/.*(?:ruff|mypy|pytest).*$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)
    assert len(commands) == 4
    assert [each for each in commands if each.replace("format .", "format --check .") not in must] == []
