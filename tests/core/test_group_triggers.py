"""Trigger events of shared queues as one queue manager judges them (triggers 4), by what it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker.core import group_triggers
from broker.core.group_triggers import Arrival, Census
from broker.core.message.entry import order_key
from broker.core.queues.shared_queue import SharedQueue
from broker.mqi import MQOO
from tests.core.triggered import DEPTH, EVERY, FIRST

if TYPE_CHECKING:
    from tests.core.world import World

TYPES = {"FIRST": FIRST, "EVERY": EVERY, "DEPTH": DEPTH}


def shared(world: World, **attributes: int | str) -> SharedQueue:
    """The shared queue Q, whose initiation queue I a monitor serves."""
    world.define_process("P")
    world.define("I")
    world.open("I", MQOO.INPUT_SHARED)
    queue = world.define("Q", QSGDISP=2, TRIGGER=1, PROCESS="P", INITQ="I", **attributes)
    assert isinstance(queue, SharedQueue)
    return queue


def triggered(world: World, queue: SharedQueue, arrival: Arrival, census: Census, tick: float = 0.0) -> int:
    """Return the number of trigger messages that an arrival leads to."""
    group_triggers.arrived(world.manager.triggers, queue, arrival, census, tick)
    messages, world.manager.effects.triggered = world.manager.effects.triggered, []
    return len(messages)


CASES = [
    ("FIRST", {}, Arrival(1, 0, 1), Census(1, 0, False), 1),
    ("FIRST", {}, Arrival(3, 0, 3), Census(3, 0, False), 1),
    ("FIRST", {}, Arrival(1, 1, 1), Census(2, 0, False), 0),
    ("FIRST", {}, Arrival(1, 1, 1), Census(1, 0, False), 1),  # the one before has been taken, or is of low priority
    ("FIRST", {}, Arrival(1, 0, 1), Census(0, 0, False), 0),  # somebody was quicker, or TRIGMPRI is higher
    ("FIRST", {}, Arrival(1, 0, 1), Census(1, 0, True), 0),  # exclusive input, anywhere
    ("EVERY", {}, Arrival(2, 5, 2), Census(3, 0, False), 2),
    ("EVERY", {}, Arrival(2, 5, 2), Census(1, 0, False), 1),
    ("EVERY", {}, Arrival(3, 5, 1), Census(3, 0, False), 1),  # a message that was cut
    ("EVERY", {}, Arrival(2, 5, 2), Census(3, 1, False), 0),  # as FIRST, while others have it open
    ("EVERY", {}, Arrival(2, 0, 2), Census(2, 1, False), 1),
    ("EVERY", {}, Arrival(2, 0, 2), Census(2, 1, True), 0),
    ("DEPTH", {"TRIGDPTH": 3}, Arrival(1, 1, 1), Census(2, 0, False), 0),
    ("DEPTH", {"TRIGDPTH": 3}, Arrival(1, 2, 1), Census(3, 0, False), 1),
    ("DEPTH", {"TRIGDPTH": 3}, Arrival(1, 0, 1), Census(1, 2, False), 1),
    ("DEPTH", {"TRIGDPTH": 3}, Arrival(2, 1, 2), Census(3, 0, True), 0),
]


@pytest.mark.parametrize(("type", "attributes", "arrival", "census", "messages"), CASES)
def test_what_an_arrival_triggers(
    world: World, type: str, attributes: dict[str, int], arrival: Arrival, census: Census, messages: int
) -> None:
    queue = shared(world, TRIGTYPE=TYPES[type], **attributes)
    queue.last_triggered = 0.0  # not so long ago that FIRST triggers for that (E2)
    assert triggered(world, queue, arrival, census) == messages


@pytest.mark.parametrize("type", ["FIRST", "DEPTH"])
def test_a_handle_for_input_of_its_own_keeps_a_member_from_triggering(world: World, type: str) -> None:
    queue = shared(world, TRIGTYPE=TYPES[type], TRIGDPTH=1)
    access = world.open("Q", MQOO.INPUT_SHARED)
    assert triggered(world, queue, Arrival(1, 0, 1), Census(1, 0, False)) == 0
    access.close()
    group_triggers.last_input_closed(world.manager.triggers, queue, Census(1, 0, False), 0.0)
    assert len(world.manager.effects.triggered) == 1


@pytest.mark.parametrize("census", [Census(0, 0, False), Census(4, 0, True)])
def test_the_close_of_the_last_handle_triggers_nothing_where_there_is_nothing_for_it(
    world: World, census: Census
) -> None:
    queue = shared(world, TRIGTYPE=FIRST)
    group_triggers.last_input_closed(world.manager.triggers, queue, census, 0.0)
    assert not world.manager.effects.triggered


def test_first_triggers_again_when_trigint_is_over(world: World) -> None:
    queue = shared(world, TRIGTYPE=FIRST)
    world.manager.triggers.interval_ms = 5000
    assert triggered(world, queue, Arrival(1, 0, 1), Census(1, 0, False), tick=10.0) == 1
    assert triggered(world, queue, Arrival(1, 1, 1), Census(2, 0, False), tick=14.9) == 0
    assert triggered(world, queue, Arrival(1, 2, 1), Census(3, 0, False), tick=15.0) == 1


def test_depth_switches_triggering_off(world: World) -> None:
    queue = shared(world, TRIGTYPE=DEPTH, TRIGDPTH=2)
    assert triggered(world, queue, Arrival(2, 0, 2), Census(2, 0, False)) == 1
    assert not queue.trigger_on
    assert triggered(world, queue, Arrival(2, 2, 2), Census(4, 0, False)) == 0


def test_every_on_the_fast_path_counts_puts_and_judges_no_arrivals(world: World) -> None:
    queue = shared(world, TRIGTYPE=EVERY)
    assert group_triggers.judged(world.manager.triggers, queue)
    world.alter("Q", INITQ="")
    assert not group_triggers.judged(world.manager.triggers, queue)
    assert triggered(world, queue, Arrival(1, 0, 1), Census(1, 0, False)) == 0


@pytest.mark.parametrize(("priority", "counts_from"), [(0, -1), (5, 4), (9, 8)])
def test_messages_count_from_trigmpri_on_and_all_of_them_while_others_have_the_queue_open(
    world: World, priority: int, counts_from: int
) -> None:
    queue = shared(world, TRIGTYPE=FIRST, TRIGMPRI=priority)
    assert group_triggers.boundary(queue, elsewhere=False) == order_key(counts_from, 0)
    assert group_triggers.boundary(queue, elsewhere=True) == order_key(-1, 0)
    assert order_key(priority, 1) < group_triggers.boundary(queue, elsewhere=False)
