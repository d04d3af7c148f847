"""What monitors have in common: a life between entering and leaving their context, in one task group."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import anyio

if TYPE_CHECKING:
    from types import TracebackType

    from anyio.abc import TaskStatus


class Lifetime:
    """A context that is entered once, and ends when it is left or when the queue manager ends it.

    A kind of it has `_run`, its own task, which says `task_status.started()` when it has begun and sets `ended` at its
    quiet end; and `_stop`, after which `_run` begins nothing more.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._entered = False
        self._ended = asyncio.Event()
        self._exit = AsyncExitStack()

    async def wait(self) -> None:
        """Return when the monitor has ended, with its queue manager; an error cancels the waiting body instead."""
        await self._ended.wait()

    async def __aenter__(self) -> Self:
        """Connect and begin. Raises MQError when connecting fails; RuntimeError when the monitor was entered before."""
        if self._entered:
            raise RuntimeError(f"a {self._name} is entered once: make another")
        self._entered = True
        try:
            async with AsyncExitStack() as stack:
                tasks = await stack.enter_async_context(anyio.create_task_group())
                await tasks.start(self._run, name=self._name)
                stack.push_async_exit(self._leave)
                self._exit = stack.pop_all()
        except BaseExceptionGroup as group:
            raise _lone(group) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self._exit.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            lone = _lone(group)
            if lone is error:
                return False
            raise lone from None

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and unless the leaving task is cancelled, wait for what runs."""
        self._stop()
        if not isinstance(error, asyncio.CancelledError):
            await self._ended.wait()

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError


def check_least(least: int, **settings: float) -> None:
    """Raise ValueError for a setting that is less than it may be."""
    for name, value in settings.items():
        if not value >= least:
            raise ValueError(f"{name}={value}: must be at least {least}")


def _lone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception of a group that has only one: the monitor's task group is nobody else's business."""
    return group.exceptions[0] if len(group.exceptions) == 1 else group
