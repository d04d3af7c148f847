"""Long work on the event loop, a slice at a time.

What may have to look at very many messages or objects is written as a generator that yields where it can be left for a
while. All such work of a queue manager takes turns here: one slice of one piece of work in each turn of the event loop,
so that whoever else has something to do waits for a slice at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.clock import Clock
    from broker.storage.store import Done

SLICE_SECONDS: Final = 0.0005
"""A slice ends with the step that reaches this age. A put outside syncpoint takes two turns of the event loop, or three
with a store that writes on a thread: with slices of a millisecond a client that puts and gets every 10 ms falls behind.
"""

SLICE_STEPS: Final = 1000
"""It ends after so many steps in any case: under a clock that stands still runs are cut the same way each time."""

Work: TypeAlias = "Iterator[None]"


class Slices:
    """The pieces of work that are under way, and whose slice is next."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._works: deque[tuple[Work, Done]] = deque()
        self._due = False  # a slice is, in the next turn of the event loop
        self._ended = False

    def run(self, work: Work, done: Done) -> None:
        """Do `work` from the next turn of the event loop on, then call `done` with the exception that ended it, or
        None. After the end nothing is begun any more.
        """
        if not self._ended:
            self._works.append((work, done))
            self._schedule()

    def start(self, work: Work, done: Done) -> None:
        """As `run`, but the first slice is done now, and when that is all `done` is called now."""
        self._one(work, done)

    def end(self) -> None:
        """Leave all work where it is; nobody is called."""
        self._ended = True
        self._works.clear()

    def _schedule(self) -> None:
        if self._works and not self._due:
            self._due = True
            self._loop.call_soon(self._slice)

    def _slice(self) -> None:
        self._due = False
        if not self._works:
            return
        self._one(*self._works.popleft())

    def _one(self, work: Work, done: Done) -> None:
        """One slice of this work."""
        error = None
        try:
            over = self._steps(work)
        except Exception as mistake:
            error, over = mistake, True
        if self._ended:
            return
        if not over:
            self._works.append((work, done))
        self._schedule()
        if over:
            done(error)

    def _steps(self, work: Work) -> bool:
        """One slice; true when the work is over."""
        until = self._clock.monotonic() + SLICE_SECONDS
        for _ in range(SLICE_STEPS):
            try:
                next(work)
            except StopIteration:
                return True
            if self._clock.monotonic() >= until:
                break
        return False
