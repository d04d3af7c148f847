"""A trial: a program that is interrupted, and the account of what it had been given and what it had put by then.

Whatever the moment, each message must be in one place afterwards: with the program, if the call that gave it has
returned (and, under syncpoint, been committed), else on a queue. Where a call was interrupted whose outcome only the
queue manager knows, either will do, but a unit of work goes one way as a whole.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from broker import MQError
from broker.mqi import MQGMO, MQPMO, MQRC
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore
from tests.conformance.expect import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker import Connection, Queue
    from broker.storage.store import Done, Rows
    from tests.conformance.system import System

TURNS = 2  # of the event loop that each access to the store takes


class SlowStore(MemoryStore):
    """A store whose answers take some turns of the event loop, always the same number."""

    def submit(self, rows: Rows, done: Done) -> bool:
        def written(error: Exception | None) -> None:
            after_turns(TURNS, lambda: done(error))

        after_turns(TURNS, self._submit, rows, written)
        return False

    def _submit(self, rows: Rows, written: Done) -> None:
        if super().submit(rows, written):
            after_turns(1, written, None)

    def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        after_turns(TURNS, partial(super().read, list(ids), done))


def slow_store() -> FaultStore:
    return FaultStore(SlowStore())


def after_turns(count: int, call: Callable[..., None], *arguments: object) -> None:
    """Call it when the event loop has turned so many times."""
    if count:
        asyncio.get_running_loop().call_soon(after_turns, count - 1, call, *arguments)
    else:
        call(*arguments)


async def turns(count: int) -> None:
    """Let the event loop turn so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


@dataclass(eq=False)
class Work:
    """The messages got, and those put, in one unit of work."""

    got: list[bytes] = field(default_factory=list)
    put: list[bytes] = field(default_factory=list)


class Account:
    """The account of what programs put and were given. Messages are told apart by their data."""

    def __init__(self) -> None:
        self.there: list[bytes] = []  # on a queue before, or put and acknowledged
        self.delivered: list[bytes] = []
        self.unknown: list[Work] = []  # units of work, or single calls, whose outcome nobody was told
        self.interrupted: list[bytes] = []  # put under syncpoint, by a call that was not answered
        self.at_most_once = 0  # gets outside syncpoint whose line was cut: each may have taken a message with it

    def check(self, found: Iterable[bytes]) -> None:
        """Raise AssertionError unless `found`, what is on the queues now, is what must be there."""
        left = Counter(found)
        left.subtract(self.there)
        left.update(self.delivered)
        for work in reversed(self.unknown):  # what was put by one may have been got by a later one
            done = any(left[data] > 0 for data in work.put) or any(left[data] < 0 for data in work.got)
            if done:
                left.subtract(work.put)
                left.update(work.got)
        doubled = [data for data, count in left.items() if count > (data in self.interrupted)]
        lost = [data for data, count in left.items() if count < 0]
        assert (doubled, lost[self.at_most_once :]) == ([], []), (doubled, lost, self.at_most_once)


class Program:
    """A program with a connection of its own, and QLOCAL(Q) and QLOCAL(R) open."""

    def __init__(self, system: System, connection: Connection, account: Account) -> None:
        self.system = system
        self.connection = connection
        self.account = account
        self.queue: Queue
        self.second: Queue
        self.unit = Work()

    async def start(self) -> None:
        self.queue = await self.connection.open("Q", ALL)
        self.second = await self.connection.open("R", ALL)

    async def get(self, *, wait: bool = False) -> bytes:
        """Get a message outside syncpoint."""
        try:
            data = (await self.queue.get(wait=float("inf") if wait else None)).data
        except MQError as error:
            self.account.at_most_once += error.reason == MQRC.CONNECTION_BROKEN
            raise
        self.account.delivered.append(data)
        return data

    async def get_in_unit(self, *, wait: bool = False) -> bytes:
        """Get a message under syncpoint."""
        data = (await self.queue.get(options=MQGMO.SYNCPOINT, wait=float("inf") if wait else None)).data
        self.unit.got.append(data)
        return data

    async def put(self, data: bytes) -> None:
        """Put a message outside syncpoint."""
        single = Work(put=[data])
        self.account.unknown.append(single)
        await self.queue.put(data)
        self.account.unknown.remove(single)
        self.account.there.append(data)

    async def put_in_unit(self, data: bytes) -> None:
        """Put a message on the second queue, under syncpoint."""
        self.account.interrupted.append(data)
        await self.second.put(data, options=MQPMO.SYNCPOINT)
        self.account.interrupted.remove(data)
        self.unit.put.append(data)

    async def commit(self) -> None:
        """Commit the unit of work."""
        unit, self.unit = self.unit, Work()
        self.account.unknown.append(unit)
        await self.connection.commit()
        self.account.unknown.remove(unit)
        self.account.there += unit.put
        self.account.delivered += unit.got

    async def backout(self) -> None:
        """Back out the unit of work."""
        self.unit = Work()
        await self.connection.backout()

    async def leave(self) -> None:
        """End the connection as an exception would."""
        with suppress(ZeroDivisionError):
            async with self.connection:
                raise ZeroDivisionError


async def found_on(system: System, *names: str, backouts_max: int | None = 1) -> list[bytes]:
    """Get the messages on these queues by a program in the queue manager's process; wait for what is on its way."""
    queues = [system.manager.core.objects.queues[name] for name in names]
    await system.until(lambda: not any(queue.uncommitted for queue in queues))
    found = []
    async with system.manager.connect("inspector") as inspector:
        for name in names:
            async with inspector.open(name, ALL) as handle:
                while system.manager.core.objects.queues[name].depth:
                    message = await handle.get()
                    assert backouts_max is None or message.md.backout_count <= backouts_max
                    found.append(message.data)
    return found
