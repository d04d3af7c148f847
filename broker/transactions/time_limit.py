"""Work that may take so long, and no longer, by the clock of the program."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from broker.clock import Clock

T = TypeVar("T")


async def limited(clock: Clock, seconds: float, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Await work, which is cancelled after so many seconds, or with the caller. Return its task, which has ended."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    timer = clock.call_later(seconds, task.cancel)
    try:
        await asyncio.wait((task,))
    finally:
        timer.cancel()
        task.cancel()
    return task
