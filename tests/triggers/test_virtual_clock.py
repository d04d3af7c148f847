"""The clock for tests: time passes when it is told to, and what waits for it goes on in order."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from broker.testing import VirtualClock


async def test_time_stands_still_until_it_is_advanced() -> None:
    clock = VirtualClock(start=1000.0)
    await asyncio.sleep(0)
    assert (clock.monotonic(), clock.time()) == (0.0, 1000.0)
    await clock.advance(2.5)
    assert (clock.monotonic(), clock.time()) == (2.5, 1002.5)


async def test_timers_fire_in_the_order_of_their_moments_then_of_their_setting() -> None:
    clock = VirtualClock()
    fired: list[tuple[str, float]] = []
    for name, delay in [("c", 3.0), ("a", 1.0), ("b", 2.0), ("b2", 2.0), ("never", 9.0)]:
        clock.call_later(delay, lambda name=name: fired.append((name, clock.monotonic())))  # type: ignore[misc]
    await clock.advance(3)
    assert fired == [("a", 1.0), ("b", 2.0), ("b2", 2.0), ("c", 3.0)]


async def test_a_task_that_a_timer_wakes_sees_its_moment_and_can_set_the_next() -> None:
    clock = VirtualClock()
    seen: list[float] = []

    async def tick() -> None:
        while True:
            await clock.sleep(5)
            seen.append(clock.monotonic())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await clock.advance(30)
        tasks.cancel_scope.cancel()
    assert seen == [5, 10, 15, 20, 25, 30]


async def test_small_steps_add_up_to_a_timer() -> None:
    clock = VirtualClock()
    fired: list[float] = []
    clock.call_later(1.0, lambda: fired.append(clock.monotonic()))
    for _ in range(10):
        await clock.advance(0.1)
    assert fired == [1.0]


async def test_a_cancelled_timer_does_not_fire() -> None:
    clock = VirtualClock()
    fired: list[str] = []
    timer = clock.call_later(1, lambda: fired.append("cancelled"))
    timer.cancel()
    soon = clock.call_later(0, lambda: fired.append("cancelled too"))
    soon.cancel()
    await clock.advance(2)
    timer.cancel()
    assert fired == []


async def test_no_delay_is_the_next_turn_of_the_loop() -> None:
    clock = VirtualClock()
    fired: list[str] = []
    clock.call_later(0, lambda: fired.append("soon"))
    assert fired == []
    await clock.sleep(0)
    await clock.sleep(0)
    assert fired == ["soon"]


async def test_a_cancelled_sleeper_leaves_no_timer() -> None:
    clock = VirtualClock()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await clock.sleep(1)
    await clock.advance(1)


async def test_tasks_that_pass_the_turn_many_times_are_waited_for() -> None:
    clock = VirtualClock()
    done: list[float] = []

    async def long_way() -> None:
        await clock.sleep(1)
        for _ in range(100):
            await asyncio.sleep(0)
        done.append(clock.monotonic())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(long_way)
        await clock.advance(10)
        assert done == [1.0]


async def test_what_a_callback_raises_is_raised_by_advance() -> None:
    clock = VirtualClock()

    def fail() -> None:
        raise ValueError("callback")

    clock.call_later(1, fail)
    with pytest.raises(ValueError, match="callback"):
        await clock.advance(2)
    assert clock.monotonic() == 1.0


async def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        await VirtualClock().advance(-1)
