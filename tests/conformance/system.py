"""The system under test: a queue manager on a store, and the way in which programs reach it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from broker import MQError, QueueManager
from broker.config import Config
from broker.core.message.entry import AVAILABLE, CLAIMED, DAMAGED
from broker.mqi import MQRC
from broker.testing import VirtualClock
from tests.conformance.invariants import check_locks
from tests.conformance.ways import COMMANDS, ENTRANCES, JUDGED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from broker import Connection
    from broker.mqi.replies import CommandReply
    from broker.storage.store import MessageRow, Store
    from tests.conformance.ways import Way

STEP_SECONDS = 10.0  # less than half a heartbeat: a line that is used once a step stays alive


class System:
    """A queue manager named QM1, entered with `async with`. Its default objects are those of IBM MQ, whose rules it is
    held to: queues are DEFPSIST(NO).

    `way` names how it is reached, `clock` is its time and that of its clients.

    Leaving it checks the invariants of the core, that no connection left anything behind, and that what the store kept
    is what the queue manager had.
    """

    def __init__(self, make_store: Callable[[], Store], way: str, config: Config | None = None) -> None:
        self.way = "embedded" if way in JUDGED else way
        self._entrance = way
        self.q_owner = "QM1"
        """To whom a queue belongs that is defined by `mqsc`: what is told when it is opened."""
        self.agents = 0
        self.members = 1
        """How many connections the queue manager has with itself."""
        self.clock = VirtualClock()
        self.manager: QueueManager
        self.reached: Way
        self._make_store = make_store
        config = config or Config()
        self._config = replace(config, queue_manager=replace(config.queue_manager, defaults="mq"))

    async def connect(self, appl_name: str = "", beside: Connection | None = None) -> Connection:
        """A new connection, entered; it ends with the system. `beside`: of a program at the same queue manager as this
        connection, where there are several.
        """
        connection = await self._connections.enter_async_context(self._program(appl_name, self._way(beside)))
        self._connected.append(connection)
        return connection

    @asynccontextmanager
    async def _program(self, appl_name: str, way: Way) -> AsyncIterator[Connection]:
        """The connection of a program, which may die in a unit of work."""
        try:
            async with way.connect(appl_name) as connection:
                yield connection
        except MQError as died:
            assert died.reason == MQRC.CONNECTION_BROKEN

    def _way(self, beside: Connection | None) -> Way:
        """The way by which the next connection comes."""
        return self.reached

    def cut(self, connection: Connection) -> None:
        """The program of this connection dies."""
        self.reached.cut(connection)

    async def mqsc(self, text: str) -> list[CommandReply]:
        """Run commands that must succeed."""
        async with self.reached.connect(COMMANDS) as connection:
            replies = await connection.mqsc(text)
        assert [reply.text for reply in replies if not reply.ok] == []
        return replies

    async def restart(self) -> None:
        """An orderly end and a new start on what the store kept. All connections are disconnected before."""
        await self._end()
        await self._start()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass without letting lines fall silent, if there are lines."""
        while seconds > 0:
            step = seconds if self.way == "embedded" else min(STEP_SECONDS, seconds)
            await self.clock.advance(step)
            seconds -= step
            for connection in self._connected:
                if not connection.port.broken:
                    await connection.mqsc("")

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the others run until something is so."""
        while not condition():  # noqa: ASYNC110  # it may be so by any change of state, and nobody tells of all of them
            await asyncio.sleep(0)

    async def rest(self) -> None:
        """Return when all that calls have led to is done: on one queue manager it is when they are answered."""

    async def waiting(self, name: str, getters: int) -> None:
        """Let the others run until so many gets wait on the queue."""
        await self.until(lambda: self.manager.core.objects.queues[name].waiters.count == getters)

    def depth(self, name: str = "Q") -> int:
        """CURDEPTH."""
        return self.manager.core.objects.queues[name].depth

    def held(self, name: str = "Q") -> int:
        """Return the number of messages of the queue that are got and in no program's hands for good."""
        return self.manager.core.objects.queues[name].uncommitted

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        self.manager.core.check_invariants()
        check_locks([self.manager])

    async def __aenter__(self) -> Self:
        self._store = self._make_store()
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()
        if kind is None:
            await self._check_end()

    async def _start(self) -> None:
        self._connected: list[Connection] = []
        async with AsyncExitStack() as stack:
            self.manager = await stack.enter_async_context(
                QueueManager.open(self._config, store=self._store, clock=self.clock)
            )
            self.reached = await stack.enter_async_context(ENTRANCES[self._entrance](self.manager))
            self._connections = await stack.enter_async_context(AsyncExitStack())
            self._stack = stack.pop_all()

    async def _end(self) -> None:
        await self.rest()
        self.check()
        await self._connections.aclose()
        await self._stack.aclose()
        await self.rest()
        self.check()

    async def _check_end(self) -> None:
        status = self.manager.status()
        assert status["connections"] == 0
        check_queues(status)
        await self._store.open()
        stored = [columns(row) async for rows in self._store.load_messages() for row in rows]
        await self._store.close()
        assert sorted(stored) == sorted(kept(self.manager))


def check_queues(status: dict[str, Any], *, but: str = "") -> None:
    """Raise AssertionError for a queue that somebody has open, or of which somebody has a message in hand."""
    for queue in status["queues"]:
        left = {key: queue[key] for key in ("uncommitted", "ipprocs", "opprocs", "getters", "trigger_running")}
        assert queue["name"] == but or not any(left.values()), (queue["name"], left)


def columns(row: MessageRow) -> tuple[int, ...]:
    """Return the columns of a message that a store must have, but for its data."""
    return row.queue, row.rank, row.id, row.length, row.backout_count, row.hardened


def kept(manager: QueueManager) -> list[tuple[int, ...]]:
    """Return the rows of messages that the store must have for a queue manager at rest."""
    on_queues = [
        (queue.number, entry.row().rank, entry.id, entry.length, entry.backout_count, 0)
        for queue in manager.core.objects.queues.values()
        for entry in queue.shelf.entries.values()
        if entry.state == CLAIMED
        or ((entry.persistence or queue.keeps_nonpersistent) and entry.state in (AVAILABLE, DAMAGED))
    ]
    in_units = [entry.row() for unit in manager.core.sinks.units.values() for entry in unit.entries]
    return [*on_queues, *((row.queue, row.rank, row.id, row.length, 0, 0) for row in in_units)]
