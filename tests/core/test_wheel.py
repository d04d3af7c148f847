"""The wheel, against a sorted list; and the records of messages that wait."""

from __future__ import annotations

import heapq
from random import Random
from typing import TYPE_CHECKING

import pytest

from broker.core.calls import releasing
from broker.core.message.entry import AVAILABLE, GONE, WAITING, Entry
from broker.core.message.handling import FailureRecord, Handling
from broker.core.moment import Moment
from broker.core.queues.waits import STALE_MAX, Waits
from broker.core.queues.wheel import CUT_AT_ONCE, Wheel
from broker.mqi import MQGMO

if TYPE_CHECKING:
    from tests.core.world import World

YEAR = 31_536_000.0


def exhaust(wheel: Wheel[int], now: float) -> list[tuple[int, float]]:
    while wheel.cut(now):
        pass
    return wheel.pop(now, 1_000_000)


@pytest.mark.parametrize("seed", range(20))
def test_things_come_at_their_instants_in_their_order_whatever_comes_between(seed: int) -> None:
    random = Random(seed)
    wheel: Wheel[int] = Wheel()
    model: list[tuple[float, int]] = []
    now = random.choice([0.0, 1e9, -5.0])
    for number in range(1500):
        if random.random() < 0.6:
            due = now + random.choice([-1.0, 0.0, random.random(), random.random() * 100, random.random() * 10 * YEAR])
            wheel.add(number, due, now)
            heapq.heappush(model, (due, number))
        else:
            now += random.choice([0.0, 0.5, 3.0, 70.0, 5000.0, YEAR])
            expected = []
            while model and model[0][0] <= now:
                expected.append(heapq.heappop(model))
            assert [(due, number) for number, due in exhaust(wheel, now)] == expected
        wheel.check_invariants()
        assert len(wheel) == len(model)
    looks = 0
    while model:  # who goes by `next_look` alone meets every instant at its time
        look = wheel.next_look()
        assert look is not None
        now = max(now, look)
        looks += 1
        while wheel.cut(now):
            pass
        for number, due in wheel.pop(now, 10):
            assert (due, number) == heapq.heappop(model)
            assert due <= now
        assert not model or model[0][0] > now or len(wheel) == len(model)
    assert looks < 3000
    assert wheel.next_look() is None


def test_a_bucket_is_cut_in_small_parts() -> None:
    wheel: Wheel[int] = Wheel()
    for number in range(10 * CUT_AT_ONCE):
        wheel.add(number, 100_000.0, 0.0)
    now, cuts = 0.0, 0
    while (look := wheel.next_look()) is not None and look < 100_000:
        now = max(now, look)
        cuts += wheel.cut(now)
        wheel.check_invariants()
        assert wheel.pop(now, 5) == []
    assert cuts >= 10
    assert [number for number, _ in exhaust(wheel, 100_000.0)] == list(range(10 * CUT_AT_ONCE))


def test_a_sweep_drops_what_it_is_told_while_others_are_added_and_cut() -> None:
    wheel: Wheel[int] = Wheel()
    for number in range(5000):
        wheel.add(number, 1000.0 + number / 100, 0.0)
    now = 0.0
    added = 5000
    for _ in wheel.sweep(lambda number, _: number % 2 == 1 and number < 5000):
        wheel.add(added, 1000.0 + added % 50, now)
        added += 1
        now += 100.0
        wheel.cut(now)
    wheel.check_invariants()
    left = {number for number, _ in exhaust(wheel, 2000.0)}
    assert set(range(0, 5000, 2)) | set(range(5000, added)) <= left
    assert len([number for number in left if number % 2 and number < 5000]) < 2500


# Messages


@pytest.fixture
def waits(world: World) -> Waits:
    world.define()
    return Waits()


def waiting(world: World, waits: Waits, seconds: float, now: float = 0.0, *, tick: bool = True) -> Entry:
    entry = Entry(world.manager.objects.queues["Q"], world.manager.ids.next(), 0, b"", 0)
    again(entry, waits, seconds, now, tick=tick)
    return entry


def again(entry: Entry, waits: Waits, seconds: float, now: float = 0.0, *, tick: bool = True) -> None:
    entry.state = WAITING
    entry.handling = Handling(now + seconds)
    waits.add(entry, now + seconds if tick else None, Moment(now, now))


def due(waits: Waits, now: float) -> list[Entry]:
    moment = Moment(now, now)
    while waits.prepare(moment):
        pass
    return waits.due(moment, 1_000_000)


@pytest.mark.parametrize("tick", [True, False])
@pytest.mark.parametrize(("first", "second"), [(100, 50), (50, 100), (50, 50)])
def test_of_a_message_that_left_and_waits_again_the_new_instant_counts(
    world: World, waits: Waits, first: float, second: float, *, tick: bool
) -> None:
    entry = waiting(world, waits, first, tick=tick)
    waits.left(entry)
    again(entry, waits, second, tick=tick)
    waits.check_invariants(1)
    assert due(waits, second - 1) == []
    assert due(waits, second) == [entry]
    entry.state = GONE
    assert due(waits, first + second) == []
    waits.check_invariants(0)
    assert len(waits) == 0


def test_what_is_got_while_it_waits_and_comes_back_knows_whether_its_time_has_come(world: World, waits: Waits) -> None:
    early, late, gone = (waiting(world, waits, 10) for _ in range(3))
    for entry in (early, late, gone):
        waits.take(entry)
    waits.check_invariants(0)
    assert waits.give_back(early) is False
    assert due(waits, 10) == [early]
    assert waits.give_back(late) is True
    waits.remove([gone])
    waits.check_invariants(0)
    assert waits.give_back(late) is None


def test_records_of_messages_that_left_are_swept_before_they_are_many(world: World, waits: Waits) -> None:
    kept = [waiting(world, waits, YEAR + number) for number in range(10)]
    for number in range(STALE_MAX + 1):
        entry = waiting(world, waits, YEAR, tick=number % 2 == 0)
        waits.left(entry)
        entry.state = GONE
    assert waits.littered
    back = waiting(world, waits, YEAR)
    waits.left(back)
    again(back, waits, 2 * YEAR)
    for _ in waits.sweep():
        pass
    waits.check_invariants(11)
    assert (waits.littered, len(waits)) == (False, 11)
    assert due(waits, YEAR + 10) == kept
    assert due(waits, 2 * YEAR) == [back]


def test_one_that_was_released_does_not_wait_again_when_a_get_of_it_is_backed_out(world: World) -> None:
    """handlers rule 2.3: its instant is over, and what its last attempt has left with it is kept."""
    world.define()
    access = world.open()
    access.put(b"A")
    entry = access.get(MQGMO.SYNCPOINT).entry
    failure = FailureRecord(why="error")
    entry.handling = Handling(world.now + 5, failure)
    access.program.backout()
    assert entry.state == WAITING
    assert releasing.release_early(world.manager, [entry], world.moment) == 1
    world.perform()
    assert (entry.state, entry.delayed) == (AVAILABLE, False)
    assert access.get(MQGMO.SYNCPOINT).entry is entry
    access.program.backout()
    world.manager.check_invariants()
    assert (entry.state, entry.backout_count, entry.handling.failure) == (AVAILABLE, 2, failure)
    assert access.drain() == [b"A"]
