"""The watch over an event loop: a thread that notices when the loop does not come round.

The thread asks the loop for an answer again and again, and does nothing else. What it looks at when there is none, the
task and the frame that the loop is in, belongs to a loop that may run on meanwhile: it only reads.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class LoopWatch:
    """Watches the event loop that runs in the calling thread, from `began` to as many `ended`, until `stop`.

    The thread asks `every` so many seconds, and calls `look` as often. For as long as the loop owes an answer, it calls
    `held` as often, with the moments of its question and of now (`time.monotonic`).
    """

    def __init__(
        self, every: float, held: Callable[[float, float], None], look: Callable[[], None] = lambda: None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._every = every
        self._held = held
        self._look = look
        self._running = 0
        self._watching = False
        self._watched = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def began(self) -> None:
        """Something begins that may hold the loop."""
        self._running += 1
        if not self._watching and not self._stopped.is_set():
            self._watching = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="event loop watch", daemon=True)
                self._thread.start()
            self._watched.set()

    def ended(self) -> None:
        """It has ended."""
        self._running -= 1

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()
        self._watched.set()
        if self._thread is not None:
            self._thread.join()

    def inside(self) -> tuple[asyncio.Task[Any] | None, FrameType | None]:
        """The task and the frame that the loop is in."""
        return asyncio.current_task(self.loop), sys._current_frames().get(self._loop_thread)

    def _watch(self) -> None:
        """The thread."""
        while self._watched.wait() and not self._stopped.wait(self._every):
            self._look()
            answered = threading.Event()
            asked = time.monotonic()
            try:
                self.loop.call_soon_threadsafe(self._come_round, answered)
            except RuntimeError:  # it is closed
                continue
            while not answered.wait(self._every) and not self._stopped.is_set():
                self._look()
                self._held(asked, time.monotonic())

    def _come_round(self, answered: threading.Event) -> None:
        """Answer the thread. It rests when nothing runs that may hold the loop."""
        answered.set()
        if not self._running:
            self._watching = False
            self._watched.clear()
