"""A store that fails or stalls on purpose, for tests of what an application or a manager does then.

It wraps another store and changes only what becomes of writes. Give it to a queue manager in place of the store it
wraps::

    store = FaultStore(MemoryStore())
    store.fail_next(StoreFullError("the disk is full"))      # the next write is refused
    store.fail_next(StoreFailedError("no answer"), after=3, lose=False)   # the third is done, but nobody is told

    store.hold()                                              # writes wait ...
    await store.wait_held()                                   # ... here is one: look at what is visible meanwhile
    store.release()                                           # ... and go on
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from broker.storage.store import Rows, Store, StoreFullError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from typing import TypeAlias

    from broker.storage.store import MessageRow, ObjectRow

    _Plan: TypeAlias = "tuple[Exception | None, bool]"  # the error to report, and whether the batch is lost


class FaultStore(Store):
    """The store `inner`, whose writes can be made to fail and to wait.

    `writes` counts what was submitted, whatever became of them; `written` has the batches that `inner` took, in
    order.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.writes = 0
        self.written: list[Rows] = []
        self._failures: dict[int, _Plan] = {}
        self._free = True
        self._waiting: list[Callable[[], None]] = []
        self._some_held = asyncio.Event()

    @property
    def held(self) -> int:
        """How many writes wait for `release`."""
        return len(self._waiting)

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
        self._free = False

    def release(self) -> None:
        """Let the writes that wait go on, in their order, and later ones through."""
        self._free = True
        waiting, self._waiting = self._waiting, []
        self._some_held.clear()
        for write in waiting:
            write()

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

    def submit(self, rows: Rows, done: Callable[[Exception | None], None]) -> None:
        """Have the inner store write `rows`, or do what was planned for this write."""
        self.writes += 1
        write = partial(self._write, rows, done, self._failures.pop(self.writes, (None, False)))
        if self._free:
            write()
        else:
            self._waiting.append(write)
            self._some_held.set()

    async def read_data(self, ids: Iterable[int]) -> dict[int, bytes]:
        """What the inner store has."""
        return await self.inner.read_data(ids)

    async def close(self) -> None:
        """Close the inner store."""
        await self.inner.close()

    def _write(self, rows: Rows, done: Callable[[Exception | None], None], planned: _Plan) -> None:
        error, lose = planned

        def written(failure: Exception | None) -> None:
            if failure is None and not lose:
                self.written.append(rows)
            done(failure or error)

        self.inner.submit(Rows() if lose else rows, written)  # An empty batch, so that the order of answers is kept.
