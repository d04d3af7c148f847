"""The place where a task waits: the lines of the coroutines that await one another, from its own to the innermost."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class AwaitLine(NamedTuple):
    """A line that awaits."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def places(task: asyncio.Task[Any]) -> list[AwaitLine]:
    """The lines of a task that is suspended, the outermost first; none for one that is over."""
    return [
        AwaitLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)
        for frame in _frames(task.get_coro())
    ]


def asleep_for(task: asyncio.Task[Any]) -> float:
    """The real seconds for which a task is still suspended in asyncio.sleep, anyio's included; 0 where it is not."""
    frames = list(_frames(task.get_coro()))
    if not frames or frames[-1].f_code is not asyncio.sleep.__code__:
        return 0.0
    timer = frames[-1].f_locals.get("h")
    return 0.0 if timer is None else float(timer.when() - task.get_loop().time())


def outside_of(folders: tuple[str, ...], found: list[AwaitLine]) -> AwaitLine | None:
    """The innermost of these lines that is not in one of the folders: where a program waits, not what it waits in."""
    own = [place for place in found if not place.file.startswith(folders)]
    return own[-1] if own else None


def thread_place(ident: int) -> AwaitLine | None:
    """The line that a thread is at."""
    frame = sys._current_frames().get(ident)
    return None if frame is None else AwaitLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)


def _frames(awaited: Any) -> Iterator[FrameType]:
    """The frames of coroutines and generators that await one another."""
    while awaited is not None:
        for frame, inner in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await")):
            if hasattr(awaited, frame):
                if (found := getattr(awaited, frame)) is not None:
                    yield found
                awaited = getattr(awaited, inner)
                break
        else:
            return
