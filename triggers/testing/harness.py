"""A queue manager for a test: in memory, with time, disk and lines under control, and drawn from a seed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final, Self

from broker import QueueManager
from broker.testing import FaultStore, SeededStore, VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

    from broker import Connection

NAME: Final = "TEST"
"""The name of the queue manager."""

QUIET_TURNS: Final = 2
"""In memory nothing is on its way that the event loop does not know of."""


class Harness:
    """Starts, ends and restarts a queue manager, whose messages are kept in this object meanwhile."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.clock = VirtualClock()
        self.clock.quiet_turns = QUIET_TURNS
        self.store = FaultStore(SeededStore(seed))
        self._random = Random(seed)
        self._manager: QueueManager | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    @property
    def manager(self) -> QueueManager:
        """The queue manager that runs."""
        if self._manager is None:
            raise RuntimeError("the queue manager of this test does not run now")
        return self._manager

    def source(self) -> HarnessSource:
        """Return a source for a program of its own."""
        return HarnessSource(self, Random(self._random.random()))

    async def start(self) -> None:
        """Start the queue manager on what the last one has left."""
        manager = QueueManager.open(name=NAME, clock=self.clock, store=self.store)
        manager.random_bits = self._random.getrandbits
        started = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(manager, started), name=f"queue manager {NAME}")
        await asyncio.wait((self._task, started), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.result()
        self._manager = manager

    async def stop(self, *, kill: bool = False) -> None:
        """End it in order, or as if its process were killed: what is not durable is lost."""
        if kill:
            self.store.kill()
        self._manager = None
        self._over.set()
        if self._task is not None:
            await asyncio.wait((self._task,))
            task, self._task = self._task, None
            task.result()

    async def _run(self, manager: QueueManager, started: asyncio.Future[None]) -> None:
        """In a task of its own: a test may end it wherever it is itself."""
        async with manager:
            started.set_result(None)
            await self._over.wait()

    @contextmanager
    def disk_full(self) -> Iterator[None]:
        """Have no room on the disk meanwhile: what adds something is refused (2192), what removes goes through."""
        self.store.fill()
        try:
            yield
        finally:
            self.store.make_room()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class HarnessSource:
    """The queue manager of a harness, for one program (`triggers.app.source.Source`)."""

    embedded = True

    def __init__(self, harness: Harness, random: Random) -> None:
        self.random = random
        self.clock = harness.clock
        self._harness = harness
        self._given: list[Connection] = []

    @asynccontextmanager
    async def connect(self, appl_name: str) -> AsyncIterator[Connection]:
        """A connection to the queue manager that runs."""
        async with self._harness.manager.connect(appl_name) as connection:
            self._given.append(connection)
            try:
                yield connection
            finally:
                self._given.remove(connection)

    def cut(self) -> None:
        """Break all connections of the program, as when its process dies, or its line is cut."""
        for connection in self._given:
            port: Any = connection.port
            if not port.broken:
                port.break_()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __str__(self) -> str:
        return f"the queue manager of a test, seed {self._harness.seed}"
