"""An event loop without sockets and threads, whose time goes on at once when there is nothing to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Hang(BaseException):
    """Somebody waits for what will never come."""


class _Jump:
    """In place of a selector: waiting takes no time, it only lets the clock go on."""

    def __init__(self, limit: float) -> None:
        self.now = 0.0
        self._limit = limit

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None or self.now > self._limit:
            raise Hang("nothing is left to do, and somebody still waits")
        self.now += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's own loop, on a clock that stands still while there is something to do.

    It has nothing of a system, so code that starts a thread, a process or a connection fails here. Who waits longer
    than `limit` seconds gets Hang.
    """

    def __init__(self, limit: float = 1e9) -> None:
        super().__init__()
        self._selector = _Jump(limit)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._selector.now

    def _process_events(self, _: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who must be woken."""


def run(work: Coroutine[object, object, object]) -> None:
    """Run it to its end on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)
