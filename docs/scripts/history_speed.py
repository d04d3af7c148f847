"""Measures what the history of a queue costs: `python docs/scripts/history_speed.py [--messages N] [--records N]`.

Put and handled with a history and without, in turns, over TCP and in the queue manager's process, on the log; then the
memory of many records beside that of as many plain messages, and how long it takes to find one (D6.4). With `--daemon`
the collector of garbage is set as the daemon sets it: with Python's own thresholds it walks all that is queued.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import broker
from broker import QueueManager
from broker.cli.run import COLLECTIONS
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQGMO, MQMO, MQOO, MQPMO, GetMessageOptions, MessageDescriptor
from broker.server import Server
from triggers import App

BODY: Final = b"x" * 512
PRODUCERS: Final = 50
PAGE: Final = 4096
FOUND: Final = 1000


async def put(app: App, q_name: str, messages: int) -> None:
    """Put so many messages, each when the one before is there."""
    for _ in range(messages):
        await app.put(q_name, BODY)


async def handled(source: Any, q_name: str, messages: int, *, one_by_one: bool = False, **options: Any) -> float:
    """Seconds of processor time for putting and handling so many messages: of a machine that is busy, too."""
    app, left, done = App(source, name="BENCH"), messages, asyncio.Event()

    @app.handler(q_name, **options)
    async def handle(body: bytes) -> dict[str, int]:
        nonlocal left
        left -= 1
        if not left:
            done.set()
        return {"length": len(body)}

    async with app.running():
        began = time.process_time()
        if one_by_one:
            await asyncio.gather(*[put(app, q_name, messages // PRODUCERS) for _ in range(PRODUCERS)])
        else:
            connection = await app.session.connection()
            async with connection.open(q_name, MQOO.OUTPUT) as queue:
                for start in range(0, messages, 100):
                    await queue.put_many([BODY] * min(100, messages - start), options=MQPMO.NO_SYNCPOINT)
        await done.wait()
        for service in app.session.services.values():
            await service.settled()
        return time.process_time() - began


async def speed(messages: int, rounds: int) -> None:
    for way, one_by_one in (("embedded", False), ("tcp", False), ("embedded", True), ("tcp", True)):
        ratios, plain, kept = [], [], []
        with tempfile.TemporaryDirectory() as folder:
            async with AsyncExitStack() as stack:
                manager = await stack.enter_async_context(QueueManager.open(name="QM1", data=Path(folder)))
                source: Any = manager
                if way == "tcp":
                    server = await stack.enter_async_context(Server(manager, ListenerConfig(port=0), LimitsConfig()))
                    source = f"mq://{server.addresses[0]}"
                for number in range(rounds + 1):
                    without = await handled(source, "PLAIN", messages, one_by_one=one_by_one)
                    with_one = await handled(source, "KEPT", messages, one_by_one=one_by_one, history="7d")
                    if number:  # the first warms up
                        ratios.append(with_one / without)
                        plain.append(messages / without)
                        kept.append(messages / with_one)
        how = "by 50 producers" if one_by_one else "in batches of 100"
        print(
            f"{way}, put {how}: without {1e6 / statistics.median(plain):,.0f} us of a processor a message, "
            f"with {1e6 / statistics.median(kept):,.0f} us, x {statistics.median(ratios):.3f} "
            f"(of {min(ratios):.3f} to {max(ratios):.3f})"
        )


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


async def memory(records: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with QueueManager.open(name="QM1", data=Path(folder)) as manager:
            await handled(manager, "KEPT", 10_000, history="7d")
            async with manager.connect() as connection, connection.open("KEPT.HISTORY", MQOO.BROWSE) as queue:
                record = (await queue.get(options=MQGMO.BROWSE_FIRST)).data
            before = resident()
            async with manager.connect() as connection:
                await connection.mqsc("DEFINE QLOCAL(PLAIN) MAXDEPTH(999999999) DEFPSIST(YES)", check=True)
                async with connection.open("PLAIN", MQOO.OUTPUT) as queue:
                    for start in range(0, records, 1000):
                        await queue.put_many([record] * min(1000, records - start), options=MQPMO.NO_SYNCPOINT)
            plain = resident() - before
            before = resident()
            for start in range(0, records, 50_000):
                await handled(manager, "KEPT", min(50_000, records - start), history="7d")
            kept = resident() - before
            print(
                f"{records:,} records of {len(record)} bytes: {kept / records:.0f} bytes of memory each, "
                f"plain messages of that length {plain / records:.0f}"
            )
            await find(manager)


async def find(manager: QueueManager) -> None:
    async with manager.connect() as connection, connection.open("KEPT.HISTORY", MQOO.BROWSE) as queue:
        depth = manager.core.objects.queues["KEPT.HISTORY"].depth
        keys = list(manager.core.objects.queues["KEPT.HISTORY"].shelf.entries.values())
        ids = [keys[place * (len(keys) - 1) // FOUND].correl_id for place in range(FOUND)]
        del keys
        by_id = GetMessageOptions(options=MQGMO.BROWSE_FIRST.value, match_options=MQMO.MATCH_CORREL_ID.value)
        for when in ("while the log is carried over", "when all is carried over"):
            took, worked = [], []
            for each in ids:
                began, processor = time.perf_counter(), time.process_time()
                await queue.get(MessageDescriptor(correl_id=each), by_id)
                took.append(1000 * (time.perf_counter() - began))
                worked.append(1000 * (time.process_time() - processor))
            print(
                f"one of {depth:,} found {when}: {statistics.median(took):.3f} ms, at most {max(took):.3f} ms; "
                f"of a processor {statistics.median(worked):.3f} ms, at most {max(worked):.3f} ms"
            )
            await at_rest(manager)


async def at_rest(manager: QueueManager) -> None:
    """Wait until the snapshot has all that the log has: a body that is read waits for a step of that carry-over."""
    while (store := manager.status()["store"])["batches"] > store["batches_in_snapshot"]:  # noqa: ASYNC110  # a script
        await asyncio.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--daemon", action="store_true", help="collect garbage as seldom as the daemon does")
    asked = parser.parse_args()
    if asked.daemon:
        gc.set_threshold(*COLLECTIONS)
    logging.getLogger("triggers").setLevel(logging.ERROR)  # without a history a returned value is warned of
    print(f"EverMQ {broker.__version__}")
    if asked.messages:
        asyncio.run(speed(asked.messages, asked.rounds))
    if asked.records:
        asyncio.run(memory(asked.records))


if __name__ == "__main__":
    main()
