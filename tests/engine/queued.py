"""A process with many messages on a queue: it fills it, or starts with it, and prints figures. For `test_memory`.

fill DATA COUNT  puts a message and copies it in the database; prints the depth that a start would find
start DATA       starts and gets a message; prints the depth, the seconds until then, and the most bytes resident
put DATA COUNT   puts messages; prints the depth and the bytes that became resident
"""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from broker import QueueManager
from broker.mqi import MQOO

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

BODY = bytes(2048)
TOGETHER = 500  # puts at a time
RSS_UNIT = 1 if sys.platform == "darwin" else 1024


async def fill(data: Path, count: int) -> list[float]:
    await put(data, 1)
    with sqlite3.connect(data / "evermq.db") as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA journal_mode = OFF")
        for table in ("message", "body"):
            names = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})") if name != "id"]
            columns = ", ".join(names)
            db.execute(
                f"WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n + 1 < ?)"
                f"INSERT INTO {table} (id, {columns}) SELECT id + n, {columns} FROM {table}, number",
                (count,),
            )
        (depth,) = db.execute("SELECT count(*) FROM message").fetchone()
        db.execute("UPDATE meta SET value = (SELECT max(id) FROM message) WHERE name = 'high_water'")
    db.close()
    return [depth]


async def start(data: Path) -> list[float]:
    begin = time.perf_counter()
    async with QueueManager.open(data=data) as manager, manager.connect() as connection:
        depth = manager.core.objects.queues["Q"].depth
        async with connection.open("Q", MQOO.INPUT_SHARED) as queue:
            assert (await queue.get()).data == BODY
        return [depth, time.perf_counter() - begin, resident()]


async def put(data: Path, count: int) -> list[float]:
    async with QueueManager.open(data=data) as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES) MAXDEPTH(999999999)")
        before = resident()
        async with connection.open("Q", MQOO.OUTPUT) as queue:
            for begin in range(0, count, TOGETHER):
                await asyncio.gather(*(queue.put(bytes(len(BODY))) for _ in range(begin, min(begin + TOGETHER, count))))
        return [manager.core.objects.queues["Q"].depth, resident() - before]


def resident() -> int:
    """The most bytes of memory that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT


def main(task: str, data: str, *counts: str) -> None:
    tasks: dict[str, Callable[..., Coroutine[None, None, list[float]]]] = {"fill": fill, "start": start, "put": put}
    figures = asyncio.run(tasks[task](Path(data), *map(int, counts)))
    sys.stdout.write(" ".join(map(str, figures)))


if __name__ == "__main__":
    main(*sys.argv[1:])
