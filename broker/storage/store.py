"""The Store protocol: what a queue manager needs of the place that keeps its persistent messages and definitions.

Five verbs, each all or nothing. A store decides *how* things are kept, never *what*: it knows no message order, no
visibility and no unit of work beyond "these rows, together". One task calls it, one verb at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.core.rows import MessageRow, ObjectRow, Rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

__all__ = ["MessageRow", "ObjectRow", "Rows", "Store", "StoreFailedError", "StoreFullError", "StoreUnusableError"]


class StoreFullError(Exception):
    """There is no room; nothing of the batch was written, and trying again later may work."""


class StoreFailedError(Exception):
    """A write failed and nobody can say how much of it is there: the manager must stop and read the store again."""


class StoreUnusableError(Exception):
    """The store cannot be opened: another manager has it, it is of a newer version, or it is damaged."""


class Store(Protocol):
    """Where a queue manager keeps what must survive it."""

    async def open(self) -> None:
        """Get ready, creating or upgrading the store; raises StoreUnusableError."""

    async def load_objects(self) -> tuple[list[ObjectRow], int]:
        """All definitions, and the high-water mark (0 when there is none). Raises StoreUnusableError."""

    def load_messages(self) -> AsyncIterator[list[MessageRow]]:
        """All messages without their data, in order of id, in chunks. Rows with persistent=0 are given once, then
        forgotten. Raises StoreUnusableError, and what `write` raises.
        """

    async def write(self, rows: Rows) -> None:
        """Make all of `rows` durable, or none; raises StoreFullError or StoreFailedError."""

    async def read_data(self, ids: Iterable[int]) -> dict[int, bytes]:
        """The data of these messages; raises StoreFailedError when one is missing."""

    async def close(self) -> None:
        """Let go; harmless when already closed."""
