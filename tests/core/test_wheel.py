"""The wheel, against a sorted list; and the records of messages that wait."""

from __future__ import annotations

import heapq
from random import Random
from typing import TYPE_CHECKING

import pytest

from broker.core.calls import releasing
from broker.core.message.entry import AVAILABLE, DELAYED, GONE, Entry
from broker.core.message.handling import FailureRecord, Handling
from broker.core.moment import Moment
from broker.core.queues.delayed.delays import STALE_MAX, Delays
from broker.core.queues.delayed.wheel import CUT_AT_ONCE, Wheel
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
def delays(world: World) -> Delays:
    world.define()
    return Delays()


def delayed(world: World, delays: Delays, seconds: float, now: float = 0.0, *, tick: bool = True) -> Entry:
    entry = Entry(world.manager.objects.queues["Q"], world.manager.ids.next(), 0, b"", 0)
    again(entry, delays, seconds, now, tick=tick)
    return entry


def again(entry: Entry, delays: Delays, seconds: float, now: float = 0.0, *, tick: bool = True) -> None:
    entry.state = DELAYED
    entry.handling = Handling(now + seconds)
    delays.add(entry, now + seconds if tick else None, Moment(now, now))


def due(delays: Delays, now: float) -> list[Entry]:
    moment = Moment(now, now)
    while delays.prepare(moment):
        pass
    return delays.due(moment, 1_000_000)


@pytest.mark.parametrize("tick", [True, False])
@pytest.mark.parametrize(("first", "second"), [(100, 50), (50, 100), (50, 50)])
def test_of_a_message_that_left_and_is_delayed_again_the_new_instant_counts(
    world: World, delays: Delays, first: float, second: float, *, tick: bool
) -> None:
    entry = delayed(world, delays, first, tick=tick)
    delays.left(entry)
    again(entry, delays, second, tick=tick)
    delays.check_invariants(1)
    assert due(delays, second - 1) == []
    assert due(delays, second) == [entry]
    entry.state = GONE
    assert due(delays, first + second) == []
    delays.check_invariants(0)
    assert len(delays) == 0


def test_what_is_got_while_it_is_delayed_and_comes_back_knows_whether_its_time_has_come(
    world: World, delays: Delays
) -> None:
    early, late, gone = (delayed(world, delays, 10) for _ in range(3))
    for entry in (early, late, gone):
        delays.take(entry)
    delays.check_invariants(0)
    assert delays.give_back(early) is False
    assert due(delays, 10) == [early]
    assert delays.give_back(late) is True
    delays.remove([gone])
    delays.check_invariants(0)
    assert delays.give_back(late) is None


def test_records_of_messages_that_left_are_swept_before_they_are_many(world: World, delays: Delays) -> None:
    kept = [delayed(world, delays, YEAR + number) for number in range(10)]
    for number in range(STALE_MAX + 1):
        entry = delayed(world, delays, YEAR, tick=number % 2 == 0)
        delays.left(entry)
        entry.state = GONE
    assert delays.littered
    back = delayed(world, delays, YEAR)
    delays.left(back)
    again(back, delays, 2 * YEAR)
    for _ in delays.sweep():
        pass
    delays.check_invariants(11)
    assert (delays.littered, len(delays)) == (False, 11)
    assert due(delays, YEAR + 10) == kept
    assert due(delays, 2 * YEAR) == [back]


def test_one_that_was_released_does_not_wait_again_when_a_get_of_it_is_backed_out(world: World) -> None:
    """handlers rule 2.3: its instant is over, and what its last attempt has left with it is kept."""
    world.define()
    access = world.open()
    access.put(b"A")
    entry = access.get(MQGMO.SYNCPOINT).entry
    failure = FailureRecord(why="error")
    entry.handling = Handling(world.now + 5, failure)
    access.program.backout()
    assert entry.state == DELAYED
    assert releasing.release_early(world.manager, [entry], world.moment) == 1
    world.perform()
    assert (entry.state, entry.delayed) == (AVAILABLE, False)
    assert access.get(MQGMO.SYNCPOINT).entry is entry
    access.program.backout()
    world.manager.check_invariants()
    assert (entry.state, entry.backout_count, entry.handling.failure) == (AVAILABLE, 2, failure)
    assert access.drain() == [b"A"]
