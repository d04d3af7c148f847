"""The vocabulary of the benchmarks: what is measured, and by what it is bounded.

A bound is a way that a message must go whatever the queue manager does: so many round trips, so many rows written. Its
cost is the sum of what the limits on the way cost. Of several ways that are gone at the same time, by processes that
run beside each other, the dearest bounds the figure. The share of the limit is that cost, divided by the time that was
measured: 100 % cannot be had, because the ways share two cores, and a message takes more than one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from broker.benchmarks.child import child
from broker.benchmarks.daemon import DEFINITIONS
from broker.benchmarks.protection import Protection

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
    CONNECTS_PER_SECOND = "connects/s"
    MICROSECONDS = "us"
    MILLISECONDS = "ms"
    KIBIBYTES = "KiB"

    def seconds(self, value: float) -> float:
        """The time that a figure stands for. Raises ValueError for one of memory."""
        match self:
            case FigureUnit.PER_SECOND | FigureUnit.CONNECTS_PER_SECOND:
                return 1 / value
            case FigureUnit.MICROSECONDS:
                return value / 1e6
            case FigureUnit.MILLISECONDS:
                return value / 1e3
            case FigureUnit.KIBIBYTES:
                raise ValueError("memory is no time")

    def of(self, seconds: float) -> float:
        """The figure that a time gives."""
        rate = self in (FigureUnit.PER_SECOND, FigureUnit.CONNECTS_PER_SECOND)
        return 1 / seconds if rate else seconds / self.seconds(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The outcome of a trial: the figure in the unit of its workload, and what else is worth knowing, by name."""

    value: float
    details: Mapping[str, float] = field(default_factory=dict)


def rate_of(reported: Told) -> Measured:
    """The figure of a workload of many messages: its rate, and what a message costs the daemon."""
    return Measured(value=reported["rate"], details={"daemon_us": reported["daemon_us"]})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One measurement: a daemon made for it, and how many messages of which size."""

    daemon: MeasuredDaemon
    size: int
    count: int

    def client(self, function: Callable[..., Awaitable[Told]], **keywords: Any) -> AbstractAsyncContextManager[Child]:
        """A client of the daemon in a process of its own; the `keywords` are for the function."""
        given = {"url": self.daemon.url, "size": self.size, "count": self.count, **keywords}
        return child(function, self.daemon.client_settings, **given)

    async def alone(self, function: Callable[..., Awaitable[Told]]) -> Told:
        """Return the figures of one client, and `daemon_us`: what a message costs the processor of the daemon."""
        async with self.client(function) as client:
            await client.prepared()
            before = self.daemon.processor_seconds
            await client.go()
            return await client.result() | self._cost_since(before)

    async def together(
        self, consume: Callable[..., Awaitable[Told]], produce: Callable[..., Awaitable[Told]], **keywords: Any
    ) -> tuple[Told, Told]:
        """Return the figures of a consumer (given `keywords`) and a producer, which goes when both are prepared; those
        of the consumer with `daemon_us`.
        """
        async with self.client(consume, **keywords) as consumer, self.client(produce) as producer:
            await consumer.prepared()
            await consumer.go()
            await producer.prepared()
            before = self.daemon.processor_seconds
            await producer.go()
            put = await producer.result()
            return await consumer.result() | self._cost_since(before), put

    def _cost_since(self, before: float) -> Told:
        return {"daemon_us": (self.daemon.processor_seconds - before) / self.count * 1e6}


_WORDS: Final = {Protection.USERS: ("checked", "users checked"), Protection.TLS: ("tls", "over TLS")}
"""The ends of names and titles of workloads under a protection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A line of the report for each size, in bytes.

    `title` may name the `{count}` of messages. `ways` are those that bound the figure, given the count; none bounds
    what is no time. `sizes` is (0,) where a size means nothing.
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
    protection: Protection = Protection.NONE

    def under(self, protection: Protection) -> Workload:
        """The same, where clients come in otherwise."""
        name, title = _WORDS[protection]
        return replace(self, name=f"{self.name}-{name}", title=f"{self.title}, {title}", protection=protection)

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
