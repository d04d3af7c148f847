"""Hold back the starts of queues whose handlers fail, and try them again later and later.

A handler that fails at once would be started again at once, for ever: its message is back on the queue, and on a queue
of trigger type FIRST the close after it is an event of its own. So it is the queue that waits, with all its starts:

1. The lease of a start that failed is kept, and occupies no place. The queue gives no starts while it waits.
2. It waits for `RETRY_MIN` seconds after the first failure. Each failure after a wait doubles the next one, up to
   `RETRY_MAX`; a handler of the queue that succeeds resets it.
3. Then all starts held back are given back together. Of several handlers that run at a time one has the message that
   nobody can handle, and holds it until the others have got theirs (`Capacity.alone`): so the good ones go through.
4. What is held back when the monitor ends is pending again, like every lease.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker import Clock, TriggerStart

RETRY_MIN: Final = 0.1
"""Seconds that a queue waits after the first failure."""

RETRY_MAX: Final = 60.0
"""Seconds that it waits at most. When it did not fail for so long after a wait, it begins anew."""


class RetryDelays:
    """The delays of a queue after failures: `RETRY_MIN` seconds, then each time twice as long, up to `RETRY_MAX`, until
    a handler of it succeeds.
    """

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def failed(self, q_name: str) -> float:
        """The seconds to wait after this failure."""
        delay = self._next.get(q_name, RETRY_MIN)
        self._next[q_name] = min(2 * delay, RETRY_MAX)
        return delay

    def succeeded(self, q_name: str) -> None:
        """The next wait is a short one."""
        self._next.pop(q_name, None)


def _nothing() -> None: ...


@dataclass(slots=True)
class _Failing:
    """A queue whose handlers fail."""

    waits: bool = False
    due: float = 0.0
    """The end of the wait, on the monotonic clock."""
    starts: list[TriggerStart] = field(default_factory=list)
    cancel_timer: Callable[[], None] = _nothing
    """Cancels what ends the wait or, when it is over, forgets the queue."""


class Retries:
    """The queues whose handlers fail. `resume` is called when the wait of one is over."""

    def __init__(self, clock: Clock, resume: Callable[[], None]) -> None:
        self._clock = clock
        self._resume = resume
        self._delays = RetryDelays()
        self._failing: dict[str, _Failing] = {}

    @property
    def held_back(self) -> dict[str, int]:
        """The number of starts that are held back, for each queue that has any."""
        return {q_name: len(failing.starts) for q_name, failing in self._failing.items() if failing.starts}

    def waits(self, q_name: str) -> bool:
        """True if nothing may be started for this queue now."""
        failing = self._failing.get(q_name)
        return failing is not None and failing.waits

    def failed(self, start: TriggerStart) -> float:
        """Hold back a start whose handler has failed; the seconds until its queue is tried again."""
        q_name = start.trigger.q_name
        now = self._clock.monotonic()
        failing = self._failing.setdefault(q_name, _Failing())
        failing.starts.append(start)
        if not failing.waits:
            delay = self._delays.failed(q_name)
            failing.waits, failing.due = True, now + delay
            self._after(failing, delay, partial(self._try_again, q_name))
        return failing.due - now

    def succeeded(self, q_name: str) -> None:
        """A handler of this queue has done its work: the next wait is a short one."""
        self._delays.succeeded(q_name)
        failing = self._failing.get(q_name)
        if failing is not None and not failing.waits:
            failing.cancel_timer()
            del self._failing[q_name]

    def end(self) -> None:
        """Try nothing again: the leases are given back with all others when the monitor leaves."""
        for failing in self._failing.values():
            failing.cancel_timer()
        self._failing.clear()

    def _try_again(self, q_name: str) -> None:
        failing = self._failing[q_name]
        failing.waits = False
        starts, failing.starts = failing.starts, []
        for start in starts:
            start.give_back()
        self._after(failing, RETRY_MAX, partial(self._forget, q_name))
        self._resume()

    def _forget(self, q_name: str) -> None:
        self._delays.succeeded(q_name)
        del self._failing[q_name]

    def _after(self, failing: _Failing, wait: float, callback: Callable[[], None]) -> None:
        failing.cancel_timer()
        failing.cancel_timer = self._clock.call_later(wait, callback).cancel
