"""A store that fails or stalls on purpose, for tests of what an application or a manager does then.

It wraps another store and changes only `write`. Give it to a queue manager in place of the store it wraps::

    store = FaultStore(MemoryStore())
    store.fail_next(StoreFullError("the disk is full"))      # the next write is refused
    store.fail_next(StoreFailedError("no answer"), after=3, lose=False)   # the third is done, but nobody is told

    store.hold()                                              # writes wait ...
    await store.wait_held()                                   # ... here is one: look at what is visible meanwhile
    store.release()                                           # ... and go on
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from broker.storage.store import MessageRow, ObjectRow, Rows, Store


class FaultStore:
    """The store `inner`, whose writes can be made to fail and to wait.

    `writes` counts the calls of `write`, whatever became of them; `written` has the batches that `inner` took, in
    order. `held` is the number of writes that wait for `release`.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.writes = 0
        self.written: list[Rows] = []
        self.held = 0
        self._failures: dict[int, tuple[Exception, bool]] = {}
        self._free = asyncio.Event()
        self._free.set()
        self._some_held = asyncio.Event()

    def fail_next(self, error: Exception, *, after: int = 1, lose: bool = True) -> None:
        """Raise `error` from the write that is `after` writes from now; 1 is the next one.

        With `lose` the batch is not written. Without, it is, and only the answer is lost: the other half of the
        outcomes that StoreFailedError leaves open. Several failures may be planned, one for each write.

        Raises ValueError for `after` below 1, and for a StoreFullError without `lose`: it says that nothing is written.
        """
        if after < 1:
            raise ValueError(f"after is {after}; the next write is 1")
        if isinstance(error, StoreFullError) and not lose:
            raise ValueError("StoreFullError says that nothing is written: lose must be true")
        self._failures[self.writes + after] = error, lose

    def hold(self) -> None:
        """Let writes wait, from the next one on, before they reach the inner store."""
        self._free.clear()

    def release(self) -> None:
        """Let the writes that wait go on, in their order, and later ones through."""
        self._free.set()

    async def wait_held(self) -> None:
        """Return as soon as a write waits for `release`."""
        await self._some_held.wait()

    async def open(self) -> None:
        """Open the inner store."""
        await self.inner.open()

    async def load_objects(self) -> tuple[list[ObjectRow], int]:
        """What the inner store has."""
        return await self.inner.load_objects()

    def load_messages(self) -> AsyncIterator[list[MessageRow]]:
        """What the inner store has."""
        return self.inner.load_messages()

    async def write(self, rows: Rows) -> None:
        """Have the inner store write `rows`, or do what was planned for this write."""
        self.writes += 1
        error, lose = self._failures.pop(self.writes, (None, False))
        await self._wait_until_free()
        if not lose:
            await self.inner.write(rows)
            self.written.append(rows)
        if error is not None:
            raise error

    async def read_data(self, ids: Iterable[int]) -> dict[int, bytes]:
        """What the inner store has."""
        return await self.inner.read_data(ids)

    async def close(self) -> None:
        """Close the inner store."""
        await self.inner.close()

    async def _wait_until_free(self) -> None:
        if self._free.is_set():
            return
        self.held += 1
        self._some_held.set()
        try:
            await self._free.wait()
        finally:
            self.held -= 1
            if not self.held:
                self._some_held.clear()
