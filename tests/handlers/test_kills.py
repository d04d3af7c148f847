"""The queue manager is killed at each of its writes, and by its own handlers (handlers rules 1.5, 7.1)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from broker.mqi.delivery_fields import Failure, Outcome, Settlement
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore, VirtualClock
from tests.handlers.desk import TERMS
from tests.handlers.held_writes import until_held

if TYPE_CHECKING:
    from broker import Connection

DEFINITIONS = """
DEFINE PROCESS(P)
DEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)
DEFINE QLOCAL(DEAD)
DEFINE QLOCAL(OUT) DEFPSIST(YES)
"""

LIFE = """
import asyncio, os, sys

from broker import QueueManager
from broker.mqi import MQOO
from broker.mqi.delivery_fields import ServiceOptions, Outcome, Settlement

TERMS = ServiceOptions(handler="tests:poison", attempts=3, backoff=(0.01,), crashes=9, dead_letter="DEAD")


async def handle(deliveries, delivered):
    (message,) = delivered.messages
    if message.data == b"poison":
        os._exit(3)
    await deliveries.settle([Settlement(delivered.id, Outcome.DONE)])


async def main():
    async with QueueManager.open(name="QM1", data=sys.argv[1]) as manager, manager.connect("life") as connection:
        if sys.argv[2] == "first":
            await connection.mqsc(DEFINITIONS, check=True)
            async with connection.open("Q", MQOO.OUTPUT) as queue:
                for body in ("poison", "good", "good"):
                    await queue.put(body)
        queue = manager.core.objects.queues["Q"]
        async with connection.deliveries("Q", options=TERMS) as deliveries:
            while queue.depth:
                take = asyncio.ensure_future(deliveries.take(1))
                while queue.depth and not take.done():
                    await asyncio.wait([take], timeout=0.02)
                if not take.done():
                    take.cancel()
                    break
                for delivered in take.result():
                    await handle(deliveries, delivered)
        print(queue.depth, manager.core.objects.queues["DEAD"].depth)


DEFINITIONS = '''{definitions}'''
asyncio.run(main())
"""


async def bodies(connection: Connection, name: str) -> list[bytes]:
    found = []
    async with connection.open(name, MQOO.BROWSE) as queue:
        while True:
            try:
                found.append((await queue.get(None, MQGMO.BROWSE_NEXT)).data)
            except MQError as error:
                assert error.reason == MQRC.NO_MSG_AVAILABLE
                return found


async def handled(store: FaultStore, clock: VirtualClock, outcome: Outcome) -> None:
    """A message is put, taken, and comes to this end, unless the queue manager is killed before."""
    async with QueueManager.open(name="QM1", store=store, clock=clock) as manager, manager.connect() as connection:
        async with connection.open("Q", MQOO.OUTPUT) as queue:
            await queue.put("order")
        async with connection.deliveries("Q", options=TERMS) as deliveries:
            (taken,) = await deliveries.take()
            handler = await deliveries.connect(taken)
            async with handler.open("OUT", MQOO.OUTPUT) as out:
                await out.put("invoice")
            await deliveries.settle([Settlement(taken.id, outcome, Failure("ValueError", "no such order"))])


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.REJECTED])
async def test_a_kill_at_each_write_leaves_the_message_in_one_place(outcome: Outcome, written: bool) -> None:
    """H1.1, H7.4: on its queue with nothing that its handler has put, or gone with that, or one dead letter."""
    places = set()
    for number in range(1, 20):
        inner, clock = MemoryStore(), VirtualClock()
        async with QueueManager.open(name="QM1", store=inner, clock=clock) as manager, manager.connect() as connection:
            await connection.mqsc(DEFINITIONS, check=True)
        store = FaultStore(inner)
        store.hold(after=number, written=written)
        whole = await until_held(store, handled(store, clock, outcome))
        async with QueueManager.open(name="QM1", store=inner, clock=clock) as manager, manager.connect() as connection:
            manager.core.check_invariants()
            await clock.advance(100)
            found = tuple([len(await bodies(connection, name)) for name in ("Q", "OUT", "DEAD")])
            places.add(found)
        if whole:
            break
    assert whole, "there are more writes"
    ends = {Outcome.DONE: (0, 1, 0), Outcome.FAILED: (1, 0, 0), Outcome.REJECTED: (0, 0, 1)}
    assert places <= {(0, 0, 0), (1, 0, 0), ends[outcome]}
    assert (1, 0, 0) in places
    assert found == ends[outcome]


@pytest.mark.timeout(120)
def test_h1_11_a_handler_that_ends_the_queue_manager_at_once_has_few_chances(tmp_path: Path) -> None:
    """Its message is a dead letter after at most one start more than its limit; the others are handled."""
    life = LIFE.replace("{definitions}", DEFINITIONS)
    command = [sys.executable, "-c", life, str(tmp_path / "data")]
    crashes = 0
    for number in range(10):
        ended = subprocess.run(
            [*command, "first" if not number else "again"], capture_output=True, text=True, timeout=60, check=False
        )
        if ended.returncode == 0:
            break
        assert ended.returncode == 3, ended.stderr
        crashes += 1
    assert ended.stdout.split() == ["0", "1"], ended.stderr
    assert 3 <= crashes <= 4
