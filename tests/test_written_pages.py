"""Pages that scripts write are as the scripts write them, and others say what the code says."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from broker.config import load
from broker.storage.scripts import migrations
from broker.wire import frames

DOCS = Path(__file__).parents[1] / "docs"


def written(script: str) -> dict[str, Any]:
    """What a script that writes a page has in it."""
    return runpy.run_path(str(DOCS / "scripts" / script))


@pytest.mark.parametrize(
    ("script", "page", "function"),
    [
        ("evermq_page.py", "evermq.md", "page"),
        ("reasons_page.py", "reasons.md", "reasons"),
        ("reasons_page.py", "constants.md", "constants"),
    ],
)
def test_a_page_is_as_its_script_writes_it(script: str, page: str, function: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    assert text == written(script)[function](), f"run: python docs/scripts/{script}"


@pytest.mark.parametrize("page", ["daemon.md", "tutorial.md"])
def test_the_configuration_that_a_page_shows_is_one(page: str, tmp_path: Path) -> None:
    shown = re.findall(r'^```toml title="broker.toml"\n(.*?)^```$', (DOCS / page).read_text("utf-8"), re.M | re.S)
    assert shown
    for text in shown:
        (tmp_path / "broker.toml").write_text(text, "utf-8")
        load(tmp_path / "broker.toml", {})


def test_the_page_of_versions_tells_those_of_wire_and_store() -> None:
    page = (DOCS / "versions.md").read_text("utf-8")
    assert f"protocol with a version of its own, now {frames.VERSION}." in page
    assert f"(`PRAGMA user_version`), now {max(migrations())}." in page
