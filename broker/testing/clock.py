"""A clock that stands still until a test moves it.

Only what asks this clock is under its control: the event loop runs on, and threads and sockets keep real time.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from broker import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

NEW_YEAR_2026: Final = 1_767_225_600.0
"""2026-01-01 00:00:00 UTC, in seconds since 1970."""

QUIET_TURNS: Final = 8
_CALLBACK_TURNS: Final = 1000
"""So many turns in which all tasks wait are enough, whatever callbacks still go round."""

_ROUNDING: Final = 1e-9


class VirtualClock(Clock):
    """Time for tests: `await clock.advance(seconds)` lets it pass, and the timers due in it fire in their order.

    `start` is the wall clock's time at the beginning, in seconds since 1970 UTC; the monotonic clock begins at 0.
    Hand it to the queue manager and to the trigger monitor as `clock=`.
    """

    def __init__(self, start: float = NEW_YEAR_2026) -> None:
        self._start = start
        self._now = 0.0
        self.quiet_turns = QUIET_TURNS
        """In how many turns of the event loop nothing may happen before time goes on (`settle`)."""
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._numbers = count()
        self._stepped: list[Callable[[], None]] = []

    def monotonic(self) -> float:
        """Seconds for which the clock was advanced so far."""
        return self._now

    def time(self) -> float:
        """Seconds since 1970 UTC."""
        return self._start + self._now

    def step(self, seconds: float) -> None:
        """Set the wall clock, forwards or backwards, while no time passes."""
        self._start += seconds
        for stepped in self._stepped:
            stepped()

    def tell_steps(self, stepped: Callable[[], None]) -> bool:
        """Have `stepped` called by each `step`."""
        self._stepped.append(stepped)
        return True

    def call_later(self, delay: float, callback: Callable[[], object]) -> VirtualTimer | asyncio.Handle:
        """Run `callback` when the clock has advanced by `delay` seconds; 0 is the loop's next turn."""
        if delay <= 0:
            return asyncio.get_running_loop().call_soon(callback)
        timer = VirtualTimer(callback)
        heapq.heappush(self._timers, (self._now + delay, next(self._numbers), timer))
        return timer

    async def sleep(self, delay: float) -> None:
        """Suspend the calling task until the clock has advanced by `delay` seconds; 0 gives the other tasks a turn."""
        if delay <= 0:
            await asyncio.sleep(0)
            return
        over = asyncio.Event()
        timer = self.call_later(delay, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    @property
    def next_timer(self) -> float | None:
        """In how many seconds the next timer is due, if there is any."""
        while self._timers and self._timers[0][2].over:
            heapq.heappop(self._timers)
        return max(self._timers[0][0] - self._now, 0.0) if self._timers else None

    async def advance(self, seconds: float) -> None:
        """Let time pass.

        The clock goes from one due timer to the next; before the first and after each moment it waits until all other
        tasks wait for something. What a callback raises is raised here, with the clock at that moment.
        """
        if seconds < 0:
            raise ValueError(f"a clock does not go back by {-seconds} seconds")
        end = self._now + seconds
        await self._rest()
        while self._timers and self._timers[0][0] <= end + _ROUNDING:  # ten steps of 0.1 reach a timer at 1
            await self._go_to(self._timers[0][0])
            self._fire()
            await self._rest()
        await self._go_to(max(self._now, end))

    async def _rest(self) -> None:
        """Wait until all other tasks wait for something."""
        await settle(self.quiet_turns)

    async def _go_to(self, moment: float) -> None:
        """It is this moment now; nothing that is due has run."""
        self._now = moment

    def _fire(self) -> None:
        """Run what is due now, in the order of due times and of setting."""
        while self._timers and self._timers[0][0] <= self._now:
            _, _, timer = heapq.heappop(self._timers)
            timer.fire()


class VirtualTimer:
    """A callback that will run when a `VirtualClock` comes to its moment."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    @property
    def over(self) -> bool:
        """True if nothing will run any more: it has fired, or was cancelled."""
        return self._callback is None

    def fire(self) -> None:
        """Run the callback, unless it was cancelled."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def cancel(self) -> None:
        """Forget the callback; harmless when it has run."""
        self._callback = None


_settling: WeakKeyDictionary[asyncio.AbstractEventLoop, set[asyncio.Task[object]]] = WeakKeyDictionary()
"""The tasks of a loop that are in `settle`: they take turns, and none of them waits for another."""


async def settle(turns: int = QUIET_TURNS) -> None:
    """Return when all other tasks wait for something that is neither the event loop's nor another task's turn.

    A task may also wait for an answer that is on its way through callbacks, which uvloop shows nobody, or through a
    socket. So all must be found waiting for so many turns of the loop in a row.
    """
    loop = asyncio.get_running_loop()
    ready = getattr(loop, "_ready", None)  # what asyncio's own loop has to call
    quiet = waiting = 0
    own = asyncio.current_task()
    assert own is not None
    settling = _settling.setdefault(loop, set())
    settling.add(own)
    try:
        while quiet < turns and waiting < _CALLBACK_TURNS:
            await asyncio.sleep(0)
            if ready is not None and len(ready) < len(settling):  # others of these take turns too
                quiet += 1
                continue
            waiting = waiting + 1 if all(map(_waits, asyncio.all_tasks() - settling)) else 0
            quiet = quiet + 1 if ready is None and waiting else 0
    finally:
        settling.discard(own)


def _waits(task: asyncio.Task[object]) -> bool:
    """True if a task waits for a future that nothing has settled yet; asyncio tells it nowhere else."""
    waiter: asyncio.Future[object] | None = getattr(task, "_fut_waiter", None)
    return waiter is not None and not waiter.done()
