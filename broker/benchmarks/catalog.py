"""All that there is to measure, in the order in which it is told."""

from __future__ import annotations

from typing import Final

from broker.benchmarks.limits.disk import COMMIT, HOP, INSERT, READ, REMOVE, SYNC
from broker.benchmarks.limits.echo import REQUEST, ROUND_TRIP
from broker.benchmarks.limits.tasks import INTERPRETER, TASK
from broker.benchmarks.workloads.claimed import CLAIM
from broker.benchmarks.workloads.gets import GET, PUT_AND_GET
from broker.benchmarks.workloads.handled import HANDLED, HANDLED_BY_WORKER
from broker.benchmarks.workloads.held import HELD
from broker.benchmarks.workloads.loop import HOLD
from broker.benchmarks.workloads.puts import PUT_BY_TASKS, PUT_PIPELINED, PUT_SINGLY
from broker.benchmarks.workloads.recovery import RECOVERY
from broker.benchmarks.workloads.triggered import TRIGGERED
from broker.benchmarks.workloads.waits import WAITERS, WAKE_OUTSIDE_SYNCPOINT, WAKE_UNDER_SYNCPOINT

WORKLOADS: Final = {
    each.name: each
    for each in (
        PUT_PIPELINED,
        PUT_BY_TASKS,
        PUT_SINGLY,
        GET,
        PUT_AND_GET,
        CLAIM,
        WAKE_UNDER_SYNCPOINT,
        WAKE_OUTSIDE_SYNCPOINT,
        WAITERS,
        TRIGGERED,
        HANDLED,
        HANDLED_BY_WORKER,
        RECOVERY,
        HELD,
        HOLD,
    )
}

LIMITS: Final = {
    each.name: each for each in (REQUEST, ROUND_TRIP, INSERT, REMOVE, COMMIT, READ, SYNC, HOP, TASK, INTERPRETER)
}
