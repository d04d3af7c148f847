"""The whole queue manager, simulated from seeds: it keeps the invariants of the design through crashes and faults."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.simulation import Fault, Figures, Kind, SimulationFailed, every_boundary, run, simulate
from tests.simulation.faults import AT_WRITES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_faults_by_chance_break_no_invariant(first: int) -> None:
    figures = run(10, first, boundaries_every=0)
    assert figures.crashes
    assert figures.restarts > 10 * 3


@pytest.mark.parametrize("kind", [*AT_WRITES, Kind.CRASH])
def test_a_fault_at_any_write_breaks_no_invariant(kind: Kind) -> None:
    outcome = simulate(1, Fault(Kind.NONE))
    for at in range(1, 1 + (outcome.steps if kind is Kind.CRASH else outcome.writes)):
        figures = simulate(1, Fault(kind, at)).figures
        struck = {
            Kind.FULL: figures.refusals,
            Kind.NO_ROOM: True,  # nothing may have come that adds
            Kind.LOST: figures.unknowns,
            Kind.WRITTEN: figures.unknowns,
        }.get(kind, figures.crashes)
        assert struck, f"{kind} at {at}"


@pytest.mark.parametrize("fault", [None, Fault(Kind.CRASH_AFTER, 7), Fault(Kind.NO_ROOM, 3)], ids=str)
def test_a_seed_is_one_run(fault: Fault | None) -> None:
    first, second = (simulate(5, fault, keep_trace=True) for _ in range(2))
    assert first == second
    assert first.trace != simulate(6, fault, keep_trace=True).trace


def test_a_seed_is_one_run_in_every_process() -> None:
    traces = {
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", "3", "--trace"],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1


def test_up_to_its_fault_a_run_is_the_one_without() -> None:
    plain = simulate(2, Fault(Kind.NONE), keep_trace=True).trace[1:]
    crashed = simulate(2, Fault(Kind.CRASH_BEFORE, 4), keep_trace=True).trace[1:]
    fatal = next(number for number, line in enumerate(crashed) if line.endswith(" crash"))
    assert plain[:fatal] == crashed[:fatal]
    assert 0 < fatal < len(plain)


def test_figures_are_added() -> None:
    one = Figures(**dict.fromkeys(asdict(Figures()), 1))
    assert one + one == Figures(**dict.fromkeys(asdict(Figures()), 2))


def test_a_finding_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.ledger.Ledger.mortal", lambda *_: 1 / 0)
    with pytest.raises(
        SimulationFailed, match=r"seed 4, step \d+.*\n.* --seed 4 --fault lost --at 2 --trace"
    ) as caught:
        simulate(4, Fault(Kind.LOST, 2), keep_trace=True)
    assert "life 1: lost at write 2" in caught.value.__notes__[0]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(1000, 4000, 500))
def test_faults_by_chance_for_long(first: int) -> None:
    run(500, first, boundaries_every=0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(100, 140, 10))
def test_every_boundary_of_many_workloads(first: int) -> None:
    for seed in range(first, first + 10):
        every_boundary(seed)
