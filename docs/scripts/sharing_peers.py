"""Measure task queues on PostgreSQL beside a shared queue and a plain table, on the same database in the same run.

    python docs/scripts/sharing_peers.py postgresql://user@host/database [--messages N] [--rounds N]

Each puts so many payloads of 256 bytes, 50 at a time by 4 programs of one process, then takes all of them: the shared
queue and the plain table as `sharing_bench.py` does, pgqueuer and procrastinate by a worker of theirs, whose handler
does nothing, with 50 at a time. What is not installed is left out, by name.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import time
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import asyncpg
import uvloop

from sharing_bench import BODY, measure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BATCH: Final = 50
PROGRAMS: Final = 4
WAYS: Final = ("group", "plain", "pgqueuer", "procrastinate")
SCHEMA: Final = "evermq_peer"


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Do this; in how many seconds."""
    begun = time.perf_counter()
    await work()
    return time.perf_counter() - begun


async def together(put: Callable[[], Awaitable[object]], messages: int) -> None:
    """Put batches by several programs."""

    async def program() -> None:
        for _ in range(messages // (PROGRAMS * BATCH)):
            await put()

    await asyncio.gather(*(program() for _ in range(PROGRAMS)))


async def by_pgqueuer(dsn: str, messages: int) -> tuple[float, float]:
    """Seconds in which pgqueuer puts so many jobs, and in which a worker of its takes them."""
    from pgqueuer import PgQueuer
    from pgqueuer.db import AsyncpgPoolDriver
    from pgqueuer.queries import Queries
    from pgqueuer.types import QueueExecutionMode

    async with asyncpg.create_pool(dsn, min_size=PROGRAMS + 2, server_settings={"search_path": SCHEMA}) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries, worker = Queries(driver), PgQueuer(driver)
        await queries.install()

        taken: list[Any] = []

        async def work(job: Any) -> None:
            taken.append(job)

        worker.entrypoint("work")(work)
        put = await timed(
            lambda: together(lambda: queries.enqueue(["work"] * BATCH, [BODY] * BATCH, [0] * BATCH), messages)
        )
        got = await timed(lambda: worker.run(batch_size=BATCH, mode=QueueExecutionMode.drain))
    if len(taken) != messages:
        raise SystemExit(f"pgqueuer: {messages} were put, and {len(taken)} taken")
    return put, got


async def by_procrastinate(dsn: str, messages: int) -> tuple[float, float]:
    """Seconds in which procrastinate puts so many jobs, and in which a worker of its takes them."""
    from procrastinate import App, PsycopgConnector

    connector = PsycopgConnector(conninfo=dsn, kwargs={"options": f"-c search_path={SCHEMA}"}, max_size=PROGRAMS + 2)
    async with App(connector=connector).open_async() as app:
        await app.schema_manager.apply_schema_async()

        taken: list[str] = []

        async def work(body: str) -> None:
            taken.append(body)

        task = app.task(work)
        jobs = [{"body": BODY.decode("latin-1").replace("\0", "x")}] * BATCH
        put = await timed(lambda: together(lambda: task.batch_defer_async(*jobs), messages))
        options = {"concurrency": BATCH, "wait": False, "delete_jobs": "always", "install_signal_handlers": False}
        got = await timed(lambda: app.run_worker_async(**options))
    if len(taken) != messages:
        raise SystemExit(f"procrastinate: {messages} were put, and {len(taken)} taken")
    return put, got


PEERS: Final = {"pgqueuer": by_pgqueuer, "procrastinate": by_procrastinate}


async def peer(name: str, dsn: str, messages: int) -> dict[str, float]:
    """Messages a second that a peer puts and takes, in a schema of its own."""
    async with AsyncExitStack() as stack:
        session = await asyncpg.connect(dsn)
        stack.push_async_callback(session.close)
        await session.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; CREATE SCHEMA {SCHEMA}")
        try:
            put, got = await PEERS[name](dsn, messages)
        finally:
            await session.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    return {"put": messages / put, "get": messages / got}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dsn")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if urlsplit(arguments.dsn).password:
        parser.error("leave the password to .pgpass or PGPASSWORD: arguments are seen by others")
    arguments.connections, arguments.batch, arguments.depth, arguments.units = PROGRAMS, BATCH, 0, False
    arguments.messages -= arguments.messages % (PROGRAMS * BATCH)
    logging.disable()
    ways = [name for name in WAYS if name not in PEERS or find_spec(name)]
    for name in set(WAYS) - set(ways):
        print(f"{name} is not installed")
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for number in range(arguments.rounds):
        for name in ways if number % 2 == 0 else ways[::-1]:
            rates = (
                uvloop.run(peer(name, arguments.dsn, arguments.messages))
                if name in PEERS
                else measure(name, 1, arguments)
            )
            found[name].append({phase: rates[phase] for phase in ("put", "get")})
            print(json.dumps({name: {phase: round(rate) for phase, rate in found[name][-1].items()}}), flush=True)
    for name, rounds in found.items():
        for phase in ("put", "get"):
            ratios = [own[phase] / plain[phase] for own, plain in zip(rounds, found["plain"], strict=True)]
            rate = statistics.median(each[phase] for each in rounds)
            print(f"{name} {phase}: {rate:,.0f} a second, {statistics.median(ratios):.3f} of the plain table")


if __name__ == "__main__":
    main()
