"""Why a queue that is meant to trigger starts nothing: C5 to C10, one finding each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core.explain.explaining import ALL as WHOLE
from broker.core.explain.explaining import explain
from broker.mqi import MQOO
from broker.mqi.explanations import Cause
from tests.core.triggered import DEPTH, EVERY, FIRST, NONE

if TYPE_CHECKING:
    from tests.core.world import World


def reported(world: World, name: str = "Q") -> list[tuple[str, str]]:
    """The conditions that are not met, and what the findings say of them."""
    route = world.manager.objects.destination(name, "")
    findings = explain(route, route.queue.shelf, WHOLE, world.now, world.manager)
    found = [each for each in findings if each is not None and each.code == Cause.CANNOT_TRIGGER]
    return [(each.figures["condition"], each.text.removeprefix(f"{name} starts nothing: ")) for each in found]


CASES: list[tuple[dict[str, int | str], list[str]]] = [
    ({}, []),
    ({"TRIGTYPE": EVERY}, []),
    ({"TRIGGER": 0}, ["C9 it is NOTRIGGER"]),
    ({"TRIGGER": 0, "PROCESS": "", "INITQ": ""}, []),
    ({"TRIGGER": 0, "TRIGTYPE": DEPTH},
     ["C9 it is NOTRIGGER: DEPTH switches it off when it fires, TRIGGER arms it again"]),
    ({"TRIGTYPE": NONE}, ["C10 it is TRIGTYPE(NONE)"]),
    ({"GET": 1}, ["C5 it has GET(DISABLED)"]),
    ({"PROCESS": "NOSUCH"}, ["C6 its process NOSUCH does not exist"]),
    ({"PROCESS": ""}, ["C6 it names no process"]),
    ({"PROCESS": "", "USAGE": 1}, []),
    ({"PROCESS": "", "INITQ": ""}, []),
    ({"PROCESS": "", "INITQ": "", "TRIGTYPE": EVERY}, ["C6 it names no process"]),
    ({"INITQ": "NOSUCH"}, ["C7 there is no local queue NOSUCH, its initiation queue"]),
    ({"INITQ": "J"},
     ["C7 its initiation queue J is USAGE(XMITQ)", "C7 its initiation queue J has GET(DISABLED)",
      "C7 its initiation queue J has PUT(DISABLED)",
      "C8 no program has its initiation queue J open for input: no trigger monitor serves it"]),
    ({"TRIGGER": 0, "TRIGTYPE": NONE, "PROCESS": "NOSUCH"},
     ["C9 it is NOTRIGGER", "C10 it is TRIGTYPE(NONE)", "C6 its process NOSUCH does not exist"]),
]  # fmt: skip


@pytest.mark.parametrize(("attributes", "expected"), CASES, ids=str)
def test_each_condition_that_is_not_met_is_told(
    world: World, attributes: dict[str, int | str], expected: list[str]
) -> None:
    world.define_process("P")
    world.define("I")
    world.define("J", USAGE=1, GET=1, PUT=1)
    world.open("I", MQOO.INPUT_SHARED)
    world.define("Q", **{"TRIGGER": 1, "TRIGTYPE": FIRST, "PROCESS": "P", "INITQ": "I", **attributes})
    assert reported(world) == [
        (number, f"{text} (condition {number})") for number, _, text in (each.partition(" ") for each in expected)
    ]


def test_a_queue_that_is_not_meant_to_trigger_is_not_spoken_of(world: World) -> None:
    world.define("Q")
    assert reported(world) == []
