"""Delayed messages are released when their instant comes (handlers rules 3.4, 3.5).

There is one timer for all of them. What is due together is released in slices of the event loop. An instant of the wall
clock may come sooner or later than a timer stands, since that clock may be set: while any is waited for, it is looked
at again every second, unless the clock tells (`Clock.tell_steps`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.clock import cancel_timer
from broker.core.calls import postponing, releasing
from broker.core.message.entry import DELAYED
from broker.core.message.handling import Handling
from broker.core.message.rows import Rows
from broker.engine.jobs.awaits import PAUSE, Written
from broker.engine.mistakes import mistake

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.clock import Timer
    from broker.core.message.entry import Entry
    from broker.core.queues.queue import LocalQueue
    from broker.engine.context import EngineContext

LOOK_SECONDS: Final = 1.0
"""So often the wall clock is looked at."""

RELEASED_A_STEP: Final = 20

RELEASED_AT_ONCE: Final = 200
"""So many messages are released together before their time."""

_SOONEST: Final = 1e-6  # seconds: a timer may come a little early for the clock
_AGAIN: Final = 1.0  # seconds until the next look where one has failed


class Releases:
    """The timer of a queue manager for all delayed messages."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._timer: Timer | None = None
        self._at: float | None = None  # when it is due, monotonic seconds
        self._running = False  # messages are being released: the timer is set after that
        self._ended = False
        self._reported_steps = context.clock.tell_steps(self.look)

    def keep(self, postponed: Iterable[tuple[Entry, float | None]]) -> None:
        """Keep the time of messages that are delayed now; release what need not be delayed at all."""
        moment = self._context.moment()
        postponing.keep(self._context.core, postponed, moment)
        if self._context.core.delays.next_look(moment) == 0:
            self.look()
        else:
            self.arm()

    def arm(self) -> None:
        """Set the timer for what is to be done first."""
        if self._running or self._ended:
            return
        delays, moment = self._context.core.delays, self._context.moment()
        wait = delays.next_look(moment)
        if wait is None:
            self._cancel()
            return
        if delays.follows_wall and not self._reported_steps:
            wait = min(wait, LOOK_SECONDS)
        at = moment.tick + wait
        if self._at is None or at < self._at or self._at < moment.tick:
            self._cancel()
            self._at = at
            self._timer = self._context.clock.call_later(max(wait, _SOONEST), self.look)

    def look(self) -> None:
        """Release what is due now; the wall clock may have been set."""
        self._cancel()
        if not (self._running or self._ended):
            self._running = True
            self._context.slices.start(self._release(), self._released)

    def end(self) -> None:
        """Nothing is released any more."""
        self._ended = True
        self._cancel()

    def _release(self) -> Iterator[None]:
        core, context = self._context.core, self._context
        ready = False
        while not ready or core.delays.next_look(context.moment()) == 0:
            moment = context.moment()
            ready = not core.delays.prepare(moment)
            if releasing.release_due(core, moment, RELEASED_A_STEP):
                context.perform()
                ready = False
            yield
        if core.delays.littered:
            yield from core.delays.sweep()

    def _released(self, error: Exception | None) -> None:
        self._running = False
        if error is None:
            self.arm()
            return
        mistake(error, "the release of messages")
        if not self._ended:
            self._at = self._context.clock.monotonic() + _AGAIN
            self._timer = self._context.clock.call_later(_AGAIN, self.look)

    def _cancel(self) -> None:
        cancel_timer(self._timer)
        self._timer = self._at = None


async def release_early(context: EngineContext, queue: LocalQueue, msg_id: bytes | None) -> int:
    """Release the delayed messages of a queue, or those with a MsgId, before their time: a run of them at a time,
    when it is durable that they are delayed no longer. Returns how many there were.
    """
    core = context.core
    entries = releasing.delayed(queue, msg_id)
    count = 0
    for start in range(0, len(entries), RELEASED_AT_ONCE):
        run = [entry for entry in entries[start : start + RELEASED_AT_ONCE] if entry.state == DELAYED]
        rows = Rows()
        for entry in run:
            if entry.persistence:
                assert entry.handling is not None
                kept = b"" if entry.handling.failure is None else Handling(0.0, entry.handling.failure).pack()
                rows.handled.append((entry.id, entry.backout_count, kept))

        def settle(error: Exception | None, run: list[Entry] = run) -> None:
            nonlocal count
            if error is None:
                count += releasing.release_early(core, run, context.moment())
                context.perform()

        if rows:
            await Written(context.journal, rows, settle)
        else:
            settle(None)
            await PAUSE
    return count
