"""The table of the states of a message, against what the methods of a queue do."""

from __future__ import annotations

from itertools import product

import pytest

from broker.core.message.entry import (
    AVAILABLE,
    CLAIMED,
    DAMAGED,
    DELAYED,
    GET_PENDING,
    GONE,
    LOCKED,
    PREPARED,
    PUT_PENDING,
    STATE_NAMES,
    TRANSITIONS,
    Entry,
)
from broker.core.message.handling import Handling
from broker.core.queues.queue import LocalQueue
from broker.core.queues.unit import Unit
from tests.core.world import World

STEPS = sorted({step for steps in TRANSITIONS.values() for step in steps})
STATES = range(len(STATE_NAMES))
WAY_TO = {
    PUT_PENDING: ("place",),
    AVAILABLE: ("place", "arrive"),
    GET_PENDING: ("place", "arrive", "take"),
    LOCKED: ("place", "arrive", "lock"),
    DAMAGED: ("place", "arrive", "set_aside"),
    CLAIMED: ("place", "arrive", "claim"),
    PREPARED: ("prepare",),
    DELAYED: ("place", "postpone"),
    GONE: ("place", "withdraw"),
}


@pytest.fixture
def queue(world: World) -> LocalQueue:
    return world.define()


def new(queue: LocalQueue) -> Entry:
    return Entry(queue, queue.ids.next(), 0, b"A", 1)


def step(queue: LocalQueue, entry: Entry, name: str) -> None:
    """Let the queue take a step with a message."""
    if name in ("place", "take"):
        getattr(queue, name)(entry, Unit())
    elif name == "set_aside":
        queue.set_aside(entry, "why")
    elif (entry.state, name) == (PUT_PENDING, "postpone"):
        entry.handling = Handling(1.0)
        queue.delay(entry)
        queue.postpone(entry)
    else:
        getattr(queue, name)([entry] if name in ("arrive", "prepare", "publish", "drop") else entry)


def entry_in(queue: LocalQueue, state: int) -> Entry:
    entry = new(queue)
    for name in WAY_TO[state]:
        step(queue, entry, name)
    assert entry.state == state
    return entry


def test_each_state_is_in_the_table() -> None:
    assert sorted(TRANSITIONS) == list(STATES)


@pytest.mark.parametrize(("state", "name"), [(state, name) for state in TRANSITIONS for name in TRANSITIONS[state]])
def test_a_step_leads_where_the_table_says(queue: LocalQueue, state: int, name: str) -> None:
    starts_new = (state, name) in ((PUT_PENDING, "place"), (PUT_PENDING, "prepare"))
    entry = new(queue) if starts_new else entry_in(queue, state)
    assert entry.state == state
    step(queue, entry, name)
    assert entry.state == TRANSITIONS[state][name]
    assert (entry.unit is not None) == (entry.state in (PUT_PENDING, GET_PENDING))
    assert (entry.key in queue.shelf.entries) == (entry.state not in (GONE, PREPARED))
    queue.check_invariants()


@pytest.mark.parametrize(
    ("state", "name"), [each for each in product(STATES, STEPS) if each[1] not in TRANSITIONS[each[0]]]
)
def test_a_step_that_the_table_does_not_have_is_a_mistake(queue: LocalQueue, state: int, name: str) -> None:
    entry = entry_in(queue, state)
    with pytest.raises(AssertionError):
        step(queue, entry, name)


def test_many_at_once_go_the_same_way(queue: LocalQueue) -> None:
    entries = [new(queue) for _ in range(3)]
    queue.place_all(entries, Unit(), 3)
    assert {entry.state for entry in entries} == {TRANSITIONS[PUT_PENDING]["place"]}
    queue.arrive(entries)
    assert {entry.state for entry in entries} == {TRANSITIONS[PUT_PENDING]["arrive"]}
    queue.take_heads(queue.shelf.heads(3), Unit())
    assert {entry.state for entry in entries} == {TRANSITIONS[AVAILABLE]["take"]}
    queue.check_invariants()


def test_what_a_store_kept_is_available_at_once(queue: LocalQueue) -> None:
    entry = Entry.from_row(queue, new(queue).row())
    queue.load([entry])
    assert entry.state == TRANSITIONS[PUT_PENDING]["arrive"]
    queue.check_invariants()
