"""One started handler, from its start to its end.

It has a task and a connection of its own. When the function returns, the connection ends cleanly, which commits what
is open; when it raises, the unit of work is backed out and the failure is logged. Whatever it raises: KeyboardInterrupt
and SystemExit end the handler too, and not the program that it is a guest of.

What becomes of the start is decided here. A handler that has returned is done with it. The start of one that failed is
held back and tried again (`triggers.monitor.retries`), unless its message has gone to the backout queue
(`triggers.monitor.poison`). A start whose handler the monitor had to cancel, or that never got its connection, is given
back when the monitor leaves: another monitor, or this one after a restart, starts it again.
"""

from __future__ import annotations

import logging
import math
from asyncio import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from broker.mqi import MQError, log_exception
from triggers.monitor.connections import ENDED, connected
from triggers.monitor.poison import PoisonGuard
from triggers.monitor.process import user_of
from triggers.monitor.retries import RETRY_MIN
from triggers.serving.calling import called

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from broker import Clock, Connection, TriggerStart
    from triggers.monitor.connections import EmbeddedManager
    from triggers.monitor.process import HandlerFunction
    from triggers.monitor.retries import Retries
    from triggers.serving.capacity import Capacity

logger = logging.getLogger(__name__)

CONNECT_MIN: Final = 0.1
"""Seconds until a handler that got no connection asks again; doubled each time."""

CONNECT_MAX: Final = 5.0


class Launcher:
    """Starts handlers in a task group, and counts them.

    `freed` is called when one has ended, `lost` when it turns out that there are no more connections.
    """

    def __init__(
        self,
        source: EmbeddedManager | Connection,
        capacity: Capacity,
        retries: Retries,
        clock: Clock,
        *,
        freed: Callable[[], None],
        lost: Callable[[MQError], None],
        user: str = "",
    ) -> None:
        self.started = 0
        self.failed = 0
        self._source = source
        self._capacity = capacity
        self._retries = retries
        self._clock = clock
        self._freed = freed
        self._lost = lost
        self._user = user

    def launch(self, tasks: TaskGroup, start: TriggerStart, handler: HandlerFunction, generation: int) -> None:
        """Start a handler, whose place is occupied already."""
        self.started += 1
        tasks.start_soon(self._run, start, handler, generation, name=f"trigger:{start.trigger.q_name}:{self.started}")

    async def _run(self, start: TriggerStart, handler: HandlerFunction, generation: int) -> None:
        guard = PoisonGuard()
        try:
            if await self._serve(start, handler, guard):
                start.done()
                self._retries.succeeded(start.trigger.q_name)
        except BaseException as error:
            if isinstance(error, CancelledError) and stopped():
                raise
            await self._failed(start, generation, guard, error)  # be it that it awaited something that was cancelled
        finally:
            self._capacity.release(start.trigger.q_name)
            self._freed()

    async def _serve(self, start: TriggerStart, handler: HandlerFunction, guard: PoisonGuard) -> bool:
        """Run the handler; false when it never began."""
        connection = await self._connection(start, user_of(handler, start.trigger.process_name) or self._user)
        if connection is None:
            return False
        connection.before_backout = partial(self._capacity.alone, start.trigger.q_name, self._clock, RETRY_MIN)
        connection.guard = guard
        async with connection:
            await called(handler, start.trigger, connection)
        return True

    async def _connection(self, start: TriggerStart, user: str) -> Connection | None:
        """A connection for the handler, as soon as there is one; None when there will be none."""
        delay = CONNECT_MIN
        while True:
            try:
                return await connected(self._source, start.trigger.process_name, user)
            except MQError as error:
                if error.reason in ENDED:
                    self._lost(error)
                    return None
                logger.warning(
                    "trigger handler waits %.1f s for a connection: queue=%s process=%s reason=%s",
                    delay, start.trigger.q_name, start.trigger.process_name, error,
                    extra={"event": "trigger_handler_waits"},
                )  # fmt: skip
            await self._clock.sleep(delay)
            delay = min(2 * delay, CONNECT_MAX)

    async def _failed(self, start: TriggerStart, generation: int, guard: PoisonGuard, error: BaseException) -> None:
        self.failed += 1
        if stopped():
            then = "it is started again when the monitor runs again"
        elif await guard.bury(self._source, start.trigger.process_name):
            start.done()
            then = "what has reached BOTHRESH is moved"
        else:
            then = f"it is started again in {self._retries.failed(start):.1f} s"
        log_exception(
            logger, logging.ERROR, error,
            "trigger handler failed, its unit of work is backed out, %s: queue=%s generation=%d trigger=%r",
            then, start.trigger.q_name, generation, start.trigger, extra={"event": "trigger_handler_failed"},
        )  # fmt: skip


def stopped() -> bool:
    """True if the calling task has been cancelled by the monitor, or with it."""
    return anyio.current_effective_deadline() == -math.inf
