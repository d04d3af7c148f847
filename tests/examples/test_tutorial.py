"""`docs/tutorial/order-service.md` is true: who follows it block by block sees what it shows."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.examples.processes import ROOT
from tests.examples.test_readme import Newcomer, blocks

if TYPE_CHECKING:
    from tests.examples.processes import Shell

TUTORIAL = (ROOT / "docs" / "tutorial" / "order-service.md").read_text("utf-8")


def test_the_tutorial_shows_what_happens(shell: Shell) -> None:
    page = blocks(TUTORIAL)
    assert TUTORIAL.count("```") == 2 * len(page)
    with ExitStack() as stack:
        newcomer = Newcomer(shell, stack)
        for block in page:
            newcomer.follow(block)
