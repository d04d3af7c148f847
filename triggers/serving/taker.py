"""The task that takes deliveries, which tells who ends the event loop under it (handlers rules 1.1, 1.4 and 9.1).

A stop from outside cancels what serves, and charges nobody. But a handler may do the same to its process: cancel all
tasks, stop the loop, or let SystemExit out of a task of its own. The queue manager would hand out its message again at
the next start, and so for ever. Among all tasks is this one, and its `cancel` is called in the step in which that
happens:

- in the context of a handler, or of its thread: it was that handler, and its attempt has failed;
- while no loop runs, since that was stopped or left by SystemExit: it was one of those that run, and it is not known
  which. That is the end of a worker as any crash is.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from triggers.serving.run import current

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from triggers.serving.run import Run

_STOPPED = "Event loop stopped before Future completed"


class TakeTask(asyncio.Task[None]):
    """`by_handler` is notified which handler has cancelled it, `by_end_of_loop` that the loop was ended."""

    def __init__(
        self,
        taking: Coroutine[Any, Any, None],
        *,
        loop: asyncio.AbstractEventLoop,
        name: str,
        by_handler: Callable[[Run], None],
        by_end_of_loop: Callable[[], None],
    ) -> None:
        super().__init__(taking, loop=loop, name=name)
        self._by_handler = by_handler
        self._by_end_of_loop = by_end_of_loop

    def cancel(self, msg: Any = None) -> bool:
        """Cancel it, and find out on whose behalf."""
        if not self.done():
            run, running = current.get(), asyncio._get_running_loop()
            if run is not None and running is self.get_loop():
                self._by_handler(run)
            elif run is not None:  # in its thread
                self.get_loop().call_soon_threadsafe(self._by_handler, run)
            elif running is None and _loop_was_ended(sys.exc_info()[1]):
                self._by_end_of_loop()
        return super().cancel(msg)


def _loop_was_ended(error: BaseException | None) -> bool:
    """True if whoever runs the loop to its end now does so because that was stopped, or left by SystemExit."""
    return isinstance(error, SystemExit) or (isinstance(error, RuntimeError) and _STOPPED in str(error))
