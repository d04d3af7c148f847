"""Many schedules, in this process."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.handlers.mutations import MUTATIONS
from tests.simulation.handlers.records import Violation
from tests.simulation.handlers.schedule import Schedule
from tests.simulation.loop import run

if TYPE_CHECKING:
    from collections.abc import Iterable


class Result(NamedTuple):
    """The result of schedules: figures, and what was found at which seed."""

    figures: Counter[str]
    found: list[tuple[int, str]]

    def joined(self, other: Result) -> Result:
        """This and another."""
        return Result(self.figures + other.figures, self.found + other.found)


def run_seeds(seeds: Iterable[int], mutation: str | None = None, *, trace: bool = False) -> Result:
    """Run a schedule for each seed; with a mutation, until one finds it."""
    figures: Counter[str] = Counter()
    found: list[tuple[int, str]] = []
    with MUTATIONS[mutation]() if mutation else nullcontext():
        for seed in seeds:
            schedule = Schedule(seed, trace=trace)
            try:
                run(schedule.run())
            except Exception as error:
                found.append((seed, f"{'' if isinstance(error, Violation) else type(error).__name__ + ': '}{error}"))
                if trace:
                    traceback.print_exc()
            figures += schedule.figures
            if trace:
                sys.stdout.writelines(f"{step}\n" for step in schedule.trace or ())
            if found and mutation:
                break
    return Result(figures, found)
