"""A thread that may wait for the disk, while the event loop goes on."""

from __future__ import annotations

import asyncio
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.storage.store import Done

    _Queue: TypeAlias = SimpleQueue[tuple[Callable[[], None], Done] | None]

_T = TypeVar("_T")


class SystemWorker:
    """Does one piece of work after the other, for the event loop that runs when it is made.

    It does not keep the process alive: what was not closed has acknowledged nothing that it has not done.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: _Queue = SimpleQueue()
        self._thread = Thread(target=_work, args=(self._queue, self._loop), name=name, daemon=True)
        self._closed = False
        self._thread.start()

    def submit(self, work: Callable[[], None], done: Done) -> None:
        """Have `work` done, then call `done` on the event loop: with None, or with what it raised."""
        if self._closed:
            raise RuntimeError(f"the thread {self._thread.name} has ended")
        self._queue.put((work, done))

    async def perform(self, work: Callable[[], _T]) -> _T:
        """The result of `work`, or what it raised; it is done even if the task that waits is cancelled."""
        future: asyncio.Future[_T] = self._loop.create_future()
        results: list[_T] = []
        self.submit(lambda: results.append(work()), partial(_settle, future, results))
        return await future

    async def close(self) -> None:
        """End when all that was submitted is done; harmless when already closed."""
        if not self._closed:
            ended = self._loop.create_future()
            self.submit(_nothing, partial(_settle, ended, [None]))
            self._closed = True
            self._queue.put(None)
            await ended


def _work(queue: _Queue, loop: asyncio.AbstractEventLoop) -> None:
    get, tell = queue.get, loop.call_soon_threadsafe
    while (item := get()) is not None:
        work, done = item
        error: Exception | None = None
        try:
            work()
        except Exception as raised:
            error = raised
        try:
            tell(done, error)
        except RuntimeError:  # The loop is closed: nobody waits any more.
            return
        del item, work, done, error  # While it waits for more, it keeps no record in memory.


def _nothing() -> None:
    pass


def _settle(future: asyncio.Future[_T], results: list[_T], error: Exception | None) -> None:
    if future.done():  # Who waited was cancelled.
        return
    if error is None:
        future.set_result(results[0])
    else:
        future.set_exception(error)
