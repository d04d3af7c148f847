"""The attempt to handle a delivery, for handlers that ask for it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from triggers.serving.run import Run

P = ParamSpec("P")
T = TypeVar("T")

_NO_ID: Final = bytes(24)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt that this call of a handler is.

    `number` counts from 1: it is the BackoutCount of the message, of a batch its first, plus one. `limit` is the number
    of the last attempt, 0 where there is none. `waited` is for how many seconds the message could have been had.
    `q_name` is its queue.
    """

    number: int
    limit: int
    waited: float
    q_name: str
    _run: Run | None = field(default=None, repr=False, compare=False)

    @property
    def last(self) -> bool:
        """True if a failure makes a dead letter."""
        return 0 < self.limit <= self.number

    @property
    def msg_id(self) -> bytes:
        """The MsgId of the message, of a batch its first: the same at every attempt, and after a replay. 24 bytes, all
        zero in an attempt that a test has made itself.
        """
        return _NO_ID if self._run is None else self._run.messages[0].md.msg_id

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """`receipt = await attempt.step("charge", charge, order)` calls the function, keeps what it returns with the
        message, durably, and returns it. A later attempt, by any worker, is given what was kept, and does not call it.

        The function is a coroutine function, or another, which runs in a thread. What it returns has a JSON form; it is
        read back by the annotation of its return, the first time too. A second call of a name in one attempt is
        `name#2`, counted at the call. A function that raises is not kept. Puts of the app in it are in no unit of work.
        In the thread of a handler that is a plain `def` it blocks, and is done when it returns, without `await`;
        `attempt.sync` has the same for type checkers.

        Raises RuntimeError in a handler of batches or groups; ValueError for a name that is none, a value that is too
        long, a step too many; TypeError for a value without a JSON form; StepError for a kept value that the
        annotation cannot read; MQError: HCONN_ERROR (2018) once the outcome is decided, OPTION_NOT_VALID_FOR_TYPE
        (2045) on a shared queue, RESOURCE_PROBLEM (2102) beyond `[limits] steps_bytes`, STORAGE_MEDIUM_FULL (2192).
        """
        from triggers.serving import steps  # an attempt without any loads nothing

        return steps.step(self._run, sys._getframe(1), name, function, args, kwargs)

    @property
    def sync(self) -> SyncAttempt:
        """The calls of the attempt, blocking, for the thread of a handler that is a plain `def`."""
        return SyncAttempt(self._run)


class SyncAttempt:
    """The blocking face of an attempt: `receipt = attempt.sync.step("charge", charge, order)`."""

    __slots__ = ("_run",)

    def __init__(self, run: Run | None) -> None:
        self._run = run

    @overload
    def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As `Attempt.step`; RuntimeError but in the thread of a handler that is a plain `def`."""
        from triggers.serving import steps

        return steps.blocking_step(self._run, name, function, args, kwargs)
