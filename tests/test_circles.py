"""Modules that import each other, if only for their types, are read as one: the circles of a room stay small, and no
module ties many others together.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.test_layers import FILES, ROOT, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LARGEST = {"broker/core": 26, "broker/engine": 44, "broker/sharing": 36}
"""The most modules of a room in one circle."""

FAN_OUT = 30
TIES = {
    "broker/core/manager.py": 45,
    "broker/engine/context.py": 32,
    "broker/engine/conversation.py": 40,
    "broker/engine/manager.py": 38,
    "broker/sharing/members/group_member.py": 40,
}
"""Modules whose work is to tie others together, and the most modules of the product that each imports."""


def module_of(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


PATHS = {module_of(name): name for name in (path.relative_to(ROOT).as_posix() for path in FILES)}


def imports_of(name: str) -> set[str]:
    """The modules of the product that a file imports, at run time or for its types."""
    found = set()
    for node in nodes(ROOT / PATHS[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {f"{node.module}.{each.name}" for each in node.names if f"{node.module}.{each.name}" in PATHS}
            if any(f"{node.module}.{each.name}" not in PATHS for each in node.names):
                found.add(node.module)
    return (found & PATHS.keys()) - {name}


@cache
def graph() -> dict[str, set[str]]:
    """Each module, with those that it imports."""
    return {name: imports_of(name) for name in PATHS}


def circles(graph: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """The sets of modules each of which leads to each other one (Tarjan's algorithm, without recursion)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    for root in graph:
        if root in number:
            continue
        steps = [(root, iter(sorted(graph[root])))]
        while steps:
            name, following = steps[-1]
            if name not in number:
                number[name] = low[name] = len(number)
                path.append(name)
            for each in following:
                if each not in number:
                    steps.append((each, iter(sorted(graph[each]))))
                    break
                if each in path:
                    low[name] = min(low[name], number[each])
            else:
                steps.pop()
                if steps:
                    low[steps[-1][0]] = min(low[steps[-1][0]], low[name])
                if low[name] == number[name]:
                    at = path.index(name)
                    yield set(path[at:])
                    del path[at:]


@pytest.mark.parametrize(("room", "most"), LARGEST.items())
def test_the_circles_of_a_room_stay_small(room: str, most: int) -> None:
    here = {name for name, path in PATHS.items() if path.startswith(f"{room}/")}
    largest = max(circles({name: graph()[name] & here for name in here}), key=len)
    assert len(largest) <= most, sorted(largest)


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set(), "e": {"a"}}
    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["d"], ["e"]]


def test_no_module_ties_many_others_together() -> None:
    fan_out = {PATHS[name]: len(graph()[name]) for name in PATHS if not PATHS[name].endswith("__init__.py")}
    over = {path: count for path, count in fan_out.items() if count > TIES.get(path, FAN_OUT)}
    assert not over
    assert all(fan_out[path] > FAN_OUT for path in TIES)
