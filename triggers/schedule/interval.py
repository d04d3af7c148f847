"""Lengths of time as people write them, and what comes again and again after one of them (handlers rule 5.2)."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
INTERVAL_MIN: Final = 1.0
INTERVAL_MAX: Final = 3650 * 86400.0
"""Ten years: what can be delayed at most."""

_MICROSECONDS: Final = 1_000_000
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])\s*", re.ASCII)


def seconds(length: float | timedelta | str) -> float:
    """The seconds of a length of time: a number of them, a timedelta, or text such as "5m", "1h 30m", "1.5s".

    Raises ValueError for text that is none and for what is not finite, TypeError for anything else.
    """
    match length:
        case timedelta():
            return length.total_seconds()
        case str():
            parts = _PART.findall(length)
            if not parts or _PART.sub("", length):
                raise ValueError(f'{length!r} is no length of time: write "30s", "5m", "1h 30m" or "1d"')
            return math.fsum(float(number) * UNITS[unit] for number, unit in parts)
        case bool():
            raise TypeError(f"a length of time is a number of seconds, a timedelta or text, not {length!r}")
        case int() | float():
            if not math.isfinite(length):
                raise ValueError(f"{length} seconds is no length of time")
            return float(length)
        case _:
            raise TypeError(f"a length of time is a number of seconds, a timedelta or text, not {length!r}")


class Interval:
    """The instants that are whole multiples of a length of time since 1970 UTC, and `offset` more.

    So they depend on nothing that happens: neither on when a program was started, nor on how late a run was. Raises
    ValueError for less than a second.
    """

    def __init__(self, every: float | timedelta | str, offset: float | timedelta | str = 0.0) -> None:
        self.every = seconds(every)
        if not INTERVAL_MIN <= self.every <= INTERVAL_MAX:
            raise ValueError(f"every {every}: at least {INTERVAL_MIN:.0f} second, and at most ten years")
        self._every = _whole(self.every)
        self._offset = _whole(seconds(offset)) % self._every
        self.offset = self._offset / _MICROSECONDS

    def after(self, instant: float) -> float:
        """The first instant after this one."""
        return self._at((_whole(instant) - self._offset) // self._every + 1)

    def before(self, instant: float) -> float:
        """The last instant before this one."""
        return self._at(-((self._offset - _whole(instant)) // self._every) - 1)

    def _at(self, number: int) -> float:
        return (number * self._every + self._offset) / _MICROSECONDS

    def __repr__(self) -> str:
        return f"<Interval of {self.every} s, {self.offset} s>"


def _whole(instant: float) -> int:
    """An instant in whole microseconds: what is reckoned with them is exact, and a float still tells them apart."""
    return round(instant * _MICROSECONDS)
