"""The daemon of the demonstration: a child process, with everything it keeps in a temporary folder."""

from __future__ import annotations

import json
import re
from collections import deque
from typing import TYPE_CHECKING, Final

import anyio

from broker.cli.demo.child import child, lines, stop
from broker.cli.program import CannotRunError

if TYPE_CHECKING:
    from pathlib import Path

    from anyio.abc import Process, TaskGroup, TaskStatus

START_SECONDS_MAX: Final = 30.0
_LOG_LINES_KEPT: Final = 20

_CONFIGURATION: Final = """\
[queue_manager]
name = "DEMO"
data = {data}
quiesce_timeout = 5.0

[listener]
port = {port}

[limits]
unit_of_work_bytes = 268_435_456

[trigger_monitor]
handlers = ["broker.cli.demo.handlers"]
"""


class DemoDaemon:
    """A daemon as a task: `run` starts the child, follows its log, and stops the child when it is cancelled."""

    CONFIGURATION = _CONFIGURATION

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        """`data` is where its data stays; by default they are in the temporary folder, and go with it."""
        self._configuration = folder / "broker.toml"
        self._data = (data or folder / "data").absolute()
        self._port = "0"
        self._process: Process | None = None
        self._killed: set[Process] = set()
        self._log: deque[str] = deque(maxlen=_LOG_LINES_KEPT)
        self.url = ""

    def last_words(self) -> str:
        """The last line of its log that tells of trouble, or the last one of all."""
        telling = [line for line in self._log if line.startswith("evermq:") or " level=ERROR " in line]
        return (telling or list(self._log) or ["it said nothing"])[-1]

    async def start(self, tasks: TaskGroup) -> None:
        """Run in a task group, and return when programs can connect. Raises CannotRunError."""
        told = self.CONFIGURATION.format(data=json.dumps(str(self._data)), port=self._port)
        self._configuration.write_text(told, "utf-8")
        self.url = ""
        with anyio.move_on_after(START_SECONDS_MAX) as limit:
            await tasks.start(self.run, name="daemon")
        if limit.cancelled_caught:
            raise CannotRunError(f"the daemon of the demonstration did not get ready: {self.last_words()}")

    async def kill(self, tasks: TaskGroup) -> None:
        """Kill it with `kill -9`, and start it again on the same port. Raises CannotRunError."""
        process = self._process
        assert process is not None
        self._killed.add(process)
        self._port = self.url.rpartition(":")[2]
        process.kill()
        await process.wait()
        await self.start(tasks)

    @property
    def kills(self) -> int:
        """The number of times that it was killed."""
        return len(self._killed)

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """The life of the child, until it is cancelled or killed. Raises CannotRunError if the child ends by itself."""
        process = await child("run", "--config", str(self._configuration))
        self._process = process
        try:
            await self._follow(process, task_status)
            code = await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await stop(process)
        if process in self._killed:
            return
        raise CannotRunError(f"the daemon of the demonstration ended with exit code {code}: {self.last_words()}")

    async def _follow(self, process: Process, task_status: TaskStatus[None]) -> None:
        """Read the log to its end. The daemon is started when the log tells its URL."""
        async for line in lines(process):
            self._log.append(line)
            if not self.url and (found := re.search(r' ready on ([^\s,"]+)', line)):
                self.url = f"mq://{found[1]}"
                task_status.started()
