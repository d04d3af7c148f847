"""Whoever looks for a thing finds it: a package maps its rooms, a room has few files, and a file is one noun."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.test_layers import FILES, ROOT, parsed

if TYPE_CHECKING:
    from pathlib import Path

FLAT_MAX = 16
"""The most files side by side in a room: more are not found by reading their names."""

LINES_MAX = 400
TABLES = {"broker/mqi/reasons.py"}
"""A file that is longer is two nouns, unless it is a table."""

FOLDERS = sorted({path.parent for path in FILES})


@pytest.mark.parametrize("package", ["broker/core", "broker/engine", "broker/sharing", "triggers"])
def test_the_map_of_a_package_names_each_of_its_rooms(package: str) -> None:
    text = ast.get_docstring(parsed(ROOT / package / "__init__.py")) or ""
    named = {name for line in re.findall(r"^    ([a-z, ]+?)  ", text, re.MULTILINE) for name in line.split(", ")}
    assert named == {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_room_has_few_files(folder: Path) -> None:
    files = sorted(path.name for path in folder.glob("*.py") if not path.name.startswith("__"))
    assert len(files) <= FLAT_MAX, files


def test_a_file_is_one_noun() -> None:
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text("utf-8").splitlines()) for path in FILES}
    assert {name for name, lines in lengths.items() if lines > LINES_MAX} == TABLES
