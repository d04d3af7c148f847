"""What happens to a queue is counted, in the step in which it happens, and no count ever falls."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.queues.counts.duration import BOUNDS, Duration
from broker.mqi import MQGMO, MQPMO, MQRC, MessageDescriptor
from tests.core.world import World, fails


@pytest.fixture
def world() -> World:
    return World()


def counts(world: World, name: str = "Q") -> dict[str, Any]:
    """Return the counts of a queue that are not 0, but for the instants."""
    found = world.manager.objects.queues[name].counts
    names = ("puts", "put_bytes", "gets", "get_bytes", "browses", "expired", "backed_out", "refused")
    return {name: value for name in names if (value := getattr(found, name))}


def test_a_put_and_a_get_are_counted_with_their_bytes(world: World) -> None:
    world.define("Q")
    access = world.open()
    access.put(b"12345")
    access.put(b"123")
    assert counts(world) == {"puts": 2, "put_bytes": 8}
    access.get()
    assert counts(world) == {"puts": 2, "put_bytes": 8, "gets": 1, "get_bytes": 5}


def test_a_put_under_syncpoint_counts_when_it_is_made_and_its_backout_takes_nothing_back(world: World) -> None:
    world.define("Q")
    access = world.open()
    access.put(b"12345", MQPMO.SYNCPOINT)
    access.program.backout()
    assert counts(world) == {"puts": 1, "put_bytes": 5}


def test_a_get_that_is_backed_out_counts_as_a_get_and_as_one_that_came_back(world: World) -> None:
    world.define("Q")
    access = world.open()
    access.put(b"12345")
    access.get(MQGMO.SYNCPOINT)
    access.program.backout()
    access.get()
    assert counts(world) == {"puts": 1, "put_bytes": 5, "gets": 2, "get_bytes": 10, "backed_out": 1}


def test_a_browse_is_no_get(world: World) -> None:
    world.define("Q")
    access = world.open()
    access.put(b"12345")
    access.get(MQGMO.BROWSE_FIRST)
    assert counts(world) == {"puts": 1, "put_bytes": 5, "browses": 1}


def test_an_expired_message_counts_once_when_it_goes(world: World) -> None:
    world.define("Q")
    access = world.open()
    access.put(b"12345", 0, MessageDescriptor(expiry=10))
    world.pass_time(2)
    with fails(MQRC.NO_MSG_AVAILABLE):
        access.get()
    assert counts(world) == {"puts": 1, "put_bytes": 5, "expired": 1}


def test_a_refused_put_counts_by_its_reason(world: World) -> None:
    world.define("Q", MAXDEPTH=1)
    access = world.open()
    access.put()
    for _ in range(2):
        with fails(MQRC.Q_FULL):
            access.put()
    with fails(MQRC.PRIORITY_ERROR):
        access.put(b"", 0, MessageDescriptor(priority=-2))
    assert counts(world)["refused"] == {int(MQRC.Q_FULL): 2, int(MQRC.PRIORITY_ERROR): 1}


def test_the_time_on_the_queue_is_from_put_to_get(world: World) -> None:
    world.define("Q")
    access = world.open()
    access.put()
    world.pass_time(3)
    access.get()
    waited = world.manager.objects.queues["Q"].counts.waited
    assert waited is not None
    assert (waited.count, round(waited.sum, 2)) == (1, 3.0)
    assert waited.buckets[BOUNDS.index(5.0)] == 1


def test_the_last_put_and_the_last_get_are_known(world: World) -> None:
    world.define("Q")
    access = world.open()
    access.put()
    world.pass_time(3)
    access.get()
    found = world.manager.objects.queues["Q"].counts
    assert (found.last_put, found.last_get) == (world.now - 3, world.now)


def test_o3_2_counts_go_on_over_alter_clear_delete_and_define(world: World) -> None:
    world.define("Q")
    access = world.open()
    access.put(b"12345")
    access.get()
    access.put(b"123")
    access.close()
    before = counts(world)
    world.alter("Q", MAXDEPTH=7)
    assert counts(world) == before
    world.clear("Q")
    assert counts(world) == before
    world.delete("Q")
    world.define("Q")
    assert counts(world) == before
    assert world.manager.objects.queues["Q"].counts.last_put == 0
    world.open().put(b"12")
    assert counts(world) == before | {"puts": 3, "put_bytes": 10}


@pytest.mark.parametrize(
    ("seconds", "bound"),
    [(0.0, 0.0001), (0.0001, 0.0001), (0.00011, 0.0002), (0.3, 0.5), (100.0, 100.0), (101.0, None)],
)
def test_a_duration_is_counted_up_to_the_first_bound_that_it_does_not_exceed(
    seconds: float, bound: float | None
) -> None:
    duration = Duration()
    duration.add(seconds)
    assert duration.buckets.index(1) == (len(BOUNDS) if bound is None else BOUNDS.index(bound))


def test_the_bounds_are_three_a_decade_from_a_tenth_of_a_millisecond_to_a_hundred_seconds() -> None:
    assert (BOUNDS[0], BOUNDS[-1], len(BOUNDS)) == (0.0001, 100.0, 6 * 3 + 1)
