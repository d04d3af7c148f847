"""A thread for one transaction of a threaded database: what is run in it runs there one after the other."""

from __future__ import annotations

import asyncio
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio import CapacityLimiter

T = TypeVar("T")


class OwnThread:
    """A thread, from the first `run` until `end`. It has the context of who makes it."""

    def __init__(self, limiter: CapacityLimiter) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        self._task = asyncio.ensure_future(
            anyio.to_thread.run_sync(self._work, abandon_on_cancel=True, limiter=limiter)
        )

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run a function in the thread, behind what runs there. A future that nobody waits for any more changes
        nothing: the function runs all the same.
        """
        done: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((function, done))
        return done

    async def end(self) -> None:
        """Let the thread go when it has done all, and return then."""
        self._jobs.put(None)
        await asyncio.wait((self._task,))

    def leave(self) -> None:
        """Let the thread go when it has done all, whenever that is."""
        self._jobs.put(None)
        self._task.cancel()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, done = job
            result: Any = None
            failed: BaseException | None = None
            try:
                result = function()
            except BaseException as error:  # SystemExit would leave the task of the thread, and end the event loop
                failed = error
            try:
                self._loop.call_soon_threadsafe(_told, done, result, failed)
            except RuntimeError:  # the loop has ended, and nobody waits
                return
            del function, done, result, failed, job


def _told(done: asyncio.Future[Any], result: Any, failed: BaseException | None) -> None:
    if done.done():
        return
    if failed is None:
        done.set_result(result)
    elif isinstance(failed, StopIteration):
        done.set_exception(RuntimeError("a handler raised StopIteration"))
    else:
        done.set_exception(failed)
