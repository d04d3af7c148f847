"""The results of a session: medians, what bounds them, and their share of it; as JSON and as tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.benchmarks.machine import machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.benchmarks.workload import Limit, Measured, Way, Workload


class Bound(NamedTuple):
    """The bound of a figure: a way, and the seconds that it costs."""

    way: Way
    seconds: float

    @property
    def text(self) -> str:
        """For people: `2 x insert + remove`."""
        return " + ".join(name if times == 1 else f"{times:,} x {name}" for name, times in self.way.items())


@dataclass(slots=True)
class LimitFigure:
    """A limit at one size: what every run found, in seconds for one thing."""

    limit: Limit
    size: int
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(self.seconds)


@dataclass(slots=True)
class Figure:
    """A workload at one size: what every run found, or the error that ended it, or what the machine is lacking."""

    workload: Workload
    size: int
    count: int
    outcomes: list[Measured] = field(default_factory=list)
    error: str = ""
    lacking: str = ""

    @property
    def title(self) -> str:
        return self.workload.title.format(count=f"{self.count:,}")

    @property
    def label(self) -> str:
        """The title with the size, for people."""
        return f"{self.title}, {self.size} bytes" if self.size else self.title

    @property
    def values(self) -> list[float]:
        return [each.value for each in self.outcomes]

    @property
    def details(self) -> dict[str, float]:
        """The medians of what else was measured."""
        return {name: median(each.details[name] for each in self.outcomes) for name in self.outcomes[0].details}

    def bound(self, limits: Mapping[tuple[str, int], float]) -> Bound | None:
        """The dearest of the ways, given the seconds of the limits by name and size; None where nothing bounds it."""

        def cost(way: Way) -> float:
            return sum(
                times * limits[(name, self.size) if (name, self.size) in limits else (name, 0)]
                for name, times in way.items()
            )

        bounds = [Bound(way, cost(way)) for way in self.workload.ways(self.count)]
        return max(bounds, key=lambda bound: bound.seconds, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that a session found."""

    figures: Sequence[Figure]
    limits: Sequence[LimitFigure]
    runs: int

    @property
    def errors(self) -> list[str]:
        """The figures that could not be measured, and why."""
        return [f"{each.label}: {each.error}" for each in self.figures if each.error]

    @property
    def left_out(self) -> list[str]:
        """The figures that this machine lacks something for, and what."""
        return [f"{each.label}: {each.lacking}" for each in self.figures if each.lacking]

    def as_json(self) -> dict[str, Any]:
        """Everything, in values that JSON knows."""
        return {
            "machine": machine(),
            "runs": self.runs,
            "figures": [self._figure(each) for each in self.figures if not (each.error or each.lacking)],
            "limits": [_limit(each) for each in self.limits],
            "errors": self.errors,
            "left_out": self.left_out,
        }

    def _figure(self, figure: Figure) -> dict[str, Any]:
        unit, values = figure.workload.unit, figure.values
        bound = figure.bound({(each.limit.name, each.size): each.median for each in self.limits})
        return {
            "name": figure.workload.name,
            "title": figure.title,
            "size": figure.size,
            "count": figure.count,
            "unit": unit.value,
            "median": median(values),
            "min": min(values),
            "max": max(values),
            "values": values,
            "details": figure.details,
            "details_values": {name: [each.details[name] for each in figure.outcomes] for name in figure.details},
            "bound": bound and {"by": bound.text, "value": unit.of(bound.seconds)},
            "share": bound and bound.seconds / unit.seconds(median(values)),
        }


def _limit(figure: LimitFigure) -> dict[str, Any]:
    micros = [seconds * 1e6 for seconds in figure.seconds]
    return {
        "name": figure.limit.name,
        "title": figure.limit.title,
        "size": figure.size,
        "unit": "us",
        "median": median(micros),
        "min": min(micros),
        "max": max(micros),
        "values": micros,
        "per_second": 1e6 / median(micros),
    }


def figure_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """The table of the figures of a report in JSON, its head first."""
    rows = [["figure", "bytes", "median", "min - max", "", "bounded by", "limit", "share", "beside it"]]
    for each in report["figures"]:
        details = ", ".join(f"{name} {amount(value)}" for name, value in each["details"].items())
        spread = f"{amount(each['min'])} - {amount(each['max'])}"
        bound, size = each["bound"], _size(each)
        bounds = [bound["by"], amount(bound["value"]), f"{each['share']:.0%}"] if bound else ["", "", ""]
        rows.append([each["title"], size, amount(each["median"]), spread, each["unit"], *bounds, details])
    return rows


def limit_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """The table of the limits of a report in JSON, its head first."""
    rows = [["limit", "name", "bytes", "us", "min - max", "a second"]]
    for each in report["limits"]:
        spread = f"{amount(each['min'])} - {amount(each['max'])}"
        rows.append(
            [each["title"], each["name"], _size(each), amount(each["median"]), spread, amount(each["per_second"])]
        )
    return rows


def _size(figure: Mapping[str, Any]) -> str:
    return str(figure["size"]) if figure["size"] else ""


def amount(value: float) -> str:
    """A figure with as many digits as it deserves."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
