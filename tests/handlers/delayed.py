"""A queue manager on the virtual clock with a queue Q to put to with delays, on disk where a test restarts it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker import Connection, Message, PutResult, Queue

ALL = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE


class Delayed:
    """`connection` has `queue`, which is Q, open for everything."""

    def __init__(self, manager: QueueManager, clock: VirtualClock, connection: Connection, queue: Queue) -> None:
        self.manager = manager
        self.clock = clock
        self.connection = connection
        self.queue = queue

    async def put(self, body: str, **options: object) -> PutResult:
        return await self.queue.put(body, **options)  # type: ignore[arg-type]

    async def got(self) -> list[str]:
        """The bodies of all messages that can be got."""
        return [message.data.decode() async for message in self.queue.messages(options=MQGMO.NO_SYNCPOINT)]

    async def browsed(self, *, delayed: bool = False) -> list[Message]:
        """All messages that a browse sees."""
        async with self.connection.open("Q", MQOO.BROWSE) as browse:
            return [each async for each in browse.messages(options=MQGMO.BROWSE_NEXT, delayed=delayed)]

    async def fails(self, reason: MQRC, body: str = "", **options: object) -> None:
        """A put with these options fails."""
        try:
            await self.put(body, **options)
        except MQError as error:
            assert error.reason == reason
        else:
            raise AssertionError(f"the put was to fail with {reason!r}")

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any]
        (figures,) = [each for each in self.manager.status()["queues"] if each["name"] == "Q"]
        return figures

    @property
    def starts(self) -> int:
        """The TriggerPendingCount of Q."""
        return self.manager.core.objects.queues["Q"].pending_starts

    @property
    def now(self) -> float:
        return self.clock.time()


@asynccontextmanager
async def delayed(
    definitions: str = "", *, data: Path | None = None, clock: VirtualClock | None = None, attributes: str = ""
) -> AsyncIterator[Delayed]:
    """Q is served by nobody; triggered by `attributes` such as TRIGGER TRIGTYPE(EVERY) PROCESS(P)."""
    clock = clock or VirtualClock()
    async with QueueManager.open(name="QM1", data=data, clock=clock) as manager, manager.connect("test") as connection:
        await connection.mqsc(
            f"DEFINE PROCESS(P) REPLACE\nDEFINE QLOCAL(Q) REPLACE {attributes}\n{definitions}", check=True
        )
        async with connection.open("Q", ALL) as queue:
            yield Delayed(manager, clock, connection, queue)
        manager.core.check_invariants()
