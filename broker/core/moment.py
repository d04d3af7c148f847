"""The time of a step, read once by whoever calls the core, which has no clock of its own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Moment:
    """One moment by both clocks. Steps that need only one of them take `now`, the wall clock, or `tick`."""

    wall: float
    """Seconds since 1970. The clock may be set, forwards and backwards."""
    tick: float
    """Seconds of the monotonic clock, from some start."""
