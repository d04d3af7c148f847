"""The model of what happens at the same time: nothing goes wrong with all guards, and each guard is needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.security.model import groups, logins
from tests.security.model.explorer import BLOCKED, END, Guards, Process, State, System, explore

if TYPE_CHECKING:
    from collections.abc import Iterable

SYSTEMS = {**groups.SYSTEMS, **logins.SYSTEMS}
RULES = Path(__file__).parents[2] / "docs" / "rules" / "security.md"


def check(system: System) -> None:
    """With all guards nothing goes wrong, in more than a handful of states; without any of them something does."""
    found = explore(system)
    assert (found.wrong, found.way) == ("", ())
    assert found.states > 20
    assert [guard for guard in system.guards if not explore(system, without=guard).wrong] == []


@pytest.mark.parametrize("notifications", ["off", "on"])
def test_x11_1_a_right_that_was_taken_away_holds_at_both_members_at_once(notifications: str) -> None:
    system = SYSTEMS[f"shared queue, notifications {notifications}"]
    assert len(system.guards) == 5
    check(system)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if not name.startswith("shared queue")])
def test_nothing_goes_wrong_but_without_a_guard(name: str) -> None:
    check(SYSTEMS[name])


def test_each_rule_that_a_model_found_necessary_is_a_guard_of_it() -> None:
    marked = set(re.findall(r"^- \*\*([\d.]+)\*\*(?:(?!^- ).)*?\(\*\*M\*\*\)", RULES.read_text("utf-8"), re.M | re.S))
    assert marked == {"4.6", "4.8", "4.9", "11.2"}
    assert marked <= {rule for system in SYSTEMS.values() for rule in system.guards.values()}


# The explorer


def adding(times: int) -> Process:
    """Read a number in one step, and write it in the next, one higher."""

    def read(s: State, guards: Guards) -> str:
        s.read |= {(name, s.number)}
        return write(s, guards) if "at once" in guards else "write"

    def write(s: State, guards: Guards) -> str:
        (number,) = (number for whose, number in s.read if whose == name)
        s.read -= {(name, number)}
        s.number = number + 1
        return END

    name = f"add {times}"
    return Process(name, {"read": read, "write": write})


def counted(s: State) -> None:
    if s.number != 2:
        s.wrong = f"two additions make {s.number}"


def blocked(s: State, guards: Guards) -> str:
    return BLOCKED


def system_of(processes: Iterable[Process]) -> System:
    return System(
        first=lambda: State(wrong="", number=0, read=frozenset()),
        processes=tuple(processes),
        guards={"at once": "5.1"},
        at_end=counted,
    )


def test_a_lost_update_is_found_by_the_shortest_way() -> None:
    adders = system_of([adding(1), adding(2)])
    assert explore(adders).wrong == ""
    missed = explore(adders, without="at once")
    assert missed.wrong == "two additions make 1"
    assert missed.way == ("add 1: read", "add 2: read", "add 1: write", "add 2: write")


def test_processes_that_wait_for_ever_are_found() -> None:
    stuck = explore(system_of([adding(1), Process("wait", {"wait": blocked})]))
    assert (stuck.wrong, stuck.way) == ("nobody can go on", ("add 1: read",))
