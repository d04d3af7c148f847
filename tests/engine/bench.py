"""A queue manager on a store that fails and stalls on purpose, with what tests of the journal look at."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from broker import MQError, QueueManager
from broker.config import Config
from broker.mqi import MQOO, MQRC
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from broker import Connection, Queue

ALL = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE


class Bench:
    """An open queue manager on `store`, and a connection that has QLOCAL(Q) open: DEFPSIST(YES), HARDENBO."""

    def __init__(self, manager: QueueManager, store: FaultStore, connection: Connection, queue: Queue) -> None:
        self.manager = manager
        self.store = store
        self.connection = connection
        self.queue = queue

    @property
    def depth(self) -> int:
        """CURDEPTH of Q."""
        return self.manager.core.objects.queues["Q"].depth

    @property
    def waiting(self) -> int:
        """The number of gets that wait on Q."""
        return self.manager.core.objects.queues["Q"].waiters.count

    @property
    def transactions(self) -> int:
        """The number of batches that the store took."""
        return len(self.store.written)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the others run until something is so."""
        while not condition():  # noqa: ASYNC110  # it may be so by any change of state, and nobody tells of all of them
            await asyncio.sleep(0)

    async def idle(self) -> None:
        """Let the others run until the journal has nothing to do; the store must not be held."""
        await self.until(lambda: self.manager.journal.idle)

    async def stored(self) -> list[tuple[bytes | None, int, int]]:
        """The messages in the store: data, backout count and the mark, in order of arrival."""
        rows = [row async for chunk in self.store.load_messages() for row in chunk]
        bodies = await self.store.read_data([row.id for row in rows])
        return [(bodies[row.id], row.backout_count, row.hardened) for row in rows]


@asynccontextmanager
async def opened(store: FaultStore | None = None, **limits: int | None) -> AsyncIterator[Bench]:
    """Open a queue manager with these limits; with a store used before, Q is there already."""
    store = store or FaultStore(MemoryStore())
    config = Config()
    given = {name: limit for name, limit in limits.items() if limit is not None}
    config = replace(config, limits=replace(config.limits, **given))
    async with QueueManager.open(config, store=store, clock=VirtualClock()) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)")
        async with connection.open("Q", ALL) as queue:
            store.written.clear()
            try:
                yield Bench(manager, store, connection, queue)
            finally:
                store.release()
            manager.core.check_invariants()


async def reason_of(call: Awaitable[object]) -> MQRC | int:
    """The reason with which the call fails, or NONE."""
    try:
        await call
    except MQError as error:
        return error.reason
    return MQRC.NONE
