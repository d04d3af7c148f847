"""Measure how long a client waits at most for its put and get while another has long operations done.

One client works on a long queue. The other puts a message and gets it again every 10 ms, on a queue of its own; its
time counts from the moment when the put was due, so that nothing hides behind a wait for the one before.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import broker
from broker import MQError
from broker.benchmarks.batches import WAITING, check_depth
from broker.benchmarks.body import bodies, now
from broker.benchmarks.child import MeasurementError
from broker.benchmarks.daemon import ATTRIBUTES, QUEUE
from broker.benchmarks.workload import FigureUnit, Measured, Workload
from broker.mqi import (
    MQGMO,
    MQMF,
    MQOO,
    MQPMO,
    MQRC,
    GetMessageOptions,
    MessageDescriptor,
    ObjectDescriptor,
    PutMessageOptions,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from broker import Connection, Queue
    from broker.benchmarks.child import Ready, Told
    from broker.benchmarks.workload import Trial

_OTHER: Final = f"{QUEUE}.OTHER"
_END: Final = f"{QUEUE}.END"

_EVERY: Final = 10_000_000
"""Nanoseconds between two puts of the one who watches."""

_SOME: Final = 10_000
"""Messages that are put, got or browsed as one operation, or less."""

_BATCH: Final = 100

_EXPIRING: Final = MessageDescriptor(expiry=1)


async def work(ready: Ready, url: str, size: int, count: int) -> Told:
    """Have the operations done one after the other; when each began and ended."""
    times: dict[str, tuple[int, int]] = {}

    @asynccontextmanager
    async def timed(name: str) -> AsyncIterator[None]:
        begun = now()
        yield
        times[name] = begun, now()

    async with broker.connect(url) as connection:
        await ready()
        async with connection.open(QUEUE, MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.BROWSE | MQOO.INQUIRE) as queue:
            async with timed("put"):
                for number, each in enumerate(_in_batches(bodies(count, size))):
                    await queue.put_many(each, _in_group(number + 1))
            await _look(connection, queue, timed)
            await _units(connection, queue, timed, size, min(_SOME, count))
            async with timed("status"):
                await connection.status()
            async with timed("display"):
                await connection.mqsc("DISPLAY QLOCAL(*) ALL")
        await _clear(connection, timed)
        async with connection.open(QUEUE, MQOO.INPUT_SHARED | MQOO.OUTPUT | MQOO.INQUIRE) as queue:
            for each in _in_batches(bodies(count, size)):
                await queue.put_many(each, _EXPIRING)
            await asyncio.sleep(_EXPIRING.expiry / 10)
            async with timed("expiry"):
                await _get_nothing(queue)
            await check_depth(queue, 0)
        await connection.put1(_END, b"")
    return {"times": times}


async def watch(ready: Ready, url: str, size: int, count: int) -> Told:
    """Put and get until the other has ended; of each pair when it was due, and how long it took from then on."""
    taken: list[tuple[int, int]] = []
    async with broker.connect(url) as connection, broker.connect(url) as waiting:
        queue = await connection.open(_OTHER, MQOO.INPUT_SHARED | MQOO.OUTPUT)
        ending = asyncio.ensure_future((await waiting.open(_END, MQOO.INPUT_SHARED)).get(None, WAITING))
        await ready()
        due = now()
        while not ending.done():
            await asyncio.sleep(max(0, due - now()) / 1e9)
            await queue.put(b"watch", MessageDescriptor(persistence=0))
            await queue.get()
            taken.append((due, now() - due))
            due += _EVERY * max(1, -(-(now() - due) // _EVERY))
        await ending
        await waiting.commit()
    return {"taken": taken}


async def _look(connection: Connection, queue: Queue, timed: Any) -> None:
    async with timed("browse"):
        for _ in range(_SOME // _BATCH):
            await queue.get_many(_BATCH, None, MQGMO.BROWSE_NEXT)
    selecting = ObjectDescriptor(object_name=QUEUE, selection_string="Root.MQMD.Priority = 9")
    async with connection.open(selecting, MQOO.INPUT_SHARED) as selected, timed("selector"):
        await _get_nothing(selected)
    async with timed("logical order"):
        await _get_nothing(queue, MQGMO.LOGICAL_ORDER)


async def _units(connection: Connection, queue: Queue, timed: Any, size: int, count: int) -> None:
    async with timed("get"):
        await _get(connection, queue, MQGMO.NO_SYNCPOINT, count)
    await _get(connection, queue, MQGMO.SYNCPOINT, count)
    async with timed("backout"):
        await connection.backout()
    for number, each in enumerate(_in_batches(bodies(count, size))):
        await queue.put_many(each, _in_group(number + 1), PutMessageOptions(options=MQPMO.SYNCPOINT))
    async with timed("commit"):
        await connection.commit()


async def _clear(connection: Connection, timed: Any) -> None:
    async with timed("clear"):
        (reply,) = await connection.mqsc(f"CLEAR QLOCAL({QUEUE})")
    if not reply.ok:
        raise MeasurementError(reply.text)


async def _get(connection: Connection, queue: Queue, options: int, count: int) -> None:
    got = 0
    while got < count:
        got += len(await queue.get_many(min(_BATCH, count - got), None, options))


async def _get_nothing(queue: Queue, options: int = 0) -> None:
    try:
        await queue.get(None, GetMessageOptions(options=options | MQGMO.NO_WAIT))
    except MQError as error:
        if error.reason == MQRC.NO_MSG_AVAILABLE:
            return
        raise
    raise MeasurementError("there is a message where none is to be found")


def _in_group(number: int) -> MessageDescriptor:
    """Of messages that no get in logical order begins with: one has to look at all of them."""
    return MessageDescriptor(msg_flags=MQMF.MSG_IN_GROUP, group_id=number.to_bytes(24, "big"), msg_seq_number=2)


def _in_batches(all_bodies: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(islice(all_bodies, _BATCH)):
        yield batch


async def _held(trial: Trial) -> Measured:
    async with trial.client(watch) as watcher, trial.client(work) as worker:
        await watcher.prepared()
        await worker.prepared()
        await watcher.go()
        await worker.go()
        times = (await worker.result())["times"]
        taken = (await watcher.result())["taken"]
    longest = {name: _longest(taken, begun, ended) for name, (begun, ended) in times.items()}
    return Measured(value=max(longest.values()), details=longest)


def _longest(taken: list[tuple[int, int]], begun: int, ended: int) -> float:
    """The longest time, in milliseconds, of the pairs that were under way between two moments."""
    return max((took for due, took in taken if due <= ended and due + took >= begun), default=0) / 1e6


HELD: Final = Workload(
    name="held",
    title="the longest wait of another client, {count} messages",
    unit=FigureUnit.MILLISECONDS,
    sizes=(256,),
    count=1_000_000,
    run=_held,
    ways=lambda count: ({"round-trip": 2},),
    definitions="ALTER QMGR MAXUMSGS(20000)\n"
    + "".join(f"DEFINE QLOCAL({name}) {ATTRIBUTES} REPLACE\n" for name in (QUEUE, _OTHER, _END)),
)
