"""Apps under test: a queue manager in memory with a virtual clock, reached in its process or over a socket."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from broker import QueueManager
from broker.mqi import MQGMO, MQOO
from broker.testing import VirtualClock
from tests.conformance.ways import WAYS
from triggers import App

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from broker import Connection, Message
    from broker.storage.store import Store
    from tests.conformance.ways import Way
    from triggers.serving.session import AppSession

SECONDS = 60.0
"""What tests wait for comes at once, or never: so long is never."""


class WaySource:
    """The queue manager of a test, as an app knows it."""

    def __init__(self, way: Way, clock: VirtualClock, *, embedded: bool) -> None:
        self.clock = clock
        self.random = random.Random(0)
        self.embedded = embedded
        self.way = way
        self.connections: list[Connection] = []

    def connect(self, appl_name: str) -> AbstractAsyncContextManager[Connection]:
        return self.way.connect(appl_name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Shop:
    """A queue manager, an app that is not running yet, and a connection beside it."""

    def __init__(self, way: str = "embedded", store: Store | None = None) -> None:
        self.clock = VirtualClock()
        self.app: App
        self.manager: QueueManager
        self.connection: Connection
        self.way: Way
        self._way = way
        self._store = store
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        opened = QueueManager.open(name="QM1", clock=self.clock, store=self._store)
        self.manager = await self._exit.enter_async_context(opened)
        self.way = await self._exit.enter_async_context(WAYS[self._way](self.manager))
        self.connection = await self._exit.enter_async_context(self.way.connect("test"))
        self.app = App(self.manager, name="SHOP")
        self.app.source = self.source()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.__aexit__(kind, error, trace)

    def source(self) -> WaySource:
        """Return a source for another app."""
        return WaySource(self.way, self.clock, embedded=self._way == "embedded")

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[AppSession]:
        """The app, to enter. A test that fails lets its time pass, so that it does not wait for its handlers."""
        async with self.app.running(**options) as session:
            try:
                yield session
            except Exception:
                session.cancel()
                self._passing = asyncio.ensure_future(self.clock.advance(1000))
                raise

    async def mqsc(self, text: str) -> list[dict[str, Any]]:
        """Run commands that must succeed; what they display."""
        replies = await self.connection.mqsc(text, check=True)
        return [attributes for reply in replies for attributes in reply.attributes]

    async def depth(self, q_name: str) -> int:
        """Return the number of messages on a queue, whatever their state."""
        [queue] = await self.mqsc(f"DISPLAY QLOCAL('{q_name}') CURDEPTH")
        return int(queue["CURDEPTH"])

    async def get(self, q_name: str) -> Message:
        """The next message of a queue, as soon as there is one."""
        async with self.connection.open(q_name, MQOO.INPUT_SHARED) as queue, asyncio.timeout(SECONDS):
            return await queue.get(options=MQGMO.NO_SYNCPOINT, wait=float("inf"))


class Seen(list[Any]):
    """The things that handlers have seen, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def add(self, each: Any) -> None:
        """Somebody has seen this."""
        self.append(each)
        self._more.set()

    async def so_many(self, count: int) -> list[Any]:
        """All that was seen, when it is so many things or more."""
        async with asyncio.timeout(SECONDS):
            while len(self) < count:
                self._more.clear()
                await self._more.wait()
        return list(self)
