"""Claims that nobody acknowledges are named in the log (claims rule 2.10): they have no timeout."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.engine.mistakes import contained

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.core.claims.consumer import Consumer
    from broker.engine.context import EngineContext

logger = logging.getLogger(__name__)

LOOK_INTERVAL: Final = 60.0
"""Seconds between two looks."""

TELL_INTERVAL: Final = 3600.0
"""Seconds before the claims of a consumer are named again."""


class ClaimWatch:
    """Looks for consumers whose oldest claim is more than `claim_age` seconds old."""

    def __init__(self, context: EngineContext, claim_age: float) -> None:
        self._context = context
        self._claim_age = claim_age
        self._told: dict[Consumer, float] = {}  # when, monotonic seconds
        self._timer: Timer
        self._rest()

    def end(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _rest(self) -> None:
        self._timer = self._context.clock.call_later(LOOK_INTERVAL, self._look)

    def _look(self) -> None:
        contained(self._tell)
        self._rest()

    def _tell(self) -> None:
        moment = self._context.moment()
        now, tick = moment.wall, moment.tick
        consumers = self._context.core.consumers.by_name.values()
        old = [each for each in consumers if each.age(now) > self._claim_age]
        self._told = {each: self._told[each] for each in old if each in self._told}
        for consumer in old:
            if tick - self._told.get(consumer, -TELL_INTERVAL) >= TELL_INTERVAL:
                self._told[consumer] = tick
                logger.warning(
                    "claims are old consumer=%s generation=%d claims=%d not_pinned=%d seconds=%d: its program is to go "
                    "on, or RESOLVE CONSUMER(%s) ends them",
                    consumer.name, consumer.generation, len(consumer.claims), consumer.not_pinned, consumer.age(now),
                    consumer.name,
                )  # fmt: skip
