"""Measure tasks and processes by themselves: an asyncio task that does nothing, an interpreter that starts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import anyio

from broker.benchmarks.child import child, environment
from broker.benchmarks.workload import Limit

if TYPE_CHECKING:
    from pathlib import Path

    from broker.benchmarks.child import Ready, Told

_TURN: Final = 256
"""Tasks made in one turn of the event loop."""


async def spawn(ready: Ready, count: int) -> Told:
    await ready()
    begun = time.perf_counter()
    for _ in range(0, count, _TURN):
        await asyncio.gather(*(asyncio.create_task(_nothing()) for _ in range(_TURN)))
    return {"seconds": time.perf_counter() - begun}


async def _nothing() -> None:
    pass


async def _task(folder: Path, size: int, count: int) -> float:
    async with child(spawn, count=count) as alone:
        return float((await alone.measured())["seconds"]) / count


async def _interpreter(folder: Path, size: int, count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        await anyio.run_process(
            [sys.executable, "-c", "import aiosqlite, anyio, msgpack, uvloop"],
            stdin=subprocess.DEVNULL,
            env=environment(),
        )
    return (time.perf_counter() - begun) / count


TASK: Final = Limit(name="task", title="an asyncio task that does nothing", sizes=(0,), count=50_000, run=_task)

INTERPRETER: Final = Limit(
    name="interpreter",
    title="Python starts and imports uvloop, anyio, msgpack, aiosqlite",
    sizes=(0,),
    count=5,
    run=_interpreter,
)
