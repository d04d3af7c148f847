"""Every case of handlers, and every rule of triggers, is told by a test."""

from __future__ import annotations

from tests.handlers import cases
from tests.scripts import script

cases_page = script("cases_page")


def test_the_page_has_the_cases_of_the_list() -> None:
    on_the_page = [number for number in cases_page.entries() if number.startswith("H")]
    assert on_the_page == cases.handlers()
    assert len(on_the_page) == 128


def test_each_is_told_by_a_test_but_for_what_is_written_down() -> None:
    assert cases.LIST.untold() == cases.LIST.admitted(), "run: python -m tests.handlers.cases --write"
