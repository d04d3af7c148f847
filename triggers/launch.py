"""One started handler, from its start to its end.

It has a task and a connection of its own. When the function returns, the connection ends cleanly, which commits what
is open; when it raises, the unit of work is backed out and the failure is logged.

What becomes of the start is decided here. A handler that has ended, in either way, is done with it. One that the
monitor had to cancel, or that never got its connection, is not: such a start is given back when the monitor leaves, so
that another monitor, or this one after a restart, starts it again.
"""

from __future__ import annotations

import logging
import math
from asyncio import CancelledError
from typing import TYPE_CHECKING, Final

import anyio

from broker.mqi import MQError
from triggers.connections import ENDED, connected

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from broker import Clock, Connection, TriggerStart
    from triggers.capacity import Capacity
    from triggers.connections import Manager
    from triggers.process import HandlerFunction

logger = logging.getLogger(__name__)

RETRY_MIN: Final = 0.1
"""Seconds until a handler that got no connection asks again; doubled each time."""

RETRY_MAX: Final = 5.0


class Launcher:
    """Starts handlers in a task group, and counts them.

    `freed` is called when one has ended, `lost` when it turns out that there are no more connections.
    """

    def __init__(
        self,
        source: Manager | Connection,
        capacity: Capacity,
        clock: Clock,
        *,
        freed: Callable[[], None],
        lost: Callable[[MQError], None],
    ) -> None:
        self.started = 0
        self.failed = 0
        self._source = source
        self._capacity = capacity
        self._clock = clock
        self._freed = freed
        self._lost = lost

    def launch(self, tasks: TaskGroup, start: TriggerStart, handler: HandlerFunction, generation: int) -> None:
        """Start a handler, whose place is occupied already."""
        self.started += 1
        tasks.start_soon(self._run, start, handler, generation, name=f"trigger:{start.trigger.q_name}:{self.started}")

    async def _run(self, start: TriggerStart, handler: HandlerFunction, generation: int) -> None:
        try:
            if await self._serve(start, handler):
                start.done()
        except CancelledError:
            if stopped():
                raise
            self._fail(start, generation)  # it awaited something that was cancelled, which is an error like others
        except (Exception, SystemExit):  # a handler can end itself, but not the program that it is a guest of
            self._fail(start, generation)
        finally:
            self._capacity.release(start.trigger.q_name)
            self._freed()

    async def _serve(self, start: TriggerStart, handler: HandlerFunction) -> bool:
        """Run the handler; false when it never began."""
        connection = await self._connection(start)
        if connection is None:
            return False
        async with connection:
            await handler(start.trigger, connection)
        return True

    async def _connection(self, start: TriggerStart) -> Connection | None:
        """A connection for the handler, as soon as there is one; None when there will be none."""
        delay = RETRY_MIN
        while True:
            try:
                return await connected(self._source, start.trigger.process_name)
            except MQError as error:
                if error.reason in ENDED:
                    self._lost(error)
                    return None
                logger.warning(
                    "trigger handler waits %.1f s for a connection: queue=%s process=%s reason=%s",
                    delay, start.trigger.q_name, start.trigger.process_name, error,
                )  # fmt: skip
            await self._clock.sleep(delay)
            delay = min(2 * delay, RETRY_MAX)

    def _fail(self, start: TriggerStart, generation: int) -> None:
        self.failed += 1
        logger.exception(
            "trigger handler failed, its unit of work is backed out: queue=%s generation=%d trigger=%r",
            start.trigger.q_name, generation, start.trigger,
        )  # fmt: skip
        if not stopped():
            start.done()


def stopped() -> bool:
    """Whether the calling task has been cancelled by the monitor, or with it."""
    return anyio.current_effective_deadline() == -math.inf
