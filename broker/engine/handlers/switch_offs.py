"""Triggering that DEPTH has switched off: it is off at once, and its definition is written at once.

A switch-off is a change of a definition like any other, made in its turn: where one is being made just now, it comes
behind that. The unit of work whose put has fired has no part in it. Where the store has no room, it is tried again.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.core.names.definitions import Define
from broker.engine.jobs.awaits import Changed
from broker.engine.jobs.jobs import Job
from broker.interface.port import Call
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from broker.core.queues.message_queue import MessageQueue
    from broker.engine.context import EngineContext

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0


class SwitchOffs:
    """Writes the switch-offs of a queue manager."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context

    def write(self) -> None:
        """Write those that have happened since the last time."""
        queues = self._context.core.triggers.switched_off
        while queues:
            self._begin(queues.pop())

    def _begin(self, queue: MessageQueue) -> None:
        call: Call[int] = Call()
        call.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else asks
        self._context.jobs.start(Job(self._steps(queue), call, _over))

    async def _steps(self, queue: MessageQueue) -> None:
        if queue.deleted or not queue.unwritten_switch_off:
            return
        try:
            await Changed(Define(queue.definition))
        except StoreFullError as full:
            logger.warning("NOTRIGGER not written queue=%s: %s", queue.name, full)
            self._context.clock.call_later(RETRY_SECONDS, partial(self._begin, queue))


def _over() -> None:
    """Nobody waits for it."""
