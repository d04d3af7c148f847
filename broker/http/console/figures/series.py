"""Series: figures of queues over the last fifteen minutes, one a second, in bounded memory.

Kept are the queues with most traffic, and those whose pages were opened, the last 382 of them: 8 MiB in all.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from broker.http.console.figures.sparkline import POINTS, binned

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS: Final = 900
LINE_SECONDS: Final = SECONDS // POINTS
FIGURES: Final = ("depth", "in", "out", "age")
"""Messages there, messages a second that come and go, seconds of the oldest."""

BUSY_MAX: Final = 200
"""So many queues are kept because of their traffic."""

BYTES_MAX: Final = 8 * 1024 * 1024
SERIES_MAX: Final = BYTES_MAX // (SECONDS * len(FIGURES) * 4)

_FADING: Final = 0.99
"""The share of the traffic of a second that counts in the next, where queues are compared by it."""


class QueueSeries:
    """The figures of a queue, one of each kind a second; the oldest are overwritten."""

    def __init__(self) -> None:
        self._kept = {name: array("f", bytes(4 * SECONDS)) for name in FIGURES}
        self._next = 0
        self._count = 0
        self._lines: dict[str, tuple[int, ...]] = {}
        self.length = 0
        self.traffic = 0.0

    def add(self, values: Sequence[float]) -> None:
        """Take the figures of a second, in the order of FIGURES."""
        for kept, value in zip(self._kept.values(), values, strict=True):
            kept[self._next] = value
        self._next = (self._next + 1) % SECONDS
        self.length = min(self.length + 1, SECONDS)
        self._count += 1
        if self._count % LINE_SECONDS == 0:
            self._lines.clear()
        self.traffic = self.traffic * _FADING + values[1] + values[2]

    def line(self, name: str) -> tuple[int, ...]:
        """Return one figure as the heights of a line, which changes each 15 s: no row is made anew each second."""
        if name not in self._lines:
            whole = self.length - self._count % LINE_SECONDS
            values = self.last(name)[: max(0, whole)]
            self._lines[name] = binned(values, LINE_SECONDS)
        return self._lines[name]

    def last(self, name: str, seconds: int = SECONDS) -> list[float]:
        """Return one figure of the last so many seconds, as far as there are any, the oldest first."""
        kept, length = self._kept[name], min(self.length, seconds)
        start = (self._next - length) % SECONDS
        return (kept[start : start + length] + kept[: max(0, start + length - SECONDS)]).tolist()


class SeriesByQueue:
    """The series of the queues that are kept."""

    def __init__(self) -> None:
        self._busy: dict[str, QueueSeries] = {}
        self._opened: dict[str, QueueSeries] = {}  # the one that was opened longest ago first

    def __len__(self) -> int:
        return len(self._busy) + len(self._opened)

    @property
    def names(self) -> set[str]:
        """The queues that are kept."""
        return {*self._busy, *self._opened}

    def of(self, q_name: str) -> QueueSeries | None:
        """Return the series of a queue, if there is one."""
        return self._opened.get(q_name) or self._busy.get(q_name)

    def open(self, q_name: str) -> QueueSeries:
        """Return the series of a queue that somebody looks at, which is kept from now on."""
        series = self._opened.pop(q_name, None) or self._busy.pop(q_name, None) or QueueSeries()
        self._opened[q_name] = series
        if len(self._opened) > SERIES_MAX - BUSY_MAX:
            del self._opened[next(iter(self._opened))]
        return series

    def wants(self, q_name: str, flow: float) -> QueueSeries | None:
        """Return the series that the figures of a queue go to in this second, if any; `flow` is its traffic."""
        found = self.of(q_name)
        if found is not None or not flow:
            return found
        if len(self._busy) >= BUSY_MAX:
            quietest = min(self._busy, key=lambda name: self._busy[name].traffic)
            if self._busy[quietest].traffic >= flow:
                return None
            del self._busy[quietest]
        return self._busy.setdefault(q_name, QueueSeries())

    def keep(self, q_names: set[str]) -> None:
        """Forget the queues that are there no more."""
        for kept in (self._busy, self._opened):
            for name in kept.keys() - q_names:
                del kept[name]
