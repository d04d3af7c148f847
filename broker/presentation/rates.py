"""Rates: what happened between two looks at the status of a queue manager."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

UPDATE_SECONDS: Final = 0.5
"""The time from one look to the next."""


class Observation(NamedTuple):
    """The status of a queue manager, and when it was taken, by a clock that does not go back."""

    at: float
    figures: Mapping[str, Any]


class Rates:
    """The changes of figures a second, from one look to a later one. Without an earlier one nothing has changed."""

    def __init__(self, before: Observation | None, now: Observation) -> None:
        self.now = now
        self._seconds = 0.0 if before is None else now.at - before.at
        self._before: Mapping[str, Any] = {} if before is None else before.figures

    @cached_property
    def _queues(self) -> dict[str, Mapping[str, Any]]:
        return {each["name"]: each for each in self._before.get("queues", ())}

    @cached_property
    def _handlers(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        return {(each["queue"], each["handler"]): each for each in self._before.get("handlers", ())}

    def of_queue(self, queue: Mapping[str, Any], figure: str) -> float:
        """Return the change of a figure of a queue."""
        return self._change(self._queues.get(queue["name"]), queue, figure)

    def of_handler(self, handler: Mapping[str, Any], figure: str) -> float:
        """Return the change of a figure of a handler."""
        return self._change(self._handlers.get((handler["queue"], handler["handler"])), handler, figure)

    def flow(self, queue: Mapping[str, Any]) -> float:
        """Return the messages that come and go in a second; the change of the depth where they are not counted."""
        if "puts" in queue:
            return self.of_queue(queue, "puts") + self.of_queue(queue, "gets")
        return abs(self.of_queue(queue, "depth"))

    def flows(self, queues: Iterable[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
        """Return the messages that come to queues, and that go, in a second: by the names of those where any do."""
        found, known = {}, self._queues
        for queue in queues:
            before = known.get(queue["name"])
            if before is not None and (before["puts"] != queue["puts"] or before["gets"] != queue["gets"]):
                found[queue["name"]] = self._change(before, queue, "puts"), self._change(before, queue, "gets")
        return found

    def _change(self, before: Mapping[str, Any] | None, now: Mapping[str, Any], figure: str) -> float:
        if before is None or self._seconds <= 0:
            return 0.0
        return float(now.get(figure, 0) - before.get(figure, 0)) / self._seconds


def named_like(name: str, pattern: str) -> bool:
    """True if a name has `pattern` in it, or matches it where it has a `*`; capitals and small letters are the same."""
    pattern = pattern.upper()
    return fnmatchcase(name.upper(), pattern) if "*" in pattern else pattern in name.upper()
