"""The capacity for handlers that run: in all, and for one queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker import Clock


class Capacity:
    """Places for `max_tasks` handlers, of which one queue may fill `max_handlers`.

    A tenth of them is kept for queues that have none running, so that a queue with many slow handlers cannot keep all
    others waiting. Places are occupied before the starts are taken: the caps hold while several takings are under way.
    """

    def __init__(self, max_tasks: int, max_handlers: int) -> None:
        self.total = 0
        self.by_queue: dict[str, int] = {}
        self.limit(max_tasks, max_handlers)
        self._empty: asyncio.Event | None = None
        self._alone: dict[str, set[asyncio.Event]] = {}

    def limit(self, max_tasks: int, max_handlers: int) -> None:
        """Let so many run from now on. Those that run beyond that go on."""
        self._max_tasks = max_tasks
        self._max_handlers = max_handlers
        self._kept = max_tasks // 10

    def room(self, q_name: str) -> int:
        """Return the number of handlers of a queue that may still be started."""
        running = self.by_queue.get(q_name, 0)
        free = self._max_tasks - self._kept - self.total
        if not running and self.total < self._max_tasks:
            free = max(free, 1)
        return max(min(free, self._max_handlers - running), 0)

    def occupy(self, q_name: str, places: int) -> None:
        """Take places that `room` has shown to be free."""
        self.by_queue[q_name] = self.by_queue.get(q_name, 0) + places
        self.total += places

    def release(self, q_name: str, places: int = 1) -> None:
        """Give places back."""
        left = self.by_queue[q_name] - places
        if left <= 1:
            for alone in self._alone.pop(q_name, ()):
                alone.set()
        if left:
            self.by_queue[q_name] = left
        else:
            del self.by_queue[q_name]
        self.total -= places
        if not self.total and self._empty is not None:
            self._empty.set()

    async def empty(self, clock: Clock, timeout: float) -> None:
        """Wait until no place is occupied, at most for `timeout` seconds."""
        if not self.total:
            return
        self._empty = asyncio.Event()
        await _over(self._empty, clock, timeout)

    async def alone(self, q_name: str, clock: Clock, timeout: float) -> None:
        """Wait until no other handler of the queue runs, at most for `timeout` seconds."""
        if self.by_queue[q_name] > 1:
            alone = asyncio.Event()
            self._alone.setdefault(q_name, set()).add(alone)
            await _over(alone, clock, timeout)


async def _over(event: asyncio.Event, clock: Clock, timeout: float) -> None:
    """Wait for an event, at most for `timeout` seconds."""
    timer = clock.call_later(timeout, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
