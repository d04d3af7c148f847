"""The programs in docs/*.md that stand there whole print what their page shows."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.examples.processes import ROOT
from tests.examples.test_readme import Newcomer, blocks

if TYPE_CHECKING:
    from tests.examples.processes import Shell


@pytest.mark.parametrize("name", ["retries", "tracing"])
def test_the_first_program_of_a_page_prints_what_it_shows(shell: Shell, name: str) -> None:
    page = blocks((ROOT / "docs" / f"{name}.md").read_text("utf-8"))
    at = next(place for place, block in enumerate(page) if block.language == "python")
    with ExitStack() as stack:
        newcomer = Newcomer(shell, stack)
        for block in page[at : at + 2]:
            newcomer.follow(block)


@pytest.mark.parametrize(("name", "programs"), [("asyncio", 4), ("properties", 2), ("testing", 4), ("waiting", 1)])
def test_the_programs_of_a_page_print_what_it_shows(shell: Shell, name: str, programs: int) -> None:
    page = blocks((ROOT / "docs" / f"{name}.md").read_text("utf-8"))
    assert [block.language for block in page] == ["python", "text"] * programs
    with ExitStack() as stack:
        newcomer = Newcomer(shell, stack)
        for block in page:
            newcomer.follow(block)
