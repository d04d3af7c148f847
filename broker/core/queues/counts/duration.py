"""Durations, counted in buckets."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, Final

BOUNDS: Final = tuple([number * 10.0**power for power in range(-4, 2) for number in (1, 2, 5)] + [100.0])
"""Seconds: the upper bounds of the buckets of a `Duration`, but for the last, which has none: 0.1 ms to 100 s, three a
decade.
"""


@dataclass(slots=True)
class Duration:
    """Seconds that something took: how long in all, and how often up to each bound of `BOUNDS`."""

    sum: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))

    def add(self, seconds: float, times: int = 1) -> None:
        """One more that took so long, or several."""
        self.sum += seconds * times
        self.buckets[bisect_left(BOUNDS, seconds)] += times

    @property
    def count(self) -> int:
        """The number of those that were added."""
        return sum(self.buckets)

    def figures(self) -> dict[str, Any]:
        """As the status has it."""
        return {"count": self.count, "sum": self.sum, "buckets": list(self.buckets)}
