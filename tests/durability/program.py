"""A client program: it puts and gets numbered messages, and tells a ledger what it does and what it is told."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Final

from broker import MQError
from broker.client import connect
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, MessageDescriptor
from tests.durability.ledger import Found
from tests.durability.numbered import body, key_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AsyncExitStack

    from broker import Connection, Message, Queue
    from broker.interface import PutResult
    from tests.durability.ledger import Ledger, Unit

DEFINITIONS: Final = """\
DEFINE QLOCAL(Q) MAXDEPTH(1000000) DEFPSIST(YES) REPLACE
DEFINE QLOCAL(R) LIKE(Q) HARDENBO REPLACE
DEFINE QLOCAL(S) LIKE(Q) REPLACE
DEFINE QLOCAL(N) DEFPSIST(NO) REPLACE
"""
EXACT: Final = ("Q", "R")
"""The queues whose messages are got under syncpoint alone, so that nothing at all may be missing there."""

QUEUES: Final = (*EXACT, "S")
HARDENED: Final = ("R",)

ALL: Final = MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE

GONE: Final = frozenset({MQRC.CONNECTION_BROKEN, MQRC.Q_MGR_STOPPING})
"""The reasons that a program meets when the queue manager dies. They say nothing of the outcome of a call."""

_AT_ONCE: Final = 256


@asynccontextmanager
async def _connected(url: str, name: str) -> AsyncIterator[Connection]:
    """A connection. What it leaves behind when it breaks is for the ledger to find out."""
    try:
        async with connect(url, appl_name=name) as connection:
            yield connection
    except MQError as error:
        if error.reason != MQRC.CONNECTION_BROKEN:
            raise


class Program:
    """A program that has connected and opened the queues. `name` begins the keys of its messages."""

    def __init__(self, name: str, connection: Connection, queues: dict[str, Queue], ledger: Ledger) -> None:
        self.connection = connection
        self.queues = queues
        self.ledger = ledger
        self._name = name
        self._numbers = count()

    @classmethod
    async def start(cls, stack: AsyncExitStack, url: str, name: str, ledger: Ledger) -> Program:
        """Connect; the connection ends with the stack."""
        connection = await stack.enter_async_context(_connected(url, name))
        return cls(name, connection, {queue: await connection.open(queue, ALL) for queue in QUEUES}, ledger)

    async def put(self, unit: Unit, queue: str, length: int = 200, priority: int = 0) -> None:
        """Put a message under syncpoint, as a part of `unit`."""
        key = self._key()
        self.ledger.put(unit, queue, key)
        try:
            await self._put(queue, key, length, priority, MQPMO.SYNCPOINT)
        except MQError as error:
            if error.reason == MQRC.STORAGE_MEDIUM_FULL:
                self.ledger.not_put(unit, key)
            raise

    async def put_alone(self, queue: str, length: int = 200, priority: int = 0) -> None:
        """Put a message outside syncpoint."""
        unit, key = self.ledger.begin(), self._key()
        self.ledger.put(unit, queue, key)
        unit.asked = True
        try:
            await self._put(queue, key, length, priority, MQPMO.NO_SYNCPOINT)
        except MQError as error:
            if error.reason == MQRC.STORAGE_MEDIUM_FULL:
                self.ledger.refused(unit)
            raise
        self.ledger.done(unit)

    async def put_batch(self, queue: str, lengths: Sequence[int], priority: int = 0) -> None:
        """Put many messages outside syncpoint in one call. What it says of those before a failure is noted."""
        units, items = [], []
        for length in lengths:
            unit, key = self.ledger.begin(), self._key()
            self.ledger.put(unit, queue, key)
            unit.asked = True
            units.append(unit)
            items.append(body(key, length))
        results: Sequence[PutResult] = ()
        try:
            results = await self.queues[queue].put_many(items, MessageDescriptor(priority=priority), MQPMO.NO_SYNCPOINT)
        except MQError as error:
            results = error.results
            if error.reason == MQRC.STORAGE_MEDIUM_FULL:
                for unit in units[len(results) :]:
                    self.ledger.refused(unit)
            raise
        finally:
            for unit, result in zip(units, results, strict=False):
                self.ledger.named(result.md.msg_id)
                self.ledger.done(unit)

    async def get(self, unit: Unit, queue: str, wait: float | None = None) -> Message:
        """Get a message under syncpoint, as a part of `unit`."""
        message = await self.queues[queue].get(options=MQGMO.SYNCPOINT, wait=wait)
        self.ledger.got(unit, queue, key_of(message.data))
        return message

    async def get_alone(self, queue: str, wait: float | None = None) -> None:
        """Get a message outside syncpoint."""
        try:
            message = await self.queues[queue].get(options=MQGMO.NO_SYNCPOINT, wait=wait)
        except MQError as error:
            if error.reason in GONE:
                self.ledger.unanswered_get(queue)
            raise
        unit = self.ledger.begin()
        self.ledger.got(unit, queue, key_of(message.data))
        self.ledger.done(unit)

    async def get_batch(self, unit: Unit, queue: str, count: int) -> None:
        """Get many messages under syncpoint in one call, as a part of `unit`."""
        for message in await self.queues[queue].get_many(count, options=MQGMO.SYNCPOINT):
            self.ledger.got(unit, queue, key_of(message.data))

    async def get_batch_alone(self, queue: str, count: int, wait: float | None = None) -> None:
        """Get many messages outside syncpoint in one call."""
        try:
            messages = await self.queues[queue].get_many(count, options=MQGMO.NO_SYNCPOINT, wait=wait)
        except MQError as error:
            if error.reason in GONE:
                self.ledger.unanswered_get(queue, count)
            raise
        unit = self.ledger.begin()
        for message in messages:
            self.ledger.got(unit, queue, key_of(message.data))
        self.ledger.done(unit)

    async def commit(self, unit: Unit) -> None:
        """Commit the unit of work."""
        unit.asked = True
        try:
            await self.connection.commit()
        except MQError as error:
            if error.reason == MQRC.BACKED_OUT:
                self.ledger.backed_out(unit)
            raise
        self.ledger.done(unit)

    async def backout(self, unit: Unit) -> None:
        """Back out the unit of work."""
        await self.connection.backout()
        self.ledger.backed_out(unit)

    async def read(self, queue: str, messages: int) -> None:
        """Get so many messages with `async for` in a unit of work."""
        unit = self.ledger.begin()
        try:
            async with self.connection.unit_of_work():
                async for message in self.queues[queue]:
                    self.ledger.got(unit, queue, key_of(message.data))
                    if len(unit.gets) == messages:
                        break
                unit.asked = True
        except MQError as error:
            if error.reason == MQRC.BACKED_OUT:
                self.ledger.backed_out(unit)
            raise
        self.ledger.done(unit)

    def _key(self) -> str:
        return f"{self._name}.{next(self._numbers)}"

    async def _put(self, queue: str, key: str, length: int, priority: int, options: MQPMO) -> None:
        result = await self.queues[queue].put(body(key, length), MessageDescriptor(priority=priority), options)
        self.ledger.named(result.md.msg_id)


async def browsed(url: str) -> dict[str, list[Found]]:
    """All that is on the queues, in their order."""
    async with connect(url, appl_name="auditor") as connection:
        return {name: await browsed_on(connection, name) for name in QUEUES}


async def browsed_on(connection: Connection, name: str) -> list[Found]:
    """All that is on one queue, in its order."""
    found: list[Found] = []
    async with connection.open(name, ALL) as queue:
        while messages := await _next(queue, MQGMO.BROWSE_NEXT):
            found += [Found(key_of(each.data), each.md.priority, each.md.backout_count) for each in messages]
    return found


async def drained(url: str) -> dict[str, list[str]]:
    """The keys of all that is on the queues, in their order; it is removed."""
    found: dict[str, list[str]] = {name: [] for name in QUEUES}
    async with connect(url, appl_name="auditor") as connection:
        for name, keys in found.items():
            async with connection.open(name, ALL) as queue:
                while messages := await _next(queue, MQGMO.SYNCPOINT):
                    keys += [key_of(each.data) for each in messages]
                    await connection.commit()
    return found


async def _next(queue: Queue, options: MQGMO) -> list[Message]:
    """The next messages of a queue, none at its end."""
    try:
        return await queue.get_many(_AT_ONCE, options=options)
    except MQError as error:
        if error.reason == MQRC.NO_MSG_AVAILABLE:
            return []
        raise
