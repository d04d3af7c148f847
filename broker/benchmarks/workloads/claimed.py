"""Messages claimed by a consumer, read as columns and acknowledged: what a data pipeline does with queued messages."""

from __future__ import annotations

from time import process_time
from typing import TYPE_CHECKING, Final

import broker
from broker.benchmarks.batches import check_depth, check_numbers
from broker.benchmarks.body import bodies, now
from broker.benchmarks.daemon import QUEUE
from broker.benchmarks.workload import FigureUnit, Measured, Workload
from broker.interface.batches.columns import parts_of
from broker.mqi import MQOO

if TYPE_CHECKING:
    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial

_BATCH: Final = 10_000


async def claim_queued(ready: Ready, url: str, size: int, count: int) -> Told:
    """`client_us` is what a message costs the processor of this process, up to its columns."""
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.OUTPUT | MQOO.INQUIRE) as queue:
        await queue.put_many(bodies(count, size))
        async with connection.consumer("BENCH", QUEUE) as consumer:
            await ready()
            begun, used, checking = now(), process_time(), 0.0
            read = 0
            while read < count:
                batch = await consumer.claim(_BATCH)
                async for columns in batch.columns():
                    checked = process_time()
                    check_numbers(parts_of(columns.bodies, columns.body_offsets), read)
                    read += columns.messages
                    checking += process_time() - checked
                await batch.acknowledge()
            seconds = (now() - begun) / 1e9
            client_us = (process_time() - used - checking) / count * 1e6
        await check_depth(queue, 0)
    return {"rate": count / seconds, "client_us": client_us}


async def _claimed(trial: Trial) -> Measured:
    reported = await trial.alone(claim_queued)
    return Measured(value=reported["rate"], details={"client_us": reported["client_us"]})


CLAIM: Final = Workload(
    name="claim",
    title="claim, read as columns and acknowledge queued messages",
    unit=FigureUnit.PER_SECOND,
    sizes=(256, 2048),
    count=20_000,
    run=_claimed,
    ways=lambda count: ({"request": 1 / 1024}, {"remove": 1}),
)
