"""The sample `broker.toml` and the page of the configuration say what the settings say."""

from __future__ import annotations

import tomllib
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

from broker.config import SECTIONS, Config, load, settings
from tests.scripts import ROOT, script

pages = script("configuration_page")


def test_the_sample_file_is_written_from_the_settings() -> None:
    assert pages.SAMPLE.read_text("utf-8") == pages.sample(), "run: python docs/scripts/configuration_page.py"


def test_the_page_is_written_from_the_settings() -> None:
    assert pages.PAGE.read_text("utf-8") == pages.page(), "run: python docs/scripts/configuration_page.py"


def test_the_sample_file_holds_every_key_with_its_default_under_a_comment() -> None:
    lines = pages.SAMPLE.read_text("utf-8").splitlines()
    keys = {section: set(table) for section, table in tomllib.loads("\n".join(lines)).items()}
    assert keys == {section: set(settings(section)) for section in SECTIONS}
    assert all(before.startswith("# ") for before, line in pairwise(lines) if " = " in line and line[0] != "#")
    here = replace(Config().queue_manager, data=ROOT / "evermq-data")
    assert load(pages.SAMPLE, {}) == replace(Config(), queue_manager=here)


def test_every_setting_has_help_and_accepts_its_own_default() -> None:
    for section in SECTIONS:
        for each in settings(section).values():
            assert each.help.endswith(".")
            value = tomllib.loads(f"value = {pages.toml(each.default)}")["value"]
            assert each.kind.check(value, Path()) == each.default


def test_a_section_of_the_configuration_is_a_section_of_the_file() -> None:
    assert [each.name for each in fields(Config)] == list(SECTIONS)
