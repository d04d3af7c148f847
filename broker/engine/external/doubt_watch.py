"""Units that are in doubt for long are named in the log (transactions rule 2.8): nothing else ends them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.engine.mistakes import contained
from broker.mqi.external_units import label_of

if TYPE_CHECKING:
    from broker.clock import Timer
    from broker.core.prepared.branches import Decider, PreparedBranch
    from broker.engine.context import EngineContext

logger = logging.getLogger(__name__)

OLD_SECONDS: Final = 60.0
"""A unit is named that is in doubt for so long."""

TELL_INTERVAL: Final = 3600.0
"""Seconds before the units of a database are named again."""


class DoubtWatch:
    """Looks once a minute for as long as there are units of programs' databases."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._timer: Timer | None = None
        self._told: dict[Decider, float] = {}  # when, monotonic seconds
        self._ended = False

    def keep(self) -> None:
        """There is a unit."""
        if self._timer is None and not self._ended:
            self._timer = self._context.clock.call_later(OLD_SECONDS, self._look)

    def end(self) -> None:
        """Look no more."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        contained(self._tell)
        if self._context.core.branches.external:
            self.keep()

    def _tell(self) -> None:
        moment = self._context.moment()
        old: dict[Decider, list[PreparedBranch]] = {}
        for branch in self._context.core.branches.by_id.values():
            if branch.external and moment.wall - branch.since >= OLD_SECONDS:
                old.setdefault(branch.decider, []).append(branch)
        self._told = {decider: told for decider, told in self._told.items() if decider in old}
        for decider, branches in old.items():
            if moment.tick - self._told.get(decider, -TELL_INTERVAL) >= TELL_INTERVAL:
                self._told[decider] = moment.tick
                oldest = min(branches, key=lambda each: each.since)
                logger.warning(
                    "units are in doubt database=%s units=%d oldest=%s seconds=%d: a program that sees the database "
                    "resolves them; DISPLAY THREAD(*) TYPE(INDOUBT) lists them",
                    label_of(*decider), len(branches), oldest.id, moment.wall - oldest.since,
                )  # fmt: skip
