"""The lengths of turns of the event loop, measured once a second.

Nothing is measured before the first scrape: who takes no figures pays for no timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.queues.counts.duration import Duration

if TYPE_CHECKING:
    import asyncio

EVERY_SECONDS: Final = 1.0
REMEMBERED: Final = 60
"""The longest turn is that of so many measurements, at least."""


class LoopTurns:
    """The turns of a loop. `turns` counts those that were measured; `longest` is the longest of the last minute or two,
    with the lateness of the timer: a turn that was not measured and held the loop shows in it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.turns = Duration()
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._began = 0.0
        self._number = 0
        self._longest = self._longest_before = 0.0

    @property
    def longest(self) -> float:
        """Seconds."""
        return max(self._longest, self._longest_before)

    def begin(self) -> None:
        """Measure from now on; harmless when it does."""
        if self._timer is None:
            self._rest()

    def end(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _rest(self) -> None:
        self._due = self._loop.time() + EVERY_SECONDS
        self._timer = self._loop.call_at(self._due, self._due_now)

    def _due_now(self) -> None:
        self._began = self._loop.time()
        self._saw(self._began - self._due)
        self._timer = self._loop.call_soon(self._came_round)  # type: ignore[assignment]  # it is cancelled likewise

    def _came_round(self) -> None:
        """The loop has been through all others once."""
        turn = self._loop.time() - self._began
        self.turns.add(turn)
        self._saw(turn)
        self._number += 1
        if self._number % REMEMBERED == 0:
            self._longest, self._longest_before = 0.0, self._longest
        self._rest()

    def _saw(self, seconds: float) -> None:
        self._longest = max(self._longest, seconds)
