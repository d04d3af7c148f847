"""What the parts of a queue manager count for its figures, and the parts outside the engine that have some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.engine.figures.call_counts import CallCounts
from broker.engine.figures.loop_turns import LoopTurns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from broker.clock import Clock


class CountingListener(Protocol):
    """A listener, as the figures see it."""

    @property
    def sessions(self) -> int:
        """The number of open lines."""

    @property
    def in_flight_bytes(self) -> int:
        """The bytes of messages on their way to and from its lines."""

    @property
    def refused(self) -> Mapping[str, int]:
        """The lines that it has refused, by the reason in a word."""


class FigureSources:
    """The calls of programs, the turns of the event loop, and the listeners that are open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.calls = CallCounts()
        self.turns = LoopTurns(loop)
        self.since = clock.time()  # when the queue manager started
        self.listeners: list[CountingListener] = []

    def end(self) -> None:
        """Measure no more."""
        self.turns.end()
