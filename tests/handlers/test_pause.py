"""A queue that is paused starts nothing, whatever is started again: handlers rule 6.4."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker import QueueManager
from broker.cli.messages.pause import switched
from broker.mqi.delivery_fields import Outcome, ServiceOptions
from broker.testing import VirtualClock
from tests.handlers.desk import bodies, settle

if TYPE_CHECKING:
    from pathlib import Path


async def test_h6_7_a_pause_outlasts_the_restart_of_all_and_resuming_starts_what_came(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with QueueManager.open(name="QM1", data=tmp_path, clock=clock) as manager, manager.connect() as connection:
        await connection.mqsc(
            "DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)", check=True
        )
        assert await switched(connection, "Q", on=False) == "Q is paused, 0 messages on it"
    async with (
        QueueManager.open(name="QM1", data=tmp_path, clock=clock) as manager,
        manager.connect() as connection,
        manager.connect("worker") as serving,
        serving.deliveries("Q", options=ServiceOptions()) as worker,
    ):
        take = asyncio.ensure_future(worker.take(10))
        for number in range(5):
            await connection.put1("Q", str(number))
        await clock.advance(120)
        assert not take.done()
        assert await switched(connection, "Q", on=True) == "Q is resumed, 5 messages on it"
        taken = await take
        while len(taken) < 5:
            taken += await worker.take(10)
        assert bodies(taken) == ["0", "1", "2", "3", "4"]
        await settle(worker, Outcome.DONE, *taken)
