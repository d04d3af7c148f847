"""A daemon in a process of its own, which a test kills, stops and starves, and the client commands against it."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.cli.program import lone

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Mapping

ROOT: Final = Path(__file__).parents[2]
EVERMQ: Final = (sys.executable, "-m", "broker")
NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})
COULD_NOT_RUN: Final = 20
"""What `evermq run` exits with when it ends otherwise than by a signal."""


def environment(settings: Mapping[str, str] = NO_SETTINGS) -> dict[str, str]:
    """The environment of a real process, which finds the packages and no settings but those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVERMQ_")}
    return {**kept, "PYTHONPATH": str(ROOT), **settings}


class Daemon:
    """`evermq run` with its files in `folder`; `url` is where it listens once it has started.

    Its data are in `folder` too, unless `data` is another place. `clock_offset` and `pages` alter the world of the
    processes that are started from then on (see `altered`); `prefix` is a command that starts them. `log` has the lines
    of all processes so far. `settings` are variables of the environment, which override the file.
    """

    def __init__(
        self,
        folder: Path,
        definitions: str,
        tasks: asyncio.TaskGroup,
        data: Path | None = None,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        self.url = ""
        self.log: list[str] = []
        self.data = data or folder / "data"
        self.clock_offset = 0.0
        self.pages = 0
        self.prefix: tuple[str, ...] = ()
        self._settings = settings
        self._tasks = tasks
        self._process: Process | None = None
        self._follower: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._first_line = 0
        self._config = folder / "broker.toml"
        startup = folder / "startup.mqsc"
        startup.write_text(definitions)
        self._config.write_text(
            f"""
            [queue_manager]
            data = "{self.data}"
            startup = ["{startup}"]
            [listener]
            port = 0
            [limits]
            body_bytes = 200000
            [trigger_monitor]
            enabled = false
            """
        )

    @property
    def pid(self) -> int:
        """The process that runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """True if a process runs that was started."""
        return self._process is not None and self._process.returncode is None

    @property
    def failing(self) -> bool:
        """True if it ends, or has ended, because its store has failed, or it could not start."""
        gone = self._follower is not None and self._follower.done()
        return gone or any("store failed" in line for line in self.log[self._first_line :])

    async def launch(self) -> None:
        """Start a process, and do not wait until it is ready."""
        self._first_line = len(self.log)
        self._process = await asyncio.create_subprocess_exec(
            *self._command(), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, cwd=ROOT, env=environment(self._settings)
        )
        self._follower = self._tasks.create_task(self._follow(self._process))

    async def ready(self) -> None:
        """Return when it can be connected to."""
        addresses = (await self.logged(" ready on ")).partition(" ready on ")[2].partition('"')[0]
        self.url = f"mq://{addresses.split()[-1]}"

    async def start(self) -> None:
        """Start it, and return when it is ready."""
        await self.launch()
        await self.ready()

    async def kill(self) -> None:
        """SIGKILL. Raises AssertionError when it had ended by itself; harmless when the test has ended it."""
        code = await self.end()
        assert code in (None, -SIGKILL), f"it ended by itself with {code}: {''.join(self.log)}"

    async def end(self) -> int | None:
        """SIGKILL, for a process that may have ended by itself; the exit code, None when there was no process."""
        if self._process is None:
            return None
        with suppress(ProcessLookupError):
            os.kill(self.pid, SIGKILL)
        return await self.ended()

    async def stop(self) -> None:
        """SIGTERM, and wait for the end in order."""
        self.terminate()
        code = await self.ended()
        assert code == 0, "".join(self.log)

    async def ended(self) -> int:
        """Wait until the process has ended; its exit code."""
        assert self._process is not None
        assert self._follower is not None
        code = await self._process.wait()
        await self._follower
        self._process = None
        return code

    def terminate(self) -> None:
        """SIGTERM, which quiesces it."""
        os.kill(self.pid, SIGTERM)

    def suspend(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, SIGCONT)

    async def logged(self, *words: str, number: int = 1) -> str:
        """The line of this number of those that the process logs with any of these words. Raises AssertionError when it
        ends without one.
        """
        assert self._follower is not None
        while True:
            lines = [line for line in self.log[self._first_line :] if any(each in line for each in words)]
            if len(lines) >= number:
                return lines[number - 1]
            assert not self._follower.done(), f"it ended without {words!r}: {''.join(self.log)}"
            self._news.clear()
            await self._news.wait()

    def _command(self) -> tuple[str, ...]:
        program: tuple[str, ...] = EVERMQ
        if self.clock_offset or self.pages:
            program = (sys.executable, "-m", "tests.durability.altered", str(self.clock_offset), str(self.pages))
        return (*self.prefix, *program, "run", "--config", str(self._config))

    async def _follow(self, process: Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self.log.append(line.decode())
            self._news.set()
        self._news.set()


@asynccontextmanager
async def daemon(
    folder: Path,
    definitions: str,
    data: Path | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
    prefix: tuple[str, ...] = (),
) -> AsyncIterator[Daemon]:
    """A daemon that runs, unless the test has ended it."""
    try:
        async with asyncio.TaskGroup() as tasks:
            daemon = Daemon(folder, definitions, tasks, data, settings)
            daemon.prefix = prefix
            await daemon.start()
            try:
                yield daemon
            except BaseException as error:
                error.add_note(f"the last lines of the daemon's log:\n{''.join(daemon.log[-10:])}")
                await daemon.end()
                raise
            await daemon.kill()
    except BaseExceptionGroup as group:
        raise lone(group) from None


class Writer:
    """`evermq put QUEUE --lines --ack`: puts numbered lines, and notes which were acknowledged."""

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers
        self.acknowledged: list[int] = []
        self._news = asyncio.Event()

    async def run(self, url: str, queue: str) -> None:
        """Put the lines, as far as it goes."""
        process = await asyncio.create_subprocess_exec(
            *EVERMQ, "put", queue, "--lines", "--ack", "--url", url, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(b"%d\n" % number for number in self.numbers))
        process.stdin.close()
        async for line in process.stdout:
            self.acknowledged.append(self.numbers[int(line) - 1])
            self._news.set()
        await process.wait()
        self._news.set()

    async def has_put(self, count: int) -> None:
        """Return when so many lines are acknowledged."""
        while len(self.acknowledged) < count:
            self._news.clear()
            await self._news.wait()


async def drained(url: str, queue: str) -> list[int]:
    """The numbers on a queue, in their order, got with `evermq get QUEUE --all`."""
    process = await asyncio.create_subprocess_exec(
        *EVERMQ, "get", queue, "--all", "--url", url, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    lines, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return [int(line) for line in lines.split()]
