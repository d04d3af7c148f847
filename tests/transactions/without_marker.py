"""The workers of `evermq demo --database` with the marker taken out, for test_demo.py: it is imported by workers alone.

A resolver finds no marker then, and takes what has been committed for aborted (transactions rule 1.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.cli.demo.transactions.program import by_hand as by_hand
from broker.cli.demo.transactions.program import exact as exact
from broker.databases.transaction import DatabaseTransaction

if TYPE_CHECKING:
    from broker.databases.calls import AdapterCalls


async def release_only(self: DatabaseTransaction, unit: bytes, q_mgr: str) -> None:
    """Release the savepoint, and write no marker."""
    calls: AdapterCalls = self._calls
    await calls.execute(self.connection, f"RELEASE SAVEPOINT {self._savepoint}")


DatabaseTransaction.mark = release_only  # type: ignore[method-assign]
