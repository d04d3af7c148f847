"""What a trigger monitor says of queues that it has no handler for: nothing, where somebody else serves them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQOO
from tests.handlers.desk import desk as at_the_desk
from triggers import TriggerMonitor

if TYPE_CHECKING:
    from tests.handlers.desk import Desk


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("door", ["embedded", "a connection"])
async def test_of_a_queue_that_a_worker_serves_it_says_nothing_until_the_worker_is_gone(
    caplog: pytest.LogCaptureFixture, door: str
) -> None:
    async with at_the_desk() as desk, desk.manager.connect() as connection:
        source = desk.manager if door == "embedded" else connection
        async with TriggerMonitor(source, clock=desk.clock):
            async with desk.worker():
                await desk.put("one", "two")  # the worker is busy: it takes neither
                await desk.clock.advance(59)
                assert warned(caplog) == []
            await desk.clock.advance(12)
            [reported] = warned(caplog)
            assert reported.startswith("no handler serves process P (APPLICID blank), which queue Q names")


async def test_of_a_queue_that_a_program_has_open_it_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with at_the_desk() as desk, TriggerMonitor(desk.manager):
        async with desk.connection.open("Q", MQOO.INPUT_SHARED):
            await desk.put("one")
            await desk.clock.advance(59)
        assert warned(caplog) == []


async def test_of_a_queue_whose_start_another_monitor_runs_it_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        at_the_desk() as desk,
        TriggerMonitor(desk.manager),
        desk.manager.connect() as other,
        other.trigger_starts() as starts,
    ):
        await desk.put("one", "two")
        assert len(await starts.take("Q", 1)) == 1
        await desk.clock.advance(59)
        assert _pending(desk) == 1
        assert warned(caplog) == []


def _pending(desk: Desk) -> int:
    return desk.manager.core.objects.queues["Q"].pending_starts
