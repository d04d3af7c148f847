"""Events of late: they are read off two looks at the status, so that nothing has to be told."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EVENTS_MAX: Final = 100
SAME_SECONDS: Final = 300.0
"""An event that comes again within so many seconds is told once, with its number."""

_TEXT_MAX: Final = 300
_STEP: Final = 100


class HappenedEvent(NamedTuple):
    """Something that has happened: when (seconds since 1970), how bad it is (good, warn, bad), what, and the queue that
    it is about, if any; `number` is how often it has happened in these minutes, or how many messages it has hit.
    """

    at: float
    kind: str
    text: str
    q_name: str = ""
    number: int = 1

    def __str__(self) -> str:
        return self.text if self.number == 1 else f"{self.number:,} × {self.text}"


class Lately:
    """The last events, the newest first."""

    def __init__(self) -> None:
        self.events: deque[HappenedEvent] = deque(maxlen=EVENTS_MAX)
        self._failing: dict[str, str] = {}

    def compare(self, at: float, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Iterator[None]:
        """Take down what has happened between two looks, in steps. Of the first look only the last errors of handlers
        tell.
        """
        found: list[HappenedEvent] = []
        for event in _before_first(now) if before is None else _between(at, before, now):
            if event is None:
                yield
            else:
                found.append(event)
        for event in sorted(found, key=lambda each: each.at):
            self._add(event)

    def _add(self, event: HappenedEvent) -> None:
        """Put it first: with what was of the same kind in the last minutes, if anything was."""
        for each in self.events:
            if (each.text, each.q_name) == (event.text, event.q_name) and event.at - each.at < SAME_SECONDS:
                self.events.remove(each)
                event = event._replace(number=event.number + each.number)
                break
        self.events.appendleft(event)

    def checks(self, at: float, failing: Mapping[str, str]) -> None:
        """Take down which checks of health fail, and which do no more."""
        for name, why in failing.items():
            if name not in self._failing:
                self.events.appendleft(HappenedEvent(at, "bad", f"not ready: {name}: {why}"[:_TEXT_MAX]))
        for name in self._failing:
            if name not in failing:
                self.events.appendleft(HappenedEvent(at, "good", f"{name} is well again"))
        self._failing = dict(failing)


def _before_first(now: Mapping[str, Any]) -> Iterator[HappenedEvent]:
    for each in now["handlers"]:
        if each["last_error_at"]:
            yield _error(each)


def _between(at: float, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[HappenedEvent | None]:
    earlier = {(each["queue"], each["handler"]): each for each in before["handlers"]}
    for each in now["handlers"]:
        yield from _of_handler(at, earlier.get((each["queue"], each["handler"])), each)
    queues = {each["name"]: each for each in before["queues"]}
    for number, queue in enumerate(now["queues"]):
        if number % _STEP == 0:
            yield None
        was = queues.get(queue["name"])
        if was is not None and (
            was["damaged"] != queue["damaged"] or was.get("refused_puts") != queue.get("refused_puts")
        ):
            yield from _of_queue(at, was, queue)
    yield from _of_manager(at, before, now)


def _of_handler(at: float, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Iterator[HappenedEvent]:
    if now["last_error_at"] and (before is None or before["last_error_at"] != now["last_error_at"]):
        yield _error(now)
    whys = {} if before is None else before["dead_letters"]
    for why, number in now["dead_letters"].items():
        more = number - whys.get(why, 0)
        if more > 0:
            text = f"dead letter of {now['handler'] or now['queue']}: {why}"
            yield HappenedEvent(at, "bad", text, now["queue"], more)


def _error(handler: Mapping[str, Any]) -> HappenedEvent:
    first = handler["last_error"].partition("\n")[0][:_TEXT_MAX]
    return HappenedEvent(handler["last_error_at"], "warn", f"{handler['handler']} failed: {first}", handler["queue"])


def _of_queue(at: float, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[HappenedEvent]:
    refused = now.get("refused_puts", 0) - before.get("refused_puts", 0)
    if refused > 0:
        yield HappenedEvent(at, "bad", "refused put", now["name"], refused)
    if now["damaged"] > before["damaged"]:
        yield HappenedEvent(at, "bad", "damaged message found", now["name"], now["damaged"] - before["damaged"])


def _of_manager(at: float, before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[HappenedEvent]:
    if now["quiescing"] and not before["quiescing"]:
        yield HappenedEvent(at, "warn", f"{now['name']} is quiescing")
    member, earlier = (each.get("sharing", {}).get("member", {}) for each in (now, before))
    if member.get("state") != earlier.get("state"):
        yield HappenedEvent(
            at, "warn", f"member of the group: {earlier.get('state')} before, {member.get('state')} now"
        )
    if member.get("recoveries", 0) > earlier.get("recoveries", 0):
        yield HappenedEvent(at, "bad", "a member of the group was lost, and this one has recovered what it held")
