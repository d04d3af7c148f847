"""Tasks that work for calls in the database: to begin one costs as much as a good part of a call, so they are kept."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

IDLE_MAX: Final = 32
"""Tasks that are kept without work."""


class CallTasks:
    """The tasks of one member. `start_soon` begins one that the queue manager waits for when it ends."""

    def __init__(self, start_soon: Callable[..., object]) -> None:
        self._start_soon = start_soon
        self._idle: list[Future[Coroutine[Any, Any, None] | None]] = []
        self._stopping = False

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have work done, which nothing cancels."""
        if self._idle:
            self._idle.pop().set_result(work)
        else:
            Context().run(self._start_soon, self._run, work)  # it works for many programs

    def stop(self) -> None:
        """Let those without work end, and the others behind theirs."""
        self._stopping = True
        while self._idle:
            self._idle.pop().set_result(None)

    async def _run(self, first: Coroutine[Any, Any, None]) -> None:
        work: Coroutine[Any, Any, None] | None = first
        with anyio.CancelScope(shield=True):
            while work is not None:
                await work
                if self._stopping or len(self._idle) >= IDLE_MAX:
                    return
                given: Future[Coroutine[Any, Any, None] | None] = get_running_loop().create_future()
                self._idle.append(given)
                work = await given
