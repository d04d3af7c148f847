"""Time, as the queue manager sees it: one object that tests replace with a virtual one.

Waits, triggers and heartbeats use `monotonic`; only PutDate, PutTime and expiry deadlines, which must survive a
restart, use the wall clock `time`. Nothing else in the project reads a clock.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

_BOOTTIME: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # which elsewhere goes on while it sleeps


def boottime() -> float:
    """Seconds since this machine was started, those in which it was suspended among them: for leases, which end while
    nobody is there to see it.
    """
    return time.clock_gettime(_BOOTTIME)


class Timer(Protocol):
    """A callback that will run; `cancel` is harmless when it has."""

    def cancel(self) -> None: ...


class Clock:
    """The real clock, on the running event loop."""

    monotonic = staticmethod(time.monotonic)
    """Seconds that never go back, from an arbitrary start."""

    time = staticmethod(time.time)
    """Seconds since 1970 UTC; may step."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Run `callback` on the event loop in `delay` seconds."""
        return asyncio.get_running_loop().call_later(delay, callback)

    def tell_steps(self, stepped: Callable[[], None]) -> bool:
        """Have `stepped` called whenever the wall clock is set. False: nobody tells, who needs to know looks at it."""
        return False

    async def sleep(self, delay: float) -> None:
        """Suspend the calling task for `delay` seconds; 0 gives the other tasks a turn."""
        await asyncio.sleep(delay)


def cancel_timer(timer: Timer | None) -> None:
    """Cancel a timer, if there is one; harmless when it has run out."""
    if timer is not None:
        timer.cancel()


def asyncio_loop() -> asyncio.AbstractEventLoop:
    """The event loop of asyncio that runs here. Raises RuntimeError where none does, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "EverMQ runs on asyncio, and no event loop of asyncio runs here: begin the program with "
            "asyncio.run(main()), or anyio.run(main), whose backend is asyncio unless another is named, such as trio"
        ) from None
