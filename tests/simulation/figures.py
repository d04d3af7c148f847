"""The results of simulations, in figures."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The amount that was simulated. `a + b` is both together."""

    seeds: int = 0
    runs: int = 0
    """A run is several lives of one queue manager; for one seed there may be one with each fault at each write."""
    boundaries: int = 0
    """The writes of fixed workloads at each of which every kind of fault has struck."""
    writes: int = 0
    crashes: int = 0
    refusals: int = 0
    """Writes that found no room."""
    unknowns: int = 0
    """Writes that failed with an outcome that nobody can know."""
    restarts: int = 0
    operations: int = 0
    """Calls that programs made."""
    units: int = 0
    """Units of work that ended, calls outside syncpoint among them, each checked to be all or nothing."""
    messages: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Figures)})
