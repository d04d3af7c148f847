"""The calls of an adapter as coroutines, so that one flow serves all: those of a threaded adapter never suspend.

Such a flow runs to its end in the thread that drives it (`driven`): begin, the program's statements and COMMIT.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Sequence

    from broker.databases.adapter import Adapter, Value

T = TypeVar("T")

CLEANUP_SECONDS: Final = 10.0
"""The longest that a rollback may take: then the connection is broken."""


class AdapterCalls:
    """The calls of an adapter, to be awaited. `pool_wait` bounds the wait for a connection."""

    def __init__(self, adapter: Adapter, pool_wait: float) -> None:
        self.adapter = adapter
        self.threaded = adapter.threaded
        self.pool_wait = pool_wait

    async def acquire(self, seconds: float | None = None) -> Any:
        """Return a connection, within `pool_wait`. Raises TimeoutError."""
        if self.threaded:
            return self.adapter.acquire()
        async with asyncio.timeout(self.pool_wait if seconds is None else seconds):
            return await self.adapter.acquire()

    async def begin(self, connection: Any) -> None:
        """Begin a transaction."""
        if self.threaded:
            self.adapter.begin(connection)
        else:
            await self.adapter.begin(connection)

    async def execute(self, connection: Any, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        """Run statements; the rows of the last."""
        executed = self.adapter.execute(connection, sql, *values)
        rows: Sequence[Sequence[Any]] = executed if self.threaded else await executed
        return rows

    async def commit(self, connection: Any) -> None:
        """Commit."""
        if self.threaded:
            self.adapter.commit(connection)
        else:
            await self.adapter.commit(connection)

    async def rollback(self, connection: Any) -> None:
        """Roll back, also where the caller is cancelled. Raises TimeoutError."""
        if self.threaded:
            self.adapter.rollback(connection)
        else:
            await _cleaned_up(self.adapter.rollback(connection))

    async def release(self, connection: Any, *, broken: bool) -> None:
        """Give a connection back, also where the caller is cancelled. Raises TimeoutError."""
        if self.threaded:
            self.adapter.release(connection, broken)
        else:
            await _cleaned_up(self.adapter.release(connection, broken))


async def _cleaned_up(cleanup: Awaitable[None]) -> None:
    """Await what must be done though the caller is cancelled. Raises TimeoutError."""
    deadline = asyncio.get_running_loop().time() + CLEANUP_SECONDS
    with anyio.CancelScope(deadline=deadline, shield=True):  # `fail_after` is a third of what it guards
        await cleanup
        return
    raise TimeoutError


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends to its end, here in this thread, and return what it returns."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a call of a threaded database has suspended: its adapter's members must be plain functions")
