"""A portal: runs coroutines on an event loop for threads, which wait for them.

1. A call that a thread has made takes effect on the loop, in the context of the thread: so a put is in the unit of work
   that the thread is inside.
2. On the thread of the loop a call would wait for itself: it is refused.
3. A thread never waits for what cannot come. `end` ends the calls under way, in whatever state the loop is, and a loop
   that is closed is noticed within `LOOK` seconds.
4. A thread that is interrupted while it waits (KeyboardInterrupt) cancels its call: a get that waits gets no message.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.clock import asyncio_loop
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from concurrent.futures import Future
    from contextvars import ContextVar

    from anyio.abc import TaskGroup

T = TypeVar("T")

running_loop: Final = asyncio._get_running_loop
"""The event loop that runs in this thread, or None."""

LOOK: Final = 1.0
"""Seconds between two looks of a thread that waits at whether the event loop is still there."""


def _sniffed() -> ContextVar[Any] | None:
    """The variable in which sniffio is told of an event loop; None where it is not installed."""
    try:
        import sniffio
    except ImportError:
        return None
    library: ContextVar[Any] = sniffio.current_async_library_cvar
    return library


_library: Final = _sniffed()


def start_task(tasks: TaskGroup, name: str, work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
    """Start a task in a task group of this loop, also in a callback: there sniffio, which AnyIO asks where it is
    installed, knows no loop unless it has been told of one.
    """
    if _library is None:
        tasks.start_soon(work, *arguments, name=name)
        return
    told = _library.set("asyncio")
    try:
        tasks.start_soon(work, *arguments, name=name)
    finally:
        _library.reset(told)


class _Thread(threading.local):
    portal: Portal | None = None


_this_thread: Final = _Thread()


class Portal:
    """Runs coroutines on the event loop in whose thread it was made, for other threads.

    `check` is called before each call and raises what refuses it. With `awaitable`, for the threads of handlers, the
    calls of what is reached by it are coroutines wherever an event loop runs: `anyio.from_thread.run(queue.get)`.
    """

    def __init__(self, check: Callable[[], None] | None = None, *, awaitable: bool = False) -> None:
        self.loop = asyncio_loop()
        self._loop_thread = get_ident()
        self._check = check
        self.awaitable = awaitable
        self._open: set[Future[Any]] = set()

    @property
    def gives_coroutines(self) -> bool:
        """True if a call that is made here and now is a coroutine to await."""
        return self.awaitable and running_loop() is not None

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop, and wait for what it returns or raises.

        Raises RuntimeError on the thread of the event loop, MQError CONNECTION_BROKEN (2009) when the loop has ended,
        or what `check` raises. The coroutine is closed then.
        """
        if get_ident() == self._loop_thread:
            coroutine.close()
            raise RuntimeError(
                "a blocking call on the thread of the event loop would wait for itself for ever: await the call of the "
                "async interface here (await app.put(...), await queue.get()), or make this one in another thread, "
                "await asyncio.to_thread(function)"
            )
        future = self._submit(coroutine)
        try:
            return self._wait(future)
        except BaseException:
            future.cancel()
            raise

    def across(self, coroutine: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return an awaitable, for any event loop, of a coroutine that is to run on the event loop of the portal."""
        if running_loop() is self.loop:
            return coroutine
        return asyncio.wrap_future(self._submit(coroutine))

    def end(self) -> None:
        """End the calls under way; `check` refuses new ones from now on."""
        for future in list(self._open):
            future.cancel()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be the portal of this thread (`portal_here`) meanwhile."""
        before, _this_thread.portal = _this_thread.portal, self
        try:
            yield
        finally:
            _this_thread.portal = before

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            self._refuse()
            future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError:
            coroutine.close()
            raise self._loop_ended() from None
        except BaseException:
            coroutine.close()
            raise
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        try:
            self._refuse()  # who ends it has seen this call, or this call sees that it has ended
        except BaseException:
            future.cancel()
            raise
        return future

    def _wait(self, future: Future[T]) -> T:
        while not future.done():
            try:
                future.exception(LOOK)
            except TimeoutError:  # nothing has come yet; what the coroutine raises is not raised here
                if self.loop.is_closed() and not future.done():
                    raise self._loop_ended() from None
            except CancelledError:
                break
        try:
            return future.result()
        except CancelledError:
            self._refuse()
            raise self._loop_ended() from None

    def _refuse(self) -> None:
        if self._check is not None:
            self._check()

    def _loop_ended(self) -> MQError:
        return MQError(MQRC.CONNECTION_BROKEN, "the event loop on which this call was to be done has ended")


def portal_here() -> Portal | None:
    """The portal of this thread, if a handler runs in it and it runs no event loop: a call blocks here."""
    portal = _this_thread.portal
    return portal if portal is not None and running_loop() is None else None


def check_loop(own: asyncio.AbstractEventLoop, used: asyncio.AbstractEventLoop | None, whose: str) -> None:
    """Raises RuntimeError where a call of the asynchronous interface is made on another event loop than that of what it
    is made of: nothing would ever wake it.
    """
    if used is not None and used is not own:
        raise RuntimeError(
            f"{whose} is of another event loop: asyncio.run_coroutine_threadsafe(coroutine, loop).result() makes this "
            "call there from a thread; the blocking interface does so by itself, manager.sync() and "
            "broker.connect_sync(url)"
        )
