"""Claims that nobody acknowledges are named in the log (claims rule 2.10): they have no timeout."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.engine.mistakes import contained

if TYPE_CHECKING:
    from broker.clock import Timer
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
        self.claim_age = claim_age
        self._reported: dict[str, float] = {}  # by uuid: when, monotonic seconds
        self._timer: Timer
        self._ended = False
        self._rest()

    def end(self) -> None:
        """Look no more."""
        self._ended = True
        self._timer.cancel()

    def _rest(self) -> None:
        self._timer = self._context.clock.call_later(LOOK_INTERVAL, self._look)

    def _look(self) -> None:
        sharing = self._context.sharing
        if sharing is None:
            self._refreshed(None)
        else:
            sharing.ask(lambda: sharing.refresh(held=True), "the reading of claims", self._refreshed)

    def _refreshed(self, _: Exception | None) -> None:
        if not self._ended:
            contained(self._tell)
            self._rest()

    def _tell(self) -> None:
        moment = self._context.moment()
        now, tick = moment.wall, moment.tick
        old = [each for each in self._context.core.consumers.all() if each.age(now) > self.claim_age]
        self._reported = {each.uuid: self._reported[each.uuid] for each in old if each.uuid in self._reported}
        for consumer in old:
            if tick - self._reported.get(consumer.uuid, -TELL_INTERVAL) >= TELL_INTERVAL:
                self._reported[consumer.uuid] = tick
                logger.warning(
                    "claims are old consumer=%s generation=%d claims=%d not_pinned=%d seconds=%d: its program is to go "
                    "on, or RESOLVE CONSUMER(%s) ends them",
                    consumer.name, consumer.generation, consumer.claim_count, consumer.not_pinned, consumer.age(now),
                    consumer.name,
                )  # fmt: skip
