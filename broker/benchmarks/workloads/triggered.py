"""Triggered handlers in the daemon: each message starts a coroutine that gets it and commits.

The throttle is open, to measure the machinery and not the pauses that it makes by default: a millisecond after every
ten starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import broker
from broker.benchmarks.body import Body, bodies, now
from broker.benchmarks.child import MeasurementError
from broker.benchmarks.daemon import ATTRIBUTES, QUEUE
from broker.benchmarks.workload import FigureUnit, Measured, Workload
from broker.mqi import MQOO
from triggers import process

if TYPE_CHECKING:
    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial
    from triggers import TriggerMessage

_DONE: Final = "BENCH.DONE"

_handled: set[int] = set()


@process("BENCH")
async def handle(trigger: TriggerMessage, connection: broker.Connection) -> None:
    """Get the message and commit. When as many as TRIGDATA says are handled, tell what time it is."""
    async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue, connection.unit_of_work():
        message = await queue.get()
    _handled.add(Body.of(message.data).number)
    if len(_handled) == int(trigger.trigger_data):
        await connection.put1(_DONE, str(now()))


async def trigger_all(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection:
        for reply in await connection.mqsc(f"ALTER QLOCAL({QUEUE}) TRIGGER TRIGDATA('{count}')"):
            if not reply.ok:
                raise MeasurementError(reply.text)
        async with connection.open(QUEUE, MQOO.OUTPUT) as queue, connection.open(_DONE, MQOO.INPUT_SHARED) as done:
            await ready()
            begun = now()
            await queue.put_many(bodies(count, size))
            ended = int((await done.get(wait=60)).data)
    return {"rate": count / ((ended - begun) / 1e9)}


async def _triggered(trial: Trial) -> Measured:
    return Measured(value=(await trial.alone(trigger_all))["rate"])


TRIGGERED: Final = Workload(
    name="triggered",
    title="triggered handlers, each with a get and a commit",
    unit=FigureUnit.PER_SECOND,
    sizes=(256,),
    count=5_000,
    run=_triggered,
    ways=lambda count: ({"request": 1}, {"insert": 1, "remove": 1}, {"task": 1}),
    definitions=f"""\
DEFINE QLOCAL({_DONE}) {ATTRIBUTES} REPLACE
DEFINE PROCESS(BENCH) REPLACE
DEFINE QLOCAL({QUEUE}) {ATTRIBUTES} TRIGTYPE(EVERY) PROCESS(BENCH) REPLACE
""",
    settings={
        "EVERMQ_TRIGGER_MONITOR_ENABLED": "true",
        "EVERMQ_TRIGGER_MONITOR_HANDLERS": __name__,
        "EVERMQ_TRIGGER_MONITOR_BATCH_SIZE": "100",
        "EVERMQ_TRIGGER_MONITOR_THROTTLE_DELAY": "0",
    },
)
