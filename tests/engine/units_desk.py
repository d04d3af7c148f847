"""A queue manager with units that a database of a program's own decides, reached in its own process or over TCP, on a
store that fails on purpose and outlives it.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker import QueueManager, connect
from broker.config import Config, LimitsConfig, ListenerConfig
from broker.mqi import MQOO, MQPMO
from broker.mqi.delivery_fields import Outcome, ServiceOptions, Settlement
from broker.mqi.external_units import Decided, Decision, PreparedDelivery
from broker.server import Server
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from broker import Connection, Deliveries
    from broker.core.queues.queue import LocalQueue

UNIT, OTHER, DATABASE, ELSEWHERE = b"u" * 16, b"o" * 16, b"d" * 16, b"e" * 16
DONE, UNKNOWN = int(Decided.DONE), int(Decided.UNKNOWN)
OPTIONS = ServiceOptions(handler="shop:ship", backoff=(5.0, 5.0), jitter=False)
DEFINITIONS = """
DEFINE PROCESS(P)
DEFINE QLOCAL(Q) DEFPSIST(YES)
DEFINE QLOCAL(W) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)
DEFINE QLOCAL(DEAD) DEFPSIST(YES)
"""


class UnitsDesk:
    """`start` it on what its store has kept, and `stop` it."""

    manager: QueueManager

    def __init__(self, door: str, **limits: Any) -> None:
        self.store = FaultStore(MemoryStore())
        self.clock = VirtualClock()
        self._door = door
        self._config = replace(Config(), limits=replace(Config().limits, **limits))
        self._stack = AsyncExitStack()
        self._address = ""

    async def start(self) -> None:
        """A new run of the queue manager."""
        opening = QueueManager.open(self._config, store=self.store, clock=self.clock)
        self.manager = await self._stack.enter_async_context(opening)
        server = await self._stack.enter_async_context(Server(self.manager, ListenerConfig(port=0), LimitsConfig()))
        self._address = server.addresses[0]

    async def stop(self) -> None:
        """An orderly end."""
        await self._stack.aclose()

    async def restart(self) -> None:
        """Another run. What is in doubt is the same after a kill: it is durable, or it is not."""
        await self.stop()
        await self.start()

    def connect(self, appl_name: str = "shop") -> AbstractAsyncContextManager[Connection]:
        """A program."""
        if self._door == "embedded":
            return self.manager.connect(appl_name)
        return connect(f"mq://{self._address}", appl_name=appl_name, clock=self.clock)

    @asynccontextmanager
    async def worker(self, options: ServiceOptions = OPTIONS) -> AsyncIterator[tuple[Connection, Deliveries]]:
        """A worker that serves W."""
        async with self.connect("worker") as connection, connection.deliveries("W", options=options) as deliveries:
            yield connection, deliveries

    def queue(self, name: str) -> LocalQueue:
        """A queue of the core."""
        return self.manager.core.objects.queues[name]

    def available(self, name: str) -> int:
        """Return the number of its messages that a get is given."""
        return len(self.queue(name).shelf.available)

    async def mqsc(self, text: str) -> list[str]:
        """Commands of an administrator, and their replies."""
        async with self.manager.connect("runmqsc") as connection:
            return [reply.text for reply in await connection.mqsc(text)]

    def figures(self) -> dict[str, Any]:
        """The counts of the handler of W."""
        (found,) = [each for each in self.manager.handler_figures() if each["handler"] == OPTIONS.handler]
        return found


@asynccontextmanager
async def units_desk(door: str, **limits: Any) -> AsyncIterator[UnitsDesk]:
    """One that runs, with Q, DEAD, and W, which is served."""
    desk = UnitsDesk(door, **limits)
    await desk.start()
    try:
        async with desk.manager.connect() as connection:
            await connection.mqsc(DEFINITIONS, check=True)
        desk.store.written.clear()
        yield desk
        desk.manager.core.check_invariants()
    finally:
        desk.store.release()
        await desk.stop()


async def prepare(connection: Connection, *bodies: bytes, unit: bytes = UNIT, q_name: str = "Q", **extras: Any) -> None:
    """A unit of work with puts, prepared."""
    async with connection.open(q_name, MQOO.OUTPUT) as queue:
        for body in bodies:
            await queue.put(body, options=MQPMO.SYNCPOINT, **extras)
    await connection.prepare(unit, DATABASE, "orders")


def prepared(delivery: int, unit: bytes = UNIT, **more: Any) -> PreparedDelivery:
    return PreparedDelivery(unit, Settlement(delivery, Outcome.DONE, **more))


async def commit(connection: Connection, unit: bytes = UNIT) -> int:
    (answer,) = await connection.decide(DATABASE, [Decision(unit, commit=True)])
    return answer


async def back_out(connection: Connection, unit: bytes = UNIT, settlement: Settlement | None = None) -> int:
    (answer,) = await connection.decide(DATABASE, [Decision(unit, commit=False, settlement=settlement)])
    return answer
