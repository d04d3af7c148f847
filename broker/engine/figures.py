"""The queue manager in figures, as `evermq status` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.engine.holdings import consumer_figures, unit_figures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.engine.manager import QueueManager


class Figures:
    """The figures of a queue manager, taken down in steps. What is deleted meanwhile may not be among them."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager
        self._queues: list[dict[str, Any]] = []
        self._consumers: list[dict[str, Any]] = []
        self._units: list[dict[str, Any]] = []

    def steps(self) -> Iterator[None]:
        """Take down the figures of each queue, each consumer and each prepared unit."""
        queues, triggers = self._manager.core.objects.queues, self._manager.core.triggers
        for name in sorted(queues):
            queue = queues.get(name)
            if queue is not None:
                self._queues.append(
                    {
                        "name": name,
                        "depth": queue.depth,
                        "uncommitted": queue.uncommitted,
                        "claimed": queue.claimed,
                        "prepared": queue.prepared,
                        "bytes": queue.bytes,
                        "ipprocs": queue.input_count,
                        "opprocs": queue.output_count,
                        "getters": queue.waiters.count,
                        "damaged": len(queue.shelf.damaged),
                        "trigger_pending": queue.pending_starts,
                        "trigger_running": triggers.leased(queue),
                    }
                )
            yield
        claim_age = self._manager.config.limits.claim_age
        for consumer in consumer_figures(self._manager.core, self._manager.clock.time(), claim_age):
            self._consumers.append(consumer)
            yield
        for unit in unit_figures(self._manager.core, self._manager.clock.time()):
            self._units.append(unit)
            yield

    def all(self) -> dict[str, Any]:
        """What has been taken down, with the figures of the queue manager and its parts."""
        return {
            **self._manager.own_figures(),
            "queues": self._queues,
            "consumers": self._consumers,
            "prepared_units": self._units,
            **self._manager.part_figures(),
        }
