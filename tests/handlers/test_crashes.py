"""A worker that goes takes no neighbour of its poison message along (handlers rule 1.4): many workers, messages of
which some end the worker that handles them, and a seed.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from broker.mqi.delivery_fields import Outcome, ServiceOptions, Settlement
from tests.handlers.desk import Desk, desk

if TYPE_CHECKING:
    from broker import Connection
    from broker.interface.handlers.deliveries import Delivered, Deliveries

PLACES = 20
WORKERS = 3
AWAY = 0.5
"""Seconds until a worker that has gone is back."""

DEFAULT = ServiceOptions(handler="tests:handler", attempts=6, backoff=(0.1, 60.0), jitter=False, dead_letter="DEAD")


@dataclass
class Process:
    """A worker that is there: its connection, and what it handles."""

    stack: AsyncExitStack
    connection: Connection
    deliveries: Deliveries
    handled: dict[int, Delivered] = field(default_factory=dict)
    take: asyncio.Future[list[Delivered]] | None = None


@dataclass
class Outcomes:
    lost: int = 0
    """Workers that went."""
    done: list[bytes] = field(default_factory=list)
    most_suspects: int = 0


class Plant:
    """Workers that handle the messages of Q, for as long as there are any."""

    def __init__(self, desk: Desk, seed: int, terms: ServiceOptions, poison: set[bytes]) -> None:
        self._desk = desk
        self._random = random.Random(seed)
        self._terms = terms
        self._poison = poison
        self._events: list[tuple[float, int, str, Process | None, int]] = []
        self._number = 0
        self._processes: list[Process] = []
        self.outcomes = Outcomes()

    async def run(self, arrivals: list[bytes], seconds: float = 20.0) -> Outcomes:
        for body in arrivals:
            self._at(self._random.uniform(0, seconds), "put " + body.decode(), None, 0)
        for _ in range(WORKERS):
            self._at(0.0, "up", None, 0)
        left = len(arrivals)
        for _ in range(100_000):
            if len(self.outcomes.done) + self._desk.depth("DEAD") == left:
                break
            if not self._events:
                await self._desk.clock.advance(0.05)
            else:
                due, _, kind, process, number = heapq.heappop(self._events)
                await self._desk.clock.advance(max(0.0, due - self._desk.clock.monotonic()))
                await self._happen(kind, process, number)
            await self._take()
        for process in list(self._processes):
            await self._end(process)
        return self.outcomes

    async def _happen(self, kind: str, process: Process | None, number: int) -> None:
        if kind.startswith("put "):
            await self._desk.put(kind[4:])
        elif kind == "up":
            stack = AsyncExitStack()
            connection = await stack.enter_async_context(self._desk.manager.connect("worker"))
            deliveries = await stack.enter_async_context(connection.deliveries("Q", options=self._terms))
            self._processes.append(Process(stack, connection, deliveries))
        elif process in self._processes:
            assert process is not None
            delivered = process.handled.pop(number)
            if kind == "kill":
                self.outcomes.lost += 1
                await self._end(process)
                self._at(self._desk.clock.monotonic() + AWAY, "up", None, 0)
            else:
                await process.deliveries.settle([Settlement(number, Outcome.DONE)])
                self.outcomes.done.append(delivered.messages[0].data)

    async def _end(self, process: Process) -> None:
        """A crash: what it handled is left as it is."""
        if process in self._processes:
            self._processes.remove(process)
        if process.take is not None:
            process.take.cancel()
            await asyncio.wait([process.take])
        process.connection.port.break_()  # of an embedded one
        await process.stack.aclose()

    async def _take(self) -> None:
        for process in self._processes:
            if process.take is None and len(process.handled) < PLACES:
                process.take = asyncio.ensure_future(process.deliveries.take(PLACES - len(process.handled)))
        await self._desk.clock.advance(0)
        for process in self._processes:
            if process.take is None or not process.take.done():
                continue
            taken = process.take.result()
            process.take = None
            for each in taken:
                process.handled[each.id] = each
                duration = self._random.uniform(0.05, 2.0)
                kills = each.messages[0].data in self._poison
                after = duration * self._random.random() if kills else duration
                self._at(self._desk.clock.monotonic() + after, "kill" if kills else "end", process, each.id)

    def _at(self, due: float, kind: str, process: Process | None, number: int) -> None:
        self._number += 1
        heapq.heappush(self._events, (due, self._number, kind, process, number))


@pytest.mark.parametrize(
    ("poisons", "terms", "lost_most"),
    [
        (1, DEFAULT, 4),
        (5, DEFAULT, 25),
        (1, DEFAULT._replace(attempts=1), 2),
        (3, DEFAULT._replace(attempts=1), 12),
    ],
    ids=["one", "five", "no retry", "no retry, three"],
)
@pytest.mark.parametrize("seed", range(3))
async def test_h1_8_no_neighbour_of_a_poison_message_is_lost(
    seed: int, poisons: int, terms: ServiceOptions, lost_most: int
) -> None:
    bodies = [b"%d" % number for number in range(60)]
    poison = set(random.Random(seed).sample(bodies, poisons))
    async with desk() as d:
        outcomes = await Plant(d, seed, terms, poison).run(bodies, seconds=5.0)
        dead = await d.got("DEAD")
        assert {message.data[172:] for message in dead} == poison
        assert {message.properties["evermq.why"] for message in dead} == {"crashed"}
        assert sorted(outcomes.done) == sorted(set(bodies) - poison)
        assert outcomes.lost <= lost_most
        assert d.depth() == 0
