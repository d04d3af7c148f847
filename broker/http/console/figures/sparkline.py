"""Figures as a line: inline SVG, whose looks are attributes and classes, since the page allows no style of its own."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import htpy as h
from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Sequence

POINTS: Final = 60
BIG_POINTS: Final = 180
_WIDTH: Final = 120
_HEIGHT: Final = 24


def binned(values: Sequence[float], size: int) -> tuple[int, ...]:
    """Return a height for each `size` figures, the newest of which come last: their mean, as 0 to 24, the most.
    Figures at the beginning that are fewer are left out.
    """
    first = len(values) % size
    means = [sum(values[at : at + size]) / size for at in range(first, len(values), size)]
    most = max(means, default=0.0)
    return tuple(round(_HEIGHT * each / most) if most > 0 else 0 for each in means)


def sparkline(values: Sequence[float], label: str, seconds: int) -> Markup:
    """A big line of the figures of so many seconds, of which there may be fewer, the newest at the right; `label` says
    in words what it shows.
    """
    size = max(1, seconds // BIG_POINTS)
    return drawn(binned(values, size), label, seconds // size)


@lru_cache(2048)
def drawn(places: tuple[int, ...], label: str, points: int = POINTS) -> Markup:
    """The line of figures that `binned` has made."""
    step = _WIDTH / max(1, points - 1)
    right = _WIDTH - step * (len(places) - 1)
    path = " ".join(f"{right + step * number:.1f},{_HEIGHT + 1 - place}" for number, place in enumerate(places))
    svg = h.svg(
        ".spark" if points == POINTS else ".spark.big", role="img", aria_label=label,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT + 2}", width=_WIDTH, height=_HEIGHT + 2, preserveAspectRatio="none",
    )[
        h.line(x1="0", y1=_HEIGHT + 1, x2=_WIDTH, y2=_HEIGHT + 1, vector_effect="non-scaling-stroke"),
        h.polyline(points=path, fill="none", vector_effect="non-scaling-stroke") if len(places) > 1 else None,
    ]  # fmt: skip
    return Markup(svg)
