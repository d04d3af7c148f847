"""A queue manager that is killed with a long queue, and started again: how long until the first message is got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import broker
from broker.benchmarks.batches import check_depth
from broker.benchmarks.body import Body, bodies, now
from broker.benchmarks.child import MeasurementError
from broker.benchmarks.daemon import QUEUE
from broker.benchmarks.workload import FigureUnit, Measured, Workload
from broker.mqi import MQOO

if TYPE_CHECKING:
    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial


async def fill(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.OUTPUT | MQOO.INQUIRE) as queue:
        await ready()
        await queue.put_many(bodies(count, size))
        await check_depth(queue, count)
    return {}


async def get_first(ready: Ready, url: str, size: int, count: int) -> Told:
    """Told where the queue manager listens now, get the first message; all others must be there too."""
    url = await ready()
    options = MQOO.INPUT_SHARED | MQOO.INQUIRE
    async with broker.connect(url) as connection, connection.open(QUEUE, options) as queue:
        message = await queue.get()
        ended = now()
        if Body.of(message.data).number != 0 or len(message.data) != size:
            raise MeasurementError(f"message 0 came as {Body.of(message.data).number}")
        await check_depth(queue, count - 1)
    return {"ended": ended}


async def _recovered(trial: Trial) -> Measured:
    idle = trial.daemon.resident_mib
    await trial.alone(fill)
    full = trial.daemon.resident_mib
    async with trial.client(get_first) as client:
        await client.prepared()
        await trial.daemon.kill()
        begun = now()
        await trial.daemon.start()
        await client.go(trial.daemon.url)
        got = await client.result()
    details = {"idle_mib": idle, "full_mib": full, "recovered_mib": trial.daemon.resident_mib}
    return Measured(value=(got["ended"] - begun) / 1e6, details=details)


RECOVERY: Final = Workload(
    name="recovery",
    title="first get after kill -9 with {count} messages queued",
    unit=FigureUnit.MILLISECONDS,
    sizes=(2048,),
    count=100_000,
    run=_recovered,
    ways=lambda count: ({"interpreter": 1, "read": count},),
)
