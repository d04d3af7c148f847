"""Random schedules of prepares, decisions, kills and full disks beside a small model (transactions rules 1 to 3).

The model has what the program's database has: a decision for each unit that was committed there. What was put in a unit
is on its queue once if that has committed, else nowhere; a message of W is gone if its delivery's unit has committed,
else it is there. Whatever is killed, and when, ends so.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, MQError
from broker.mqi.delivery_fields import Failure, Outcome, Settlement
from broker.mqi.external_units import Decided, Decision
from broker.storage.store import StoreFullError
from tests.engine.units_desk import DATABASE, OPTIONS, prepared, units_desk

if TYPE_CHECKING:
    from broker import Connection, Deliveries
    from tests.engine.units_desk import UnitsDesk

SEEDS = 40
STEPS = 40
ORDERED = OPTIONS._replace(order_by="key", backoff=(1.0, 1.0), attempts=None, crashes=1000)
GOOD = (int(Decided.DONE), int(Decided.UNKNOWN))


class Schedule:
    """One run. `committed` are the units whose transactions have committed in the database."""

    def __init__(self, desk: UnitsDesk, random: Random) -> None:
        self.desk = desk
        self.random = random
        self.committed: set[bytes] = set()
        self.aborted: set[bytes] = set()
        self.puts: dict[bytes, str] = {}  # what each unit puts to Q
        self.handled: dict[bytes, str] = {}  # the message of W that each unit has handled
        self.work: list[str] = []
        self.open: list[bytes] = []  # units whose owner is to decide them
        self.number = 0
        self.program: Connection
        self.deliveries: Deliveries
        self.resolver: Connection

    async def begin(self) -> None:
        """The programs connect; where the power has failed, to another run."""
        try:
            self.program = await self.desk.manager.connect("worker")
            self.resolver = await self.desk.manager.connect("resolver")
            self.deliveries = await self.program.deliveries("W", options=ORDERED).__aenter__()
        except MQError:
            assert self.desk.manager.journal.error is not None
            await self.again()

    async def end(self) -> None:
        """They go, or have gone."""
        self.open.clear()
        for each in (self.program, self.resolver):
            with suppress(MQError):
                await each.close()

    def unit(self) -> bytes:
        self.number += 1
        return self.number.to_bytes(16, "big")

    # The steps

    async def put_work(self) -> None:
        body = f"{self.random.choice('ab')}{self.number}"
        self.number += 1
        with suppress(MQError):
            await self.program.put1("W", body, properties={"key": body[0]})
            self.work.append(body)

    async def produce(self) -> None:
        unit = self.unit()
        try:
            await self.program.put1("Q", f"p{self.number}", options=MQPMO.SYNCPOINT)
            self.puts[unit] = f"p{self.number}"
            await self.program.prepare(unit, DATABASE)
        except MQError:
            self.aborted.add(unit)  # the program's transaction rolls back
        else:
            self.open.append(unit)

    async def handle(self) -> None:
        """Take what there is, handle it, prepare all in one call."""
        try:
            async with asyncio.timeout(0):
                taken = await self.deliveries.take(3)
        except (TimeoutError, MQError):
            return
        units = [self.unit() for _ in taken]
        try:
            for unit, each in zip(units, taken, strict=True):
                own = await self.deliveries.connect(each)
                self.puts[unit] = f"h{each.messages[0].data.decode()}"
                await own.put1("Q", self.puts[unit])
                self.handled[unit] = each.messages[0].data.decode()
            items = [prepared(each.id, unit) for unit, each in zip(units, taken, strict=True)]
            answers = await self.deliveries.prepare(DATABASE, items)
        except MQError:
            self.aborted |= set(units)
            return
        for unit, answer in zip(units, answers, strict=True):
            if answer:
                self.aborted.add(unit)
            else:
                self.open.append(unit)

    async def decide(self) -> None:
        """The owner's transactions end."""
        self.random.shuffle(self.open)
        units, self.open = self.open[:3], self.open[3:]
        for unit in units:
            (self.committed if self.random.random() < 0.6 else self.aborted).add(unit)
        outcomes = (Outcome.FAILED, Outcome.RETURNED, Outcome.LATER)
        settlement = self.random.choice((None, Settlement(0, self.random.choice(outcomes), Failure("E"), seconds=1.0)))
        decisions = [Decision(unit, unit in self.committed, settlement) for unit in units]
        with suppress(MQError):
            await self.program.decide(DATABASE, decisions)

    async def resolve(self, wait: bool = False) -> None:
        """A resolver asks the database: what is not committed there is aborted from now on."""
        with suppress(MQError):
            doubts = await self.resolver.doubts(DATABASE, wait=False)
            self.aborted |= {each.unit for each in doubts} - self.committed
            decisions = [Decision(each.unit, each.unit in self.committed) for each in doubts]
            answers = await self.resolver.decide(DATABASE, decisions)
            assert all(each in GOOD or each == MQRC.STORAGE_MEDIUM_FULL for each in answers)

    async def leave(self) -> None:
        """The programs are cut off, and come again."""
        if self.random.random() < 0.5:
            self.program.port.break_()
            self.resolver.port.break_()
        await self.end()
        await self.begin()

    async def kill(self) -> None:
        """The power fails at one of the next writes, which is on the disk or not."""
        self.desk.store.fail_next(OSError("power"), after=self.random.randint(1, 2), lose=self.random.random() < 0.5)
        for _ in range(2):
            await self.random.choice((self.produce, self.handle, self.decide, self.resolve))()
        if self.desk.manager.journal.error is None:
            await self.put_work()
        await self.again()

    async def again(self) -> None:
        """Another run of the queue manager."""
        await self.end()
        with suppress(OSError):
            await self.desk.stop()
        self.desk.store._fates.clear()  # what was planned and has not happened
        await self.desk.start()
        await self.begin()

    async def fill(self) -> None:
        """The disk is full for a while."""
        if self.random.random() < 0.5:
            self.desk.store.fill()
        else:
            self.desk.store.fail_next(StoreFullError("no room"))
        for _ in range(3):
            await self.random.choice((self.produce, self.handle, self.decide, self.resolve))()
        self.desk.store.make_room()
        await self.desk.clock.advance(1)

    async def wait(self) -> None:
        await self.desk.clock.advance(self.random.choice((0.5, 2.0, 61.0)))

    # What is true at the end

    async def check(self) -> None:
        """All is decided, and the queues are as the database says."""
        self.desk.store._fates.clear()
        for _ in range(3):
            await self.desk.clock.advance(120)
            await self.end()
            await self.begin()
            await self.resolve()
        assert self.desk.manager.core.branches.by_id == {}
        assert await self.resolver.doubts(DATABASE, wait=False) == []
        await self.deliveries.__aexit__(None, None, None)
        wanted = sorted(self.puts[unit] for unit in self.committed if unit in self.puts)
        assert await self.drained("Q") == wanted
        done = sorted(self.handled[unit] for unit in self.committed if unit in self.handled)
        assert len(done) == len(set(done)), "a message was handled twice"
        there = await self.drained("W")
        lost = set(self.work) - set(there) - set(done)
        assert not lost
        assert not set(there) & set(done), "what is done is there still"
        await self.end()

    async def drained(self, q_name: str) -> list[str]:
        found = []
        async with self.program.open(q_name, MQOO.INPUT_SHARED) as queue:
            with suppress(MQError):
                while True:
                    found.append((await queue.get(options=MQGMO.NO_SYNCPOINT, delayed=True)).data.decode())
        return sorted(found)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_whatever_is_killed_and_when_the_queues_are_as_the_database_says(seed: int) -> None:
    random = Random(seed)
    async with units_desk("embedded") as desk:
        schedule = Schedule(desk, random)
        await schedule.begin()
        steps: list[Any] = [
            *[schedule.put_work] * 4, *[schedule.produce] * 3, *[schedule.handle] * 4, *[schedule.decide] * 4,
            *[schedule.resolve] * 2, schedule.leave, schedule.kill, schedule.again, schedule.fill, schedule.wait,
        ]  # fmt: skip
        for _ in range(STEPS):
            await random.choice(steps)()
            if desk.manager.journal.error is not None:
                await schedule.again()
        await schedule.check()
