"""The page that a run writes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from tests.durability.kills import Kills, Moment
from tests.durability.ledger import Figures
from tests.durability.outcome import Outcome
from tests.durability.report import Results, page


def test_a_page_tells_what_was_run_how_it_ended_and_what_could_not_be_run() -> None:
    kills = Kills([7, 8], Counter({Moment.LOAD: 30, Moment.START: 5}), 60, Figures(puts_acknowledged=12_345))
    results = Results("python -m tests.durability --kills 35", kills)
    results.outcomes.append(Outcome("disk full", "nothing was lost"))
    results.not_run.append(Outcome("EIO from pwrite64", "strace is not installed"))
    lines = page(results, datetime(2026, 11, 21, tzinfo=UTC), 90).splitlines()
    for line in (
        "python -m tests.durability --kills 35",
        "| kills | 35 |",
        "| - under load | 30 |",
        "| seeds | 7 to 8 |",
        "| puts acknowledged | 12,345 |",
        "| disk full | nothing was lost |",
        "| EIO from pwrite64 | strace is not installed |",
        "Not part of this run.",
    ):
        assert line in lines
    assert any("2026-11-21, took 1.5 minutes" in line for line in lines)


def test_the_page_that_was_written_last_promises_what_the_next_one_will() -> None:
    written = (Path(__file__).parents[2] / "docs" / "explanation" / "durability.md").read_text("utf-8")
    next_one = page(Results("", Kills([1], Counter(), 0, Figures())), datetime(2026, 11, 21, tzinfo=UTC), 0)
    promised, same = (
        text[text.index("## What is promised") : text.index("## Killed under load")] for text in (written, next_one)
    )
    assert promised == same
