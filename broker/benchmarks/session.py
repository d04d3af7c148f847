"""A session: rounds in which every limit and every workload has its turn, so that a slow minute slows all of them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from broker.benchmarks.catalog import LIMITS, WORKLOADS
from broker.benchmarks.child import MeasurementError
from broker.benchmarks.daemon import daemon
from broker.benchmarks.protection import CannotMeasureError
from broker.benchmarks.report import Figure, LimitFigure, Report
from broker.benchmarks.workload import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from broker.benchmarks.workload import Limit, Measured, Workload

_LEAST: Final = 100
"""Below so many messages, a figure says nothing; limits that count less are left at what they count."""

_SECONDS_MAX: Final = 300.0
"""So long a trial may take: who waits for a message that is lost waits for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkSession:
    """The plan of a session; `divisor` divides the counts. `tell` is told what comes next."""

    workloads: Collection[Workload]
    limits: Collection[tuple[Limit, int]]
    runs: int
    divisor: int
    tell: Callable[[str], None]

    @classmethod
    def of(
        cls, names: Collection[str], *, runs: int, divisor: int = 1, tell: Callable[[str], None]
    ) -> BenchmarkSession:
        """A session of the workloads and limits with these names, or of all, and of the limits that bound them.

        Raises KeyError for a name that nothing has.
        """
        for name in names:
            if name not in WORKLOADS and name not in LIMITS:
                raise KeyError(name)
        workloads = [each for name, each in WORKLOADS.items() if not names or name in names]
        bounding = {(name, size) for each in workloads for name in each.bounding for size in (*each.sizes, 0)}
        limits = [
            (each, size)
            for name, each in LIMITS.items()
            for size in each.sizes
            if not names or name in names or (name, size) in bounding
        ]
        return cls(workloads=workloads, limits=limits, runs=runs, divisor=divisor, tell=tell)

    async def report(self) -> Report:
        """Measure it all."""
        limits = [LimitFigure(each, size) for each, size in self.limits]
        figures = [Figure(each, size, self._count(each.count)) for each in self.workloads for size in each.sizes]
        for run in range(self.runs):
            for limit in limits:
                await self._measure_limit(limit, run)
            for figure in figures:
                await self._measure(figure, run)
        return Report(figures=figures, limits=limits, runs=self.runs)

    def _count(self, count: int) -> int:
        return max(count // self.divisor, min(count, _LEAST))

    async def _measure_limit(self, figure: LimitFigure, run: int) -> None:
        self._announce(figure.limit.title, run)
        with tempfile.TemporaryDirectory(prefix="evermq-bench-") as folder:
            count = self._count(figure.limit.count)
            figure.seconds.append(await figure.limit.run(Path(folder), figure.size, count))

    async def _measure(self, figure: Figure, run: int) -> None:
        if figure.error or figure.lacking:
            return
        self._announce(figure.label, run)
        try:
            with anyio.fail_after(_SECONDS_MAX):
                figure.outcomes.append(await self._outcome(figure))
        except MeasurementError as error:
            figure.error = str(error)
        except CannotMeasureError as error:
            figure.lacking = str(error)
        except TimeoutError:
            figure.error = f"not done after {_SECONDS_MAX:g} s"

    async def _outcome(self, figure: Figure) -> Measured:
        workload = figure.workload
        with tempfile.TemporaryDirectory(prefix="evermq-bench-") as folder:
            async with daemon(Path(folder), workload.definitions, workload.settings, workload.protection) as started:
                return await workload.run(Trial(daemon=started, size=figure.size, count=figure.count))

    def _announce(self, title: str, run: int) -> None:
        self.tell(f"run {run + 1} of {self.runs}: {title}")
