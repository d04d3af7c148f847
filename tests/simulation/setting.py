"""The beginning of every simulation: the queues, the configurations, and a disk with the definitions on it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import TYPE_CHECKING

from broker import QueueManager
from broker.config import Config
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore
from tests.simulation.clock import SimulatedClock
from tests.simulation.ledger import QueueRecord
from tests.simulation.loop import run
from tests.simulation.program import MODEL

if TYPE_CHECKING:
    from broker.storage.store import Rows

QUEUES = (
    QueueRecord("HARD"),
    QueueRecord("SOFT", hardened=False),
    QueueRecord("FIFO", fifo=True),
    QueueRecord("KEEP", hardened=False, keeps=True),
)

_DEFAULT = Config()
CONFIGS = tuple(
    replace(
        _DEFAULT,
        limits=replace(_DEFAULT.limits, body_bytes=body_bytes),
        journal=replace(_DEFAULT.journal, batch_rows_max=batch_rows_max),
    )
    for body_bytes in (0, 300, 1 << 20)
    for batch_rows_max in (1, 3, 4096)
)


@cache
def formatted() -> tuple[Rows, ...]:
    """Return what a new disk has on it: the definitions, as a queue manager wrote them."""
    store = FaultStore(MemoryStore())

    async def define() -> None:
        manager = QueueManager.open(defaults="mq", store=store, clock=SimulatedClock())
        manager.random_bits = Random(0).getrandbits
        async with manager, manager.connect() as connection:
            model = f"DEFINE QMODEL({MODEL}) DEFTYPE(PERMDYN) HARDENBO SHARE DEFSOPT(SHARED)"
            replies = await connection.mqsc("\n".join([*map(_definition, QUEUES), model]))
            assert all(reply.ok for reply in replies), replies

    run(define())
    return tuple(store.written)


def _definition(queue: QueueRecord) -> str:
    hardened = "HARDENBO" if queue.hardened else "NOHARDENBO"
    return (
        f"DEFINE QLOCAL({queue.name}) {hardened} NPMCLASS({'HIGH' if queue.keeps else 'NORMAL'})"
        f" MSGDLVSQ({'FIFO' if queue.fifo else 'PRIORITY'})"
    )
