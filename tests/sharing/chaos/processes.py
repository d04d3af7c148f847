"""Members in processes of their own, on one machine: started, killed, stopped for a while, and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker import MQError
from broker.client import connect
from broker.sharing.members.group import LEASE_SECONDS

if TYPE_CHECKING:
    from asyncio.subprocess import Process

ROOT: Final = Path(__file__).parents[3]

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 60.0
_TELL_SECONDS: Final = 1.0


class StartError(Exception):
    """A member has ended before it could be reached."""


class SlowStartError(StartError):
    """A member could not be reached for too long, and has been killed. Its log tells what it was at."""


@dataclass
class Member:
    """One member, with its data under `data`. `clock_offset` is how far its clock is off, in seconds; `patience`
    multiplies the times that it has to start and to end.
    """

    name: str
    data: Path
    group: str
    dsn: str
    clock_offset: float = 0.0
    lease: float = LEASE_SECONDS
    patience: float = 1.0
    address: str = ""
    process: Process | None = None
    stopped: bool = False

    @property
    def serves(self) -> bool:
        """True if programs may find it: it has been started, and nobody has stopped or ended it."""
        return bool(self.address) and not self.has_ended and not self.stopped

    @property
    def has_ended(self) -> bool:
        """True if it does not run."""
        return self.process is None or self.process.returncode is not None

    async def start(self, step: str = "") -> None:
        """Start it, and return when it can be reached. `step`: where it is to die. Raises StartError."""
        assert self.has_ended, f"{self.name} runs"
        self.address = ""
        self.stopped = False
        with (self.data.parent / f"{self.name}.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.sharing.chaos.member", self.name, str(self.data), self.group, self.dsn),
                *("--clock", str(self.clock_offset), "--lease", str(self.lease), "--leashed"),
                *(("--step", step) if step else ()),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        seconds = self.patience * _START_SECONDS
        try:
            async with asyncio.timeout(seconds):
                line = await self.process.stdout.readline()
        except TimeoutError:
            await self.tell_tasks()
            await self.kill()
            raise SlowStartError(f"{self.name} did not start in {seconds:g} s: {self.log()[-8000:]}") from None
        if not line:
            raise StartError(f"{self.name} ended with {await self.process.wait()}: {self.log()[-2000:]}")
        self.address = line.decode().strip()

    def log(self) -> str:
        """Return what it has written on its standard error, in all its lives."""
        return (self.data.parent / f"{self.name}.log").read_text("utf-8", "replace")

    async def tell_tasks(self) -> None:
        """Let it write into its log what each of its tasks waits for."""
        self._send(signal.SIGUSR1)
        await asyncio.sleep(_TELL_SECONDS)

    async def kill(self) -> None:
        """End it at once."""
        self.address = ""
        await self._end(signal.SIGKILL)

    async def end(self) -> None:
        """End it in order."""
        self.address = ""
        await self._end(signal.SIGTERM)

    def stop(self) -> None:
        """It does nothing more until it is let go on."""
        self.stopped = True
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        self._send(signal.SIGCONT)
        self.stopped = False

    async def mqsc(self, text: str) -> None:
        """Run commands that must succeed."""
        async with connect(f"mq://{self.address}/{self.name}") as connection:
            replies = await connection.mqsc(text)
        if wrong := [reply.text for reply in replies if not reply.ok]:
            raise MQError(2085, "; ".join(wrong))

    def _send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.process.pid, number)

    async def _end(self, number: signal.Signals) -> None:
        self._send(number)
        self._send(signal.SIGCONT)
        if self.process is not None:
            async with asyncio.timeout(self.patience * _STOP_SECONDS):
                await self.process.wait()
