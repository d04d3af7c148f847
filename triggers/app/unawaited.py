"""Calls that must be awaited, and are not: `app.put(...)` without `await` puts nothing.

A coroutine that is dropped before it began is reported at ERROR with the line that made it, and fails the attempt of a
handler in which it was made. In the thread of a handler the same call blocks and is done: there is nothing to forget.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Coroutine
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from broker import portal_here

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
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
        return Watched(attempt.get(), made, sys._getframe(1)) if portal is None else portal.call(made)

    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(call)
    else:
        call._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return call


class Watched(Coroutine[Any, Any, R]):
    """A coroutine that a program is given in place of another, `made` by the line of this frame: it reports that it
    is dropped before it began. `of`: the attempt that fails by that.
    """

    __slots__ = ("_begun", "_code", "_instruction", "_made", "_of")

    def __init__(self, of: Attempted | None, made: Coroutine[Any, Any, R], caller: FrameType) -> None:
        self._of = of
        self._made = made
        self._code = caller.f_code
        self._instruction = caller.f_lasti
        self._begun = False

    @property
    def __name__(self) -> str:
        """The name that asyncio has for it in what it logs."""
        return str(getattr(self._made, "__qualname__", self._made))

    def __await__(self) -> Generator[Any, Any, R]:
        self._begun = True
        return self._made.__await__()

    def send(self, value: Any) -> Any:
        self._begun = True
        return self._made.send(value)

    def throw(self, *error: Any) -> Any:
        self._begun = True
        return self._made.throw(*error)

    def close(self) -> None:
        self._begun = True
        self._made.close()

    def __del__(self) -> None:
        if self._begun:
            return
        self._made.close()  # so that it is reported once
        text = (
            f"{self.__name__}(...) was never awaited and did nothing: await it "
            f"({self._code.co_filename}, line {self._line()}, in {self._code.co_qualname})"
        )
        logger.error("%s", text, extra={"event": "never_awaited"})
        if self._of is not None:
            self._of.forgotten = RuntimeError(text)

    def _line(self) -> int:
        for start, end, line in self._code.co_lines():
            if start <= self._instruction < end and line is not None:
                return line
        return self._code.co_firstlineno
