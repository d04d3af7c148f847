"""Measures what a transaction with a program's own database costs, beside the same written by hand.

    python docs/scripts/transactions_speed.py [postgresql://user@host/database] [--messages N] [--rounds N]

The queue manager is a daemon of its own. A message is handled by one worker, 50 at a time or one by one: the handler
writes a row and puts a message, with `database=` in one transaction, by hand in a transaction of its own before the
put. A producer writes a row and puts a message, 50 programs at a time or one. With a DSN all of it is done there, by
asyncpg, and procrastinate's own enqueue beside it where that is installed; without it in SQLite, in a temporary folder.
All ways take turns; ratios are those of the rounds. It works in tables of its own, which it removes.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import statistics
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiosqlite
import anyio
import asyncpg
import uvloop

import broker
from broker import Database
from broker.cli.demo.daemon import DemoDaemon
from broker.mqi import MQOO, MQPMO
from triggers import App

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

CONFIGURATION: Final = """\
[queue_manager]
name = "SPEED"
data = {data}

[listener]
port = {port}
"""
TABLE: Final = "evermq_speed"
MARKERS: Final = "evermq_speed_unit"
AT_ONCE: Final = 50
QUEUES: Final = ("WORK", "DONE", "PUT")


class Daemon(DemoDaemon):
    """A daemon with nothing set that costs or spares anything."""

    CONFIGURATION = CONFIGURATION


class OwnDatabase:
    """The program's database, and how the program writes a row by hand."""

    name = "SQLite"
    insert = f"INSERT INTO {TABLE} VALUES (?)"
    connection_type: type = aiosqlite.Connection
    source: Any

    def __init__(self, folder: Path) -> None:
        self._file = str(folder / "speed.db")
        self._by_hand = asyncio.Lock()  # SQLite has one writer

    async def __aenter__(self) -> OwnDatabase:
        self.source = lambda: aiosqlite.connect(self._file)
        self._connection = await aiosqlite.connect(self._file, isolation_level=None)
        await self._connection.execute("PRAGMA journal_mode = WAL")
        await self._connection.execute("PRAGMA synchronous = FULL")
        await self._connection.execute(f"CREATE TABLE {TABLE} (id INTEGER)")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def row(self) -> None:
        """Write a row, in a transaction of its own."""
        async with self._by_hand:
            await self._connection.execute("BEGIN IMMEDIATE")
            await self._connection.execute(self.insert, (1,))
            await self._connection.execute("COMMIT")

    async def write(self, connection: Any) -> None:
        """Write a row in the transaction of this connection."""
        await connection.execute(self.insert, (1,))


class OwnPostgres(OwnDatabase):
    """PostgreSQL, by a pool of asyncpg."""

    name = "PostgreSQL"
    insert = f"INSERT INTO {TABLE} VALUES ($1)"
    connection_type = asyncpg.Connection

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def __aenter__(self) -> OwnDatabase:
        self.source = self._pool = await asyncpg.create_pool(self._dsn, min_size=AT_ONCE, max_size=AT_ONCE)
        await self._pool.execute(f"DROP TABLE IF EXISTS {TABLE}, {MARKERS}")
        await self._pool.execute(f"CREATE TABLE {TABLE} (id INTEGER)")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.execute(f"DROP TABLE IF EXISTS {TABLE}, {MARKERS}")
        await self._pool.close()

    async def row(self) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(self.insert, 1)

    async def write(self, connection: Any) -> None:
        await connection.execute(self.insert, 1)


async def handled(url: str, own: OwnDatabase, messages: int, at_once: int, *, by_hand: bool) -> float:
    """Seconds in which a worker handles so many messages that are there."""
    app, left, done = App(url, name="SPEED"), messages, asyncio.Event()

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    if by_hand:

        @app.handler("WORK", concurrency=at_once)
        async def work(body: bytes) -> None:
            await own.row()
            await app.put("DONE", body)
            count()

    else:
        database = app.database(Database(own.source, table=MARKERS))

        async def work_in(body: bytes, connection: Any) -> None:
            await own.write(connection)
            await app.put("DONE", body)
            count()

        work_in.__annotations__ |= {"body": bytes, "connection": own.connection_type}
        app.handler("WORK", concurrency=at_once, database=database)(work_in)
    connection = await broker.connect(url)
    async with connection, connection.open("WORK", MQOO.OUTPUT) as queue:
        for _ in range(0, messages, 100):
            await queue.put_many([b"x" * 256] * min(100, messages), options=MQPMO.NO_SYNCPOINT)
    began = time.perf_counter()
    async with app.running():
        await done.wait()
        for service in app.session.services.values():
            await service.settled()
        return time.perf_counter() - began


