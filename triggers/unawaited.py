"""Calls that must be awaited, and are not: `app.put(...)` without `await` puts nothing.

A coroutine that is dropped before it began is told at ERROR with the line that made it, and in an attempt of a handler
it fails the attempt. In the thread of a handler the same call blocks and is done, so there is nothing to forget.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import weakref
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from broker import portal_here

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import FrameType

P = ParamSpec("P")
R = TypeVar("R")

attempt: ContextVar[Attempted | None] = ContextVar("evermq_attempt", default=None)
"""The attempt of a handler that the code which looks belongs to."""

logger = logging.getLogger(__name__)


class Attempted(Protocol):
    """An attempt of a handler, which fails by what it should have awaited."""

    forgotten: RuntimeError | None


def verb(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Let a coroutine function of an app block in the thread of a handler, and give a coroutine everywhere else."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        made = function(*args, **kwargs)
        portal = portal_here()
        return watched(made, sys._getframe(1), attempt.get()) if portal is None else portal.call(made)

    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(call)
    else:
        call._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return call


def watched(made: Coroutine[Any, Any, R], caller: FrameType, of: Attempted | None) -> Coroutine[Any, Any, R]:
    """A coroutine that awaits another, and tells when it is dropped before it began. `of`: the attempt that fails."""
    watch = _Watch(made, caller, of)
    outer = _awaited(watch, made)
    for name in ("__name__", "__qualname__"):
        setattr(outer, name, getattr(made, name))
    watch.outer = weakref.ref(outer)
    return outer


async def _awaited(watch: _Watch, made: Coroutine[Any, Any, R]) -> R:
    watch.made = None
    return await made


class _Watch:
    """Is gone with the coroutine that it watches."""

    __slots__ = ("_code", "_instruction", "_of", "made", "outer")

    def __init__(self, made: Coroutine[Any, Any, Any], caller: FrameType, of: Attempted | None) -> None:
        self.made: Coroutine[Any, Any, Any] | None = made
        self.outer: weakref.ref[Any] | None = None
        self._code = caller.f_code
        self._instruction = caller.f_lasti
        self._of = of

    def __del__(self) -> None:
        made = self.made
        if made is None:
            return
        made.close()  # so that it is told once
        if self.outer is None or self.outer() is not None:
            return  # a task was cancelled before its first step, or somebody has closed it
        text = (
            f"{getattr(made, '__qualname__', made)}(...) was never awaited and did nothing: await it "
            f"({self._code.co_filename}, line {self._line()}, in {self._code.co_qualname})"
        )
        logger.error("%s", text)
        if self._of is not None:
            self._of.forgotten = RuntimeError(text)

    def _line(self) -> int:
        for start, end, line in self._code.co_lines():
            if start <= self._instruction < end and line is not None:
                return line
        return self._code.co_firstlineno
