"""The workers of `evermq demo --database` with PREPARE taken out, for test_demo.py: it is imported by workers alone.

Between COMMIT and the settlement nothing holds the message then (transactions rule 1.2).
"""

from __future__ import annotations

from broker.cli.demo.transactions.program import by_hand as by_hand
from broker.cli.demo.transactions.program import exact as exact
from triggers.transactions.handling import TransactionRun


async def prepare_nothing(self: TransactionRun) -> None:
    """Let COMMIT be sent at once."""


async def settle(self: TransactionRun, *, committed: bool | None, error: BaseException | None = None) -> None:
    """Settle as a handler without a database does."""
    self.unit = b""
    if committed:
        assert self.decided is not None
        self.server.settle(self, self.decided)
    elif error is not None:
        self.error = error


TransactionRun.prepare = prepare_nothing  # type: ignore[method-assign]
TransactionRun.decide = settle  # type: ignore[method-assign]
