"""The lifetime of apps and monitors: between entering and leaving their context, in one task group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

import anyio

from broker.life import Life
from broker.mqi import MQError
from broker.unclosed import caller

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from anyio.abc import TaskStatus


class Lifetime:
    """A context that is entered once, and ends when it is left or when the queue manager ends it.

    A kind of it has `_run`, its own task, which says `task_status.started()` when it has begun and sets `ended` at its
    quiet end; and `_stop`, after which `_run` begins nothing more.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._ended = asyncio.Event()
        self._life = Life(name, self._live_through, caller(2))

    async def wait(self) -> None:
        """Return when the monitor has ended, with its queue manager; an error cancels the waiting body instead."""
        await self._ended.wait()

    async def __aenter__(self) -> Self:
        """Connect and begin. Raises MQError when connecting fails; RuntimeError when the monitor was entered before."""
        if self._life.began:
            raise RuntimeError(f"a {self._name} is entered once: make another")
        try:
            await self._life.begin(hosted=True)
        except BaseExceptionGroup as group:
            raise _lone(group) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        await leave(self._life, error, _lone)

    async def _live_through(self, life: Life) -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._run, name=self._name)
            try:
                error = await life.until_left(tasks.cancel_scope)
            finally:
                self._stop()  # where nobody has left it
            if not isinstance(error, asyncio.CancelledError):  # else the leaving task waits for nothing that runs
                await self._ended.wait()
            if error is not None:
                tasks.cancel_scope.cancel()

    async def _run(self, *, task_status: TaskStatus[None]) -> None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError


async def leave(
    life: Life, error: BaseException | None, lone: Callable[[BaseExceptionGroup[BaseException]], BaseException]
) -> None:
    """End a life whose block is left with `error`. What has failed in it is raised, with that error where it is none of
    a cancellation; `lone` makes one exception of a group where it can.
    """
    try:
        await life.end(error)
    except BaseExceptionGroup as group:
        if error is None or isinstance(error, asyncio.CancelledError):
            raise lone(group) from None
        raise lone(group.derive([error, *group.exceptions])) from None


def check_least(least: int, **settings: float) -> None:
    """Raise ValueError for a setting that is less than it may be."""
    for name, value in settings.items():
        if not value >= least:
            raise ValueError(f"{name}={value}: must be at least {least}")


def _lone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception of a group that has only one: the monitor's task group is nobody else's business."""
    return group.exceptions[0] if len(group.exceptions) == 1 else group


def lone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception of a group that has only one, or only MQErrors: a lost connection ends all services alike."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        reported = found.exceptions
        if len(reported) > 1 and not all(isinstance(each, MQError) for each in reported):
            return found
        found = reported[0]
    return found
