"""The watch over the daemon: it notices when its event loop does not answer, and when the daemon does not end.

Handlers run in the daemon, on its event loop, and they are the user's code. One that blocks the loop keeps everybody
waiting: it is named in the log. One that goes on although it was cancelled keeps the daemon from ending: when its time
is up it is named in the log, and the process ends without it. Nothing that was acknowledged is lost by that: the store
is left as by a power failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.clock import Clock
from broker.loop_watch import LoopWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

logger = logging.getLogger(__name__)

GAVE_UP: Final = 20
"""The exit code of a daemon that could not end in order."""

BLOCKED_SECONDS: Final = 0.5
"""A loop that has not answered for so long is blocked."""

_POLL_SECONDS: Final = 0.1

_PACKAGES: Final = Path(__file__).parents[2]
_NOT_USERS: Final = tuple(
    f"{path}{os.sep}"
    for path in (
        _PACKAGES / "broker",
        _PACKAGES / "triggers",
        Path(anyio.__file__).parent,
        Path(asyncio.__file__).parent,
    )
)
_IMPORTING: Final = "<frozen importlib"
_EXAMPLES: Final = f"{_PACKAGES / 'broker' / 'cli' / 'demo'}{os.sep}"


def _exit() -> None:
    logging.shutdown()
    os._exit(GAVE_UP)


class DaemonWatch:
    """The watch over the event loop of the thread that calls `start`, until `stop`. Before that it is a watch in name.

    `give_up` is called, in the watching thread, when the process has to end.
    """

    def __init__(self, *, give_up: Callable[[], object] = _exit) -> None:
        self._give_up = give_up
        self._clock = Clock()
        self._deadline: float | None = None
        self._order = ""
        self._watch: LoopWatch
        self._started = False
        self._reported_at = 0.0

    def start(self) -> None:
        """Watch the event loop that runs in the calling thread."""
        self._watch = LoopWatch(_POLL_SECONDS, self._held, self._check_deadline)
        self._started = True
        self._watch.began()

    def stop(self) -> None:
        """Watch no longer. Harmless when it never did."""
        if self._started:
            self._watch.stop()

    def end_within(self, seconds: float) -> None:
        """Give the code that runs now so many seconds to end, or fewer if a limit is set already."""
        deadline = self._clock.monotonic() + seconds
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)

    def end_now(self, why: str) -> None:
        """The process has to end, for this reason. This may be called where a signal has interrupted anything: it takes
        no lock.
        """
        self._order = why

    def has_ended(self) -> None:
        """It has ended in time."""
        self._deadline = None

    # In the watching thread

    def _held(self, asked: float, now: float) -> None:
        """Name the user's code that the loop waits for, once each time that it is held. If it is none of the user's,
        there is nothing to tell a user.
        """
        if asked == self._reported_at or now - asked < BLOCKED_SECONDS:
            return
        self._reported_at = asked
        task, _ = self._watch.inside()
        reported = _reported(task, self._frames(task)) if task is not None else ""
        if reported:
            fields = {"event": "loop_blocked", "seconds": BLOCKED_SECONDS, "by": reported}
            logger.warning(
                "the event loop is blocked, nobody is served for %.1f s by now: %s",
                BLOCKED_SECONDS,
                reported,
                extra=fields,
            )

    def _check_deadline(self) -> None:
        if self._order:
            logger.error("%s", self._order, extra={"event": "ends_at_once"})
            self._order = ""
            self._give_up()
        if self._deadline is None or self._clock.monotonic() < self._deadline:
            return
        self._deadline = None
        reported = filter(None, (_reported(task, self._frames(task)) for task in asyncio.all_tasks(self._watch.loop)))
        logger.error(
            "the daemon ends without what did not end in time: %s",
            "; ".join(reported) or "none of the user's",
            extra={"event": "end_given_up"},
        )
        self._give_up()

    def _frames(self, task: asyncio.Task[Any]) -> Iterator[FrameType]:
        """The frames of a task, outermost first."""
        running, frame = self._watch.inside()
        return _running_frames(task, frame) if task is running else _suspended_frames(task)


def _reported(task: asyncio.Task[Any], frames: Iterator[FrameType]) -> str:
    """A task for people, with where it is in the user's code; empty when there is none in it."""
    users = list(_users_frames(frames))
    if not users:
        return ""
    function, *_ = users
    places = " > ".join(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" for frame in users)
    name = f"{function.f_globals.get('__name__', '')}:{function.f_code.co_qualname}"
    return f"task={task.get_name()} handler={name} file={function.f_code.co_filename} at={places}"


def _users_frames(frames: Iterator[FrameType]) -> Iterator[FrameType]:
    """Yield the frames of the user's code, outermost first. What an `import` statement of ours loads is none of it; the
    modules of handlers are, which `import_module` loads.
    """
    ours = False
    for frame in frames:
        name = frame.f_code.co_filename
        if name.startswith(_IMPORTING):
            if ours:
                return
        elif name == importlib.__file__:
            ours = False
        elif _is_users(frame):
            ours = False
            yield frame
        else:
            ours = True


def _is_users(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith(_EXAMPLES) or not (name.startswith(_NOT_USERS) or name == contextlib.__file__)


def _running_frames(task: asyncio.Task[Any], innermost: FrameType | None) -> Iterator[FrameType]:
    """The frames of the task that runs in a thread, outermost first, of the innermost one of the thread."""
    outermost = getattr(task.get_coro(), "cr_frame", None)
    frames = []
    frame = innermost
    while frame is not None:
        frames.append(frame)
        if frame is outermost:
            yield from reversed(frames)
            return
        frame = frame.f_back


def _suspended_frames(task: asyncio.Task[Any]) -> Iterator[FrameType]:
    """The frames of a task that waits, outermost first, as far as they are coroutines or generators."""
    step: Any = task.get_coro()
    while step is not None:
        frame = getattr(step, "cr_frame", None) or getattr(step, "gi_frame", None)
        if frame is not None:
            yield frame
        step = getattr(step, "cr_await", None) or getattr(step, "gi_yieldfrom", None)
