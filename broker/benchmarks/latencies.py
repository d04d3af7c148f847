"""Percentiles of the times that single messages took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.benchmarks.workload import Measured

if TYPE_CHECKING:
    from broker.benchmarks.child import Told


def latencies(nanoseconds: list[int]) -> Told:
    """The median and the 99th percentile, in microseconds."""
    ordered = sorted(nanoseconds)
    return {"p50_us": ordered[len(ordered) // 2] / 1e3, "p99_us": ordered[len(ordered) * 99 // 100] / 1e3}


def median_of(reported: Told) -> Measured:
    """The figure of a workload of single messages: the median."""
    return Measured(value=reported["p50_us"], details={name: reported[name] for name in ("p99_us", "daemon_us")})
