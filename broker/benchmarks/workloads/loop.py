"""Measure how long the event loop of the daemon is held at most, while durable messages are put and got.

A handler in the daemon has a timer that is due each millisecond, and notes how much later than that it comes: for so
long nobody was served. That counts what ran on the loop, the interpreter's lock in the hands of another thread, the
collector, and the processor in the hands of another program. A hold may have been a millisecond longer than is told.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import broker
from broker.benchmarks.batches import batches, check_depth
from broker.benchmarks.body import bodies, now
from broker.benchmarks.daemon import ATTRIBUTES, QUEUE
from broker.benchmarks.workload import FigureUnit, Measured, Workload
from broker.mqi import MQOO, MessageDescriptor
from triggers import process

if TYPE_CHECKING:
    from broker import Connection
    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial
    from triggers import TriggerMessage

_WATCH: Final = f"{QUEUE}.WATCH"
_MARKS: Final = f"{QUEUE}.MARKS"
_TOLD: Final = f"{QUEUE}.TOLD"

_EVERY: Final = 0.001
_SINGLE: Final = 500
_LARGE_BYTES: Final = 200_000
_LARGE: Final = 100
_PATIENCE: Final = 60
_UNWRITTEN: Final = MessageDescriptor(persistence=0)


class HoldTimer:
    """A timer of the running event loop that notes how late it comes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._longest = 0
        self._set()

    def close(self) -> None:
        """End."""
        self._timer.cancel()

    def longest(self) -> float:
        """By how many milliseconds it was late at most, since this was asked before."""
        longest, self._longest = self._longest, 0
        return longest / 1e6

    def _set(self) -> None:
        self._due = now() + int(_EVERY * 1e9)
        self._timer = self._loop.call_later(_EVERY, self._come)

    def _come(self) -> None:
        self._longest = max(self._longest, now() - self._due)
        self._set()


@process("BENCH.WATCH")
async def watch(trigger: TriggerMessage, connection: broker.Connection) -> None:
    """Tell, for each message on the queue of marks, how long the loop was held at most since the one before."""
    watch = HoldTimer()
    try:
        async with connection.open(_MARKS, MQOO.INPUT_SHARED) as marks:
            while await marks.get(wait=_PATIENCE):
                await connection.put1(_TOLD, str(watch.longest()), _UNWRITTEN)
    finally:
        watch.close()


async def hold(ready: Ready, url: str, size: int, count: int) -> Told:
    """Put and get in several ways; the longest hold in each, in milliseconds."""
    longest: dict[str, float] = {}
    async with broker.connect(url) as connection:
        await start_watch(connection)
        async with connection.open(QUEUE, MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.INQUIRE) as queue:
            await ready()
            await longest_hold(connection)
            await queue.put_many(bodies(count, size))
            longest["pipelined puts"] = await longest_hold(connection)
            async for _ in batches(connection, queue, count):
                pass
            longest["gets"] = await longest_hold(connection)
            for each in bodies(min(_SINGLE, count), size):
                await queue.put(each)
            longest["single puts"] = await longest_hold(connection)
            for each in bodies(min(_LARGE, count), _LARGE_BYTES):
                await queue.put(each)
            longest[f"puts of {_LARGE_BYTES // 1000} kB"] = await longest_hold(connection)
            await check_depth(queue, min(_SINGLE, count) + min(_LARGE, count))
    return {"longest": longest}


async def start_watch(connection: Connection) -> None:
    """Have the loop watched in a daemon with the settings and definitions of `HOLD`; return when it is."""
    await connection.put1(_WATCH, b"", _UNWRITTEN)
    await longest_hold(connection)


async def longest_hold(connection: Connection) -> float:
    """By how many milliseconds the loop was held at most, since this was asked before."""
    await connection.put1(_MARKS, b"", _UNWRITTEN)
    async with connection.open(_TOLD, MQOO.INPUT_SHARED) as reported:
        return float((await reported.get(wait=_PATIENCE)).data)


async def _measured(trial: Trial) -> Measured:
    longest = (await trial.alone(hold))["longest"]
    return Measured(value=max(longest.values()), details=longest)


HOLD: Final = Workload(
    name="hold",
    title="the longest hold of the daemon's event loop",
    unit=FigureUnit.MILLISECONDS,
    sizes=(256, 2048),
    count=30_000,
    run=_measured,
    ways=lambda count: ({"sync": 1},),
    definitions=f"""\
DEFINE QLOCAL({_MARKS}) REPLACE
DEFINE QLOCAL({_TOLD}) REPLACE
DEFINE QLOCAL({QUEUE}) {ATTRIBUTES} REPLACE
DEFINE PROCESS({_WATCH}) REPLACE
DEFINE QLOCAL({_WATCH}) TRIGGER TRIGTYPE(EVERY) PROCESS({_WATCH}) REPLACE
""",
    settings={"EVERMQ_TRIGGER_MONITOR_ENABLED": "true", "EVERMQ_TRIGGER_MONITOR_HANDLERS": __name__},
)
