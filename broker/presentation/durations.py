"""Durations that the status counts in buckets, as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_BOUNDS: Final = ("0.1 ms", "0.2 ms", "0.5 ms", "1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms", "0.1 s", "0.2 s",
                  "0.5 s", "1 s", "2 s", "5 s", "10 s", "20 s", "50 s", "100 s")  # fmt: skip
"""The upper bounds of the buckets of a duration of the status, but for the last, which has none."""


def percentile(buckets: Sequence[int], part: float) -> str:
    """Return the bound below which this part of all durations lies: `≤ 20 ms`; empty where there were none."""
    wanted, so_far = sum(buckets) * part, 0
    if not wanted:
        return ""
    for bound, number in zip(_BOUNDS, buckets, strict=False):
        so_far += number
        if so_far >= wanted:
            return f"≤ {bound}"
    return f"> {_BOUNDS[-1]}"
