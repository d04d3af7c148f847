"""Time in a simulation: it stands still until the simulation moves it, and the wall clock may step."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from typing import TYPE_CHECKING

from broker import Clock
from broker.testing.clock import NEW_YEAR_2026, VirtualTimer

if TYPE_CHECKING:
    from collections.abc import Callable


class SimulatedClock(Clock):
    """A clock that is moved by plain calls, in the middle of anything. It outlives the queue managers that read it.

    `walls` has every time that the wall clock showed, so that a call can be asked what it may have seen.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._numbers = count()
        self.walls = [NEW_YEAR_2026]

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        return self.walls[-1]

    def call_later(self, delay: float, callback: Callable[[], object]) -> VirtualTimer | asyncio.Handle:
        if delay <= 0:
            return asyncio.get_running_loop().call_soon(callback)
        timer = VirtualTimer(callback)
        heapq.heappush(self._timers, (self._now + delay, next(self._numbers), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass, and the timers due in it fire in their order."""
        end = self._now + seconds
        wall = self.walls[-1] - self._now
        while self._timers and self._timers[0][0] <= end:
            self._now, _, timer = heapq.heappop(self._timers)
            self.walls.append(wall + self._now)
            timer.fire()
        self._now = end
        self.walls.append(wall + end)

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back by a negative number; the monotonic clock knows nothing of it."""
        self.walls.append(self.walls[-1] + seconds)
