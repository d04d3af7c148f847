"""A life: what runs between entering and leaving an object, in a task of its own.

A task group belongs to the task that has entered it. Where that is the task of a program, the program must leave it
there, and in the reverse order of entering: a fixture of pytest-asyncio and a cell of a notebook cannot. So the task
that enters and leaves the task group is the life's own. Who enters or leaves the object only tells it, and waits.

1. Whoever enters with `async with` is the *host*. When the life ends early, because one of its tasks has failed, the
   host is cancelled, and what has failed is raised where its block is left.
2. A life without a host, which was begun by `await`, ends alone. What has failed is logged, and raised by `close`.
3. A cancellation of whoever leaves hurries the end, and never breaks it off.
4. A life that its event loop ends, because the program has, warns with the line where the object was opened.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from weakref import finalize

from anyio import CancelScope

from broker.clock import asyncio_loop
from broker.unclosed import warn_unclosed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from broker.unclosed import SourceLine

logger = logging.getLogger(__name__)


class Life:
    """The life of one object, `name` for people. `live` is the whole of it: a function that begins what there is,
    awaits `until_left`, and ends it. `opened_at` is the line of the program that has made the object.
    """

    def __init__(self, name: str, live: Callable[[Life], Coroutine[Any, Any, None]], opened_at: SourceLine) -> None:
        self.name = name
        self.opened_at = opened_at
        self._live = live
        self._task: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[None]
        self._left: asyncio.Future[BaseException | None]
        self._host: asyncio.Task[Any] | None = None
        self._woke_host = False
        self._alone = False  # it ends early, and nobody is inside
        self._scope: CancelScope  # of the life while it begins, then that of its tasks
        self._error: BaseException | None = None

    @property
    def began(self) -> bool:
        """True if it has begun; it may be over."""
        return self._task is not None

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return self._task is not None and self._task.done()

    @property
    def ended_alone(self) -> bool:
        """True if it ends, or has ended, before anybody has left it, and has no host to tell."""
        return self._alone

    # For those who enter and leave

    async def begin(self, *, hosted: bool) -> None:
        """Begin, and return when `until_left` is reached. Raises what `live` raises before; RuntimeError where it has
        ended, or was begun and this is no second entering of what was awaited, or where no event loop of asyncio runs.
        """
        loop = asyncio_loop()
        host = asyncio.current_task() if hosted else None
        if self._task is not None:
            self._adopted_by(host)
            return
        self._begun, self._left, self._host = loop.create_future(), loop.create_future(), host
        self._scope = CancelScope()
        self._task = loop.create_task(self._run(), name=self.name)
        self._unclosed = finalize(self, warn_unclosed, self.name, self.opened_at, None)  # also when the process ends
        try:
            await asyncio.wait((self._task, self._begun), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as cancelled:
            self._scope.cancel()
            await self.end(cancelled)
            raise
        if self._task.done():
            self._raise()

    def _adopted_by(self, host: asyncio.Task[Any] | None) -> None:
        """Enter what was awaited: from now on there is a block to leave."""
        if self.over or self._left.done():
            raise RuntimeError(f"{self.name} has ended: open another")
        if self._host is not None or host is None:
            raise RuntimeError(f"{self.name} is open already, since {self.opened_at.file}:{self.opened_at.line}")
        self._host = host

    def check_loop(self) -> None:
        """Raise RuntimeError where it lives on another event loop."""
        task = self._task
        if task is not None and not task.done() and task.get_loop() is not asyncio.get_running_loop():
            raise RuntimeError(f"{self.name} was opened on another event loop: close it there")

    async def end(self, error: BaseException | None = None) -> None:
        """Leave, and return when it is over; `error` is what leaves the block. Harmless when it is over, or was never
        begun. Raises what has failed in it, once.
        """
        task = self._task
        if task is None:
            return
        self.check_loop()
        if not self._left.done():
            self._left.set_result(error)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                with CancelScope(shield=cancelled is not None):
                    await asyncio.wait((task,))
            except asyncio.CancelledError as each:
                cancelled = each
                self._scope.cancel()
        self._raise()
        if cancelled is not None:
            raise cancelled

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is None:
            return
        host = self._host
        if self._woke_host and host is not None and asyncio.current_task() is host:
            host.uncancel()
        try:
            raise error
        finally:
            del error  # or its traceback would keep this frame, and this frame the error

    # For the life itself

    async def until_left(self, scope: CancelScope) -> BaseException | None:
        """The life has begun: return when it is left, with the exception that left the block, if one did. `scope` is
        that of its tasks, whose cancellation hurries its end. Raises CancelledError where it has to end early.
        """
        self._scope = scope
        self._begun.set_result(None)
        try:
            await asyncio.wait((self._left,))
        except asyncio.CancelledError:
            await self._end_early(failed=scope.cancel_called)
            raise
        return self._left.result()

    async def _end_early(self, *, failed: bool) -> None:
        """One of its tasks has failed, or its event loop ends: let the host leave first, if there is one."""
        host = self._host
        if self._left.done():
            return
        if host is None or host.done():
            self._alone = True
            if not failed:
                self._warn()
            return
        if failed or not host.cancelling():
            self._woke_host = True
            host.cancel()
        with CancelScope(shield=True):
            while not (self._left.done() or host.done()):
                try:
                    await asyncio.wait((self._left, host), return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    continue  # the host is cancelled too

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._live(self)
        except asyncio.CancelledError:
            pass  # its event loop ends
        except BaseException as error:
            self._error = error
            if self._alone:
                logger.error("%s has ended: %s", self.name, error, exc_info=error, extra={"event": "ended_by_error"})
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._unclosed.detach()

    def _warn(self) -> None:
        try:
            warn_unclosed(self.name, self.opened_at, None)
        except ResourceWarning as notice:  # warnings are errors: it ends in order all the same
            asyncio.get_running_loop().call_exception_handler({"message": str(notice), "exception": notice})
