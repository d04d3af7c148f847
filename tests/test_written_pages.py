"""Pages that scripts write are as the scripts write them, and others say what the code says."""

from __future__ import annotations

import re
from enum import EnumType
from pathlib import Path

import pytest

from broker import mqi
from broker.config import load
from broker.mqi import MQRC
from broker.storage.log import manifest, record
from broker.storage.snapshot import scripts as snapshot
from broker.wire import frames
from tests.scripts import script

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_of_the_command_is_as_its_script_writes_it() -> None:
    assert (DOCS / "reference" / "evermq.md").read_text("utf-8") == script("evermq_page").page(), (
        "run: docs/scripts/evermq_page.py"
    )


def test_the_page_of_figures_is_as_its_script_writes_it() -> None:
    assert (DOCS / "reference" / "figures.md").read_text("utf-8") == script("figures_page").page(), (
        "run: docs/scripts/figures_page.py"
    )


def test_the_page_of_the_events_of_the_log_is_as_its_script_writes_it() -> None:
    assert (DOCS / "reference" / "log-events.md").read_text("utf-8") == script("log_events_page").page(), (
        "run: docs/scripts/log_events_page.py"
    )


def test_the_page_of_reasons_has_all_of_them() -> None:
    page = script("reasons_page").reasons()
    assert [each for each in MQRC if f"| {each.value} | {each.value:#06x} |" not in page] == []
    assert [name for name in MQRC.__members__ if f"`MQRC_{name}`" not in page] == []


def test_the_page_of_constants_has_all_of_them() -> None:
    page = script("reasons_page").constants()
    families = [each for name in mqi.__all__ if isinstance(each := getattr(mqi, name), EnumType) and each is not MQRC]
    named = [
        f"`{each.__name__}.{name}`" for each in families if each.__name__.startswith("MQ") for name in each.__members__
    ]
    assert len(named) > 1000
    assert [name for name in named if name not in page] == []


def test_the_picture_of_packages_shows_the_imports() -> None:
    drawn = (DOCS / "explanation" / "layers.svg").read_text("utf-8")
    assert drawn == script("layers_page").drawn(), "run: python docs/scripts/layers_page.py"


def test_the_pictures_of_states_are_as_their_script_draws_them() -> None:
    pictures = script("states_page").pictures()
    drawn = {path.name: path.read_text("utf-8") for path in (DOCS / "explanation" / "states").iterdir()}
    assert drawn == pictures, "run: python docs/scripts/states_page.py"


@pytest.mark.parametrize("page", ["how-to/daemon.md", "tutorial/order-service.md"])
def test_the_configuration_that_a_page_shows_is_one(page: str, tmp_path: Path) -> None:
    shown = re.findall(r'^```toml title="broker.toml"\n(.*?)^```$', (DOCS / page).read_text("utf-8"), re.M | re.S)
    assert shown
    for text in shown:
        (tmp_path / "broker.toml").write_text(text, "utf-8")
        load(tmp_path / "broker.toml", {})


def test_the_page_of_versions_tells_those_of_wire_and_store() -> None:
    page = (DOCS / "reference" / "versions.md").read_text("utf-8")
    assert f"protocol with a version of its own, now {frames.VERSION}." in page
    assert f"(`PRAGMA user_version`), now {snapshot.version()};" in page
    assert record.FORMAT == manifest.FORMAT
    assert f"and its files have a format, now {record.FORMAT}." in page.replace("\n", " ")
