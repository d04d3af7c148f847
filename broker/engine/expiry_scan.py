"""The scan for what has expired and nobody has met: messages, keys of puts, and prepared units."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.core.calls.puts import keying

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Clock, Timer
    from broker.core.manager import Manager
    from broker.engine.jobs.slices import Slices, Work

logger = logging.getLogger(__name__)

EXPIRY_SCAN_INTERVAL: Final = 60.0
"""Seconds between two scans."""


class ExpiryScan:
    """Discards what is expired on all queues, has prepared units tidied, then rests for the interval. `perform` brings
    the effects of a step to those who wait.
    """

    def __init__(
        self, core: Manager, clock: Clock, slices: Slices, *, perform: Callable[[], None], tidy: Callable[[], None]
    ) -> None:
        self._core = core
        self._clock = clock
        self._slices = slices
        self._perform = perform
        self.tidy = tidy
        self._timer: Timer
        self._rest()

    def end(self) -> None:
        """Scan no more."""
        self._timer.cancel()

    def _rest(self) -> None:
        self._timer = self._clock.call_later(EXPIRY_SCAN_INTERVAL, self._scan)

    def _scan(self) -> None:
        self.tidy()
        self._slices.run(self._discarding(), self._discarded)
        forgetting = keying.tidy(list(self._core.objects.queues.values()), self._clock.time())
        self._slices.run(forgetting, _keys_forgotten)

    def _discarding(self) -> Work:
        for _ in self._core.expiry(list(self._core.objects.queues.values()), self._clock.time()):
            self._perform()
            yield

    def _discarded(self, error: Exception | None) -> None:
        if error is not None:
            logger.error("expired messages not discarded", exc_info=error)
        self._rest()


def _keys_forgotten(error: Exception | None) -> None:
    if error is not None:
        logger.error("keys not forgotten", exc_info=error)
