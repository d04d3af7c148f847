"""A frozen unit of work on its way to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.engine.mistakes import mistake
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from broker.core.message.rows import Rows
    from broker.core.queues.unit import Unit
    from broker.engine.context import EngineContext
    from broker.storage.store import Done


class PendingUnit:
    """A unit as it is submitted to the journal, with its end: `committed` or backed out. `unit` is None for rows that
    belong to no unit of work. `reveals`: its end makes messages visible. `then` is told the outcome.
    """

    __slots__ = ("committed", "reveals", "rows", "then", "unit")

    def __init__(self, unit: Unit | None, rows: Rows, then: Done, *, committed: bool, reveals: bool) -> None:
        self.unit = unit
        self.rows = rows
        self.committed = committed
        self.reveals = reveals
        self.then = then

    @property
    def gives_up(self) -> bool:
        """True if a full store ends it in another way: a program's commit that got messages is backed out."""
        unit = self.unit
        return self.committed and unit is not None and unit.owner is not None and bool(unit.gets)

    def settle(self, context: EngineContext, error: Exception | None) -> Exception | None:
        """Let the unit take effect as far as it may after this answer of the store (journal rules 6 and 7); its
        outcome.
        """
        if self.unit is not None and (error is None or isinstance(error, StoreFullError)):
            try:
                context.settle(self.unit, committed=self.committed and error is None)
            except Exception as wrong:
                return mistake(wrong, "the settlement of a unit of work")
        return error
