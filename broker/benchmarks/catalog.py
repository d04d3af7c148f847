"""All that there is to measure, in the order in which it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.benchmarks.limits.disk import COMMIT, HOP, INSERT, READ, REMOVE, SYNC
from broker.benchmarks.limits.echo import REQUEST, ROUND_TRIP
from broker.benchmarks.limits.tasks import INTERPRETER, TASK
from broker.benchmarks.protection import Protection
from broker.benchmarks.workloads.claimed import CLAIM
from broker.benchmarks.workloads.connects import CONNECT, HERD, LINES
from broker.benchmarks.workloads.gets import GET, PUT_AND_GET
from broker.benchmarks.workloads.handled import HANDLED, HANDLED_BY_WORKER
from broker.benchmarks.workloads.held import HELD
from broker.benchmarks.workloads.loop import HOLD
from broker.benchmarks.workloads.puts import PUT_BY_TASKS, PUT_PIPELINED, PUT_SINGLY
from broker.benchmarks.workloads.recovery import RECOVERY
from broker.benchmarks.workloads.triggered import TRIGGERED
from broker.benchmarks.workloads.waits import WAITERS, WAKE_OUTSIDE_SYNCPOINT, WAKE_UNDER_SYNCPOINT

if TYPE_CHECKING:
    from broker.benchmarks.workload import Workload

UNDER: Final = {
    Protection.USERS: (PUT_PIPELINED, PUT_SINGLY, GET, PUT_AND_GET, WAKE_UNDER_SYNCPOINT, CONNECT),
    Protection.TLS: (PUT_PIPELINED, PUT_SINGLY, PUT_AND_GET, CONNECT, LINES, HERD),
}
"""The workloads that are measured under a protection too."""

_PLAIN: Final = (
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
    CONNECT,
    LINES,
    HERD,
)


def compared(plain: Workload) -> list[Workload]:
    """Return a workload, and behind it what it is under each protection."""
    return [plain, *(plain.under(protection) for protection, those in UNDER.items() if plain in those)]


WORKLOADS: Final = {each.name: each for plain in _PLAIN for each in compared(plain)}
"""By name. A workload stands beside what it is compared with, so that both are measured in the same minute."""

LIMITS: Final = {
    each.name: each for each in (REQUEST, ROUND_TRIP, INSERT, REMOVE, COMMIT, READ, SYNC, HOP, TASK, INTERPRETER)
}
