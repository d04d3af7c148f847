"""Triggering on the real clock and a real store, for longer than several generations of the monitor last."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.mqi import MQGMO, MQOO
from tests.triggers.fake import handlers
from tests.triggers.test_triggering_end_to_end import TPF_PROCESS, TPF_QUEUE, run
from triggers import TriggerMessage, TriggerMonitor

if TYPE_CHECKING:
    from pathlib import Path

    from broker import Connection

PUTS_PER_SECOND = 200
SECONDS = 20


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_200_puts_a_second_for_20_seconds_start_as_many_handlers_and_none_twice(tmp_path: Path) -> None:
    got: list[bytes] = []
    all_got = asyncio.Event()

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            got.append((await queue.get(options=MQGMO.SYNCPOINT)).data)
        if len(got) == PUTS_PER_SECOND * SECONDS:
            all_got.set()

    async with QueueManager.open(name="QM1", data=tmp_path) as manager, manager.connect("putter") as putter:
        await run(putter, "DEFINE QLOCAL(TESTQ)", TPF_PROCESS, TPF_QUEUE)
        async with (
            TriggerMonitor(manager, handlers=[handlers(MYPROCESS=handler)]) as monitor,
            putter.open("TESTQ", MQOO.OUTPUT) as queue,
        ):
            begin = time.monotonic()
            for number in range(PUTS_PER_SECOND * SECONDS):
                await asyncio.sleep(begin + number / PUTS_PER_SECOND - time.monotonic())
                await queue.put(b"%d" % number, persistence=1)
            await all_got.wait()
        figures = monitor.statistics()  # leaving the monitor waits for its handlers
    assert sorted(map(int, got)) == list(range(PUTS_PER_SECOND * SECONDS))
    assert (figures.started, figures.failed) == (PUTS_PER_SECOND * SECONDS, 0)
    assert figures.generation >= 4
