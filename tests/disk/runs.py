"""Many schedules, in this process."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from contextlib import nullcontext
from typing import NamedTuple

from tests.disk.mutations import MUTATIONS
from tests.disk.schedules import Schedule, Violation, small


class Result(NamedTuple):
    """The result of schedules: figures, and what was found at which seed."""

    figures: Counter[str]
    found: list[tuple[int, str]]
    schedules: int

    def joined(self, other: Result) -> Result:
        """This and another."""
        return Result(self.figures + other.figures, self.found + other.found, self.schedules + other.schedules)


def run_seeds(seeds: range, mutation: str | None = None, *, trace: bool = False) -> Result:
    """Run a schedule for each seed; with a mutation, until one finds it."""
    figures: Counter[str] = Counter()
    found: list[tuple[int, str]] = []
    done = 0
    with small(), MUTATIONS[mutation]() if mutation else nullcontext():
        for seed in seeds:
            schedule = Schedule(seed)
            done += 1
            if trace:
                schedule.machine.trace = []
            try:
                schedule.run()
            except Exception as error:
                if mutation and not isinstance(error, Violation):
                    continue
                found.append((seed, f"{type(error).__name__}: {error}"))
                if trace:
                    traceback.print_exc()
            figures += schedule.figures
            if trace:
                sys.stdout.writelines(f"{step}\n" for step in schedule.machine.trace or ())
            if found and mutation:
                break
    return Result(figures, found, done)
