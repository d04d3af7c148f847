"""Simulations by the seed: one, one for each write boundary, many."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.faults import AT_WRITES, Fault, Kind
from tests.simulation.figures import Figures
from tests.simulation.loop import run as run_loop
from tests.simulation.setting import formatted
from tests.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator


class Length(NamedTuple):
    """The length of a run."""

    lives: int
    steps: int


LONG = Length(lives=4, steps=60)
"""Of a run whose faults are chance, one a life."""

FIXED = Length(lives=2, steps=40)
"""Of a run with one fault at a known moment."""


class SimulationFailed(AssertionError):  # it is the finding that counts
    """A simulation has found something; the message tells what, where, and how to see it again."""


class Outcome(NamedTuple):
    """A run that has found nothing: its figures, how many writes and steps it had, and its trace, if it was kept."""

    figures: Figures
    writes: int
    steps: int
    trace: list[str]


def simulate(seed: int, fault: Fault | None = None, *, keep_trace: bool = False) -> Outcome:
    """One run. Without `fault` its faults are chance, with NONE there is none. Raises SimulationFailed, with the trace
    in a note if it is kept.
    """
    length = LONG if fault is None else FIXED
    simulation = Simulation(seed, formatted(), fault, *length, keep_trace=keep_trace)
    try:
        run_loop(simulation.run())
    except Exception as error:
        failure = SimulationFailed(_report(simulation, seed, fault, error))
        if simulation.trace is not None:
            failure.add_note("\n".join(simulation.trace))
        raise failure from error
    return Outcome(_figures(simulation), simulation.disk.faults.writes, simulation.step, simulation.trace or [])


def every_boundary(seed: int) -> Figures:
    """The workload of a seed without a fault, then with each kind of fault at each of its writes, and with a crash at
    each of its steps. Up to the fault all are alike.
    """
    _, writes, steps, _ = simulate(seed, Fault(Kind.NONE))
    figures = Figures(boundaries=writes)
    for fault in _faults(writes, steps):
        figures += simulate(seed, fault).figures
    return figures


def run(seeds: int, first: int = 0, *, boundaries_every: int = 100) -> Figures:
    """A run of each seed from `first` on; one seed in `boundaries_every` at every boundary too, with 0 none."""
    figures = Figures(seeds=seeds)
    for seed in range(first, first + seeds):
        figures += simulate(seed).figures
        if boundaries_every and (seed - first) % boundaries_every == 0:
            figures += every_boundary(seed)
    return figures


def _faults(writes: int, steps: int) -> Iterator[Fault]:
    for at in range(1, writes + 1):
        yield from (Fault(kind, at) for kind in AT_WRITES)
    yield from (Fault(Kind.CRASH, at) for at in range(1, steps + 1))


def _figures(simulation: Simulation) -> Figures:
    return Figures(
        runs=1,
        writes=simulation.disk.faults.writes,
        crashes=simulation.crashes,
        refusals=simulation.disk.faults.refused,
        unknowns=simulation.unknowns,
        restarts=simulation.life - 1,
        operations=simulation.calls_made,
        units=simulation.ledger.units_ended,
        messages=len(simulation.ledger.messages),
    )


def _report(simulation: Simulation, seed: int, fault: Fault | None, error: Exception) -> str:
    given = "" if fault is None else f" --fault {fault.kind} --at {fault.at}"
    return (
        f"{str(error) or repr(error)}\n"
        f"seed {seed}, step {simulation.step}, life {simulation.life}, {simulation.fault}\n"
        f"again: python -m tests.simulation --seed {seed}{given} --trace"
    )
