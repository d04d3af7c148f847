"""The daemon of a measurement: `evermq run` in a process of its own, all its settings at their defaults but a few."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio.streams.text import TextReceiveStream

from broker.benchmarks.child import MeasurementError, environment
from broker.benchmarks.protection import Protection, protected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from anyio.abc import Process

    from broker.benchmarks.protection import Protected

MIB: Final = 1024 * 1024

QUEUE: Final = "BENCH"

ATTRIBUTES: Final = "DEFPSIST(YES) NOHARDENBO MAXDEPTH(999999999)"
"""Messages are persistent. NOHARDENBO is the default: HARDENBO journals a mark before each get under syncpoint is
answered, to keep backout counts over a crash in between; that is another promise, with another price."""

DEFINITIONS: Final = f"DEFINE QLOCAL({QUEUE}) {ATTRIBUTES} REPLACE\n"


class MeasuredDaemon:
    """`evermq run` with its data in `folder`; `url` is where its clients reach it once it has started."""

    def __init__(self, folder: Path, definitions: str, settings: Mapping[str, str], protected: Protected) -> None:
        self.url = ""
        self.client_settings = protected.clients
        self._process: Process | None = None
        startup = folder / "startup.mqsc"
        startup.write_text(protected.definitions + definitions, "utf-8")
        self._environment = environment(
            **{
                "EVERMQ_QUEUE_MANAGER_DATA": str(folder / "data"),
                "EVERMQ_QUEUE_MANAGER_STARTUP": str(startup),
                "EVERMQ_LISTENER_PORT": "0",
                "EVERMQ_LOGGING_LEVEL": "WARNING",
                "EVERMQ_TRIGGER_MONITOR_ENABLED": "false",
                **protected.daemon,
                **settings,
            }
        )

    async def start(self) -> None:
        """Start it, and return when programs can connect. Raises MeasurementError."""
        self._process = await anyio.open_process(
            [sys.executable, "-m", "broker", "run"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=self._environment,
        )
        assert self._process.stderr is not None
        log = ""
        async for text in TextReceiveStream(self._process.stderr):
            log += text
            if found := re.search(r' ready on ([^"\n]+)["\n]', log):
                plain, *secured = found[1].split(", ")
                self.url = f"mqs://{secured[-1]}" if secured else f"mq://{plain}"
                return
        raise MeasurementError(f"the daemon ended: {log.strip().rpartition(chr(10))[2]}")

    async def kill(self) -> None:
        """SIGKILL; harmless when it does not run."""
        process, self._process = self._process, None
        if process is not None:
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.aclose()

    @property
    def pid(self) -> int:
        """The process that runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def resident_mib(self) -> float:
        """The memory it occupies."""
        return resident_mib(self.pid)

    @property
    def processor_seconds(self) -> float:
        """The processor time it has taken, of all its threads."""
        return processor_seconds(self.pid)


def resident_mib(pid: int) -> float:
    """The memory that a process occupies."""
    pages = Path(f"/proc/{pid}/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB
    reported = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
    return int(reported.stdout) * 1024 / MIB


def processor_seconds(pid: int) -> float:
    """The processor time that a process has taken, of all its threads."""
    if platform.system() == "Linux":
        clock = ctypes.c_int32((~pid << 3) | 2).value  # of clock_getcpuclockid(3), which Python lacks
        return time.clock_gettime_ns(clock) / 1e9
    reported = subprocess.run(["ps", "-o", "cputime=", "-p", str(pid)], capture_output=True, check=True, text=True)
    return in_seconds(reported.stdout)


def in_seconds(duration: str) -> float:
    """The seconds in `hours:minutes:seconds`, or in less of it, as `ps` writes it."""
    return sum(float(part) * 60.0**place for place, part in enumerate(reversed(duration.split(":"))))


@asynccontextmanager
async def daemon(
    folder: Path, definitions: str, settings: Mapping[str, str], protection: Protection = Protection.NONE
) -> AsyncIterator[MeasuredDaemon]:
    """A daemon that runs. Raises MeasurementError, and CannotMeasureError where the protection cannot be had."""
    started = MeasuredDaemon(folder, definitions, settings, await protected(folder, protection))
    try:
        await started.start()
        yield started
    finally:
        await started.kill()
