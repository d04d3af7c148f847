"""Getters that wait: how fast a put wakes one, and how fast a thousand of them are served."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import broker
from broker.benchmarks.batches import OUTSTANDING, WAITING, check_depth
from broker.benchmarks.body import Body, body, now
from broker.benchmarks.child import MeasurementError
from broker.benchmarks.daemon import ATTRIBUTES, QUEUE
from broker.benchmarks.latencies import latencies, median_of
from broker.benchmarks.workload import FigureUnit, Measured, Workload
from broker.mqi import MQGMO, MQOO, GetMessageOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker import Queue
    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial

_PAUSE_SECONDS: Final = 0.003
"""Between two puts: the getter has long been waiting again."""

_WARM_UP: Final = 20

_WAITERS: Final = 1_000

_OUTSIDE_SYNCPOINT: Final = GetMessageOptions(options=MQGMO.WAIT | MQGMO.NO_SYNCPOINT, wait_interval=-1)


async def woken(ready: Ready, url: str, size: int, count: int, *, syncpoint: bool) -> Told:
    """Wait for each message; the time ends when the program has it, and its commit comes after."""
    taken = []
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.INPUT_SHARED) as queue:
        await ready()
        for number in range(count):
            message = await queue.get(None, WAITING if syncpoint else _OUTSIDE_SYNCPOINT)
            got = now()
            body = Body.of(message.data)
            if body.number != number:
                raise MeasurementError(f"message {number} came as {body.number}")
            taken.append(got - body.put)
            if syncpoint:
                await connection.commit()
    return latencies(taken[_WARM_UP:])


async def wake(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.OUTPUT) as queue:
        await ready()
        for number in range(count):
            await asyncio.sleep(_PAUSE_SECONDS)
            await queue.put(body(number, size))
    return {}


async def wait_on_all(ready: Ready, url: str, size: int, count: int) -> Told:
    """One waiting get on each queue; a unit of work ends with every turn of the event loop that brought messages."""
    arrivals: list[int] = []
    news = asyncio.Event()

    async def wait(queue: Queue, number: int) -> None:
        message = await queue.get(None, WAITING)
        arrivals.append(now())
        news.set()
        if Body.of(message.data).number != number:
            raise MeasurementError(f"{queue.name} brought message {Body.of(message.data).number}")

    async with broker.connect(url) as connection:
        queues = [await connection.open(name, MQOO.INPUT_SHARED | MQOO.INQUIRE) for name in _names(count)]
        async with asyncio.TaskGroup() as waiters:
            for number, queue in enumerate(queues):
                waiters.create_task(wait(queue, number))
            await asyncio.sleep(0)
            await check_depth(queues[-1], 0)  # asked after the gets were made: when it is answered, they wait
            await ready()
            while len(arrivals) < count:
                await news.wait()
                news.clear()
                await connection.commit()
    return {"ended": max(arrivals)}


async def put_on_all(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection:
        queues = enumerate([await connection.open(name, MQOO.OUTPUT) for name in _names(count)])

        async def put() -> None:
            for number, queue in queues:
                await queue.put(body(number, size))

        await ready()
        begun = now()
        await asyncio.gather(*(put() for _ in range(OUTSTANDING)))
    return {"begun": begun}


def _names(count: int) -> Iterator[str]:
    return (f"{QUEUE}.{number}" for number in range(count))


async def _wake_under_syncpoint(trial: Trial) -> Measured:
    return median_of((await trial.together(woken, wake, syncpoint=True))[0])


async def _wake_outside_syncpoint(trial: Trial) -> Measured:
    return median_of((await trial.together(woken, wake, syncpoint=False))[0])


async def _all(trial: Trial) -> Measured:
    got, put = await trial.together(wait_on_all, put_on_all)
    return Measured(value=(got["ended"] - put["begun"]) / 1e6)


WAKE_UNDER_SYNCPOINT: Final = Workload(
    name="wake-syncpoint",
    title="a blocked get under syncpoint wakes, p50",
    unit=FigureUnit.MICROSECONDS,
    sizes=(256,),
    count=500,
    run=_wake_under_syncpoint,
    ways=lambda count: ({"round-trip": 1, "commit": 1},),
)

WAKE_OUTSIDE_SYNCPOINT: Final = Workload(
    name="wake",
    title="a blocked get outside syncpoint wakes, p50",
    unit=FigureUnit.MICROSECONDS,
    sizes=(256,),
    count=500,
    run=_wake_outside_syncpoint,
    ways=lambda count: ({"round-trip": 1},),
)

WAITERS: Final = Workload(
    name="waiters",
    title="{count} waiters on as many queues, a message each, all",
    unit=FigureUnit.MILLISECONDS,
    sizes=(256,),
    count=_WAITERS,
    run=_all,
    ways=lambda count: ({"request": 2 * count}, {"insert": count}),
    definitions="ALTER QMGR MAXHANDS(10000)\n"
    + "".join(f"DEFINE QLOCAL({name}) {ATTRIBUTES} REPLACE\n" for name in _names(_WAITERS)),
)
