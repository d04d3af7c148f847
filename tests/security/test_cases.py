"""Every case of security is told by a test."""

from __future__ import annotations

from tests.scripts import script
from tests.security import cases

cases_page = script("cases_page")


def test_the_page_has_the_cases_of_the_list() -> None:
    on_the_page = [number for number in cases_page.entries() if number.startswith("X")]
    assert on_the_page == cases.LIST.numbers
    assert len(on_the_page) == 48


def test_each_is_told_by_a_test_but_for_what_is_written_down() -> None:
    assert cases.LIST.untold() == cases.LIST.admitted(), "run: python -m tests.security.cases --write"
