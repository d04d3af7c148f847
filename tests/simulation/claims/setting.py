"""The beginning of every schedule: the queues, the configurations, and a disk with the definitions on it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING

from broker import QueueManager
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore
from tests.simulation import setting
from tests.simulation.claims.sink import QUEUE as OUT
from tests.simulation.clock import SimulatedClock
from tests.simulation.loop import run

if TYPE_CHECKING:
    from broker.storage.store import ObjectRow, Rows

__all__ = ["CONFIGS", "OUT", "PREPARED_AGE", "QUEUES", "formatted"]

QUEUES = ("A.1", "A.2")
"""To which producers put."""

PREPARED_AGE = 1000.0
"""Seconds after which units that nobody touches are discarded."""

CONFIGS = tuple(replace(each, limits=replace(each.limits, prepared_age=PREPARED_AGE)) for each in setting.CONFIGS)


@cache
def formatted() -> tuple[Rows, ...]:
    """Return what a new disk has on it: the definitions, as a queue manager wrote them."""
    store = FaultStore(MemoryStore())

    async def define() -> None:
        manager = QueueManager.open(defaults="mq", store=store, clock=SimulatedClock())
        manager.random_bits = Random(0).getrandbits
        async with manager, manager.connect() as connection:
            replies = await connection.mqsc(
                "\n".join(f"DEFINE QLOCAL({name}) MAXDEPTH(5000)" for name in (*QUEUES, OUT))
            )
            assert all(reply.ok for reply in replies), replies

    run(define())
    return tuple(replace(rows, objects=[row for row in rows.objects if _is_wanted(row)]) for rows in store.written)


def _is_wanted(row: ObjectRow) -> bool:
    """True if a schedule needs it: default queues would make each start longer, and no more."""
    return row.space != "QUEUE" or row.name in (*QUEUES, OUT)
