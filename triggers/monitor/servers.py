"""The queues whose processes have handlers that messages are delivered to (`deliver="message"`, "batch", "group").

The trigger monitor serves such a queue from when it first has a start pending: one `QueueService` a queue, over a
connection of its own, which then is handed starts and messages together. When the next generation has another handler
for it, the service takes nothing more and ends what it has with the old code, while the next one takes with the new
code already.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.mqi import MQRC, MQError
from triggers.monitor.connections import ENDED, connected
from triggers.monitor.process import delivery_of
from triggers.monitor.retries import RetryDelays
from triggers.serving.outcomes import OutcomeLog
from triggers.serving.serving import QueueService, within

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from broker import Clock, Connection, PendingQueue
    from triggers.app.handler import Handler
    from triggers.monitor.connections import EmbeddedManager
    from triggers.monitor.handlers import Handlers

logger = logging.getLogger(__name__)

_OVER: Final = frozenset({MQRC.UNKNOWN_OBJECT_NAME, MQRC.Q_DELETED, MQRC.OPTION_NOT_VALID_FOR_TYPE})
"""The queue is deleted, or is no queue that deliveries can be taken from: it is served again when it has a start."""


@dataclass(slots=True, eq=False)
class _ServedQueue:
    """A queue that is served."""

    queue: PendingQueue
    handler: Handler
    service: QueueService | None = None
    stopped: bool = False

    def stop(self) -> None:
        self.stopped = True
        if self.service is not None:
            self.service.stop()


class Servers:
    """The services of a monitor, by queue."""

    def __init__(self, source: EmbeddedManager | Connection, clock: Clock, user: str = "") -> None:
        self._source = source
        self._user = user
        self._clock = clock
        self._log = OutcomeLog(clock)
        self._current: dict[str, _ServedQueue] = {}
        self._all: set[_ServedQueue] = set()  # with those that end
        self._idle: asyncio.Event | None = None

    @property
    def running(self) -> dict[str, int]:
        """The number of running handlers, for each queue that is served."""
        counts = dict.fromkeys(self._current, 0)
        for each in self._all:
            if each.service is not None:
                counts[each.queue.q_name] = counts.get(each.queue.q_name, 0) + each.service.running
        return counts

    def serve(self, tasks: TaskGroup, queue: PendingQueue, handler: Handler) -> None:
        """Let the queue be served by this handler, unless it is already."""
        server = self._current.get(queue.q_name)
        if server is not None and server.handler is handler:
            return
        if server is not None:
            server.stop()
        server = self._current[queue.q_name] = _ServedQueue(queue, handler)
        self._all.add(server)
        tasks.start_soon(self._run, server, name=f"serve {queue.q_name}")

    def renew(self, tasks: TaskGroup, handlers: Handlers) -> None:
        """Let queues whose processes have other handlers now be served by those, and no more where there is none."""
        for q_name, server in list(self._current.items()):
            function = handlers.find(server.queue.process_name, server.queue.appl_id)
            handler = None if function is None else delivery_of(function, server.queue.process_name)
            if handler is not None:
                self.serve(tasks, server.queue, handler)
            else:
                server.stop()
                del self._current[q_name]

    def stop(self) -> None:
        """Take nothing more."""
        for server in self._all:
            server.stop()
        self._current.clear()

    async def ended(self, seconds: float) -> None:
        """Wait until nothing runs, at most for so long."""
        if self._all:
            self._idle = asyncio.Event()
            await within(self._clock, seconds, self._idle.wait())

    async def _run(self, server: _ServedQueue) -> None:
        """Serve a queue until stopped, or until it is no such queue any more."""
        delays = RetryDelays()
        q_name = server.queue.q_name
        try:
            while not server.stopped:
                try:
                    await self._serve(server)
                except MQError as error:
                    if error.reason in ENDED:
                        return  # the generation will say so
                    logger.warning("queue is not served: queue=%s handler=%s reason=%s",
                                   q_name, server.handler.name, error)  # fmt: skip
                    if error.reason in _OVER:
                        return
                    await self._clock.sleep(delays.failed(q_name))
        finally:
            if self._current.get(q_name) is server:
                del self._current[q_name]
            self._all.discard(server)
            if not self._all and self._idle is not None:
                self._idle.set()

    async def _serve(self, server: _ServedQueue) -> None:
        user = server.handler.user or self._user
        async with await connected(self._source, server.queue.process_name, user) as connection:
            q_name = server.queue.q_name
            handler = replace(server.handler, q_name=q_name)
            server.service = QueueService(connection, handler, self._clock, self._log)
            if server.stopped:
                return
            await server.service.run(partial(logger.info, "queue is served: queue=%s handler=%s", q_name, handler.name))
