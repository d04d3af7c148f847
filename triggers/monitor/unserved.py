"""The queues with starts pending for which a trigger monitor has no handler: each is reported once, if nobody has.

Others may take the starts: an app's workers, another monitor, a program that has the queue open. So a queue is reported
only when starts of it are pending a while later, and the queue manager knows nobody who takes them either.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.mqi import MQError
from triggers.app.definitions import unserved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker import Clock, Connection, PendingQueue

logger = logging.getLogger("triggers.monitor.generation")

PATIENCE: Final = 4.0
"""Seconds that whoever else serves a queue has to take its starts before it is reported."""

ASK_AGAIN: Final = 60.0
"""Seconds until it is looked again at a queue that others serve: for that the queue manager takes down its status."""


class Unserved:
    """The queues that one monitor has heard of and does not serve."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self.queues: dict[str, str] = {}
        """The queues with starts pending that nobody here serves, and the processes they name."""
        self._connection = connection
        self._clock = clock
        self._asked: dict[str, float] = {}
        self._reported: set[tuple[str, str]] = set()

    def news(self, queues: Sequence[PendingQueue]) -> list[PendingQueue]:
        """Note the queues that a pass found unserved; return those that are to be looked at with `report`."""
        now = self._clock.monotonic()
        self.queues = {queue.q_name: queue.process_name for queue in queues}
        found = [queue for queue in queues if _definition(queue) not in self._reported and self._may_ask(queue, now)]
        self._asked |= {queue.q_name: now for queue in found}
        return found

    def _may_ask(self, queue: PendingQueue, now: float) -> bool:
        asked = self._asked.get(queue.q_name)
        return asked is None or now - asked >= ASK_AGAIN

    async def report(self, queues: Sequence[PendingQueue], process_names: Sequence[str]) -> None:
        """After a while, log the processes that nobody serves, each once; a queue that names none, likewise."""
        await self._clock.sleep(PATIENCE)
        try:
            idle = await unserved(self._connection, [queue.q_name for queue in queues])
        except MQError as error:
            logger.debug("it is not known who serves queues: %s", error, extra={"event": "servers_not_known"})
            return
        for queue in queues:
            starts = idle.get(queue.q_name, 0)
            if starts and _definition(queue) not in self._reported:
                self._reported.add(_definition(queue))
                _warn(queue, starts, process_names)


def _definition(queue: PendingQueue) -> tuple[str, str]:
    """Return the subject of a report: a process definition by name and APPLICID, or a queue that names none."""
    return queue.process_name, queue.appl_id if queue.process_name else queue.q_name


def _warn(queue: PendingQueue, starts: int, process_names: Sequence[str]) -> None:
    fields = {"event": "nobody_serves", "queue": queue.q_name, "process_name": queue.process_name, "starts": starts}
    if not queue.process_name:
        text = "queue %s names no process, and there is no CUIR exit: its start stays pending"
        logger.warning(text, queue.q_name, extra=fields)
        return
    logger.warning(
        "no handler serves process %s (APPLICID %s), which queue %s names: "
        "its starts stay pending; processes served here: %s",
        queue.process_name, queue.appl_id or "blank", queue.q_name, ", ".join(process_names) or "none", extra=fields,
    )  # fmt: skip
