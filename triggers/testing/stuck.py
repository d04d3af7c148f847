"""Handlers that come to no end: who they are, and where each waits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

import broker
from triggers.testing.waits import AwaitLine, outside_of, places

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType

    from triggers.serving.run import Run


def _folder(module: Any) -> str:
    return str(Path(module.__file__).parent)


_NOT_OF_THE_PROGRAM: Final = (
    _folder(asyncio), _folder(anyio), _folder(broker), str(Path(__file__).parents[1]), "<frozen",
)  # fmt: skip
"""Folders of what a program waits in."""


class NoProgressError(Exception):
    """Handlers run, nothing goes on, and time stands. The text says which they are and where each of them waits."""


def where_they_wait(runs: Iterable[Run]) -> list[str]:
    """A line for each handler that runs."""
    return sorted(f"{run.server.handler.name}, {_state(run)}" for run in runs)


def no_progress(runs: Iterable[Run], seconds: float) -> NoProgressError:
    """The error of a test whose handlers come to no end."""
    lines = "".join(f"\n  {line}" for line in where_they_wait(runs))
    running = f"These handlers run:{lines}" if lines else "Of the worker no handler runs"
    return NoProgressError(f"nothing has gone on for {seconds:g} seconds; `advance` lets time pass. {running}")


def _state(run: Run) -> str:
    attempt = f"attempt {run.delivered.attempt} of a message of {run.server.handler.q_name}"
    if run.server.handler.threaded:
        return f"{attempt}: {_of_thread(run)}"
    place = outside_of(_NOT_OF_THE_PROGRAM, places(run.task)) if run.task is not None else None
    return f"{attempt}: waits at {place}" if place is not None else f"{attempt}: waits"


def _of_thread(run: Run) -> str:
    code = getattr(run.server.handler.function, "__code__", None)
    for frame in sys._current_frames().values():
        outer: FrameType | None = frame
        while outer is not None:
            if outer.f_code is code:
                return f"in a thread at {AwaitLine(outer.f_code.co_filename, outer.f_lineno, outer.f_code.co_qualname)}"
            outer = outer.f_back
    return "in a thread"
