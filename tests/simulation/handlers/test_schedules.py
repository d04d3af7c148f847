"""Handlers keep their promises through kills, restarts, full and failing disks, and stops, from a seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.handlers.mutations import MUTATIONS
from tests.simulation.handlers.runs import run_seeds
from tests.simulation.handlers.schedule import Schedule
from tests.simulation.loop import run

ROOT = Path(__file__).parents[3]

RARE = {"early-releases"}
"""Found within some hundred schedules."""


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (80, 160))])
def test_schedules_find_nothing(first: int) -> None:
    """H2.13, H4.10, H7.4, H13.1: attempts within the limit, nothing lost, doubled or early, no message stranded, one
    copy of each dead letter, one message of each key; and the sum of the counts.
    """
    result = run_seeds(range(first, first + 80))
    assert result.found == []
    for what in ("crashes", "failures", "stops", "workers killed", "dead", "done", "held", "duplicates", "rests"):
        assert result.figures[what] > 10, what


def test_a_seed_is_one_schedule() -> None:
    traces = []
    for seed in (5, 5, 6):
        schedule = Schedule(seed, trace=True)
        run(schedule.run())
        traces.append(schedule.trace)
    assert traces[0] == traces[1] != traces[2]


@pytest.mark.parametrize("mutation", sorted(MUTATIONS.keys() - RARE))
def test_a_rule_that_is_taken_out_is_missed_soon(mutation: str) -> None:
    assert run_seeds(range(300), mutation).found


@pytest.mark.slow
@pytest.mark.parametrize("mutation", sorted(RARE))
def test_a_rule_that_is_taken_out_is_missed(mutation: str) -> None:
    assert run_seeds(range(3000), mutation).found


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_twenty_thousand_schedules_find_nothing() -> None:
    """H2.13, H13.1: more than 10^4 outcomes with kills."""
    command = [sys.executable, "-m", "tests.simulation.handlers", "--seeds", "0-19999"]
    command += ["--processes", str(os.cpu_count() or 1)]
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, text=True)
    assert done.returncode == 0, done.stdout
