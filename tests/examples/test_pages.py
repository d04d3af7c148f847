"""The programs in docs/ that stand there whole print what their page shows."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from tests.examples.processes import ROOT
from tests.examples.test_fragments import FRAGMENTS
from tests.examples.test_readme import Newcomer, blocks

if TYPE_CHECKING:
    from tests.examples.processes import Shell

FIRST: Final = ("index", "how-to/history", "how-to/retries", "how-to/steps", "how-to/tracing")
"""Pages that begin with a program, and what it prints."""

WHOLE: Final = {"how-to/asyncio": 4, "how-to/properties": 2, "how-to/testing": 4, "how-to/waiting": 1}
"""Pages whose blocks are all programs, so many, each with what it prints."""

ELSEWHERE: Final = {
    "tutorial/tour", "tutorial/order-service", "how-to/web", "how-to/spark", "how-to/pipelines",
    "how-to/serve-other-machines", "how-to/one-transaction",
}  # fmt: skip
"""Pages whose programs tests of their own run: `test_readme.py`, `test_tutorial.py`, `test_handlers.py`,
`test_other_machines.py`, `tests/transactions/test_page.py`, and `tests/spark/test_pages.py`.
"""


def test_every_program_of_a_page_is_run() -> None:
    pages = {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix(): blocks(page.read_text("utf-8"))
        for page in (ROOT / "docs").rglob("*.md")
    }
    programs = {name: sum(block.language == "python" for block in page) for name, page in pages.items()}
    run = {**dict.fromkeys([*FIRST, *(each.page for each in FRAGMENTS)], 1), **WHOLE}
    assert {name: count for name, count in programs.items() if count and name not in ELSEWHERE} == run


@pytest.mark.parametrize("name", FIRST)
def test_the_first_program_of_a_page_prints_what_it_shows(shell: Shell, name: str) -> None:
    page = blocks((ROOT / "docs" / f"{name}.md").read_text("utf-8"))
    at = next(place for place, block in enumerate(page) if block.language == "python")
    with ExitStack() as stack:
        newcomer = Newcomer(shell, stack)
        for block in page[at : at + 2]:
            newcomer.follow(block)


@pytest.mark.parametrize(("name", "programs"), WHOLE.items())
def test_the_programs_of_a_page_print_what_it_shows(shell: Shell, name: str, programs: int) -> None:
    page = blocks((ROOT / "docs" / f"{name}.md").read_text("utf-8"))
    assert [block.language for block in page] == ["python", "text"] * programs
    with ExitStack() as stack:
        newcomer = Newcomer(shell, stack)
        for block in page:
            newcomer.follow(block)
