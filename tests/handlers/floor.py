"""Workers that handle messages with outcomes by a seed, and go as their queue manager does, and what must hold of that
whatever happens.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.mqi import MQGMO, MQOO
from broker.mqi.delivery_fields import Became, Failure, Outcome, ServiceOptions, Settlement
from triggers.testing.harness import Harness

if TYPE_CHECKING:
    from broker import Connection
    from broker.core.queues.queue import LocalQueue
    from broker.interface.handlers.deliveries import Delivered, Deliveries

WORKERS: Final = 4
OUTCOMES: Final = (Outcome.DONE, Outcome.FAILED, Outcome.LATER, Outcome.REJECTED, Outcome.RETURNED)
SUM: Final = ("succeeded", "failed", "rejected", "unreadable", "later", "crashed", "returned", "running")
_GONE: Final = (Became.GONE, Became.DEAD)


class Chances(NamedTuple):
    """The chances of each outcome, against each other, and in each round that a worker or the queue manager goes."""

    outcomes: tuple[int, ...] = (70, 15, 5, 5, 5)
    worker: float = 0.0
    restart: float = 0.0
    kill: float = 0.0


@dataclass
class Station:
    """A worker: its connection, what it waits for, and what it handles, by the number of the delivery."""

    stack: AsyncExitStack
    connection: Connection
    deliveries: Deliveries
    take: asyncio.Future[list[Delivered]] | None = None
    handled: dict[int, str] = field(default_factory=dict)


class Floor:
    """`left` has, by key, the messages that have not ended, in the order of their puts; `unsure` are those of which
    nobody can say whether they have, because the queue manager was killed meanwhile.
    """

    def __init__(self, seed: int, terms: ServiceOptions, chances: Chances, places: int = 5) -> None:
        self._random = random.Random(seed)
        self._harness = Harness(seed)
        self._terms = terms
        self._chances = chances
        self._places = places
        self._stations: list[Station] = []
        self._not_before: dict[str, float] = {}
        self.left: dict[str, list[str]] = defaultdict(list)
        self.unsure: set[str] = set()
        self.ended: set[str] = set()
        self.tally: Counter[str] = Counter()
        self.most_keys = 0

    @property
    def queue(self) -> LocalQueue:
        return self._harness.manager.core.objects.queues["Q"]

    async def run(self, messages: list[tuple[str, str]], *, rounds: int = 20_000) -> dict[str, int]:
        """Put these, each a key and a body, and handle them until none is left. The figures of the last manager."""
        await self._start(
            "DEFINE PROCESS(P)\nDEFINE QLOCAL(DEAD) MAXDEPTH(999999999)\n"
            "DEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES) MAXDEPTH(999999999)"
        )
        coming = list(reversed(messages))
        for _ in range(rounds):
            await self._put([coming.pop() for _ in range(min(self._random.randrange(20), len(coming)))])
            await self._happen()
            await self._harness.clock.advance(self._random.choice((0.0, 0.1, 1.0)))
            self._begin()
            self.check()
            if not coming and not self.queue.depth and not any(each.handled for each in self._stations):
                break
            await self._settle()
        assert not self.queue.depth, "some are left"
        assert not self.queue.pending_starts
        dead = await self._dead()
        left = {body for bodies in self.left.values() for body in bodies}
        assert left <= self.unsure | dead, "some are lost"
        await self._leave()
        ((_, _, counts),) = self._harness.manager.core.deliveries.counts()
        figures = {name: getattr(counts, name) for name in SUM}
        await self._harness.stop()
        return figures

    def check(self) -> None:
        """Check what holds at any time that nothing is on its way."""
        manager = self._harness.manager
        assert len(self.queue.shelf.available) <= self.queue.pending_starts, "a message has no start"
        for _, _, counts in manager.core.deliveries.counts():
            assert counts.started == sum(getattr(counts, name) for name in SUM), counts
            assert counts.running == sum(len(each.handled) for each in self._stations)
        manager.core.check_invariants()

    # What happens

    async def _start(self, definitions: str = "") -> None:
        await self._harness.start()
        if definitions:
            async with self._harness.manager.connect("test") as connection:
                await connection.mqsc(definitions, check=True)
        for _ in range(WORKERS):
            await self._hire()

    async def _hire(self) -> None:
        stack = AsyncExitStack()
        connection = await stack.enter_async_context(self._harness.manager.connect("worker"))
        deliveries = await stack.enter_async_context(connection.deliveries("Q", options=self._terms))
        self._stations.append(Station(stack, connection, deliveries))

    async def _put(self, messages: list[tuple[str, str]]) -> None:
        async with self._harness.manager.connect("test") as connection:
            for key, body in messages:
                await connection.put1("Q", body, properties={"customer": key})
                self.left[key].append(body)

    async def _dead(self) -> set[str]:
        """Return what is on the dead-letter queue, all of it once."""
        async with self._harness.manager.connect("test") as connection, connection.open("DEAD", MQOO.BROWSE) as queue:
            dead = [each.data[172:].decode() async for each in queue.messages(options=MQGMO.BROWSE_NEXT)]
        assert len(dead) == len(set(dead))
        return set(dead)

    async def _happen(self) -> None:
        chance = self._random.random()
        if chance < self._chances.worker:
            station = self._random.choice(self._stations)
            self.tally["crashed"] += len(station.handled)
            await self._go(station, crashed=True)
            await self._hire()
        elif chance < self._chances.worker + self._chances.restart:
            await self._leave()
            await self._harness.stop()
            await self._start()
        elif chance < self._chances.worker + self._chances.restart + self._chances.kill:
            await self._kill()

    async def _kill(self) -> None:
        """The queue manager goes while ends are on their way to it."""
        calls = []
        for station in self._stations:
            settlements = self._ends(station)
            self.unsure |= {station.handled[each.id] for each in settlements}
            calls.append(asyncio.ensure_future(station.deliveries.settle(settlements)))
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)
        self._harness.store.kill()
        for station in list(self._stations):
            await self._go(station, crashed=True)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        for call in calls:
            if not call.cancelled():
                call.exception()
        await self._harness.stop(kill=True)
        self._not_before.clear()
        await self._start()

    async def _leave(self) -> None:
        for station in list(self._stations):
            await self._go(station, crashed=False)

    async def _go(self, station: Station, *, crashed: bool) -> None:
        self._stations.remove(station)
        for body in station.handled.values():
            self._not_before.pop(body, None)
        if station.take is not None:
            station.take.cancel()
            await asyncio.wait([station.take])
        if crashed:
            station.connection.port.break_()  # of an embedded one
        await station.stack.aclose()

    # What they handle

    def _begin(self) -> None:
        """Note what they have been given, and let them wait for more."""
        now = self._harness.clock.time()
        for station in self._stations:
            if station.take is not None and station.take.done():
                taken, station.take = station.take.result(), None
                for each in taken:
                    self._given(station, each, now, alone=len(taken) == 1 and not station.handled)
            if station.take is None and len(station.handled) < self._places:
                station.take = asyncio.ensure_future(station.deliveries.take(self._places - len(station.handled)))
        busy = {body.split("-")[0] for station in self._stations for body in station.handled.values()}
        self.most_keys = max(self.most_keys, len(busy))

    def _given(self, station: Station, each: Delivered, now: float, *, alone: bool) -> None:
        body = each.messages[0].data.decode()
        key = body.split("-")[0]
        assert body not in self.ended, f"{body} has ended before"
        assert now >= self._not_before.pop(body, 0.0) - 1e-6, f"{body} came early"
        assert self._terms.attempts is None or each.attempt <= self._terms.attempts or alone
        if self._terms.order_by:
            busy = [held for other in self._stations for held in other.handled.values() if held.startswith(f"{key}-")]
            assert not busy, f"{body} came while {busy} was handled"
            while self.left[key][0] != body:
                passed = self.left[key].pop(0)
                assert passed in self.unsure, f"{body} has overtaken {passed}"
                self.ended.add(passed)
        self.unsure.discard(body)
        station.handled[each.id] = body

    def _ends(self, station: Station) -> list[Settlement]:
        """Draw the ends of some of what it handles."""
        settlements = []
        for number in station.handled:
            if self._random.random() < 0.7:
                (outcome,) = self._random.choices(OUTCOMES, self._chances.outcomes)
                failed = outcome in (Outcome.FAILED, Outcome.REJECTED)
                failure = Failure("ValueError", "no such order") if failed else Failure()
                settlements.append(Settlement(number, outcome, failure)._replace(seconds=2.0))
        return settlements

    async def _settle(self) -> None:
        for station in self._stations:
            settlements = self._ends(station)
            for settlement, settled in zip(settlements, await station.deliveries.settle(settlements), strict=True):
                body = station.handled.pop(settlement.id)
                self.tally[Outcome(settlement.outcome).name.lower()] += 1
                if settled.became in _GONE:
                    self.ended.add(body)
                    self.left[body.split("-")[0]].remove(body)
                elif settled.became is Became.DELAYED:
                    self._not_before[body] = settled.next_at
