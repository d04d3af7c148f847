"""The workers of `evermq demo --database` with the marker taken out, for test_demo.py: it is imported by workers alone.

A resolver finds no marker then, and takes what has been committed for aborted (transactions rule 1.1).
"""

from __future__ import annotations

from broker.cli.demo.transactions.program import by_hand as by_hand
from broker.cli.demo.transactions.program import exact as exact
from broker.databases.transaction import DatabaseTransaction


async def no_marker(self: DatabaseTransaction, unit: bytes, q_mgr: str) -> None:
    """Write no marker: COMMIT ends the savepoint too."""


DatabaseTransaction.mark = no_marker  # type: ignore[method-assign]  # it is taken out
