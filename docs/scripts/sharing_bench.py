"""Measure how fast members of a queue-sharing group put and get, beside a plain queue on the same database.

    python docs/scripts/sharing_bench.py postgresql://user@host/database [--members 1,2,3] [--depth 100000] [--units]

A member is a process with an embedded queue manager and connections that put, then get, batches of persistent messages.
The plain queue is a table with the same columns that such a queue needs, the same kinds of indexes, batches, sessions
and synchronous_commit: `INSERT ... SELECT unnest(...)`, and `DELETE ... WHERE id IN (SELECT ... FOR UPDATE SKIP LOCKED
LIMIT n) RETURNING`, written with asyncpg. With `--units` each batch is got in a unit of work, or a transaction, and
then committed. Both empty what they have filled, and every message is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import uvloop

from broker import MQError, QueueManager, QueueSharingGroup
from broker.mqi import MQGMO, MQOO, MQRC, MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.synchronize import Barrier

NAME: Final = "BNCH"
QUEUE: Final = "BENCH.Q"
BODY: Final = bytes(256)
PLAIN: Final = "evermq_bench_plain"

_TABLE: Final = f"""
DROP TABLE IF EXISTS {PLAIN};
CREATE TABLE {PLAIN} (
    id bigserial, priority smallint NOT NULL, persistent boolean NOT NULL, msg_id bytea NOT NULL, correl_id bytea,
    group_id bytea, deadline double precision, descriptor bytea NOT NULL, body bytea NOT NULL, state smallint NOT NULL,
    PRIMARY KEY (priority, id)
);
CREATE INDEX ON {PLAIN} (priority, id) WHERE state = 1;
CREATE INDEX ON {PLAIN} (msg_id, id) WHERE state = 1;
CREATE INDEX ON {PLAIN} (correl_id, id) WHERE state = 1 AND correl_id IS NOT NULL;
"""
_INSERT: Final = (
    f"INSERT INTO {PLAIN} (priority, persistent, msg_id, descriptor, body, state) "
    "SELECT 0, true, m, d, b, 1 FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) AS given (m, d, b)"
)
_DELETE: Final = (
    f"DELETE FROM {PLAIN} WHERE (priority, id) IN (SELECT priority, id FROM {PLAIN} WHERE state = 1 "
    "ORDER BY priority, id LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING msg_id, descriptor, body"
)


class Phases:
    """The phases of one run, which all processes begin together: each is timed from there on."""

    def __init__(self, barrier: Barrier, reported: dict[str, tuple[int, float, float]]) -> None:
        self._barrier = barrier
        self._reported = reported

    async def run(self, name: str, works: list[Callable[[], Awaitable[int]]]) -> None:
        """Do these works at the same time; how many messages that were, in which time, and of the processor."""
        await asyncio.to_thread(self._barrier.wait)
        begun, used = time.perf_counter(), time.process_time()
        counts = await asyncio.gather(*(work() for work in works))
        self._reported[name] = sum(counts), time.perf_counter() - begun, time.process_time() - used
        await asyncio.to_thread(self._barrier.wait)


async def member(number: int, arguments: argparse.Namespace, phases: Phases) -> None:
    """One member of the group."""
    group = QueueSharingGroup(NAME, arguments.dsn)
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(QueueManager.open(name=f"QM{number}", group=group))
        queues: list[tuple[Any, Any]] = []
        for _ in range(arguments.connections):
            connection = await stack.enter_async_context(manager.connect("bench"))
            if not queues:
                await connection.mqsc(
                    f"DEFINE QLOCAL({QUEUE}) QSGDISP(SHARED) DEFPSIST(YES) MAXDEPTH(999999999) MAXMSGL(100000)"
                )
                while QUEUE not in manager.core.objects.queues:  # noqa: ASYNC110  # nobody tells of it
                    await asyncio.sleep(0.05)
            queues.append((connection, await connection.open(QUEUE, MQOO.INPUT_SHARED | MQOO.OUTPUT)))
        await phases.run("put", [partial(_put, queue, arguments) for _, queue in queues])
        await phases.run("get", [partial(_get, *each, arguments) for each in queues])


async def _put(queue: Any, arguments: argparse.Namespace) -> int:
    some, persistent = [BODY] * arguments.batch, MessageDescriptor(persistence=1)
    count = 0
    while count < arguments.messages / arguments.connections:
        count += len(await queue.put_many(some, persistent))
    return count


async def _get(connection: Any, queue: Any, arguments: argparse.Namespace) -> int:
    syncpoint = MQGMO.SYNCPOINT if arguments.units else MQGMO.NO_SYNCPOINT
    count = 0
    while True:
        try:
            count += len(await queue.get_many(arguments.batch, None, syncpoint))
        except MQError as error:
            if error.reason != MQRC.NO_MSG_AVAILABLE:
                raise
            return count
        if arguments.units:
            await connection.commit()


async def plain(number: int, arguments: argparse.Namespace, phases: Phases) -> None:
    """One process of the plain queue."""
    async with AsyncExitStack() as stack:
        sessions = []
        for _ in range(arguments.connections):
            session = await asyncpg.connect(arguments.dsn, server_settings={"synchronous_commit": "on", "jit": "off"})
            stack.push_async_callback(session.close)
            sessions.append(session)
        share = -(-arguments.messages // len(sessions))
        put_by_each: int = -(-share // arguments.batch) * arguments.batch
        descriptors, bodies = [bytes(120)] * arguments.batch, [BODY] * arguments.batch

        def putting(session: Any, at: int) -> Callable[[], Awaitable[int]]:
            async def put() -> int:
                for first in range(0, share, arguments.batch):
                    ids = [b"%024d" % (at + first + each) for each in range(arguments.batch)]
                    await session.execute(_INSERT, ids, descriptors, bodies)
                return put_by_each

            return put

        def getting(session: Any) -> Callable[[], Awaitable[int]]:
            async def get() -> int:
                count = 0
                while True:
                    async with session.transaction() if arguments.units else nullcontext():
                        rows = await session.fetch(_DELETE, arguments.batch)
                    if not rows:
                        return count
                    count += len(rows)

            return get

        each = number * 10**12
        await phases.run("put", [putting(session, each + at * 10**9) for at, session in enumerate(sessions)])
        await phases.run("get", [getting(session) for session in sessions])


def process(kind: str, number: int, arguments: argparse.Namespace, barrier: Barrier, pipe: Any) -> None:
    """Run one process."""
    reported: dict[str, tuple[int, float, float]] = {}
    work = member if kind == "group" else plain
    uvloop.run(work(number, arguments, Phases(barrier, reported)))
    pipe.send(reported)


async def prepare(arguments: argparse.Namespace) -> None:
    """An empty group, and an empty plain queue."""
    session = await asyncpg.connect(arguments.dsn)
    await session.execute(f"DROP SCHEMA IF EXISTS evermq_{NAME.lower()} CASCADE")
    await session.execute(_TABLE)
    await session.close()


async def fill(arguments: argparse.Namespace, kind: str) -> None:
    """Fill the queue before the run, when its depth is part of the question."""
    if not arguments.depth:
        return
    if kind == "plain":
        session = await asyncpg.connect(arguments.dsn)
        await session.execute(
            f"INSERT INTO {PLAIN} (priority, persistent, msg_id, descriptor, body, state) SELECT 0, true, "
            "convert_to(lpad((n + 9e15)::bigint::text, 24, '0'), 'UTF8'), $2, $3, 1 FROM generate_series(1, $1) AS n",
            arguments.depth,
            bytes(120),
            BODY,
        )
        await session.execute(f"ANALYZE {PLAIN}")
        await session.close()
        return
    async with (
        QueueManager.open(name="FILL", group=QueueSharingGroup(NAME, arguments.dsn)) as manager,
        manager.connect("fill") as connection,
    ):
        await connection.mqsc(
            f"DEFINE QLOCAL({QUEUE}) QSGDISP(SHARED) DEFPSIST(YES) MAXDEPTH(999999999) MAXMSGL(100000)"
        )
        async with connection.open(QUEUE, MQOO.OUTPUT) as queue:
            for _ in range(0, arguments.depth, 500):
                await queue.put_many([BODY] * 500, MessageDescriptor(persistence=1))


def measure(kind: str, members: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Messages a second of all processes together, by phase, and how long each takes of their processors, in us."""
    asyncio.run(prepare(arguments))
    asyncio.run(fill(arguments, kind))
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(members)
    pipes, processes = [], []
    for number in range(1, members + 1):
        ours, theirs = context.Pipe(duplex=False)
        started = context.Process(target=process, args=(kind, number, arguments, barrier, theirs))
        started.start()
        theirs.close()
        pipes.append(ours)
        processes.append(started)
    reported = [pipe.recv() for pipe in pipes]
    for started in processes:
        started.join()
    put = sum(each["put"][0] for each in reported)
    got = sum(each["get"][0] for each in reported)
    if got != put + arguments.depth:
        raise SystemExit(f"{kind}: {put + arguments.depth} messages were there, and {got} were got")
    found: dict[str, float] = {}
    for phase in ("put", "get"):
        counts, times, used = zip(*(each[phase] for each in reported), strict=True)
        found[phase] = sum(counts) / max(times)
        found[f"{phase} us"] = 1e6 * sum(used) / sum(counts)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dsn")
    parser.add_argument("--members", default="1,2,3", help="how many processes, one run each")
    parser.add_argument("--connections", type=int, default=4, help="of each process")
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--messages", type=int, default=10_000, help="that each process puts")
    parser.add_argument("--depth", type=int, default=0, help="messages that are there before")
    parser.add_argument("--units", action="store_true", help="get in units of work")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    for members in map(int, arguments.members.split(",")):
        for _ in range(arguments.runs):
            found = {kind: measure(kind, members, arguments) for kind in ("group", "plain")}
            ratio = {phase: round(found["group"][phase] / found["plain"][phase], 2) for phase in ("put", "get")}
            rates = {kind: {phase: round(rate) for phase, rate in rates.items()} for kind, rates in found.items()}
            print(json.dumps({"members": members, **rates, "group/plain": ratio}), flush=True)


if __name__ == "__main__":
    main()
