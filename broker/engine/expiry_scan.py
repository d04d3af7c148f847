"""The scan for what has expired and nobody has met: messages, keys of puts, and prepared units."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.core.calls.puts import keying

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.engine.claims.sink_jobs import SinkJobs
    from broker.engine.context import EngineContext
    from broker.engine.jobs.slices import Work

logger = logging.getLogger(__name__)

EXPIRY_SCAN_INTERVAL: Final = 60.0
"""Seconds between two scans."""


class ExpiryScan:
    """Discards what is expired on all queues, and prepared units older than `prepared_age` seconds; then it rests for
    the interval.
    """

    def __init__(self, context: EngineContext, sinks: SinkJobs, prepared_age: float) -> None:
        self._context = context
        self._sinks = sinks
        self._prepared_age = prepared_age
        self._timer: Timer
        self._rest()

    def end(self) -> None:
        """Scan no more."""
        self._timer.cancel()

    def _rest(self) -> None:
        self._timer = self._context.clock.call_later(EXPIRY_SCAN_INTERVAL, self._scan)

    def _scan(self) -> None:
        context = self._context
        self._sinks.tidy(self._prepared_age)
        context.slices.run(self._discarding(), self._discarded)
        forgetting = keying.tidy(list(context.core.objects.queues.values()), context.clock.time())
        context.slices.run(forgetting, _keys_forgotten)

    def _discarding(self) -> Work:
        context = self._context
        for _ in context.core.expiry(list(context.core.objects.queues.values()), context.clock.time()):
            context.perform()
            yield

    def _discarded(self, error: Exception | None) -> None:
        if error is not None:
            logger.error("expired messages not discarded", exc_info=error)
        self._rest()


def _keys_forgotten(error: Exception | None) -> None:
    if error is not None:
        logger.error("keys not forgotten", exc_info=error)
