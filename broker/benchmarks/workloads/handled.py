"""Handlers that are handed their message: the queue manager takes it, hands it over, and removes it when they return.

`handled` runs them in the daemon, `handled-worker` in a process of their own, over the wire, as `evermq worker` does.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Final

import broker
from broker.benchmarks.body import Body, bodies, now
from broker.benchmarks.child import MeasurementError
from broker.benchmarks.daemon import ATTRIBUTES, QUEUE
from broker.benchmarks.workload import FigureUnit, Measured, Workload
from broker.mqi import MQIA, MQOO
from triggers import App, process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial

CONCURRENCY: Final = 100
"""Handlers that run at a time."""

_ASK: Final = "BENCH.ASK"
_TOLD: Final = "BENCH.TOLD"


class Handled:
    """The messages that were handled: `runs` counts their handlers, `ended` is when the last of so many began."""

    def __init__(self) -> None:
        self.runs = 0
        self.numbers: set[int] = set()
        self.ended = 0
        self._count = 0
        self._all = asyncio.Event()

    def add(self, data: bytes) -> None:
        """A handler has begun."""
        self.runs += 1
        self.numbers.add(Body.of(data).number)
        if self.runs == self._count:
            self._end()

    async def all(self, count: int) -> None:
        """Return when so many handlers have begun."""
        self._count = count
        if self.runs >= count:
            self._end()
        await self._all.wait()

    def _end(self) -> None:
        self.ended = now()
        self._all.set()


_handled = Handled()


@process("BENCH", deliver="message", concurrency=CONCURRENCY)
async def handle(body: bytes) -> None:
    """Handle a message in the daemon."""
    _handled.add(body)


@process("BENCH.ASK", deliver="message")
async def tell(body: bytes, connection: broker.Connection) -> None:
    """Tell what was handled in the daemon, when all is."""
    await _handled.all(int(body))
    await connection.put1(_TOLD, json.dumps([_handled.runs, len(_handled.numbers), _handled.ended]))


async def handle_in_daemon(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.OUTPUT | MQOO.INQUIRE) as queue:
        await ready()
        begun = now()
        await queue.put_many(bodies(count, size))
        _, _, ended = await _ask(connection, count)
        await _emptied(queue)
        runs, different, _ = await _ask(connection, count)  # none that came later, too
    _account_for(count, runs, different)
    return {"rate": count / ((ended - begun) / 1e9)}


async def _ask(connection: broker.Connection, count: int) -> Sequence[int]:
    await connection.put1(_ASK, str(count))
    async with connection.open(_TOLD, MQOO.INPUT_SHARED) as reported:
        return json.loads((await reported.get(wait=60)).data)  # type: ignore[no-any-return]  # json knows only Any


async def work(ready: Ready, url: str, size: int, count: int) -> Told:
    """A worker: it handles what comes, until that is all."""
    app, handled = App(url), Handled()

    @app.handler(QUEUE, concurrency=CONCURRENCY)
    async def handle(body: bytes) -> None:
        handled.add(body)

    async with app.running(), broker.connect(url) as connection:
        await ready()
        async with asyncio.timeout(60):
            await handled.all(count)
        async with connection.open(QUEUE, MQOO.INQUIRE) as queue:
            await _emptied(queue)
    _account_for(count, handled.runs, len(handled.numbers))
    return {"ended": handled.ended}


async def produce(ready: Ready, url: str, size: int, count: int) -> Told:
    async with broker.connect(url) as connection, connection.open(QUEUE, MQOO.OUTPUT) as queue:
        await ready()
        begun = now()
        await queue.put_many(bodies(count, size))
        return {"begun": begun}


async def _emptied(queue: broker.Queue) -> None:
    """Return when the last message has gone: its handler's return is durable."""
    async with asyncio.timeout(60):
        while await queue.inquire(MQIA.CURRENT_Q_DEPTH) != {MQIA.CURRENT_Q_DEPTH: 0}:  # noqa: ASYNC110  # by others
            await asyncio.sleep(0.005)


def _account_for(count: int, runs: int, different: int) -> None:
    if not runs == different == count:
        raise MeasurementError(f"{runs} handlers ran for {different} different messages of {count}")


async def _in_daemon(trial: Trial) -> Measured:
    return Measured(value=(await trial.alone(handle_in_daemon))["rate"])


async def _in_worker(trial: Trial) -> Measured:
    worked, put = await trial.together(work, produce)
    return Measured(value=trial.count / ((worked["ended"] - put["begun"]) / 1e9))


_SERVED: Final = f"""\
DEFINE PROCESS(BENCH) REPLACE
DEFINE QLOCAL({QUEUE}) {ATTRIBUTES} TRIGGER TRIGTYPE(EVERY) PROCESS(BENCH) REPLACE
"""

HANDLED: Final = Workload(
    name="handled",
    title="handlers that are handed their message, in the daemon",
    unit=FigureUnit.PER_SECOND,
    sizes=(256,),
    count=20_000,
    run=_in_daemon,
    ways=lambda count: ({"request": 1}, {"insert": 1, "remove": 1}, {"task": 1}),
    definitions=f"""\
{_SERVED}DEFINE PROCESS({_ASK}) REPLACE
DEFINE QLOCAL({_ASK}) TRIGGER TRIGTYPE(EVERY) PROCESS({_ASK}) REPLACE
DEFINE QLOCAL({_TOLD}) REPLACE
""",
    settings={"EVERMQ_TRIGGER_MONITOR_ENABLED": "true", "EVERMQ_TRIGGER_MONITOR_HANDLERS": __name__},
)

HANDLED_BY_WORKER: Final = Workload(
    name="handled-worker",
    title="handlers that are handed their message, in a worker process",
    unit=FigureUnit.PER_SECOND,
    sizes=(256,),
    count=20_000,
    run=_in_worker,
    ways=lambda count: ({"request": 2}, {"insert": 1, "remove": 1}, {"task": 1}),
    definitions=_SERVED,
)
