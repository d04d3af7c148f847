"""The daemon's process while it is attacked: its memory, and how much of a processor it takes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from broker.benchmarks.daemon import processor_seconds, resident_mib

_EVERY_SECONDS: Final = 0.25
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """The process at a moment of the monotonic clock, in seconds: its memory in MiB, and the seconds of a processor
    that it has taken so far, in all and by its event loop.
    """

    at: float
    mib: float
    seconds: float
    loop_seconds: float


async def watch(pid: int, samples: list[Sample]) -> None:
    """Look at a process again and again, until cancelled."""
    while True:
        try:
            samples.append(Sample(time.monotonic(), resident_mib(pid), processor_seconds(pid), _loop_seconds(pid)))
        except OSError:
            return  # it has ended: others see that
        await anyio.sleep(_EVERY_SECONDS)


def _loop_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
