"""The app that the workers of the demonstration serve, as `evermq worker` takes it.

It knows nothing of MQ. One task in ten fails at first, one always; the rest is done.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from triggers import App, Attempt, Retry

TASK_QUEUE: Final = "TASKS"
DONE_QUEUE: Final = "TASKS.DONE"
DEAD_QUEUE: Final = "TASKS.DEAD"
"""None begins with DEMO: those queues are what a pipeline is to find."""

TASKS: Final = 400
POISON: Final = 123
"""The number of the task that always fails."""
ATTEMPTS: Final = 3
_WORK_SECONDS: Final = 0.02

app = App("mq://127.0.0.1:1414", name="demo")


@dataclass
class Task:
    number: int


@dataclass
class Done:
    number: int
    attempt: int


@app.handler(
    TASK_QUEUE, retry=Retry(ATTEMPTS - 1, backoff=(0.05, 1)), dead_letter=DEAD_QUEUE, concurrency=10, timeout=30
)
async def work(task: Task, attempt: Attempt) -> None:
    """Do a task, and put that it is done. Both have happened, or neither."""
    await asyncio.sleep(_WORK_SECONDS)
    if task.number == POISON:
        raise ValueError("nobody can do this")
    if task.number % 10 == 0 and attempt.number == 1:
        raise ConnectionError("not now")
    await app.put(DONE_QUEUE, Done(task.number, attempt.number))
