"""A day of work, act by act: what programs, handlers, consumers and sinks do to a queue manager."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from broker import QueueManager
from broker.engine.figures.scrape import Scrape
from broker.engine.figures.selection import FigureSelection
from broker.mqi import MQGMO, MQOO, MQPMO, GetMessageOptions, MessageDescriptor, MQError
from broker.mqi.delivery_fields import Failure, Outcome, ServiceOptions, Settlement
from broker.mqi.external_units import Decision
from broker.testing import VirtualClock
from tests.engine.writer import Row, Writer
from tests.exposition import samples
from tests.stores import log_store

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from broker import Connection, Deliveries, Queue
    from tests.exposition import Samples

DEFINITIONS = """
DEFINE PROCESS(WORK)
DEFINE QLOCAL(Q) MAXDEPTH(2) DEFPSIST(YES)
DEFINE QLOCAL(DEAD) DEFPSIST(YES)
DEFINE QLOCAL(WORK) TRIGGER TRIGTYPE(EVERY) PROCESS(WORK) BOQNAME(DEAD) BOTHRESH(2) DEFPSIST(YES)
DEFINE QLOCAL(CLAIMED) DEFPSIST(YES)
DEFINE QLOCAL(SUNK) DEFPSIST(YES)
"""

CANARY_ERROR = "no such order"
CANARIES = ("go0d", CANARY_ERROR)
"""Of what messages have in them, and of what a handler has raised."""

RECORDED: Final = ServiceOptions(history="NOWHERE", history_span=60.0)
"""The history of a queue that cannot be put to."""


class DayOfWork:
    """A queue manager, with a program that has `Q` open and a worker that serves `WORK`."""

    def __init__(self, path: Path) -> None:
        self.clock = VirtualClock()
        self.manager = QueueManager.open(name="QM1", store=log_store(path, clock=self.clock), clock=self.clock)
        self._stack = AsyncExitStack()
        self.program: Connection
        self.queue: Queue
        self.worker: Connection
        self.deliveries: Deliveries
        self.kept: dict[str, Any] = {}

    async def __aenter__(self) -> DayOfWork:
        enter = self._stack.enter_async_context
        await enter(self.manager)
        self.program = await enter(self.manager.connect())
        await self.program.mqsc(DEFINITIONS, check=True)
        self.queue = await enter(self.program.open("Q", MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE))
        self.worker = await enter(self.manager.connect())
        self.deliveries = await enter(self.worker.deliveries("WORK", options=RECORDED))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def figures(self) -> Samples:
        """Take a scrape that is no call."""
        scrape = Scrape(self.manager, FigureSelection())
        for _ in scrape.steps():
            pass
        return samples(scrape.text)

    # The acts

    async def put(self) -> None:
        await self.queue.put(b"12345")

    async def browse(self) -> None:
        await self.queue.get(None, MQGMO.BROWSE_FIRST)

    async def wait_three_seconds(self) -> None:
        await self.clock.advance(3)

    async def get(self) -> None:
        await self.queue.get()

    async def get_from_empty(self) -> None:
        await self._refused(self.queue.get())

    async def put_three_for_two(self) -> None:
        for _ in range(2):
            await self.queue.put(b"1")
        await self._refused(self.queue.put(b"1"))

    async def get_and_back_out(self) -> None:
        await self.queue.get(None, MQGMO.SYNCPOINT)
        await self.program.backout()

    async def get_many(self) -> None:
        await self.queue.get_many(2)

    async def begin_a_unit(self) -> None:
        await self.queue.put(b"12", None, MQPMO.SYNCPOINT)

    async def commit(self) -> None:
        await self.program.commit()

    async def expire(self) -> None:
        """Get the message of before, and let another expire under the eyes of a get."""
        await self.queue.get()
        await self.queue.put(b"123", MessageDescriptor(expiry=10))
        await self.clock.advance(2)
        await self._refused(self.queue.get())

    async def delay(self) -> None:
        await self.queue.put(b"1", delay=1)

    async def come_due(self) -> None:
        await self.clock.advance(1)

    async def drop_the_delayed(self) -> None:
        await self.queue.get()

    async def come(self) -> None:
        """Another program comes, and has the queue open."""
        self.kept["other"] = other = await self._stack.enter_async_context(self.manager.connect())
        self.kept["open"] = await other.open("Q", MQOO.INPUT_SHARED | MQOO.OUTPUT)

    async def wait(self) -> None:
        """It waits for a message."""
        waiting = GetMessageOptions(options=MQGMO.WAIT, wait_interval=60_000)
        self.kept["task"] = asyncio.ensure_future(self.kept["open"].get(None, waiting))
        await asyncio.sleep(0)

    async def time_out(self) -> None:
        """The wait is over."""
        await self.clock.advance(60)
        await self._refused(self.kept["task"])

    async def go(self) -> None:
        """It disconnects."""
        await self.kept["other"].disconnect()

    async def alter(self) -> None:
        await self.program.mqsc("ALTER QLOCAL(Q) MAXDEPTH(3)")

    async def put_work(self) -> None:
        await self.program.put1("WORK", b"go0d")

    async def serve_too(self) -> None:
        """The other program serves the queue too."""
        self.kept["second"] = self.kept["other"].deliveries("WORK", options=RECORDED)
        await self.kept["second"].__aenter__()

    async def take_work(self) -> None:
        (delivery,) = await self.deliveries.take()
        await self.deliveries.settle([Settlement(delivery.id, Outcome.DONE, ran=0.25)])

    async def begin_to_handle(self) -> None:
        await self.program.put1("WORK", b"bad")
        (self.kept["delivery"],) = await self.deliveries.take()

    async def finish_a_step(self) -> None:
        await self.deliveries.step(self.kept["delivery"], "charge", b"receipt")

    async def fail(self) -> None:
        failure = Failure("ValueError", CANARY_ERROR)
        await self.deliveries.settle([Settlement(self.kept["delivery"].id, Outcome.FAILED, failure, ran=0.25)])

    async def fail_again(self) -> None:
        """The second attempt is the last: the message is a dead letter."""
        await self.clock.advance(60)
        (delivery,) = await self.deliveries.take()
        failure = Failure("ValueError", CANARY_ERROR)
        await self.deliveries.settle([Settlement(delivery.id, Outcome.FAILED, failure, timed_out=True, ran=30)])

    async def claim(self) -> None:
        await self.program.put1("CLAIMED", b"123")
        claims = self.program.claims
        made = await claims.consumer("ARCHIVE", ("CLAIMED",))
        registered = await claims.register(made.uuid)
        last = await claims.claim(made.uuid, registered.generation, 0, 10, 1000)
        await claims.pin(made.uuid, registered.generation, registered.lineage, 0, last)
        self.kept["claim"] = made.uuid, registered.generation, last

    async def fall_behind(self) -> None:
        await self.program.put1("CLAIMED", b"12")

    async def acknowledge(self) -> None:
        await self.program.claims.acknowledge(*self.kept["claim"])

    async def stage(self) -> None:
        writer = Writer(self.program.port)
        self.kept["winner"] = writer, await writer.stage(0, [Row(b"1234", "SUNK")])

    async def publish(self) -> None:
        writer, winner = self.kept["winner"]
        await writer.publish(0, winner)

    async def prepare(self) -> None:
        """A unit of work waits for the decision of a database."""
        await self.program.put1("SUNK", b"12", options=MQPMO.SYNCPOINT)
        await self.program.prepare(b"u" * 16, b"d" * 16, "shop")

    async def decide(self) -> None:
        await self.program.decide(b"d" * 16, [Decision(b"u" * 16, commit=False)])

    async def damage(self) -> None:
        """A get would have found the data of the message on SUNK damaged."""
        queue = self.manager.core.objects.queues["SUNK"]
        self.manager.core.set_aside(queue.shelf.heads(1)[0], "in a test")

    async def fill_the_disk(self) -> None:
        """A carry-over would have found no room."""
        self.manager.store._keeper.full = True  # type: ignore[attr-defined]  # it is a LogStore

    async def carry_over(self) -> None:
        await self.manager.store._keeper.carry_over()  # type: ignore[attr-defined]  # it is a LogStore

    async def quiesce(self) -> None:
        self.manager.core.quiesce()

    async def _refused(self, call: Any) -> None:
        try:
            await call
        except MQError:
            return
        raise AssertionError("it was not refused")
