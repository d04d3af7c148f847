"""A queue manager in memory on the virtual clock, with a queue that is served: for the tests of deliveries."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.mqi.delivery_fields import Failure, Outcome, ServiceOptions, Settled, Settlement
from broker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection, Message
    from broker.interface.handlers.deliveries import Delivered, Deliveries
    from broker.storage.store import Store

TERMS = ServiceOptions(
    handler="tests:handler", attempts=3, backoff=(1.0,), doubles=False, jitter=False, dead_letter="DEAD"
)
FAILURE = Failure("ValueError", "no such order", "Traceback ...")


class Desk:
    """`connection` puts and looks, deliveries are taken by workers with connections of their own."""

    def __init__(self, manager: QueueManager, connection: Connection, clock: VirtualClock) -> None:
        self.manager = manager
        self.connection = connection
        self.clock = clock

    async def put(self, *bodies: str | bytes, queue: str = "Q", **options: object) -> None:
        async with self.connection.open(queue, MQOO.OUTPUT) as out:
            for body in bodies:
                await out.put(body, **options)  # type: ignore[arg-type]

    async def got(self, queue: str = "Q") -> list[Message]:
        """All messages of a queue that can be got."""
        messages = []
        async with self.connection.open(queue, MQOO.INPUT_SHARED) as source:
            while True:
                try:
                    messages.append(await source.get(options=MQGMO.NO_SYNCPOINT))
                except MQError as error:
                    assert error.reason == MQRC.NO_MSG_AVAILABLE
                    return messages

    def depth(self, queue: str = "Q") -> int:
        return self.manager.core.objects.queues[queue].depth

    def counts(self, queue: str = "Q") -> dict[str, Any]:
        (counts,) = [each for q_name, _, each in self.manager.core.deliveries.counts() if q_name == queue]
        return counts.figures()

    @asynccontextmanager
    async def worker(self, terms: ServiceOptions = TERMS, queue: str = "Q") -> AsyncIterator[Deliveries]:
        async with (
            self.manager.connect("worker") as connection,
            connection.deliveries(queue, options=terms) as deliveries,
        ):
            yield deliveries


@asynccontextmanager
async def desk(
    definitions: str = "", store: Store | None = None, clock: VirtualClock | None = None
) -> AsyncIterator[Desk]:
    """Queues Q, served under process P, DEAD and OUT; with a store used before they are there already."""
    clock = VirtualClock() if clock is None else clock
    opened = QueueManager.open(name="QM1", clock=clock, store=store)
    async with opened as manager, manager.connect("test") as connection:
        await connection.mqsc(
            "DEFINE PROCESS(P) REPLACE\nDEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES) REPLACE\n"
            f"DEFINE QLOCAL(DEAD) REPLACE\nDEFINE QLOCAL(OUT) REPLACE\n{definitions}",
            check=True,
        )
        yield Desk(manager, connection, clock)
        manager.core.check_invariants()


async def settle(deliveries: Deliveries, outcome: Outcome, *delivered: Delivered, **fields: object) -> list[Settled]:
    """Settle all of these alike."""
    failure = FAILURE if outcome in (Outcome.FAILED, Outcome.REJECTED, Outcome.UNREADABLE) else Failure()
    settlements = [Settlement(each.id, outcome, failure)._replace(**fields) for each in delivered]  # type: ignore[arg-type]
    return await deliveries.settle(settlements)


def bodies(delivered: list[Delivered]) -> list[str]:
    return [b" ".join(message.data for message in each.messages).decode() for each in delivered]
