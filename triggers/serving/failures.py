"""Failures of handlers, as they are kept with a message: the exception, and where it was raised or a task waits.

Their tracebacks begin at the handler. The frames of this package, which call it, are left out.
"""

from __future__ import annotations

import gc
import traceback
from inspect import iscoroutine
from itertools import dropwhile
from typing import TYPE_CHECKING, Any, Final

from broker.mqi import MQRC, Failure, MQError, Outcome, text_of, traceback_of

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Mapping
    from types import FrameType

ERROR_BYTES: Final = 1024
"""The bytes of an exception's text that are kept with the message."""

_PACKAGE: Final = __name__.partition(".")[0]


def failure_of(error: BaseException, traceback_bytes: int) -> Failure:
    """Return the part of an exception that is kept with a message: its type, its text, the end of its traceback."""
    text = ""
    if traceback_bytes:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None and _is_own(trace.tb_frame):
            trace = trace.tb_next
        text = traceback_of(error, traceback_bytes, trace)
    return Failure(type(error).__name__, text_of(error, ERROR_BYTES), text)


def waits_at(task: Task[None]) -> str:
    """Return where a task waits as a traceback: the handler, and what it awaits, down to what is not a coroutine."""
    frames = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None)
        if frame is not None:
            frames.append((frame, frame.f_lineno))
            awaited = awaited.cr_await
        else:  # an `__await__` stands between, such as that of a watched call
            awaited = next(filter(iscoroutine, gc.get_referents(awaited)), None)
    theirs = dropwhile(lambda each: _is_own(each[0]), frames)
    return "".join(traceback.StackSummary.extract(theirs).format())


def _is_own(frame: FrameType) -> bool:
    """True if this package calls the handler here, with middleware round it or without."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE


def ended(q_name: str, outcome: int) -> MQError:
    """HCONN_ERROR (2018) for a call of a handler whose delivery has ended so."""
    return MQError(MQRC.HCONN_ERROR, f"this delivery of {q_name} has ended: {_ENDS[outcome]}")


_ENDS: Final[Mapping[int, str]] = {
    Outcome.DONE: "its handler has returned",
    Outcome.FAILED: "it has failed",
    Outcome.REJECTED: "it has failed for good",
    Outcome.UNREADABLE: "nobody could read it",
    Outcome.LATER: "it comes later",
    Outcome.RETURNED: "the worker stops, or has lost its connection",
}
