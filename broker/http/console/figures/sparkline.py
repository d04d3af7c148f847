"""Figures as a line: inline SVG, whose looks are attributes and classes, since the page allows no style of its own."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import htpy as h
from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Sequence

POINTS: Final = 60
_WIDTH: Final = 120
_HEIGHT: Final = 24


def binned(values: Sequence[float], points: int = POINTS) -> tuple[int, ...]:
    """Return at most so many figures for these: the means of their shares as heights of 0 to 24, which is the most."""
    if not values:
        return ()
    size = max(1, -(-len(values) // points))
    first = len(values) % size
    cuts = [0, *range(first, len(values), size), len(values)] if first else [*range(0, len(values), size), len(values)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts) if b > a]
    most = max(means)
    return tuple(round(_HEIGHT * each / most) if most > 0 else 0 for each in means)


def sparkline(values: Sequence[float], label: str, *, big: bool = False) -> Markup:
    """A line of figures, the newest at the right; `label` says in words what it shows."""
    return drawn(binned(values), label, big)


@lru_cache(2048)
def drawn(places: tuple[int, ...], label: str, big: bool = False) -> Markup:
    """The line of figures that `binned` has made."""
    step = _WIDTH / max(1, POINTS - 1)
    right = _WIDTH - step * (len(places) - 1)
    points = " ".join(f"{right + step * number:.1f},{_HEIGHT + 1 - place}" for number, place in enumerate(places))
    svg = h.svg(
        ".spark.big" if big else ".spark", role="img", aria_label=label, viewBox=f"0 0 {_WIDTH} {_HEIGHT + 2}",
        width=_WIDTH, height=_HEIGHT + 2, preserveAspectRatio="none",
    )[
        h.line(x1="0", y1=_HEIGHT + 1, x2=_WIDTH, y2=_HEIGHT + 1, vector_effect="non-scaling-stroke"),
        h.polyline(points=points, fill="none", vector_effect="non-scaling-stroke") if len(places) > 1 else None,
    ]  # fmt: skip
    return Markup(svg)
