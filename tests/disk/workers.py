"""Workers without threads: work is done on the event loop, some turns later as chance has it, one piece at a time.

A worker's pieces are done, and their ends told, in the order in which they came. A Crash within a piece ends the
process: what still waits is never done, and its waiters get Crash.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from tests.disk.faults import Crash

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.storage.disk.disk import DatabaseWorker, DiskThread
    from broker.storage.store import Done
    from tests.disk.simulated import SimulatedDisk

_TURNS_MAX = 3
_T = TypeVar("_T")


class SimulatedWorker:
    """One of a process' workers. A piece takes `Machine.work_seconds` of the loop's time, besides its turns."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._waiting: deque[tuple[Callable[[], object], Callable[[object, BaseException | None], None]]] = deque()
        self._finished: deque[tuple[Callable[[object, BaseException | None], None], object, Exception | None]] = deque()
        self._busy = False
        self._closed = False
        disk.at_end(self._end)

    def submit(self, work: Callable[[], None], done: Done) -> None:
        """Have `work` done, then call `done` on the event loop: with None, or with what it raised."""

        def reported(_: object, error: BaseException | None) -> None:
            if error is None or isinstance(error, Exception):
                done(error)

        self._do(work, reported)

    async def perform(self, work: Callable[[], _T]) -> _T:
        """The result of `work`, or what it raised; it is done even if the task that waits is cancelled."""
        outcome: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

        def reported(result: object, error: BaseException | None) -> None:
            if outcome.done() or outcome.get_loop().is_closed():
                return
            if error is None:
                outcome.set_result(result)  # type: ignore[arg-type]  # what `work` returned
            else:
                outcome.set_exception(error)

        self._do(work, reported)
        return await outcome

    async def close(self) -> None:
        """End when all that was submitted is done."""
        if not self._closed:
            await self.perform(lambda: None)
            self._closed = True

    def _do(self, work: Callable[[], object], reported: Callable[[object, BaseException | None], None]) -> None:
        if self._closed:
            raise RuntimeError("the worker is closed")
        if not self._disk.alive:
            reported(None, Crash("the process has ended"))
            return
        self._waiting.append((work, reported))
        if not self._busy:
            self._busy = True
            self._soon(self._run)

    def _soon(self, call: Callable[[], None]) -> None:
        machine = self._disk.machine
        loop = asyncio.get_running_loop()
        if call == self._run and machine.work_seconds:
            loop.call_later(machine.work_seconds, call)
        else:
            loop.call_soon(_count_down, loop, machine.random.randrange(_TURNS_MAX), call)

    def _run(self) -> None:
        if not self._disk.alive:
            return
        work, reported = self._waiting.popleft()
        result: object = None
        error: Exception | None = None
        try:
            result = work()
        except Crash as crash:
            self._disk.die()
            reported(None, crash)
            return
        except Exception as raised:
            error = raised
        self._finished.append((reported, result, error))
        self._soon(self._tell)
        if self._waiting:
            self._soon(self._run)
        else:
            self._busy = False

    def _tell(self) -> None:
        if self._disk.alive:
            reported, result, error = self._finished.popleft()
            reported(result, error)

    def _end(self) -> None:
        """The process has ended: what waits is told that."""
        crash = Crash("the process has ended")
        for _, reported in self._waiting:
            reported(None, crash)
        for reported, _, _ in self._finished:
            reported(None, crash)
        self._waiting.clear()
        self._finished.clear()


class SimulatedDatabaseWorker:
    """A worker whose work is given a connection."""

    def __init__(self, worker: DiskThread, connection: sqlite3.Connection) -> None:
        self._worker = worker
        self._connection = connection
        self._closed = self._abandoned = False

    def submit(self, work: Callable[[sqlite3.Connection], None], done: Done) -> None:
        """Have `work` done, then call `done` on the event loop: with None, or with what it raised."""
        self._worker.submit(lambda: self._use(work), done)

    async def perform(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """The result of `work`, or what it raised; it is done even if the task that waits is cancelled."""
        return await self._worker.perform(lambda: self._use(work))

    def let_others(self, *, wait: bool = False) -> None:
        """Nothing: work is never long here, and a piece of it never interrupted."""

    async def close(self) -> None:
        """Close the connection, which may write to the database, and end; harmless when closed already."""
        if not self._closed:
            self._closed = True
            await self._worker.perform(self._connection.close)
            await self._worker.close()

    async def abandon(self) -> None:
        """End, and leave the connection open until the process ends. What is not begun yet fails."""
        if not self._closed:
            self._closed = self._abandoned = True
            await self._worker.close()

    def _use(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        if self._abandoned:
            raise sqlite3.ProgrammingError("the connection was abandoned")
        return work(self._connection)


def _count_down(loop: asyncio.AbstractEventLoop, turns: int, call: Callable[[], None]) -> None:
    if turns:
        loop.call_soon(_count_down, loop, turns - 1, call)
    else:
        call()


if TYPE_CHECKING:
    _worker: type[DiskThread] = SimulatedWorker
    _database_worker: type[DatabaseWorker] = SimulatedDatabaseWorker
