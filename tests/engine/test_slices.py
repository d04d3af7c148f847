"""Long work gives the event loop back, in slices that take turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.engine.jobs.slices import SLICE_SECONDS, SLICE_STEPS, Slices
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Generator


class TickingClock(VirtualClock):
    """Time passes with each look at it."""

    def monotonic(self) -> float:
        self._now += SLICE_SECONDS / 10
        return self._now


def steps(name: str, count: int, seen: list[str]) -> Generator[None, None, None]:
    for _ in range(count):
        seen.append(name)
        yield


async def finished(slices: Slices, work: Generator[None, None, None]) -> Exception | None:
    """Do the work and return what ended it."""
    outcome: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    slices.run(work, outcome.set_result)
    return await outcome


async def test_nothing_is_done_before_the_next_turn_of_the_loop() -> None:
    seen: list[str] = []
    slices = Slices(VirtualClock())
    slices.run(steps("a", 1, seen), lambda error: None)
    assert not seen
    await asyncio.sleep(0)
    assert seen == ["a"]


async def test_under_a_clock_that_stands_still_a_slice_is_so_many_steps() -> None:
    seen: list[str] = []
    slices = Slices(VirtualClock())
    slices.run(steps("a", SLICE_STEPS + 1, seen), lambda error: None)
    await asyncio.sleep(0)
    assert len(seen) == SLICE_STEPS
    await asyncio.sleep(0)
    assert len(seen) == SLICE_STEPS + 1


async def test_a_slice_ends_when_its_time_is_over() -> None:
    seen: list[str] = []
    slices = Slices(TickingClock())
    slices.run(steps("a", SLICE_STEPS, seen), lambda error: None)
    await asyncio.sleep(0)
    assert 9 <= len(seen) <= 11


async def test_works_take_turns() -> None:
    seen: list[str] = []
    slices = Slices(VirtualClock())
    slices.run(steps("a", SLICE_STEPS + 1, seen), lambda error: None)
    assert await finished(slices, steps("b", 1, seen)) is None
    assert seen == [*["a"] * SLICE_STEPS, "b", "a"]


async def test_a_mistake_ends_its_own_work_only() -> None:
    def mistaken() -> Generator[None, None, None]:
        yield
        raise ValueError("a mistake")

    seen: list[str] = []
    slices = Slices(VirtualClock())
    outcome = asyncio.create_task(finished(slices, mistaken()))
    assert await finished(slices, steps("b", 3, seen)) is None
    assert str(await outcome) == "a mistake"
    assert seen == ["b"] * 3


async def test_work_may_begin_other_work() -> None:
    seen: list[str] = []
    slices = Slices(VirtualClock())

    def first() -> Generator[None, None, None]:
        slices.run(steps("b", 2, seen), lambda error: seen.append("b ended"))
        seen.append("a")
        yield

    assert await finished(slices, first()) is None
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == ["a", "b", "b", "b ended"]


async def test_when_all_ends_nobody_is_called() -> None:
    seen: list[str] = []
    slices = Slices(VirtualClock())

    def ending() -> Generator[None, None, None]:
        slices.end()
        yield

    slices.run(ending(), lambda error: seen.append("called"))
    slices.run(steps("b", 2, seen), lambda error: seen.append("called"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not seen
