"""Small systems, and all states that they can come to.

A system is a state and some processes. A process is a table of steps: each changes the state at once, and names the
step that comes next; between two steps all others may take theirs, as behind an await. `explore` goes through every
state that can be reached, and returns the shortest way to one that must not be. A *guard* is a rule without which there
is such a way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, Self, TypeAlias

State: TypeAlias = SimpleNamespace
"""Values by their names, each of which can be hashed. `wrong` has a complaint when something went wrong."""

Guards: TypeAlias = frozenset[str]

Step: TypeAlias = Callable[[State, Guards], str]

END: Final = "end"
"""The step behind the last one of a process."""

BLOCKED: Final = "blocked"
"""The answer of a step that cannot be taken yet, and has changed nothing."""


class Process(NamedTuple):
    """A process: its name, and its steps by their names, of which it begins with the first."""

    name: str
    steps: Mapping[str, Step]


class Values(dict[str, Any]):
    """Values by the names of members or programs. They never change: `|` and `|=` make others."""

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none
        return hash(frozenset(self.items()))

    def __or__(self, other: Mapping[str, Any]) -> Self:  # type: ignore[override]  # of its own kind
        return type(self)({**self, **other})

    def __ior__(self, other: Mapping[str, Any]) -> Self:  # type: ignore[override]
        return self | other


def _nothing(state: State) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class System:
    """A system: its first state, its processes, and its guards with the rules that they are.

    `at_end` is given the state when all processes have ended, and complains in it of what must not be.
    """

    first: Callable[[], State]
    processes: tuple[Process, ...]
    guards: Mapping[str, str]
    at_end: Callable[[State], None] = _nothing


class Explored(NamedTuple):
    """The outcome: how many states were found, and the first complaint with the steps that lead there."""

    states: int
    wrong: str = ""
    way: tuple[str, ...] = ()


class _Point(NamedTuple):
    """A state, the next step of each process, and the steps that led there."""

    state: State
    places: tuple[str, ...]
    way: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        return (*self.places, *vars(self.state).values())


def explore(system: System, without: str = "") -> Explored:
    """Go through all states that can be reached, the nearest first, with all guards but one."""
    guards = frozenset(system.guards) - {without}
    first = _Point(system.first(), tuple(next(iter(each.steps)) for each in system.processes))
    seen, waiting = {first.key}, deque([first])
    while waiting:
        point = waiting.popleft()
        following = _following(system, point, guards)
        if not following:
            _end(system, point)
            following = [point] if point.state.wrong else []
        for each in following:
            if each.state.wrong:
                return Explored(len(seen), each.state.wrong, each.way)
            if each.key not in seen:
                seen.add(each.key)
                waiting.append(each)
    return Explored(len(seen))


def _following(system: System, point: _Point, guards: Guards) -> list[_Point]:
    """Each process goes on by a step, if it can."""
    points = []
    for number, process in enumerate(system.processes):
        place = point.places[number]
        if place == END:
            continue
        state = copy(point.state)
        then = process.steps[place](state, guards)
        if then != BLOCKED:
            places = (*point.places[:number], then, *point.places[number + 1 :])
            points.append(_Point(state, places, (*point.way, f"{process.name}: {place}")))
    return points


def _end(system: System, point: _Point) -> None:
    if any(place != END for place in point.places):
        point.state.wrong = "nobody can go on"
    else:
        system.at_end(point.state)
