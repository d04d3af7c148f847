"""Gets under syncpoint: of messages that are queued, and of messages that another process puts at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import broker
from broker.benchmarks.batches import batches, check_depth
from broker.benchmarks.body import bodies, now
from broker.benchmarks.daemon import QUEUE
from broker.benchmarks.workload import FigureUnit, Measured, Workload, rate_of
from broker.mqi import MQOO

if TYPE_CHECKING:
    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial


async def get_queued(ready: Ready, url: str, size: int, count: int) -> Told:
    options = MQOO.OUTPUT | MQOO.INPUT_SHARED | MQOO.INQUIRE
    async with broker.connect(url) as connection, connection.open(QUEUE, options) as queue:
        await queue.put_many(bodies(count, size))
        await ready()
        begun = now()
        async for _ in batches(connection, queue, count):
            pass
        seconds = (now() - begun) / 1e9
        await check_depth(queue, 0)
    return {"rate": count / seconds}


async def get_arriving(ready: Ready, url: str, size: int, count: int) -> Told:
    """`ended` is when the last message was in the program's hands, not yet committed."""
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.INPUT_SHARED | MQOO.INQUIRE) as queue:
        await ready()
        ended = 0
        async for _ in batches(connection, queue, count):
            ended = now()
        await check_depth(queue, 0)
    return {"ended": ended}


async def put_meanwhile(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.OUTPUT) as queue:
        await ready()
        begun = now()
        await queue.put_many(bodies(count, size))
    return {"begun": begun}


async def _queued(trial: Trial) -> Measured:
    return rate_of(await trial.alone(get_queued))


async def _through(trial: Trial) -> Measured:
    got, put = await trial.together(get_arriving, put_meanwhile)
    seconds = (got["ended"] - put["begun"]) / 1e9
    return rate_of({"rate": trial.count / seconds, "daemon_us": got["daemon_us"]})


GET: Final = Workload(
    name="get",
    title="get and commit of queued messages",
    unit=FigureUnit.PER_SECOND,
    sizes=(256, 2048),
    count=20_000,
    run=_queued,
    ways=lambda count: ({"request": 1}, {"remove": 1}),
)

PUT_AND_GET: Final = Workload(
    name="put-and-get",
    title="put and get through one queue, two client processes",
    unit=FigureUnit.PER_SECOND,
    sizes=(256, 2048),
    count=10_000,
    run=_through,
    ways=lambda count: ({"request": 2}, {"insert": 1, "remove": 1}),
)
