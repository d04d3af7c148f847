"""The programs in docs/*.md that stand there whole print what the page shows."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.examples.processes import ROOT
from tests.examples.test_readme import Newcomer, blocks

if TYPE_CHECKING:
    from tests.examples.processes import Shell


def test_the_programs_about_asyncio_print_what_the_page_shows(shell: Shell) -> None:
    page = blocks((ROOT / "docs" / "asyncio.md").read_text("utf-8"))
    assert [block.language for block in page] == ["python", "text"] * 3
    with ExitStack() as stack:
        newcomer = Newcomer(shell, stack)
        for block in page:
            newcomer.follow(block)
