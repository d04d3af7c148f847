"""The end of the program's transaction of a delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triggers.transactions.handling import TransactionRun


async def commit_and_release(transaction: Any) -> None:
    """Commit, and give the connection back, in one thread."""
    await transaction.commit()
    await transaction.release()


class RunEnds:
    """The program's transaction of a delivery, as `end_prepared` ends it."""

    __slots__ = ("_of",)

    def __init__(self, of: TransactionRun) -> None:
        self._of = of

    async def commit(self) -> None:
        """Commit."""
        await self._of.commit_there()

    async def rollback(self) -> None:
        """Roll back."""
        await self._of.roll_back_there()

    async def release(self) -> None:
        """Give the connection to the database back."""
        await self._of.release_there()
