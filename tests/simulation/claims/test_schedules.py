"""Claims and prepared units keep their promises through crashes, full disks, twins, zombies and rivals (K74)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.claims.mutations import MUTATIONS
from tests.simulation.claims.runs import run_seeds
from tests.simulation.claims.schedule import Schedule
from tests.simulation.loop import run

ROOT = Path(__file__).parents[3]

RARE = {
    "abort-of-all", "early-ledger", "losers-stay", "no-count", "no-lineage", "no-pin", "unchained-acknowledges",
    "unchained-claims",
}  # fmt: skip
"""Found within some hundred to some thousand schedules."""


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_schedules_find_nothing(first: int) -> None:
    """K74."""
    result = run_seeds(range(first, first + 20))
    assert result.found == []
    for what in ("crashes", "failures", "stops", "archived", "taken", "published", "resolved", "refused"):
        assert result.figures[what] > 3, what


def test_a_seed_is_one_schedule() -> None:
    traces = []
    for seed in (5, 5, 6):
        schedule = Schedule(seed, trace=True)
        run(schedule.run())
        traces.append(schedule.trace)
    assert traces[0] == traces[1] != traces[2]


@pytest.mark.parametrize("mutation", sorted(MUTATIONS.keys() - RARE))
def test_a_rule_that_is_taken_out_is_missed_soon(mutation: str) -> None:
    """K74."""
    assert run_seeds(range(300), mutation).found


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mutation", sorted(RARE))
def test_a_rule_that_is_taken_out_is_missed(mutation: str) -> None:
    """K74."""
    assert run_seeds(range(20_000), mutation).found


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_a_hundred_thousand_schedules_find_nothing() -> None:
    """K74."""
    command = [sys.executable, "-m", "tests.simulation.claims", "--seeds", "0-99999"]
    command += ["--processes", str(os.cpu_count() or 1)]
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, text=True)
    assert done.returncode == 0, done.stdout
