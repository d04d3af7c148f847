"""The beginning of every schedule: the queues, how they are served, and a disk with the definitions on it."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Final

from broker import QueueManager
from broker.mqi.delivery_fields import ServiceOptions
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore
from tests.simulation.clock import SimulatedClock
from tests.simulation.loop import run

if TYPE_CHECKING:
    from broker.storage.store import Rows

SOURCE: Final = "Q"
DEAD: Final = "DEAD"
OUT: Final = "OUT"
ORDER_BY: Final = "customer"

_DEFINITIONS: Final = f"""
DEFINE PROCESS(P)
DEFINE QLOCAL({SOURCE}) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)
DEFINE QLOCAL({DEAD})
DEFINE QLOCAL({OUT})
"""


def terms_drawn(random: Random) -> ServiceOptions:
    """Draw the terms on which the queue is served in one schedule."""
    return ServiceOptions(
        handler="simulation:handler",
        attempts=random.choice((1, 2, 3, 4)),
        backoff=random.choice(((0.5, 8.0), (2.0,), (1.0, 10.0, 3.0))),
        doubles=random.random() < 0.5,
        jitter=random.random() < 0.5,
        crashes=random.choice((1, 2, 3)),
        dead_letter=DEAD,
        order_by=random.choice(("", "", ORDER_BY)),
        total=random.choice((0, 0, 3)),
    )


@cache
def formatted() -> tuple[Rows, ...]:
    """Return what a new disk has on it: the definitions, as a queue manager wrote them."""
    store = FaultStore(MemoryStore())

    async def define() -> None:
        manager = QueueManager.open(store=store, clock=SimulatedClock())
        manager.random_bits = Random(0).getrandbits
        async with manager, manager.connect() as connection:
            replies = await connection.mqsc(_DEFINITIONS)
            assert all(reply.ok for reply in replies), replies

    run(define())
    return tuple(store.written)
