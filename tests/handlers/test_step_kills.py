"""D7.1: workers and queue managers are killed between any two steps, and in them: no finished step is run again."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.mqi import MQError
from broker.mqi.delivery_fields import Outcome, ServiceOptions, Settlement
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock
from tests.handlers.loops import asyncio_alone, both_loops
from triggers import App, Attempt, Retry

if TYPE_CHECKING:
    from broker.interface.handlers.deliveries import Delivered, Deliveries

OPTIONS = ServiceOptions(
    handler="tests:handler", attempts=None, crashes=10**9, backoff=(0.0,), doubles=False, jitter=False
)
STEPS = 6


class Ledger:
    """What a worker knows of the steps of the message that it handles, whatever became of queue managers."""

    def __init__(self) -> None:
        self.finished: dict[str, bytes] = {}
        self.begun: dict[str, set[bytes]] = {}
        self.told: Counter[str] = Counter()
        self._value = 0

    def check(self, kept: dict[str, bytes]) -> None:
        """A delivery brings what was finished, and besides at most what was on its way when a life ended."""
        for name, value in self.finished.items():
            assert kept.get(name) == value, f"{name} was finished, and is run again"
        for name, value in kept.items():
            assert value in self.begun.get(name, ()), f"{name} was never done"
            self.told["kept without an answer"] += name not in self.finished
            self.finished[name] = value

    def begin(self, name: str) -> bytes:
        """A step is run: its value."""
        assert name not in self.finished
        self._value += 1
        value = b"%d" % self._value
        self.begun.setdefault(name, set()).add(value)
        self.told["run"] += 1
        return value

    def done(self) -> None:
        """The message has gone."""
        self.finished, self.begun = {}, {}
        self.told["messages"] += 1


class Lives:
    """Queue managers one after the other on one store, killed with their workers at moments of chance."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._store = FaultStore(MemoryStore())
        self._clock = VirtualClock()
        self.ledger = Ledger()

    async def run(self, kills: int) -> Counter[str]:
        """Live until so many have been killed; return what happened, by its name."""
        told = self.ledger.told
        while told["managers killed"] + told["workers killed"] < kills:
            opened = QueueManager.open(name="QM1", clock=self._clock, store=self._store)
            async with opened as manager:
                await self._life(manager)
            told["managers"] += 1
        return told

    async def _life(self, manager: QueueManager) -> None:
        if self.ledger.told["managers"] == 0:
            async with manager.connect("test") as connection:
                await connection.mqsc(
                    "DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)", check=True
                )
        for _ in range(self._random.randrange(1, 12)):
            if await self._work(manager):
                return

    async def _work(self, manager: QueueManager) -> bool:
        """A worker until it is killed; true if the queue manager was."""
        connection = await manager.connect("worker").__aenter__()
        if not manager.core.objects.queues["Q"].shelf.entries:
            self.ledger.done()
            await connection.put1("Q", "order")
        deliveries = await connection.deliveries("Q", options=OPTIONS).__aenter__()
        await self._clock.advance(1)
        (taken,) = await deliveries.take()
        self.ledger.check(dict(taken.steps or {}))
        if self._random.random() < 0.4:  # a write waits, before it is done or behind it
            self._store.hold(after=self._random.randrange(1, 8), written=self._random.random() < 0.5)
        handling = asyncio.ensure_future(self._handle(deliveries, taken))
        for _ in range(self._random.choice((0, 1, 2, 3, 5, 8, 13, 40))):
            await asyncio.sleep(0)
        kills_manager = self._random.random() < 0.2
        if kills_manager:
            self._store.kill()
            self.ledger.told["managers killed"] += 1
        elif not handling.done():
            self.ledger.told["workers killed"] += 1
        connection.port.break_()
        handling.cancel()
        await asyncio.wait((handling,))
        self._store.release()
        if not handling.cancelled():
            handling.result()
        for _ in range(20):  # what had been sent is done
            await asyncio.sleep(0)
        return kills_manager

    async def _handle(self, deliveries: Deliveries, taken: Delivered) -> None:
        """Do what is not done; two steps at a time now and then."""
        random, ledger = self._random, self.ledger
        try:
            left = [f"step {number}" for number in range(STEPS) if f"step {number}" not in ledger.finished]
            while left:
                names = [left.pop(0) for _ in range(min(len(left), random.choice((1, 1, 1, 2, 3))))]
                await asyncio.gather(*(self._step(deliveries, taken, name) for name in names))
            await deliveries.settle([Settlement(taken.id, Outcome.DONE)])
        except MQError:
            ledger.told["cut off"] += 1

    async def _step(self, deliveries: Deliveries, taken: Delivered, name: str) -> None:
        value = self.ledger.begin(name)
        await deliveries.step(taken, name, value)
        self.ledger.finished[name] = value
        self.ledger.told["finished"] += 1


@asyncio_alone
@pytest.mark.parametrize("seed", range(4))
async def test_d7_1_no_finished_step_is_run_again_whoever_is_killed(seed: int) -> None:
    told = await Lives(seed).run(150)
    assert told["managers killed"] > 10
    assert told["finished"] > 100
    assert told["kept without an answer"] > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@asyncio_alone
async def test_d7_1_ten_thousand_kills() -> None:
    told = await Lives(1_000_000).run(10_000)
    assert told["managers killed"] > 1000
    assert told["finished"] > 5000


@both_loops
async def test_d7_1_an_app_whose_workers_are_killed_between_its_steps() -> None:
    """The same above `attempt.step`, in `app.test()`."""
    app = App("mq://127.0.0.1:1", name="SHOP")
    random, runs, handled = Random(1), Counter[str](), Counter[str]()
    kills = 0

    async def do(name: str) -> str:
        runs[name] += 1
        return name

    @app.handler("Q", retry=Retry(None, crashes=10**9, backoff=0.0), concurrency=3)
    async def handle(order: str, attempt: Attempt) -> None:
        for number in range(STEPS):
            name = f"{order} {number}"
            assert await attempt.step(f"{number}", do, name) == name
            if random.random() < 0.2:
                killing.set()
                await asyncio.Event().wait()  # here its worker is killed
        handled[order] += 1

    killing = asyncio.Event()
    async with app.test() as t:
        for number in range(5):
            await t.put("Q", f"{number}")
        while sum(handled.values()) < 5:
            await t.advance(1)
            if killing.is_set():
                killing.clear()
                await t.kill_worker()
                kills += 1
        await t.idle(delayed=True)
    assert kills > 3
    assert set(handled.values()) == set(runs.values()) == {1}
    assert len(runs) == 5 * STEPS
