"""Draws the three tables of states as pictures, `docs/explanation/states/*.svg`: `python docs/scripts/states_page.py`.

Where a state stands is said here, by column and row; everything else comes from the tables that the code goes by.
"""

from __future__ import annotations

from collections import defaultdict
from html import escape
from math import copysign, hypot, inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.message import entry
from broker.core.queues import unit
from broker.wire.frames import Verb
from broker.wire.protocol import TRANSITIONS as OF_A_LINE
from broker.wire.protocol import State

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parents[1] / "explanation" / "states"

_WIDTH, _HEIGHT = 150, 40  # of a box
_ACROSS, _DOWN = 300, 130  # from one box to the next
_MARGIN = 60
_APART = 16  # between the arrows of two steps that lead there and back
_LINE = 15

Steps = dict[tuple[str, str], list[str]]
"""From one state to another: the names of the steps."""


class Place(NamedTuple):
    """The middle of a box."""

    x: float
    y: float


_ENTRY: Final = {
    "PREPARED": (1, 0),
    "PUT_PENDING": (1, 1),
    "LOCKED": (3, 1),
    "GONE": (0, 2),
    "AVAILABLE": (2, 2),
    "GET_PENDING": (1, 3),
    "DAMAGED": (3, 3),
    "DELAYED": (2, 4),
    "CLAIMED": (1, 4),
}
_UNIT: Final = {
    "COMMITTING": (2, 0),
    "COMMITTED": (3, 0),
    "ACTIVE": (0, 1),
    "PREPARING": (1, 1),
    "PREPARED": (2, 1),
    "IN_DOUBT": (3, 1),
    "BACKING_OUT": (2, 2),
    "BACKED_OUT": (3, 2),
}
_LINE_STATES: Final = {"new": (0, 0), "offered": (1, 0), "open": (2, 0), "closed": (1, 1)}


def pictures() -> dict[str, str]:
    """The name of each picture, and its text."""
    return {
        "message.svg": picture(_ENTRY, _of_entries()),
        "unit-of-work.svg": picture(_UNIT, _of_units()),
        "line.svg": picture(_LINE_STATES, _of_lines()),
    }


def _of_entries() -> Steps:
    steps: Steps = defaultdict(list)
    for before, named in entry.TRANSITIONS.items():
        for name, after in named.items():
            steps[entry.STATE_NAMES[before], entry.STATE_NAMES[after]].append(name)
    return steps


def _of_units() -> Steps:
    names = unit.STATE_NAMES
    return {(names[before], names[after]): [] for before, those in unit.TRANSITIONS.items() for after in those}


def _of_lines() -> Steps:
    steps: Steps = defaultdict(list)
    for before, verbs in OF_A_LINE.items():
        for verb, after in verbs.items():
            steps[before.value, after.value].append(Verb(verb).name)
    steps[State.OPEN.value, State.OPEN.value] = ["calls, answers,", "heartbeats"]
    return steps


def picture(places: Mapping[str, tuple[float, float]], steps: Steps) -> str:
    """Boxes at these columns and rows, and an arrow for each step, as SVG."""
    middles = {
        name: Place(_MARGIN + _WIDTH / 2 + column * _ACROSS, _MARGIN + _HEIGHT / 2 + row * _DOWN)
        for name, (column, row) in places.items()
    }
    width = max(place.x for place in middles.values()) + _WIDTH / 2 + _MARGIN
    height = max(place.y for place in middles.values()) + _HEIGHT / 2 + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" '
        'font-size="13">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#666"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
    ]
    for (before, after), names in steps.items():
        there_and_back = (after, before) in steps
        parts.append(
            _loop(middles[before], names)
            if before == after
            else _arrow(middles[before], middles[after], names, aside=_APART if there_and_back else 0)
        )
    parts += [_box(name, place) for name, place in middles.items()]
    return "\n".join([*parts, "</svg>", ""])


def _box(name: str, place: Place) -> str:
    x, y = place.x - _WIDTH / 2, place.y - _HEIGHT / 2
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="#eef3fb" stroke="#456"/>'
        f'<text x="{place.x:g}" y="{place.y + 5:g}" text-anchor="middle">{escape(name)}</text>'
    )


def _arrow(start: Place, end: Place, names: list[str], *, aside: float) -> str:
    """From the edge of one box to that of another, with the names of the steps at its middle."""
    length = hypot(end.x - start.x, end.y - start.y)
    along = Place((end.x - start.x) / length, (end.y - start.y) / length)
    shift = Place(-along.y * aside, along.x * aside)
    begins, ends = _edge(along, shift), _edge(Place(-along.x, -along.y), shift)
    first = Place(start.x + along.x * begins + shift.x, start.y + along.y * begins + shift.y)
    last = Place(end.x - along.x * ends + shift.x, end.y - along.y * ends + shift.y)
    middle = Place((first.x + last.x) / 2, (first.y + last.y) / 2)
    line = (
        f'<path d="M{first.x:g} {first.y:g} {last.x:g} {last.y:g}" stroke="#666" fill="none" marker-end="url(#tip)"/>'
    )
    if abs(along.y) > abs(along.x):
        return line + _words(names, middle, "left" if shift.x < 0 else "right")
    return line + _words(names, middle, "below" if shift.y > 0 else "above")


def _edge(along: Place, shift: Place) -> float:
    """Return the distance to the edge of a box from beside its middle."""
    to_side = (copysign(_WIDTH / 2, along.x) - shift.x) / along.x if along.x else inf
    to_top = (copysign(_HEIGHT / 2, along.y) - shift.y) / along.y if along.y else inf
    return min(to_side, to_top)


def _loop(place: Place, names: list[str]) -> str:
    x, top = place.x, place.y - _HEIGHT / 2
    path = f"M{x - 20:g} {top:g} C{x - 40:g} {top - 40:g} {x + 40:g} {top - 40:g} {x + 20:g} {top:g}"
    line = f'<path d="{path}" stroke="#666" fill="none" marker-end="url(#tip)"/>'
    return line + _words(names, Place(x + 30, top - 18), "right")


def _words(names: list[str], place: Place, side: str) -> str:
    """The names, one a line, on this side of a place."""
    height = _LINE * (len(names) - 1)
    x, y, anchor = {
        "above": (place.x, place.y - 6 - height, "middle"),
        "below": (place.x, place.y + _LINE, "middle"),
        "left": (place.x - 6, place.y + 4 - height / 2, "end"),
        "right": (place.x + 6, place.y + 4 - height / 2, "start"),
    }[side]
    return "".join(
        f'<text x="{x:g}" y="{y + _LINE * number:g}" text-anchor="{anchor}">{escape(name)}</text>'
        for number, name in enumerate(names)
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, "utf-8")
