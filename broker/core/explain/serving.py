"""Find the connections that serve a queue with handlers, and the starts of it that nobody takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.explain.findings import finding
from broker.mqi.explanations import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.manager import Manager
    from broker.core.queues.queue import LocalQueue
    from broker.mqi.explanations import Finding

WORKERS_MAX = 10
"""More are not named."""


def serving(core: Manager, queue: LocalQueue) -> Iterator[Finding]:
    """The workers of a queue that has any; else its starts that are pending while nothing takes them. Starts of a
    shared queue may be taken at any member: there only its workers here are told.
    """
    handler, workers = core.deliveries.served_by(queue)
    starts, running = queue.pending_starts, core.triggers.leases.running(queue)
    if workers:
        many = "1 worker serves" if len(workers) == 1 else f"{len(workers)} workers serve"
        names = ", ".join(worker.name for worker in workers[:3]) + (", and others" if len(workers) > 3 else "")
        under = core.deliveries.in_flight(queue)
        text = f"{many} {queue.name} with {handler}: {names}; {under} under handlers, {_starts(starts)}"
        shown = [
            {"appl_name": each.hconn.appl_name, "user": each.hconn.user, "connection": each.hconn.channel}
            for each in workers[:WORKERS_MAX]
        ]
        yield finding(
            Cause.SERVED, text, handler=handler, workers=len(workers), running=under, starts=starts, first=shown
        )
    elif starts and not running and not queue.shared:
        text = f"{_starts(starts)} and nobody takes {'it' if starts == 1 else 'them'}: no worker serves {queue.name}"
        if queue.process_name:
            text += f", and no trigger monitor has taken a start of process {queue.process_name}"
        yield finding(Cause.NOT_SERVED, text, starts=starts, process=queue.process_name)


def _starts(count: int) -> str:
    return "1 start is pending" if count == 1 else f"{count} starts are pending"
