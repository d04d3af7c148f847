"""`docs/commands.md` says what the tables say."""

from __future__ import annotations

from tests.commands import pages


def test_the_page_is_written_from_the_tables() -> None:
    assert pages.PAGE.read_text("utf-8") == pages.page(), "run: python -m tests.commands.pages"
