"""Measures what units of work in doubt cost: `python docs/scripts/units_in_doubt.py [--units N] [--decided N]`.

- The restart of a queue manager that was killed with so many units in doubt, each with a message put and one got,
  beside one that was killed with as many messages and no unit, by turns: seconds, processor time, memory.
- So many units prepared and decided one after the other: the memory and the files of the queue manager on the way.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MQPMO, MQError
from broker.mqi.external_units import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker import Connection

BODY: Final = b"x" * 512
DATABASE: Final = b"d" * 16
BATCH: Final = 500
PAGE: Final = 4096
MIB: Final = 1024 * 1024


def names(count: int, first: int = 0) -> list[bytes]:
    """Names of so many units."""
    return [number.to_bytes(16, "big") for number in range(first, first + count)]


async def fill(folder: Path, messages: int, units: int, *, prepared: bool) -> None:
    """Fill a queue manager, and kill it: with units in doubt, or with as many messages on their queues."""
    async with QueueManager.open(name="QM1", data=folder) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES) MAXDEPTH(999999999)", check=True)
        async with connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
            for start in range(0, messages + units, BATCH):
                bodies = [BODY] * min(BATCH, messages + units - start)
                await queue.put_many(bodies, options=MQPMO.NO_SYNCPOINT)
            for unit in names(units):
                await queue.put(BODY, options=MQPMO.SYNCPOINT)
                if prepared:
                    await queue.get(options=MQGMO.SYNCPOINT)
                    await connection.prepare(unit, DATABASE, "orders")
                else:
                    await connection.commit()
        os.kill(os.getpid(), signal.SIGKILL)


def resident() -> int:
    """The memory of this process, in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


async def start(folder: Path) -> None:
    """Start a queue manager; print for how many seconds, the processor time of the process with its imports, MiB, and
    the number of units in doubt; then kill it.
    """
    began = time.perf_counter()
    async with QueueManager.open(name="QM1", data=folder) as manager:
        seconds, processor = time.perf_counter() - began, time.process_time()
        units = manager.status()["in_doubt_units"]
        print(seconds, processor, resident() / MIB, units, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def child(*words: object) -> str:
    """Run this script in a process of its own, which kills itself; return what it prints."""
    done = subprocess.run([sys.executable, __file__, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(done.stderr)
    return done.stdout


def restarts(messages: int, units: int, runs: int) -> Iterator[str]:
    """Measure restarts."""
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, list[list[float]]] = {"without": [], "with": []}
        for kind in found:
            child("fill", Path(folder, kind), messages, units, int(kind == "with"))
        for number in range(runs + 1):
            for kind, figures in found.items():
                told = [float(each) for each in child("start", Path(folder, kind)).split()]
                if told[3] != (units if kind == "with" else 0):
                    raise RuntimeError(f"{told[3]:.0f} units are in doubt {kind}")
                if number:  # the first warms up
                    figures.append(told)
    middle = {kind: [median(column) for column in zip(*figures, strict=True)] for kind, figures in found.items()}
    yield f"restart, {messages + units:,} messages beside; {units:,} units in doubt beside none, {runs} runs by turns:"
    for at, what in enumerate(("seconds", "processor seconds", "MiB")):
        bare, full = middle["without"][at], middle["with"][at]
        yield f"  {what}: {bare:.3f} without, {full:.3f} with, x {full / bare:.3f}"


async def drained(connection: Connection) -> None:
    """Get all messages of Q."""
    async with connection.open("Q", MQOO.INPUT_SHARED) as queue:
        try:
            while True:
                await queue.get_many(BATCH, options=MQGMO.NO_SYNCPOINT)
        except MQError:
            return


async def prepare(connection: Connection, unit: bytes) -> None:
    """A unit with a message, prepared."""
    await connection.put1("Q", BODY, options=MQPMO.SYNCPOINT)
    await connection.prepare(unit, DATABASE, "orders")


def show(done: int, folder: Path, seconds: float) -> None:
    """Print what so many units have left behind."""
    files = sum(each.stat().st_size for each in folder.iterdir())
    print(
        f"{done:>9,} units decided: {resident() / MIB:.1f} MiB of memory, {files / MIB:.1f} MiB of files, "
        f"{done / seconds:,.0f} units a second",
        flush=True,
    )


async def decided(count: int) -> None:
    """Prepare and decide so many units, with what is occupied after each tenth of them."""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            manager = await stack.enter_async_context(QueueManager.open(name="QM1", data=Path(folder)))
            programs = [await stack.enter_async_context(manager.connect()) for _ in range(BATCH)]
            await programs[0].mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)", check=True)
            began, told = time.perf_counter(), 0
            for first in range(0, count, BATCH):
                units = names(min(BATCH, count - first), first)
                await asyncio.gather(*map(prepare, programs, units))
                await programs[0].decide(DATABASE, [Decision(unit, commit=True) for unit in units])
                await drained(programs[0])
                done = first + len(units)
                if done * 10 // count > told:
                    told = done * 10 // count
                    show(done, Path(folder), time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=1000, help="in doubt at the restart")
    parser.add_argument("--messages", type=int, default=20_000, help="on the queue beside them")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--decided", type=int, default=1_000_000, help="units that are prepared and decided")
    choice = parser.parse_args()
    for line in restarts(choice.messages, choice.units, choice.runs) if choice.units else ():
        print(line, flush=True)
    if choice.decided:
        asyncio.run(decided(choice.decided))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", folder, messages, units, prepared]:
            asyncio.run(fill(Path(folder), int(messages), int(units), prepared=prepared == "1"))
        case ["start", folder]:
            asyncio.run(start(Path(folder)))
        case _:
            main()
