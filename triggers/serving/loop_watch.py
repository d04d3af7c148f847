"""Names handlers that hold the event loop (handlers rule 13.2).

A coroutine that computes, or calls what blocks, lets nothing else run: no other handler, no settlement, no heartbeat of
its connection. The loop is watched while handlers run. When it has not come round for `HELD`, the watch looks up whose
step is being run and at which line, and says so, for each handler once in `INTERVAL`. The steps themselves are not
timed: a handler costs nothing more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.loop_watch import LoopWatch

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import FrameType

logger = logging.getLogger(__name__)

HELD: Final = 0.1
"""Seconds that a handler may hold the loop."""

INTERVAL: Final = 60.0
"""Seconds between two records about one handler."""

_LOOK: Final = HELD / 4


class HandlerWatch(LoopWatch):
    """Watches the running event loop while handlers run. `whose` tells which handler a task runs."""

    def __init__(self, whose: Callable[[asyncio.Task[object]], str | None]) -> None:
        super().__init__(_LOOK, self._name)
        self._whose = whose
        self._named: dict[str, float] = {}

    def _name(self, asked: float, now: float) -> None:
        """Name the handler that holds the loop, if one does."""
        if now - asked <= HELD:
            return
        task, frame = self.inside()
        handler = None if task is None else self._whose(task)
        if handler is None or now - self._named.get(handler, -INTERVAL) < INTERVAL:
            return
        self._named[handler] = now
        logger.warning(
            "a handler holds the event loop, nothing else runs meanwhile: handler=%s held_s=%.2f at=%s; "
            "await what it waits for, or make it a plain function, which runs in a thread",
            handler, now - asked, where(frame), extra={"event": "handler_holds_loop"},
        )  # fmt: skip


def where(frame: FrameType | None) -> str:
    """The line that a frame is at, as `file:line in function`."""
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
