"""Durable puts: many outstanding, by one task or by many, and one at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import broker
from broker.benchmarks.batches import OUTSTANDING, check_depth
from broker.benchmarks.body import bodies, body, now
from broker.benchmarks.daemon import QUEUE
from broker.benchmarks.latencies import latencies, median_of
from broker.benchmarks.workload import FigureUnit, Measured, Workload, rate_of
from broker.mqi import MQOO

if TYPE_CHECKING:
    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial

_WARM_UP: Final = 100


async def put_pipelined(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.OUTPUT | MQOO.INQUIRE) as queue:
        await queue.put_many(bodies(_WARM_UP, size))
        await ready()
        begun = now()
        await queue.put_many(bodies(count, size))
        seconds = (now() - begun) / 1e9
        await check_depth(queue, _WARM_UP + count)
    return {"rate": count / seconds}


async def put_by_tasks(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.OUTPUT | MQOO.INQUIRE) as queue:
        await queue.put_many(bodies(_WARM_UP, size))
        await ready()
        left = bodies(count, size)

        async def put() -> None:
            for each in left:
                await queue.put(each)

        begun = now()
        await asyncio.gather(*(put() for _ in range(OUTSTANDING)))
        seconds = (now() - begun) / 1e9
        await check_depth(queue, _WARM_UP + count)
    return {"rate": count / seconds}


async def put_singly(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.OUTPUT | MQOO.INQUIRE) as queue:
        await queue.put_many(bodies(_WARM_UP, size))
        await ready()
        taken = []
        for number in range(count):
            data = body(number, size)
            begun = now()
            await queue.put(data)
            taken.append(now() - begun)
        await check_depth(queue, _WARM_UP + count)
    return latencies(taken)


async def _pipelined(trial: Trial) -> Measured:
    return rate_of(await trial.alone(put_pipelined))


async def _by_tasks(trial: Trial) -> Measured:
    return rate_of(await trial.alone(put_by_tasks))


async def _singly(trial: Trial) -> Measured:
    return median_of(await trial.alone(put_singly))


PUT_PIPELINED: Final = Workload(
    name="put-pipelined",
    title="durable put, pipelined, 256 outstanding",
    unit=FigureUnit.PER_SECOND,
    sizes=(256, 2048),
    count=30_000,
    run=_pipelined,
    ways=lambda count: ({"request": 1}, {"insert": 1}),
)

PUT_BY_TASKS: Final = Workload(
    name="put-tasks",
    title="durable put by each of 256 tasks, one at a time",
    unit=FigureUnit.PER_SECOND,
    sizes=(256, 2048),
    count=20_000,
    run=_by_tasks,
    ways=lambda count: ({"request": 1}, {"insert": 1}),
)

PUT_SINGLY: Final = Workload(
    name="put-singly",
    title="durable put, one at a time, p50",
    unit=FigureUnit.MICROSECONDS,
    sizes=(256, 2048),
    count=500,
    run=_singly,
    ways=lambda count: ({"round-trip": 1, "commit": 1},),
)
