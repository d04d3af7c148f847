"""Counts of the deliveries of a queue under one handler (handlers rule 13.1). In memory, for all workers."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, fields
from typing import Any, Final

BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 600.0)
"""Seconds: the upper bounds of the buckets of a `Duration`, but for the last, which has none."""


@dataclass(slots=True)
class Duration:
    """Seconds that something took: how often, how long in all, and how often up to each bound of `BUCKETS`."""

    count: int = 0
    sum: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.sum += seconds
        self.buckets[bisect_left(BUCKETS, seconds)] += 1

    def figures(self) -> dict[str, Any]:
        """As the status has it."""
        return {"count": self.count, "sum": self.sum, "buckets": list(self.buckets)}


@dataclass(slots=True)
class HandlerCounts:
    """Of messages: started = succeeded + failed + rejected + unreadable + later + crashed + returned + running.

    `timed_out` is among `failed`. What else is counted stands beside that sum: `retried` attempts after the first,
    `dead_lettered` and `held` messages, starts that were `empty`.
    """

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    rejected: int = 0
    unreadable: int = 0
    later: int = 0
    crashed: int = 0
    returned: int = 0
    running: int = 0
    retried: int = 0
    dead_lettered: int = 0
    held: int = 0
    empty: int = 0
    last_error: str = ""
    last_error_at: float = 0.0
    waited: Duration = field(default_factory=Duration)
    ran: Duration = field(default_factory=Duration)

    def figures(self) -> dict[str, Any]:
        """As the status has them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"waited": self.waited.figures(), "ran": self.ran.figures()}
