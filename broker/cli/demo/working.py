"""The part of the demonstration that has a worker and kills it: tasks go out, and come back done or as dead letters.

That each is done once can be seen from outside: a handler's message goes and what it puts appears in one step.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.cli.demo.child import child, lines, stop
from broker.cli.demo.tasks import DEAD_QUEUE, DONE_QUEUE, TASK_QUEUE, TASKS
from broker.cli.messages.get import gathered
from broker.cli.program import CannotRunError
from broker.mqi import MQDLH, MQGMO, MQOO

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from anyio.abc import Process, TaskStatus

    from broker import Connection

START_SECONDS_MAX: Final = 30.0
STALL_SECONDS_MAX: Final = 30.0
"""The time in which nothing comes back before the tasks still out are called missing."""
_AT_A_TIME: Final = 100


class Worked:
    """The fate of the tasks."""

    def __init__(self, tasks: int = TASKS) -> None:
        self.tasks = tasks
        self.done: Counter[int] = Counter()
        self.again = 0
        self.dead: dict[int, str] = {}
        self.at_kill = 0

    @property
    def back(self) -> int:
        """The number of tasks that have come back."""
        return len(self.done.keys() | self.dead.keys())

    @property
    def complete(self) -> bool:
        """True if each task has come back once."""
        return self.back == self.tasks and self.done.total() + len(self.dead) == self.tasks

    def report(self) -> Iterator[str]:
        """The account as lines of text."""
        yield f"{'tasks':<24}{self.tasks:>10,}  for a worker, killed when {self.at_kill:,} were done; another went on"
        yield f"{'  done':<24}{len(self.done):>10,}  {'once each' if self.complete else 'but not all of them once'}"
        yield f"{'    tried again':<24}{self.again:>10,}  the handler raised, or went with its worker"
        yield f"{'  dead letters':<24}{len(self.dead):>10,}  on {DEAD_QUEUE}"
        for number, why in self.dead.items():
            yield f"    task {number}, {why}"
        if missing := self.tasks - self.back:
            yield f"{'  missing':<24}{missing:>10,}  put, but not back"
        if doubled := self.done.total() + len(self.dead) - self.back:
            yield f"{'  doubled':<24}{doubled:>10,}  back more than once"


async def work(connection: Connection, url: str, folder: Path) -> Worked:
    """Have tasks done by a worker that is killed half-way, and by another. Raises CannotRunError."""
    worked = Worked()
    await connection.mqsc(f"DEFINE QLOCAL({DONE_QUEUE}) MAXDEPTH(999999999)")
    print(f"\n  evermq worker broker.cli.demo.tasks:app --url {url}")
    sys.stdout.flush()
    async with _worker(url, folder) as first:
        async with connection.open(TASK_QUEUE, MQOO.OUTPUT) as queue:
            await queue.put_many(json.dumps({"number": number}) for number in range(1, worked.tasks + 1))
        await _collect(connection, worked, worked.tasks // 2)
        first.kill()
        worked.at_kill = worked.back
    print(f"  kill -9 {first.pid}")
    print(f"  evermq worker broker.cli.demo.tasks:app --url {url}\n")
    sys.stdout.flush()
    async with _worker(url, folder):
        await _collect(connection, worked, worked.tasks)
    await _look_for_doubles(connection, worked)
    return worked


@asynccontextmanager
async def _worker(url: str, folder: Path) -> AsyncIterator[Process]:
    """A worker that serves; it is ended when the block is left."""
    async with anyio.create_task_group() as tasks:
        with anyio.move_on_after(START_SECONDS_MAX) as limit:
            process: Process = await tasks.start(_live, url, folder, name="worker")
        if limit.cancelled_caught:
            raise CannotRunError("the worker of the demonstration did not get ready")
        yield process
        tasks.cancel_scope.cancel()


async def _live(url: str, folder: Path, *, task_status: TaskStatus[Process]) -> None:
    """The life of a worker, until it is cancelled or killed. Raises CannotRunError if it never serves."""
    process = await child("worker", "broker.cli.demo.tasks:app", "--url", url, "--grace", "5", folder=folder)
    said, ready = "it said nothing", False
    try:
        async for line in lines(process):
            said = line
            if not ready and " event=worker_ready " in line:
                ready = True
                task_status.started(process)
    finally:
        with anyio.CancelScope(shield=True):
            await stop(process)
    if not ready:
        raise CannotRunError(f"the worker of the demonstration ended: {said}")


async def _collect(connection: Connection, worked: Worked, until: int) -> None:
    """Get what is done, and what is dead, until so many tasks are back or nothing comes any more."""
    async with (
        connection.open(DONE_QUEUE, MQOO.INPUT_SHARED) as done,
        connection.open(DEAD_QUEUE, MQOO.INPUT_SHARED) as dead,
    ):
        with anyio.move_on_after(STALL_SECONDS_MAX) as limit:
            while worked.back < until:
                for message in await gathered(done, _AT_A_TIME, wait=0.1):
                    _done(worked, json.loads(message.data))
                    limit.deadline = anyio.current_time() + STALL_SECONDS_MAX
                for message in await gathered(dead, _AT_A_TIME, wait=0, options=MQGMO.PROPERTIES_IN_HANDLE):
                    about = {name: str(value) for name, value in message.properties.items()}
                    why = f"{about['evermq.attempts']} attempts: {about['evermq.exception']}: {about['evermq.error']}"
                    worked.dead[json.loads(message.data[MQDLH.SIZE :])["number"]] = why
                await connection.commit()


def _done(worked: Worked, reported: dict[str, Any]) -> None:
    worked.done[reported["number"]] += 1
    worked.again += reported["attempt"] > 1


async def _look_for_doubles(connection: Connection, worked: Worked) -> None:
    """The worker has ended: what it did beside what is back would be there now."""
    async with connection.open(DONE_QUEUE, MQOO.INPUT_SHARED) as done:
        for message in await gathered(done, _AT_A_TIME, wait=0):
            _done(worked, json.loads(message.data))
        await connection.commit()
