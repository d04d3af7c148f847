"""A daemon in a process of its own, which a test kills, and the client commands against it."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager
from signal import SIGKILL
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator
    from pathlib import Path

EVERMQ = (sys.executable, "-m", "broker")


class Daemon:
    """`evermq run` on the data in `folder`; `url` is where it listens once it has started."""

    def __init__(self, folder: Path, definitions: str) -> None:
        self.url = ""
        self._log: list[str] = []
        self._process: Process | None = None
        self._config = folder / "broker.toml"
        startup = folder / "startup.mqsc"
        startup.write_text(definitions)
        self._config.write_text(
            f"""
            [queue_manager]
            data = "{folder / "data"}"
            startup = ["{startup}"]
            [listener]
            port = 0
            [trigger_monitor]
            enabled = false
            """
        )

    async def start(self) -> None:
        """Start it, and return when it is ready."""
        self._process = await asyncio.create_subprocess_exec(
            *EVERMQ, "run", "--config", str(self._config), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self._log.append(line.decode())
            if " ready on " in self._log[-1]:
                self.url = f"mq://{self._log[-1].split()[-1]}"
                return
        raise AssertionError("".join(self._log))

    async def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            process, self._process = self._process, None
            if process.returncode is None:
                process.kill()
            _, log = await process.communicate()
            assert process.returncode == -SIGKILL, f"it ended by itself: {''.join(self._log)}{log.decode()}"

    async def stop(self) -> None:
        """SIGTERM, and wait for the end in order."""
        assert self._process is not None
        process, self._process = self._process, None
        process.terminate()
        _, log = await process.communicate()
        assert process.returncode == 0, log.decode()


@asynccontextmanager
async def daemon(folder: Path, definitions: str) -> AsyncIterator[Daemon]:
    """A daemon that runs."""
    daemon = Daemon(folder, definitions)
    await daemon.start()
    try:
        yield daemon
    finally:
        await daemon.kill()


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
