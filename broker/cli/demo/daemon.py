"""The daemon of the demonstration: a child process, with everything it keeps in a temporary folder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.text import TextReceiveStream

import broker
from broker.cli.program import CannotRunError

if TYPE_CHECKING:
    from anyio.abc import Process, TaskGroup, TaskStatus

START_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 20.0
_LOG_LINES_KEPT: Final = 20

_CONFIGURATION: Final = """\
[queue_manager]
name = "DEMO"
data = {data}
quiesce_timeout = 5.0

[listener]
port = 0

[limits]
unit_of_work_bytes = 268_435_456

[trigger_monitor]
handlers = ["broker.cli.demo.handlers"]
"""


class Daemon:
    """A daemon as a task: `run` starts the child, follows its log, and stops the child when it is cancelled."""

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        """`data` is where its data stays; by default they are in the temporary folder, and go with it."""
        self._configuration = folder / "broker.toml"
        data = (data or folder / "data").absolute()
        self._configuration.write_text(_CONFIGURATION.format(data=json.dumps(str(data))), "utf-8")
        self._log: deque[str] = deque(maxlen=_LOG_LINES_KEPT)
        self.url = ""

    def last_words(self) -> str:
        """The last line of its log that tells of trouble, or the last one of all."""
        telling = [line for line in self._log if line.startswith("evermq:") or " ERROR " in line]
        return (telling or list(self._log) or ["it said nothing"])[-1]

    async def start(self, tasks: TaskGroup) -> None:
        """Run in a task group, and return when programs can connect. Raises CannotRunError."""
        with anyio.move_on_after(START_SECONDS_MAX) as limit:
            await tasks.start(self.run, name="daemon")
        if limit.cancelled_caught:
            raise CannotRunError(f"the daemon of the demonstration did not get ready: {self.last_words()}")

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """The life of the child, until it is cancelled. Raises CannotRunError if the child ends by itself."""
        process = await _child(self._configuration)
        try:
            await self._follow(process, task_status)
            code = await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process)
        raise CannotRunError(f"the daemon of the demonstration ended with exit code {code}: {self.last_words()}")

    async def _follow(self, process: Process, task_status: TaskStatus[None]) -> None:
        """Read the log to its end. The daemon is started when the log tells its URL."""
        assert process.stderr is not None
        rest = ""
        async for text in TextReceiveStream(process.stderr, errors="replace"):
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                self._log.append(line)
                if not self.url and (found := re.search(r" ready on ([^\s,]+)", line)):
                    self.url = f"mq://{found[1]}"
                    task_status.started()


async def _child(configuration: Path) -> Process:
    """Start the child. A session of its own keeps the terminal's Ctrl-C for the parent, who then stops the child."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EVERMQ_")}
    packages = str(Path(broker.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [packages, environment.get("PYTHONPATH")]))
    return await anyio.open_process(
        [sys.executable, "-m", "broker", "run", "--config", str(configuration)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )


async def _stop(process: Process) -> None:
    """End the child in order; at once, if it does not."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(STOP_SECONDS_MAX):
            await process.wait()
    if process.returncode is None:
        process.kill()
    await process.wait()
    await process.aclose()