async def repeated(made: Callable[[], Awaitable[object]], messages: int, at_once: int) -> float:
    """Seconds in which so many programs do this, as often as that together."""

    async def some() -> None:
        for _ in range(messages // at_once):
            await made()

    began = time.perf_counter()
    await asyncio.gather(*[some() for _ in range(at_once)])
    return time.perf_counter() - began


@asynccontextmanager
async def enqueue(dsn: str) -> AsyncIterator[Callable[[], Awaitable[object]] | None]:
    """Procrastinate's enqueue of a job, in a transaction of its own; None where it is not installed."""
    try:
        import procrastinate
    except ImportError:
        print("procrastinate is not installed: left out")
        yield None
        return
    connection = await asyncpg.connect(dsn)
    await connection.execute("DROP SCHEMA IF EXISTS evermq_speed CASCADE; CREATE SCHEMA evermq_speed")
    await connection.close()
    connector = procrastinate.PsycopgConnector(
        conninfo=dsn, kwargs={"options": "-c search_path=evermq_speed"}, min_size=AT_ONCE, max_size=AT_ONCE
    )
    app = procrastinate.App(connector=connector)

    job: Any = app.task(name="job")(lambda body: None)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        yield lambda: job.defer_async(body="x" * 256)
        await connector.execute_query_async("DROP SCHEMA evermq_speed CASCADE")


class Table:
    """What was measured: in each round, for each way."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, int], dict[str, list[float]]] = {}

    def add(self, what: str, at_once: int, way: str, rate: float) -> None:
        self._rates.setdefault((what, at_once), {}).setdefault(way, []).append(rate)

    def show(self, title: str) -> None:
        """Print it; the ratio of each way is to the first."""
        print(f"\n| {title} | at a time | a second | of the first |\n|---|---|---|---|")
        for (what, at_once), ways in self._rates.items():
            first = next(iter(ways.values()))
            for way, rates in ways.items():
                ratios = [rate / one for rate, one in zip(rates, first, strict=True)]
                rate, ratio = statistics.median(rates), statistics.median(ratios)
                print(f"| {what}: {way} | {at_once} | {rate:,.0f} | {ratio:.2f} |")


async def measure(dsn: str | None, messages: int, rounds: int) -> None:
    table = Table()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        own = await stack.enter_async_context(OwnPostgres(dsn) if dsn else OwnDatabase(folder))
        job = await stack.enter_async_context(enqueue(dsn)) if dsn else None
        tasks = await stack.enter_async_context(anyio.create_task_group())
        daemon = Daemon(folder)
        await daemon.start(tasks)
        stack.callback(tasks.cancel_scope.cancel)
        async with broker.connect(daemon.url) as connection:
            for name in QUEUES:
                await connection.mqsc(f"DEFINE QLOCAL({name}) DEFPSIST(YES) MAXDEPTH(999999999)", check=True)
            await connection.mqsc("DEFINE PROCESS(WORK)", check=True)
            await connection.mqsc("ALTER QLOCAL(WORK) TRIGGER TRIGTYPE(EVERY) PROCESS(WORK)", check=True)
        for number in range(rounds + 1):
            for at_once in (AT_ONCE, 1):
                count = max(at_once, messages if at_once > 1 else messages // 10)
                took = {
                    ("a handled message", "by hand"): await handled(daemon.url, own, count, at_once, by_hand=True),
                    ("a handled message", "`database=`"): await handled(daemon.url, own, count, at_once, by_hand=False),
                    **await produced(daemon.url, own, job, count, at_once),
                }
                if number:  # the first warms up
                    for (what, way), seconds in took.items():
                        table.add(what, at_once, way, count / seconds)
    table.show(own.name)


async def produced(
    url: str, own: OwnDatabase, job: Callable[[], Awaitable[object]] | None, count: int, at_once: int
) -> dict[tuple[str, str], float]:
    """Seconds of each way to write a row and tell of it."""
    app = App(url, name="SPEED")
    database = app.database(Database(own.source, table=MARKERS))

    async def by_hand() -> None:
        await own.row()
        await app.put("PUT", b"x" * 256)

    async def in_one() -> None:
        async with app.transaction(database) as t:
            await own.write(t.connection)
            await app.put("PUT", b"x" * 256)

    async with app.running():
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "a row, then a put, by hand": by_hand,
            "`app.transaction`: a row and a put": in_one,
            "a row alone": own.row,
            "a put alone": lambda: app.put("PUT", b"x" * 256),
        }
        if job is not None:
            ways["procrastinate's enqueue alone"] = job
        return {("a producer", way): await repeated(made, count, at_once) for way, made in ways.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dsn", nargs="?")
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    logging.getLogger("triggers").setLevel(logging.ERROR)
    print(f"EverMQ {broker.__version__}")
    uvloop.run(measure(asked.dsn, asked.messages, asked.rounds))


if __name__ == "__main__":
    main()
