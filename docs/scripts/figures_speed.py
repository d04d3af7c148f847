"""Tells what a scrape of very many queues costs: `python docs/scripts/figures_speed.py [QUEUES]`, 10,000 by default.

Each queue has had a put and a get, so that all its families have samples. The processor time is of a whole scrape, the
longest step is the longest turn of its job.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Final

from broker import QueueManager
from broker.engine.figures.scrape import Scrape
from broker.engine.figures.selection import FigureSelection
from broker.mqi import MQOO
from broker.storage.memory import MemoryStore

if TYPE_CHECKING:
    from broker import Connection

ROUNDS: Final = 5
DELIVERED: Final = 2000
"""Queues that have series of their own unless more are asked for."""


async def measured(queues: int) -> None:
    """Print the figures of a queue manager with so many queues."""
    async with QueueManager.open(name="QM1", store=MemoryStore()) as manager, manager.connect() as connection:
        print(f"{await _defined(connection, queues):8.0f} bytes a queue, with what the allocator keeps")
        for name in (f"Q{number}" for number in range(queues)):
            async with connection.open(name, MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue:
                await queue.put(b"x")
                await queue.get()
        for queues_max in (DELIVERED, queues):
            print(_scraped(manager, queues_max))


async def _defined(connection: Connection, queues: int) -> float:
    """Define the queues; the bytes that each takes."""
    gc.collect()
    before = _resident()
    for first in range(0, queues, 500):
        await connection.mqsc(
            "\n".join(f"DEFINE QLOCAL(Q{number})" for number in range(first, first + 500)), check=True
        )
    gc.collect()
    return (_resident() - before) / queues


def _scraped(manager: QueueManager, queues_max: int) -> str:
    """Scrape several times; the least of what that took."""
    costs, longest_steps, text = [], [], ""
    for _ in range(ROUNDS):
        gc.collect()
        scrape = Scrape(manager, FigureSelection(queues_max=queues_max))
        steps, longest, began = scrape.steps(), 0.0, process_time()
        while True:
            step_began = perf_counter()
            over = next(steps, scrape) is scrape
            longest = max(longest, perf_counter() - step_began)
            if over:
                break
        costs.append(process_time() - began)
        longest_steps.append(longest)
        text = scrape.text
    return (
        f"{queues_max:8} queues: {min(costs) * 1000:.0f} ms of the processor, longest step "
        f"{min(longest_steps) * 1000:.1f} ms, {len(text) / 2**20:.1f} MiB, {text.count(chr(10))} lines"
    )


def _resident() -> int:
    """Return the bytes of memory that the process has."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096


if __name__ == "__main__":
    asyncio.run(measured(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
