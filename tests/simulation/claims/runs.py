"""Many schedules, in this process."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, NamedTuple
from unittest.mock import patch

from broker.core.claims import claiming, cutting, ending
from tests.simulation.claims.mutations import MUTATIONS
from tests.simulation.claims.records import Violation
from tests.simulation.claims.schedule import Schedule
from tests.simulation.loop import run

if TYPE_CHECKING:
    from collections.abc import Iterable

SLICE_LENGTH = 2
"""Of claims and acknowledgements, where each message counts."""


class Result(NamedTuple):
    """The result of schedules: figures, and what was found at which seed."""

    figures: Counter[str]
    found: list[tuple[int, str]]

    def joined(self, other: Result) -> Result:
        """This and another."""
        return Result(self.figures + other.figures, self.found + other.found)


def small() -> ExitStack:
    """Slices of a few messages, and a cut behind each message where one may be."""
    stack = ExitStack()
    for module in (claiming, ending):
        stack.enter_context(patch.object(module, "SLICE_LENGTH", SLICE_LENGTH))
    stack.enter_context(patch.object(cutting, "CUT_MESSAGES", 1))
    return stack


def run_seeds(seeds: Iterable[int], mutation: str | None = None, *, trace: bool = False) -> Result:
    """Run a schedule for each seed; with a mutation, until one finds it."""
    figures: Counter[str] = Counter()
    found: list[tuple[int, str]] = []
    with small(), MUTATIONS[mutation]() if mutation else nullcontext():
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
