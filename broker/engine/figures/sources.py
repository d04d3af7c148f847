"""What the parts of a queue manager count for its figures, and the parts outside the engine that have some."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.engine.figures.call_counts import CallCounts
from broker.engine.figures.loop_turns import LoopTurns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from broker.clock import Clock
    from broker.core.queues.counts.duration import Duration


class CountingListener(Protocol):
    """A listener, as the figures see it."""

    @property
    def sessions(self) -> int:
        """The number of open lines."""

    @property
    def in_flight_bytes(self) -> int:
        """The bytes of frames and answers on their way, of all lines."""


class GroupFigures(NamedTuple):
    """A member of a queue-sharing group: how many members that has, the seconds until its lease is over, how long calls
    of the database took, the transactions by what became of them, and the units that are in doubt.
    """

    members: int
    joined: bool
    lease_left: float
    calls: Duration
    recoveries: int
    transactions: Mapping[str, int]
    in_doubt: int


class FigureSources:
    """The calls of programs, the turns of the event loop, the listeners that are open, and what tells of a group."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self.calls = CallCounts()
        self.turns = LoopTurns(loop)
        self.since = clock.time()  # when the queue manager started
        self.group: Callable[[], GroupFigures] | None = None
        self.listeners: list[CountingListener] = []

    def end(self) -> None:
        """Measure no more."""
        self.turns.end()
