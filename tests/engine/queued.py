"""A process with many messages on a queue: it fills it, or starts with it, and prints figures. For `test_memory`.

fill DATA COUNT  puts a message and copies it in the snapshot; prints the depth that a start would find
start DATA       starts and gets a message; prints the depth, the seconds until then, and the most bytes resident
put DATA COUNT   puts messages; prints the depth and the bytes that became resident
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from broker import QueueManager
from broker.mqi import MQOO
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log.manifest import ManifestFile
from broker.storage.snapshot.checks import Checks
from broker.storage.snapshot.database import Snapshot
from broker.storage.snapshot.statements import runs

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

BODY = bytes(2048)
TOGETHER = 500  # puts at a time
RSS_UNIT = 1 if sys.platform == "darwin" else 1024


async def fill(data: Path, count: int) -> list[float]:
    await put(data, 1)
    disk = SystemDisk(data)
    manifest = ManifestFile.open(disk)
    kept = manifest.current
    snapshot = Snapshot(data / kept.database, kept.instance, Checks(kept.seed))
    db = disk.connect(kept.database)
    snapshot.open(db)
    ((first,), _) = snapshot.load_messages(db, -1, 1)
    first = first._replace(data=snapshot.read_data(db, [first.id])[0][first.id])
    snapshot.begin(db)
    for rows in runs(first._replace(id=first.id + number) for number in range(1, count)):
        snapshot.insert(db, rows)
    snapshot.raise_high_water(first.id + count)
    snapshot.commit(db, kept.last, kept.generation)
    snapshot.checkpoint(db)
    db.close()
    manifest.close()
    return [snapshot.tally.messages]


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
