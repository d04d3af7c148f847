"""Names handlers that hold the event loop (handlers rule 13.2).

A coroutine that computes, or calls what blocks, lets nothing else run: no other handler, no settlement, no heartbeat of
its connection. A thread looks at the loop while handlers run. When the loop has not come round for `HELD`, it looks up
whose step is being run and at which line, and says so, for each handler once in `INTERVAL`. The steps themselves are
not timed: a handler costs nothing more.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

logger = logging.getLogger(__name__)

HELD: Final = 0.1
"""Seconds that a handler may hold the loop."""

INTERVAL: Final = 60.0
"""Seconds between two records about one handler."""

_LOOK: Final = HELD / 4


class LoopWatch:
    """Watches the running event loop, while there is something to watch. `whose` tells which handler a task runs."""

    def __init__(self, whose: Callable[[asyncio.Task[object]], str | None]) -> None:
        self._whose = whose
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._came_round = 0.0
        self._beat: asyncio.TimerHandle | None = None
        self._running = 0
        self._watched = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._named: dict[str, float] = {}

    def began(self) -> None:
        """A handler begins to run."""
        self._running += 1
        if self._beat is None and not self._ended.is_set():
            self._come_round()
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="loop watch", daemon=True)
                self._thread.start()
            self._watched.set()

    def ended(self) -> None:
        """A handler has ended."""
        self._running -= 1

    def end(self) -> None:
        """Watch no more."""
        self._ended.set()
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        self._watched.set()
        if self._thread is not None:
            self._thread.join()

    def _come_round(self) -> None:
        """The loop is not held. It is watched for as long as handlers run."""
        self._came_round = time.monotonic()
        if self._running:
            self._beat = self._loop.call_later(_LOOK, self._come_round)
        else:
            self._beat = None
            self._watched.clear()

    def _look(self) -> None:
        """The thread: what runs when the loop does not come round."""
        while self._watched.wait() and not self._ended.wait(_LOOK):
            held = time.monotonic() - self._came_round
            if self._beat is not None and held > HELD:
                self._name(held)

    def _name(self, held: float) -> None:
        task = asyncio.current_task(self._loop)
        frame = sys._current_frames().get(self._loop_thread)
        handler = None if task is None else self._whose(task)
        now = time.monotonic()
        if handler is None or now - self._named.get(handler, -INTERVAL) < INTERVAL:
            return
        self._named[handler] = now
        logger.warning(
            "a handler holds the event loop, nothing else runs meanwhile: handler=%s held_s=%.2f at=%s; "
            "await what it waits for, or make it a plain function, which runs in a thread",
            handler, held, where(frame),
        )  # fmt: skip


def where(frame: FrameType | None) -> str:
    """The line that a frame is at, as `file:line in function`."""
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
