"""The vocabulary of the benchmarks: what is measured, and by what it is bounded.

A bound is a way that a message must go whatever the queue manager does: so many round trips, so many rows written. Its
cost is the sum of what the limits on the way cost. Of several ways that are gone at the same time, by processes that
run beside each other, the dearest bounds the figure. The share of the limit is that cost, divided by the time that was
measured: 100 % cannot be had, because the ways share two cores, and a message takes more than one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from broker.benchmarks.child import child
from broker.benchmarks.daemon import DEFINITIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from broker.benchmarks.child import Child, Told
    from broker.benchmarks.daemon import MeasuredDaemon

Way: TypeAlias = "Mapping[str, float]"
"""The number of times that each limit, by name, is paid."""


class FigureUnit(StrEnum):
    """The unit of a figure."""

    PER_SECOND = "messages/s"
    MICROSECONDS = "us"
    MILLISECONDS = "ms"

    def seconds(self, value: float) -> float:
        """The time that a figure stands for."""
        match self:
            case FigureUnit.PER_SECOND:
                return 1 / value
            case FigureUnit.MICROSECONDS:
                return value / 1e6
            case FigureUnit.MILLISECONDS:
                return value / 1e3

    def of(self, seconds: float) -> float:
        """The figure that a time gives."""
        return 1 / seconds if self is FigureUnit.PER_SECOND else seconds / self.seconds(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The outcome of a trial: the figure in the unit of its workload, and what else is worth knowing, by name."""

    value: float
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measurement: a daemon made for it, and how many messages of which size."""

    daemon: MeasuredDaemon
    size: int
    count: int

    def client(self, function: Callable[..., Awaitable[Told]], **keywords: Any) -> AbstractAsyncContextManager[Child]:
        """A client of the daemon in a process of its own."""
        return child(function, url=self.daemon.url, size=self.size, count=self.count, **keywords)

    async def alone(self, function: Callable[..., Awaitable[Told]]) -> Told:
        """Return the figures of one client."""
        async with self.client(function) as client:
            return await client.measured()

    async def together(
        self, consume: Callable[..., Awaitable[Told]], produce: Callable[..., Awaitable[Told]], **keywords: Any
    ) -> tuple[Told, Told]:
        """Return the figures of a consumer (given `keywords`) and a producer, which goes when both are prepared."""
        async with self.client(consume, **keywords) as consumer, self.client(produce) as producer:
            await consumer.prepared()
            await consumer.go()
            put = await producer.measured()
            return await consumer.result(), put


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A line of the report for each size, in bytes.

    `title` may name the `{count}` of messages. `ways` are those that bound the figure, given the count.
    """

    name: str
    title: str
    unit: FigureUnit
    sizes: tuple[int, ...]
    count: int
    run: Callable[[Trial], Awaitable[Measured]]
    ways: Callable[[int], tuple[Way, ...]]
    definitions: str = DEFINITIONS
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def bounding(self) -> set[str]:
        """The names of the limits on all the ways."""
        return {name for way in self.ways(self.count) for name in way}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit of the machine without a queue manager: `run` gives the seconds for one thing.

    `sizes` is (0,) where a size means nothing.
    """

    name: str
    title: str
    sizes: tuple[int, ...]
    count: int
    run: Callable[[Path, int, int], Awaitable[float]]
