"""`docs/reference/commands.md` says what the tables say."""

from __future__ import annotations

from tests.scripts import script

commands_page = script("commands_page")


def test_the_page_is_written_from_the_tables() -> None:
    assert commands_page.PAGE.read_text("utf-8") == commands_page.page(), "run: python docs/scripts/commands_page.py"
