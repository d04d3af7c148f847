"""Pages that scripts write are as the scripts write them, and others say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.config import load
from broker.storage.log import manifest, record
from broker.storage.snapshot import scripts as snapshot
from broker.wire import frames
from tests.scripts import script

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize(
    ("name", "page", "function"),
    [
        ("evermq_page", "evermq.md", "page"),
        ("reasons_page", "reasons.md", "reasons"),
        ("reasons_page", "constants.md", "constants"),
    ],
)
def test_a_page_is_as_its_script_writes_it(name: str, page: str, function: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    assert text == getattr(script(name), function)(), f"run: python docs/scripts/{name}.py"


def test_the_pictures_of_states_are_as_their_script_draws_them() -> None:
    pictures = script("states_page").pictures()
    drawn = {path.name: path.read_text("utf-8") for path in (DOCS / "states").iterdir()}
    assert drawn == pictures, "run: python docs/scripts/states_page.py"


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
    assert f"(`PRAGMA user_version`), now {snapshot.version()};" in page
    assert record.FORMAT == manifest.FORMAT
    assert f"and its files have a format, now {record.FORMAT}." in page.replace("\n", " ")
