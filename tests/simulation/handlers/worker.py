"""A worker: a connection that takes deliveries, and what its handlers do with each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.mqi import MQOO, MQPER, MQError
from broker.mqi.delivery_fields import Became, Failure, Outcome, Settlement
from tests.simulation.handlers.records import End
from tests.simulation.handlers.setting import OUT, SOURCE

if TYPE_CHECKING:
    from broker import Connection, QueueManager
    from broker.interface.handlers.deliveries import Delivered, Deliveries
    from broker.mqi.delivery_fields import ServiceOptions, Settled
    from tests.simulation.handlers.records import Record
    from tests.simulation.handlers.schedule import Schedule

PLACES: Final = 4
HANDLED_AFTER: Final = 8
"""Turns of the event loop until what was taken is looked at: by then all workers have heard what was settled before."""

FAILURE: Final = Failure("ValueError", "so it was drawn", "Traceback ...")


class Worker:
    """A worker of one life of the queue manager. `handled` is what it has in its hands."""

    def __init__(self, schedule: Schedule, manager: QueueManager, name: str) -> None:
        self._schedule = schedule
        self._connection: Connection = manager.connect(name)
        self._deliveries: Deliveries
        self._ready = False
        self._taken = 0
        self._taken_at = self._asked_at = 0.0
        self._take: asyncio.Task[list[Delivered]] | None = None
        self._busy: dict[int, asyncio.Task[None]] = {}
        self.name = name
        self.gone = False
        self.handled: dict[int, Delivered] = {}
        self._opening = asyncio.ensure_future(self._open(schedule.terms))

    async def _open(self, terms: ServiceOptions) -> None:
        await self._connection.__aenter__()
        self._deliveries = self._connection.deliveries(SOURCE, options=terms)
        await self._deliveries.__aenter__()
        self._ready = True

    @property
    def idle(self) -> list[Delivered]:
        """The deliveries that it has in its hands and does nothing with yet."""
        return [each for id, each in self.handled.items() if id not in self._busy]

    @property
    def waits(self) -> bool:
        """True if it has nothing to do but to wait for deliveries."""
        return self._take is not None and not self._take.done() and not self.handled and not self._busy

    @property
    def takes(self) -> bool:
        """True if it waits for deliveries, or has got some that nobody has handled yet."""
        return self._take is not None

    def look(self) -> None:
        """Handle what was answered since."""
        if not self.gone and self._opening.done() and self._opening.exception() is not None:
            self.gone = True  # the queue manager has ended
        if self.gone or not self._ready:
            return
        if self._take is not None and self._take.done():
            self._taken += 1
            if self._taken == 1:
                self._taken_at = self._schedule.now
        if self._taken > HANDLED_AFTER and self._take is not None:
            take, self._take = self._take, None
            error = take.exception()
            if error is None:
                for delivered in take.result():
                    record = self._schedule.records.handed(self, delivered, self._asked_at, self._taken_at)
                    self._schedule.note(f"{self.name} gets {record.name}, attempt {delivered.attempt}")
            elif not isinstance(error, MQError):
                raise error
        for id, task in list(self._busy.items()):
            if task.done():
                del self._busy[id]
                error = task.exception()
                if error is not None and not isinstance(error, MQError):
                    raise error

    def take(self) -> None:
        """Wait for deliveries, if there are places."""
        free = PLACES - len(self.handled)
        if self._ready and not self.gone and self._take is None and free > 0:
            self._taken, self._asked_at = 0, self._schedule.now
            self._take = asyncio.ensure_future(self._deliveries.take(free))

    def handle(self, delivered: Delivered, outcome: Outcome) -> None:
        """Have the handler of a delivery come to its end."""
        record = self._schedule.records.messages[delivered.messages[0].data.decode()]
        self._schedule.note(f"{self.name}: {record.name} {outcome.name}")
        self._busy[delivered.id] = asyncio.ensure_future(self._handle(delivered, record, outcome))

    async def _handle(self, delivered: Delivered, record: Record, outcome: Outcome) -> None:
        if outcome is Outcome.DONE or self._schedule.random.random() < 0.4:
            try:
                await self._put(delivered, record)
            except MQError:
                outcome = Outcome.RETURNED  # the queue manager goes, or the disk is full
        seconds = self._schedule.random.choice((0.0, 1.0, 20.0))
        settlement = Settlement(delivered.id, outcome, FAILURE, seconds=seconds, counted=bool(record.number % 2))
        charges = self._may(record, outcome, settlement)
        (settled,) = await self._deliveries.settle([settlement])
        if delivered.id in self.handled:
            del self.handled[delivered.id]
            self._reported(record, settled, charges=charges)

    async def _put(self, delivered: Delivered, record: Record) -> None:
        connection = await self._deliveries.connect(delivered)
        async with connection.open(OUT, MQOO.OUTPUT) as out:
            persistence = MQPER.PERSISTENT if record.persistent else MQPER.NOT_PERSISTENT
            await out.put(record.name, persistence=persistence)

    @staticmethod
    def _may(record: Record, outcome: Outcome, settlement: Settlement) -> bool:
        """Note what the settlement may come to from now on; return True if it charges an attempt."""
        charges = outcome in (Outcome.FAILED, Outcome.REJECTED) or (outcome is Outcome.LATER and settlement.counted)
        if outcome is Outcome.DONE:
            record.maybe.add(End.DONE)
        elif charges:
            record.maybe.add(End.DEAD)
        if charges:
            record.open += 1
        return charges

    def _reported(self, record: Record, settled: Settled, *, charges: bool) -> None:
        schedule = self._schedule
        schedule.note(f"{self.name}: {record.name} is {Became(settled.became).name}, reason {settled.reason}")
        became = Became(settled.became)
        schedule.records.let_go(record)
        schedule.records.figures[became.name.lower()] += 1
        record.returned = record.returned or became is Became.RETURNED
        if charges:
            record.open -= 1
            record.failed += settled.reason == 0
            record.open += settled.reason != 0
        if became is not Became.GONE:
            record.maybe.discard(End.DONE)
        if settled.reason:  # its mark may be on the disk still
            record.lost += 1
            record.maybe.add(End.DEAD)
        if became is Became.GONE:
            record.end = End.DONE
        elif became is Became.DEAD:
            record.end = End.DEAD
        elif became is Became.HELD:
            record.held = True
            record.maybe.add(End.DEAD)
        elif became is Became.DELAYED:
            until = schedule.now + settled.next_at - schedule.wall - 1e-3  # has gone, where the answer took its time
            if settled.reason:
                record.refused_until = until
                record.held = record.held or charges  # a dead letter, perhaps: then others pass it
            else:
                record.not_before = until
            if charges and not settled.reason:
                record.maybe.discard(End.DEAD)  # this attempt was not the last; what was lost may have been
                if record.lost:
                    record.maybe.add(End.DEAD)

    # Its end

    def cut(self) -> None:
        """Its line is cut, or it is killed: nobody hears anything more of it."""
        self._schedule.note(f"{self.name} is killed with {len(self.handled)}")
        if self.takes:
            self._schedule.records.any_may_be_lost()
        self._schedule.records.lost(self)
        self.let_go()
        self._connection.port.break_()  # of an embedded one

    def let_go(self) -> None:
        """It does nothing more."""
        self.gone = True
        for task in (self._opening, self._take, *self._busy.values()):
            if task is not None:
                task.cancel()
        self._busy.clear()
