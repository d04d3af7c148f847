"""Find the unmet conditions that keep a queue from triggering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.explain.findings import finding
from broker.core.names.trigger_conditions import unmet
from broker.mqi.explanations import Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.core.manager import Manager
    from broker.core.queues.queue import LocalQueue
    from broker.mqi.explanations import Finding


def triggering(core: Manager, queue: LocalQueue) -> Iterator[Finding]:
    """Yield the unmet conditions of a queue that has TRIGGER, or names a process or an initiation queue."""
    if queue.trigger_on or queue.process_name or queue.initiation_q_name:
        for condition in unmet(core.objects, queue):
            text = f"{queue.name} starts nothing: {condition.text} (condition {condition.number})"
            yield finding(Cause.CANNOT_TRIGGER, text, condition=condition.number)
