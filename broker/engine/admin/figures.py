"""The queue manager in figures, as `evermq status` shows it."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker.core.queues.counts.oldest_age import oldest_age
from broker.core.queues.unit import STATE_NAMES
from broker.core.security.rights import Right
from broker.engine.claims.holdings import consumer_figures, handler_figures, in_doubt_figures, unit_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from broker.clock import Clock
    from broker.core.manager import Manager
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.unit import Unit
    from broker.core.security.caller import Caller
    from broker.storage.store import Store


QUEUES_AT_ONCE: Final = 16
"""Queues whose figures are taken down in one step."""

LOOKS_AT_ONCE: Final = 500
"""At so many messages that wait in one step."""

UNITS_MAX: Final = 100
"""The units of work that are listed."""


class Reporting(Protocol):
    """A part of the queue manager that has figures."""

    def figures(self) -> Mapping[str, Any]: ...


class Connections(Protocol):
    """Those who are connected."""

    def __len__(self) -> int: ...

    def units(self) -> Iterator[Unit]:
        """The units of work that they have begun."""


def part_figures(
    journal: Reporting, bodies: Reporting, store: Store, sharing: Reporting | None, security: Reporting
) -> dict[str, Any]:
    """The figures of the parts of a queue manager; of its security where it checks its users."""
    checking = security.figures()
    return {
        "journal": journal.figures(),
        "bodies": bodies.figures(),
        "store": store.status(),
        **({} if sharing is None else {"sharing": sharing.figures()}),
        **({"security": checking} if checking else {}),
    }


class Figures:
    """The figures of a queue manager, taken down in steps: of queues, those that `caller` may display. What is deleted
    meanwhile may not be among them. `parts` returns the figures of its parts.
    """

    def __init__(
        self,
        core: Manager,
        clock: Clock,
        claim_age: float,
        connections: Connections,
        parts: Callable[[], dict[str, Any]],
        caller: Caller | None = None,
    ) -> None:
        self._core = core
        self._clock = clock
        self._claim_age = claim_age
        self._connections = connections
        self._parts = parts
        self._caller = caller
        self._queues: list[dict[str, Any]] = []
        self._consumers: list[dict[str, Any]] = []
        self._units: list[dict[str, Any]] = []
        self._handlers: list[dict[str, Any]] = []

    def steps(self) -> Iterator[None]:
        """Take down the figures of each queue, each handler, each consumer and each prepared unit."""
        queues, triggers = self._core.objects.queues, self._core.triggers
        for number, name in enumerate(sorted(queues), 1):
            queue = queues.get(name)
            if queue is not None and self._shows(name):
                delayed, keys = len(queue.shelf.delayed), queue.keys
                next_release = (yield from _next_release(queue)) if delayed else None
                self._queues.append(
                    {
                        "name": name,
                        "depth": queue.depth,
                        "available": len(queue.shelf.available),
                        "delayed": delayed,
                        "waiting": delayed,  # the old word, until 0.2
                        "next_release": next_release,
                        "keys": 0 if keys is None else len(keys),
                        "duplicates": 0 if keys is None else keys.duplicates,
                        "duplicates_with_other_data": 0 if keys is None else keys.other_data,
                        "uncommitted": queue.uncommitted,
                        "claimed": self._core.consumers.claimed_of(queue),
                        "prepared": queue.prepared,
                        "bytes": queue.bytes,
                        "ipprocs": queue.input_count,
                        "opprocs": queue.output_count,
                        "getters": queue.waiters.count,
                        "damaged": len(queue.shelf.damaged),
                        "trigger_pending": queue.pending_starts,
                        "trigger_running": triggers.leases.running(queue),
                        "refused_puts": sum(queue.counts.refused.values()) if queue.counts.refused else 0,
                        "puts": queue.counts.puts,
                        "gets": queue.counts.gets,
                        "oldest_age": oldest_age(queue, self._clock.time()) or 0.0,
                    }
                )
            if number % QUEUES_AT_ONCE == 0:
                yield
        for handler in handler_figures(self._core):
            if self._shows(handler["queue"]):
                self._handlers.append(handler)
            yield
        now = self._clock.time()
        for consumer in consumer_figures(self._core, now, self._claim_age):
            if self._shows(*consumer["queues"].split(", ")):
                self._consumers.append(consumer)
            yield
        for unit in unit_figures(self._core, now):
            if self._shows(*unit["queues"]):
                self._units.append(unit)
            yield

    def of_handlers(self) -> list[dict[str, Any]]:
        """Return the figures of the handlers alone, at once."""
        return list(handler_figures(self._core))

    def _shows(self, *q_names: str) -> bool:
        """True if whoever asks may display these queues."""
        return self._caller is None or all(self._caller.may(Right.DSP, name) for name in q_names)

    def _units_of_work(self) -> list[dict[str, Any]]:
        """The units of work that connections have begun longest ago, the oldest first."""
        now = self._clock.time()
        return [
            {
                "name": unit.owner.appl_name,
                "user": unit.owner.user,
                "channel": unit.owner.channel,
                "state": STATE_NAMES[unit.state],
                "puts": len(unit.puts),
                "gets": len(unit.gets),
                "age": round(max(0.0, now - unit.since), 3),
            }
            for unit in nsmallest(UNITS_MAX, self._connections.units(), key=_since)
            if unit.owner is not None
        ]

    def all(self) -> dict[str, Any]:
        """Return all that has been taken down, with the figures of the queue manager and its parts."""
        return {
            "name": self._core.name,
            "quiescing": self._core.quiescing,
            "connections": len(self._connections),
            "queues": self._queues,
            "handlers": self._handlers,
            "consumers": self._consumers,
            "prepared_units": self._units,
            "units_of_work": self._units_of_work(),
            **in_doubt_figures(self._core, self._clock.time()),
            "steps_bytes": self._core.deliveries.step_budget.bytes,
            **self._parts(),
        }


def _since(unit: Unit) -> float:
    return unit.since


def _next_release(queue: LocalQueue) -> Generator[None, None, float | None]:
    """The first of the instants (seconds since 1970) until which messages of a queue are delayed; None when none is."""
    first: float | None = None
    for number, key in enumerate(list(queue.shelf.delayed), 1):
        entry = queue.shelf.entries.get(key)
        if entry is not None and entry.handling is not None and entry.delayed:
            instant = entry.handling.not_before
            first = instant if first is None else min(first, instant)
        if number % LOOKS_AT_ONCE == 0:
            yield
    return first
