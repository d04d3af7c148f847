"""The edge cases of the fast path, and the waits that it is used with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MQRC, MQWI, GetMessageOptions, MQError
from broker.testing import VirtualClock
from tests.triggers.fake import FakeManager, handlers
from tests.triggers.test_triggering_end_to_end import pending, run
from triggers import TriggerMessage, TriggerMonitor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection


@pytest.fixture
async def real(clock: VirtualClock) -> AsyncIterator[QueueManager]:
    """A queue manager in memory, with a triggered queue and one that is not."""
    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect("operator") as operator:
        await run(
            operator,
            "DEFINE PROCESS(P)",
            "DEFINE QLOCAL(Q) PROCESS(P) TRIGGER TRIGTYPE(EVERY)",
            "DEFINE QLOCAL(PLAIN)",
        )
        yield manager


async def test_s_15_a_storm_of_10_000_starts_lets_another_queue_have_its_turn_and_loses_nothing(
    manager: FakeManager, clock: VirtualClock
) -> None:
    started: list[str] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        started.append(trigger.q_name)

    manager.define("A", pending=10_000)
    manager.define("B", pending=1)
    async with TriggerMonitor(manager, [handlers(P=handler)], throttle_delay=0):
        await clock.advance(1)
    assert (started.index("B"), started.count("A")) == (10, 10_000)


async def test_a_handler_may_put_to_its_own_queue(real: QueueManager, clock: VirtualClock) -> None:
    handled: list[int] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.unit_of_work(), connection.open("Q", MQOO.INPUT_SHARED | MQOO.OUTPUT) as queue:
            number = int((await queue.get()).data)
            handled.append(number)
            if number < 50:
                await queue.put(str(number + 1))

    async with TriggerMonitor(real, [handlers(P=handler)]), real.connect() as connection:
        await connection.put1("Q", "1")
        await clock.advance(2)
    assert handled == list(range(1, 51))
    assert pending(real) == {}


@pytest.mark.parametrize("step", [3600.0, -3600.0])
async def test_a_step_of_the_wall_clock_does_not_stop_the_timer(
    manager: FakeManager, clock: VirtualClock, step: float
) -> None:
    manager.define("Q")
    async with TriggerMonitor(manager) as monitor:
        await clock.advance(7)
        clock.step(step)
        await clock.advance(10)
        assert monitor.statistics().generation == 4


async def test_s_17_what_is_posted_while_the_next_generation_takes_over_is_started(
    manager: FakeManager, clock: VirtualClock
) -> None:
    started: list[float] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        started.append(clock.monotonic())

    manager.define("Q")
    for moment in (5, 10, 15):
        clock.call_later(moment, lambda: manager.post("Q"))
    async with TriggerMonitor(manager, [handlers(P=handler)]):
        await clock.advance(16)
    assert started == [5, 10, 15]


async def test_s_14_a_count_above_zero_is_a_start_for_each_and_a_count_of_zero_none(
    manager: FakeManager, clock: VirtualClock
) -> None:
    started: list[str] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        started.append(trigger.q_name)

    manager.define("NONE", pending=0)
    manager.define("ONE", pending=1)
    manager.define("TWO", pending=2)
    async with TriggerMonitor(manager, [handlers(P=handler)]):
        await clock.advance(1)
    assert sorted(started) == ["ONE", "TWO", "TWO"]


# Waits


async def test_s_27_a_get_waits_for_its_interval(real: QueueManager, clock: VirtualClock) -> None:
    options = GetMessageOptions(options=MQGMO.WAIT, wait_interval=200)
    ended: list[float] = []

    async def wait() -> None:
        async with real.connect() as connection, connection.open("PLAIN", MQOO.INPUT_SHARED) as queue:
            with pytest.raises(MQError) as caught:
                await queue.get(options=options)
            assert caught.value.reason == MQRC.NO_MSG_AVAILABLE
            ended.append(clock.monotonic())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await clock.advance(0.199)
        assert ended == []
        await clock.advance(0.001)
        assert ended == [0.2]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("put", MQRC.NONE),
        ("quiesce", MQRC.Q_MGR_QUIESCING),
    ],
)
async def test_s_28_a_wait_without_limit_ends_with_a_message_or_the_queue_manager(
    real: QueueManager, clock: VirtualClock, end: str, reason: MQRC
) -> None:
    options = GetMessageOptions(options=MQGMO.WAIT | MQGMO.FAIL_IF_QUIESCING, wait_interval=MQWI.UNLIMITED)
    reasons: list[MQRC | int] = []

    async def wait() -> None:
        async with real.connect() as connection, connection.open("PLAIN", MQOO.INPUT_SHARED) as queue:
            try:
                reasons.append((await queue.get(options=options)).reason)
            except MQError as error:
                reasons.append(error.reason)
                await connection.disconnect()

    async with anyio.create_task_group() as tasks, real.connect() as connection:
        tasks.start_soon(wait)
        await clock.advance(100)
        assert reasons == []
        if end == "put":
            await connection.put1("PLAIN", "x")
        else:
            tasks.start_soon(real.quiesce, 1)
        await clock.advance(2)
    assert reasons == [reason]
