"""A scrape of very many queues holds nobody up."""

from __future__ import annotations

from time import thread_time

from broker import QueueManager
from broker.engine.figures.scrape import THINGS_A_STEP, Scrape
from broker.engine.figures.selection import FigureSelection
from broker.mqi import MQOO
from broker.storage.memory import MemoryStore

QUEUES = 1000
ROUNDS = 5
STEP_SECONDS = 0.005
"""Of the processor, at most: what else the machine does is left out."""


async def test_o1_1_a_scrape_of_very_many_queues_is_taken_in_short_steps() -> None:
    async with QueueManager.open(name="QM1", store=MemoryStore()) as manager, manager.connect() as connection:
        names = [f"Q{number}" for number in range(QUEUES)]
        await connection.mqsc("\n".join(f"DEFINE QLOCAL({name})" for name in names), check=True)
        for name in names:
            async with connection.open(name, MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue:
                await queue.put(b"x")
                await queue.get()
        longest = []
        for _ in range(ROUNDS):
            took = steps_of(manager)
            assert len(took) > QUEUES / THINGS_A_STEP
            longest.append(max(took))
        assert min(longest) < STEP_SECONDS


def steps_of(manager: QueueManager) -> list[float]:
    """Take a scrape; the processor time of each of its steps."""
    took, steps = [], Scrape(manager, FigureSelection()).steps()
    began = thread_time()
    for _ in steps:
        took.append(thread_time() - began)
        began = thread_time()
    return [*took, thread_time() - began]
