"""One look at the queue manager, as far as one caller may see it."""

from __future__ import annotations

from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.http.console.figures.lately import HappenedEvent
    from broker.http.console.figures.series import QueueSeries, SeriesByQueue
    from broker.presentation.rates import Rates


HANDLERS_MAX: Final = 100
_STEP: Final = 200
T = TypeVar("T")


async def first_of(values: Sequence[T], key: Callable[[T], Any], most: int) -> list[T]:
    """Return the first of some values by a key, in steps between which others have a turn."""
    first: list[T] = []
    for start in range(0, len(values), _STEP):
        first = nsmallest(most, chain(first, values[start : start + _STEP]), key=key)
        await anyio.lowlevel.checkpoint()
    return first


class StatusLook(NamedTuple):
    """The status at one look. `at` is its instant, in seconds since 1970, `number` grows with each.

    `made` is for what pages make of this look: all who may see the same share it.

    `queues`, `handlers` and so on are the lists of `Connection.status()` that the caller may display; `figures` is the
    rest of it, which is about the whole. `rates` tells what a queue or a handler of it does a second, `flows` the
    messages that come and go where any do, `oldest` when the oldest message of a queue was put. `failing` are the
    checks of health that fail, by name.
    """

    at: float
    number: int
    figures: Mapping[str, Any]
    queues: Sequence[Mapping[str, Any]]
    handlers: Sequence[Mapping[str, Any]]
    consumers: Sequence[Mapping[str, Any]]
    prepared_units: Sequence[Mapping[str, Any]]
    units_of_work: Sequence[Mapping[str, Any]]
    rates: Rates
    flows: Mapping[str, tuple[float, float]]
    oldest: Mapping[str, float]
    failing: Mapping[str, str]
    events: Sequence[HappenedEvent]
    kept: SeriesByQueue
    made: dict[str, Any]

    @property
    def workers(self) -> Mapping[str, int]:
        """Return the number of workers of each queue that has any, by its name; made once for this look."""
        found: dict[str, int] | None = self.made.get("workers")
        if found is None:
            found = self.made["workers"] = {}
            for each in self.handlers:
                if each["workers"]:
                    found[each["queue"]] = found.get(each["queue"], 0) + each["workers"]
        return found

    async def failing_most(self, most: int) -> Sequence[Mapping[str, Any]]:
        """Return the handlers that fail most often now, so many of them, then by name; made once for this look."""
        found: list[Mapping[str, Any]] | None = self.made.get("failing most")
        if found is None:
            rates = self.rates
            found = await first_of(
                self.handlers, lambda each: (-rates.of_handler(each, "failed"), each["queue"]), HANDLERS_MAX
            )
            self.made["failing most"] = found
        return found[:most]

    def queue(self, q_name: str) -> Mapping[str, Any] | None:
        """Return the figures of a queue; None where there is none, or the caller may not display it."""
        return next((each for each in self.queues if each["name"] == q_name), None)

    def series(self, q_name: str) -> QueueSeries | None:
        """Return the last minutes of a queue, if they are kept."""
        return self.kept.of(q_name)
