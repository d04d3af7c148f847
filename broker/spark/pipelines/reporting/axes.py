"""Scales and axes: from what was measured to places on a plot, with ticks at round numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS: Final = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000,
)  # fmt: skip
_DAY: Final = 86_400
_UNITS: Final = (("d", _DAY), ("h", 3600), ("min", 60), ("s", 1), ("ms", 0.001))


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A place on an axis and what stands beside it."""

    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Scale:
    """From the values `first` to `last` to the places `begin` to `end` on the plot."""

    first: float
    last: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.last - self.first
        return self.begin if not span else self.begin + (value - self.first) / span * (self.end - self.begin)


def round_ticks(most: float, count: int = 5, text: Callable[[float], str] | None = None) -> list[AxisTick]:
    """Ticks from 0 to the first round number that is not below `most`."""
    if most <= 0:
        most = 1.0
    rough = most / count
    power: float = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough * 0.999)
    return [AxisTick(step * n, (text or number)(step * n)) for n in range(math.ceil(most / step - 1e-9) + 1)]


def whole_ticks(most: float, count: int = 5) -> list[AxisTick]:
    """The same for what is counted: no tick between two whole numbers."""
    return [tick for tick in round_ticks(max(most, 1.0), count) if tick.value == int(tick.value)]


def duration_ticks(most: float, count: int = 5) -> list[AxisTick]:
    """The same for seconds: at round numbers of one unit, from milliseconds to days."""
    step = next((each for each in _SECONDS if most / each <= count), None)
    if most <= _SECONDS[0] or step is None:
        return round_ticks(most, count, seconds_words)
    unit, size = next((unit, size) for unit, size in _UNITS if step >= size)
    return [AxisTick(step * n, f"{number(step * n / size)} {unit}") for n in range(math.ceil(most / step - 1e-9) + 1)]


def time_ticks(first: float, last: float, count: int = 7) -> list[AxisTick]:
    """Ticks at round times, of seconds since 1970 (UTC)."""
    span = max(last - first, 0.1)
    step = next((each for each in _SECONDS if span / each <= count), _SECONDS[-1])
    begin = math.ceil(first / step - 1e-9)
    return [AxisTick(n * step, _clock(n * step, step)) for n in range(begin, math.floor(last / step + 1e-9) + 1)]


def time_words(first: float, last: float) -> str:
    """Return the text below an axis of times: the day, where all are of one."""
    begin, end = (datetime.fromtimestamp(each, UTC) for each in (first, last))
    days = f"{begin:%Y-%m-%d}" if begin.date() == end.date() else f"{begin:%Y-%m-%d} to {end:%Y-%m-%d}"
    return f"time of put (UTC), {days}"


def _clock(seconds: float, step: float) -> str:
    when = datetime.fromtimestamp(seconds, UTC)
    if step >= _DAY:
        return f"{when:%Y-%m-%d}"
    if step >= _DAY / 4:
        return f"{when:%m-%d %H:%M}"
    if step >= 60:
        return f"{when:%H:%M}"
    return f"{when:%H:%M:%S}" if step >= 1 else f"{when:%M:%S}.{when.microsecond // 100_000}"


def number(value: float) -> str:
    """For people: 12,345, 0.25."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bytes_words(value: float) -> str:
    """For people: 512 B, 1.5 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{number(round(value, 1))} {unit}"
        value /= 1024
    return f"{number(round(value, 1))} TiB"


def seconds_words(value: float) -> str:
    """For people: 25 ms, 1.5 s, 3 min, 2.5 h, 4 d."""
    if value == 0:
        return "0 s"
    if value < 1:
        return f"{number(float(f'{value * 1000:.3g}'))} ms"
    for unit, size, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if value < most:
            return f"{number(float(f'{value / size:.3g}'))} {unit}"
    return f"{number(float(f'{value / _DAY:.3g}'))} d"
