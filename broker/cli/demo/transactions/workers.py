"""The workers of the demonstration: in each place one process after the other, each with the next death of the plan."""

from __future__ import annotations

import signal
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

import anyio

from broker.cli.demo.child import child, lines, stop
from broker.cli.demo.transactions.death import EVENT, Death, DeathPlace
from broker.cli.program import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from anyio.abc import Process, TaskGroup

    from broker.cli.demo.transactions.task import WorkerTask

PLACES: Final = 2
"""The number of workers that run at a time."""

_LOG_LINES_KEPT: Final = 20


class KilledWorkers:
    """Workers that serve `target`, as `evermq worker` takes it, until the plan is empty; then workers that live."""

    def __init__(self, target: str, url: str, folder: Path, task: WorkerTask, plan: Iterable[Death]) -> None:
        self.died: Counter[DeathPlace] = Counter()
        self.resolved: Counter[bool] = Counter()
        self.started = 0
        self._target = target
        self._url = url
        self._folder = folder
        self._task = task
        self._plan = deque(plan)
        self._stopping = False
        self._living: set[Process] = set()
        self._log: deque[str] = deque(maxlen=_LOG_LINES_KEPT)

    @property
    def deaths(self) -> int:
        """The number of workers that have died."""
        return self.died.total()

    def start(self, tasks: TaskGroup) -> None:
        """Run in a task group, until `stop`."""
        for place in range(PLACES):
            tasks.start_soon(self._serve, place, name=f"worker {place}")

    async def stop(self) -> None:
        """End those that live, in order."""
        self._stopping = True
        for process in list(self._living):
            process.send_signal(signal.SIGTERM)
        while self._living:  # noqa: ASYNC110  # each has its task, which takes it out
            await anyio.sleep(0.02)

    async def _serve(self, place: int) -> None:
        folder = self._folder / f"worker-{place}"
        folder.mkdir(exist_ok=True)
        while not self._stopping:
            death = self._plan.popleft() if self._plan else None
            self._task.with_death(death).write(folder)
            await self._live(folder, death)

    async def _live(self, folder: Path, death: Death | None) -> None:
        """The life of one worker. Raises CannotRunError if it ends by itself, and not as it was told."""
        process = await child("worker", self._target, "--url", self._url, "--grace", "5", folder=folder)
        self._living.add(process)
        self.started += 1
        said = False
        try:
            async for line in lines(process):
                self._log.append(line)
                said = said or line.startswith(EVENT)
                if " event=unit_resolved " in line:
                    self.resolved["committed=True" in line] += 1
            code = await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await stop(process)
            self._living.discard(process)
        if death is not None and said and code == -signal.SIGKILL:
            self.died[death.place] += 1
        elif death is not None and self._stopping:
            return
        elif not self._stopping:
            raise CannotRunError(f"a worker of the demonstration ended with exit code {code}: {self.last_words()}")

    def last_words(self) -> str:
        """The last line that a worker has logged."""
        telling = [line for line in self._log if line.startswith("evermq:") or " level=ERROR " in line]
        return (telling or list(self._log) or ["it said nothing"])[-1]
