"""The end of browse marks while somebody waits for unmarked messages (MARKINT, semantics 5.6).

Marks of the co-operating set are taken off when the next of its browses looks. Only for one that waits somebody must
look in time: one timer a queue, from the wait on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.engine.mistakes import mistake

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.core.queues.queue import LocalQueue
    from broker.engine.context import EngineContext

_AGAIN = 1.0  # seconds until the next look where one has failed
_SOONEST = 0.001  # seconds: a timer of the monotonic clock may come a little early for the wall clock


class MarkExpiry:
    """The timers of the queues on which a get waits until a mark ends."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._timers: dict[LocalQueue, Timer] = {}

    def watch(self, queue: LocalQueue) -> None:
        """A get waits for a message without a mark of the co-operating set: look again when the oldest mark ends."""
        left = self._context.core.mark_left(queue, self._context.clock.time())
        if queue not in self._timers and left is not None:
            self._timers[queue] = self._context.clock.call_later(max(left, _SOONEST), partial(self._look, queue))

    def rearm(self) -> None:
        """MARKINT may have changed: marks end sooner or later than the timers stand, or end now and did not before."""
        self.end()
        for queue in self._context.core.objects.queues.values():
            if queue.waiters.count:
                self.watch(queue)

    def end(self) -> None:
        """Stop all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _look(self, queue: LocalQueue) -> None:
        del self._timers[queue]
        if not queue.waiters.count:
            return
        try:
            self._context.core.end_marks(queue, self._context.clock.time())
            self._context.perform()
        except Exception as error:
            mistake(error, "the end of browse marks")
            self._timers[queue] = self._context.clock.call_later(_AGAIN, partial(self._look, queue))
        else:
            self.watch(queue)
