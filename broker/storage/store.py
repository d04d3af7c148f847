"""The Store protocol: what a queue manager needs of the place that keeps its persistent messages and definitions.

Few verbs, each all or nothing. A store decides *how* things are kept, never *what*: it knows no message order, no
visibility and no unit of work beyond "these rows, together". Batches are written in the order in which they were
submitted.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from broker.core.message.rows import KeyRow, MessageRow, Numbering, ObjectRow, Rows, StepRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable
    from pathlib import Path

    from broker.storage.figures import StoreFigures

Done: TypeAlias = "Callable[[Exception | None], None]"
"""To call once when something is over: with None, or with the error that it ended with."""

_T = TypeVar("_T")

__all__ = [
    "BackupFailedError",
    "DataDamagedError",
    "Done",
    "KeyRow",
    "MessageRow",
    "Numbering",
    "ObjectRow",
    "Rows",
    "StepRow",
    "Store",
    "StoreError",
    "StoreFailedError",
    "StoreFullError",
    "StoreUnusableError",
]


class StoreError(Exception):
    """The store has not done, or may not have done, what was asked of it."""


class StoreFullError(StoreError):
    """There is no room; nothing of the batch was written, and trying again later may work."""


class StoreFailedError(StoreError):
    """A write failed and nobody can say how much of it is there: the manager must stop and read the store again."""


class StoreUnusableError(StoreError):
    """The store cannot be opened: another manager has it, it is of a newer version, or it is damaged."""

    @classmethod
    def of_another(cls, kept: str, name: str) -> StoreUnusableError:
        """That the data is that of the queue manager `kept`."""
        return cls(f"the data is that of queue manager {kept}, not of {name}: name it, or another directory")


class BackupFailedError(StoreError):
    """No backup was made; nothing of it is left where it was to be. The store goes on as before."""

    @classmethod
    def at(cls, path: Path, why: object) -> BackupFailedError:
        """That there is none in this directory."""
        return cls(f"no backup in {path}: {why}")


class DataDamagedError(StoreError):
    """The data of some messages is not what was put. The messages stay where they are, and the store goes on.

    `ids` says of which messages; the text names the file.
    """

    def __init__(self, ids: Collection[int], text: str) -> None:
        super().__init__(text)
        self.ids = frozenset(ids)

    @classmethod
    def of(cls, ids: Collection[int], where: str) -> DataDamagedError:
        """That the data of these messages is missing, or is not what was put."""
        listed = ", ".join(map(str, sorted(ids)))
        what = f"the data of message {listed}" if len(ids) == 1 else f"the data of messages {listed}"
        return cls(ids, f"{where}: {what} is missing or damaged")


class Store(Protocol):
    """The store of a queue manager: it keeps what must survive the process."""

    def watch(self, failed: Callable[[StoreFailedError], None]) -> None:
        """Have `failed` called, on the event loop, when the store fails while nothing is submitted (journal rule 7).

        A store that fails only at what it is asked for need not call it.
        """
        return  # for those stores

    @property
    def full(self) -> bool:
        """True if what grows is refused for want of room; never of a store that has no bound."""
        return False

    async def open(self) -> None:
        """Get ready, creating or upgrading the store; raises StoreUnusableError."""

    async def load_objects(self) -> tuple[list[ObjectRow], int]:
        """All definitions, and the high-water mark (0 when there is none). Raises StoreUnusableError."""

    def load_keys(self) -> AsyncIterator[list[KeyRow]]:
        """All keys of puts, by queue and key, in chunks; of those whose time is over some may be left out. Raises
        StoreUnusableError.
        """

    def load_steps(self) -> AsyncIterator[list[StepRow]]:
        """All finished steps, those of a message together and in their order, in chunks. Raises StoreUnusableError."""

    def load_messages(self) -> AsyncIterator[list[MessageRow]]:
        """All messages without their data, in order of id, in chunks. Rows with persistent=0 are given once, then
        forgotten, unless somebody holds them. Raises StoreUnusableError, and what `write` raises.
        """

    def submit(self, rows: Rows, done: Done) -> bool | None:
        """Make all of `rows` durable, or none, after all that was submitted before; then call `done`.

        A message that is removed takes its steps with it. An object that is dropped takes nothing with it: the
        messages of a queue are removed by their ids, its keys by `freed`. A store may forget a key by itself when its
        time is over.

        It is called in a later turn of the event loop, in the order of submission, whatever is cancelled meanwhile:
        with None, with StoreFullError, or with StoreFailedError. A store that has made the rows durable at once may
        return True instead: then `done` is not called.
        """

    async def write(self, rows: Rows) -> None:
        """Submit `rows` and wait until they are durable; raises what `submit` reports."""
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self.submit(rows, partial(_settle, outcome, None)):
            await outcome

    def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        """Read the data of these messages, before anything that is submitted later is written; then call `done`.

        It is called in a later turn of the event loop: with the data and None; without any and StoreFailedError; or,
        where the data of some is damaged or missing, with that of the others and DataDamagedError.
        """

    async def read_data(self, ids: Iterable[int]) -> dict[int, bytes]:
        """The data of these messages; raises what `read` reports."""
        outcome: asyncio.Future[dict[int, bytes]] = asyncio.get_running_loop().create_future()
        self.read(ids, partial(_settle, outcome))
        return await outcome

    async def backup(self, path: Path) -> None:
        """Make a copy of the store in the directory `path`, which is new or empty; a store opened there has all that
        was durable when this was called. Cancelled, it leaves nothing there. Raises StoreFullError where there is no
        room, BackupFailedError.
        """
        raise BackupFailedError("a queue manager without a data directory keeps nothing that could be copied")

    async def close(self) -> None:
        """Let go; harmless when already closed."""

    def status(self) -> dict[str, Any]:
        """The store in figures, for people; none unless it has some."""
        return {}

    def figures(self) -> StoreFigures | None:
        """The store in figures, for scrapes; None unless it is open, and has some."""
        return None


def _settle(outcome: asyncio.Future[_T], result: _T, error: Exception | None) -> None:
    if outcome.done():  # Who waited was cancelled. The store has done its work all the same.
        return
    if error is None:
        outcome.set_result(result)
    else:
        outcome.set_exception(error)
