"""The lifetime of the trigger monitor: entering, leaving, and what it does when its connection ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker.mqi import MQRC, MQError
from tests.triggers.fake import FakeManager, handlers
from triggers import TriggerMonitor, TriggerStatistics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.testing import VirtualClock
    from triggers import TriggerMessage

ENDINGS = [MQRC.CONNECTION_BROKEN, MQRC.Q_MGR_QUIESCING, MQRC.Q_MGR_STOPPING]


class Work:
    """A handler that works for some seconds, and what became of it."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds
        self.ends: list[tuple[float, str]] = []

    def handler(self) -> Callable[[TriggerMessage, Any], Awaitable[None]]:
        async def handler(trigger: TriggerMessage, connection: Any) -> None:
            try:
                await self.clock.sleep(self.seconds)
            except asyncio.CancelledError:
                self.ends.append((self.clock.monotonic(), "cancelled"))
                raise
            self.ends.append((self.clock.monotonic(), "returned"))

        return handler

    def module(self) -> Any:
        return handlers(P=self.handler())


async def leave_after(clock: VirtualClock, monitor: TriggerMonitor, seconds: float) -> float:
    """Be inside the monitor's context for so long; tell when it was left."""
    left: list[float] = []

    async def program() -> None:
        async with monitor:
            await clock.sleep(seconds)
        left.append(clock.monotonic())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program)
        await clock.advance(60)
    return left[0]


async def test_handlers_have_the_stop_timeout_to_end(manager: FakeManager, clock: VirtualClock) -> None:
    work = Work(clock, 4)
    manager.define("Q", pending=1)
    assert await leave_after(clock, TriggerMonitor(manager, [work.module()]), 1) == 4
    assert work.ends == [(4, "returned")]
    assert manager.ended == [("P", True), ("trigger monitor", True)]


async def test_then_they_are_cancelled_their_units_backed_out_and_their_starts_given_back(
    manager: FakeManager, clock: VirtualClock
) -> None:
    work = Work(clock, 40)
    manager.define("Q", pending=1)
    assert await leave_after(clock, TriggerMonitor(manager, [work.module()]), 1) == 11
    assert work.ends == [(11, "cancelled")]
    assert manager.ended == [("P", False), ("trigger monitor", True)]
    assert manager.queues["Q"].pending == 1


async def test_a_handler_that_fails_while_it_is_cancelled_is_started_again_too(
    manager: FakeManager, clock: VirtualClock
) -> None:
    async def handler(trigger: TriggerMessage, connection: Any) -> None:
        try:
            await clock.sleep(40)
        finally:
            raise ValueError("untidy")

    manager.define("Q", pending=1)
    assert await leave_after(clock, TriggerMonitor(manager, [handlers(P=handler)]), 1) == 11
    assert (manager.ended[0], manager.queues["Q"].pending) == (("P", False), 1)


async def test_nothing_is_started_while_the_monitor_stops(manager: FakeManager, clock: VirtualClock) -> None:
    work = Work(clock, 4)
    manager.define("Q", pending=3)
    monitor = TriggerMonitor(manager, [work.module()], batch_size=1, throttle_delay=0.9)
    clock.call_later(2, lambda: manager.post("Q"))
    await leave_after(clock, monitor, 1)
    assert (len(work.ends), manager.queues["Q"].pending) == (2, 2)


async def test_starts_that_arrive_while_the_monitor_stops_are_given_back() -> None:
    manager = FakeManager()
    work = Work(manager.clock, 4)
    manager.define("Q", pending=3)
    monitor = TriggerMonitor(manager, [work.module()])
    manager.latency = 0.6
    await leave_after(manager.clock, monitor, 1)  # asked for at 0.6, there at 1.2
    assert (work.ends, manager.queues["Q"].pending, monitor.statistics().running) == ([], 3, 0)


async def test_leaving_by_an_exception_gives_handlers_the_same_time_and_lets_it_out(
    manager: FakeManager, clock: VirtualClock
) -> None:
    work = Work(clock, 4)
    manager.define("Q", pending=1)
    error = ExceptionGroup("the program's own", [ValueError("wrong")])

    async def program() -> None:
        async with TriggerMonitor(manager, [work.module()]):
            await clock.sleep(1)
            raise error

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.advance, 60)
        with pytest.raises(ExceptionGroup) as caught:
            await program()
    assert caught.value is error
    assert work.ends == [(4, "returned")]


async def test_leaving_by_cancellation_cancels_the_handlers_at_once(manager: FakeManager, clock: VirtualClock) -> None:
    work = Work(clock, 4)
    manager.define("Q", pending=1)

    async def program() -> None:
        async with TriggerMonitor(manager, [work.module()]):
            await clock.sleep(30)

    task = asyncio.ensure_future(program())
    await clock.advance(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.ends == [(1, "cancelled")]
    assert (manager.queues["Q"].pending, manager.ports) == (1, [])


async def test_a_program_that_gives_up_while_it_leaves_cancels_the_handlers(
    manager: FakeManager, clock: VirtualClock
) -> None:
    work = Work(clock, 8)
    manager.define("Q", pending=1)

    async def program() -> None:
        with anyio.CancelScope() as scope:
            clock.call_later(3, scope.cancel)
            async with TriggerMonitor(manager, [work.module()]):
                await clock.sleep(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program)
        await clock.advance(5)
    assert work.ends == [(3, "cancelled")]
    assert (manager.queues["Q"].pending, manager.ports) == (1, [])


@pytest.mark.parametrize("reason", ENDINGS)
async def test_over_a_given_connection_the_monitor_ends_with_the_error(
    manager: FakeManager, clock: VirtualClock, reason: MQRC
) -> None:
    manager.define("Q")
    source = manager.connect("worker")
    clock.call_later(7, lambda: manager.stop(reason))

    async def worker() -> None:
        async with TriggerMonitor(source, clock=clock) as monitor:
            await monitor.wait()
            raise AssertionError("the body is cancelled")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.advance, 10)
        with pytest.raises(MQError) as caught:
            await worker()
    assert caught.value.reason == reason


@pytest.mark.parametrize("reason", ENDINGS)
async def test_beside_its_queue_manager_the_monitor_ends_quietly(
    manager: FakeManager, clock: VirtualClock, reason: MQRC
) -> None:
    manager.define("Q")
    async with TriggerMonitor(manager) as monitor:
        await clock.advance(7)
        manager.stop(reason)
        await clock.advance(0)
        await monitor.wait()
        assert manager.ports == []


async def test_a_quiescing_queue_manager_lets_handlers_end(manager: FakeManager, clock: VirtualClock) -> None:
    work = Work(clock, 4)
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, [work.module()]) as monitor:
        await clock.advance(1)
        manager.stop(MQRC.Q_MGR_QUIESCING)
        await clock.advance(1)
        assert (work.ends, len(manager.ports)) == ([], 2)
        await clock.advance(3)
        await monitor.wait()
    assert (work.ends, manager.ports) == ([(4, "returned")], [])


async def test_a_broken_connection_cancels_handlers_since_their_starts_are_pending_again(
    manager: FakeManager, clock: VirtualClock
) -> None:
    work = Work(clock, 4)
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, [work.module()]) as monitor:
        await clock.advance(1)
        manager.stop(MQRC.CONNECTION_BROKEN)
        await monitor.wait()
    assert (work.ends, manager.queues["Q"].pending) == ([(1, "cancelled")], 1)


async def test_a_monitor_that_cannot_connect_is_not_entered(manager: FakeManager) -> None:
    manager.refusals.append(MQError(MQRC.Q_MGR_QUIESCING))
    with pytest.raises(MQError, match="2161"):
        async with TriggerMonitor(manager):
            raise AssertionError("not entered")


async def test_a_monitor_is_entered_once(manager: FakeManager) -> None:
    monitor = TriggerMonitor(manager)
    async with monitor:
        with pytest.raises(RuntimeError, match="entered once"):
            await monitor.__aenter__()
    with pytest.raises(RuntimeError, match="entered once"):
        await monitor.__aenter__()


async def test_statistics_tell_what_runs_and_what_waits(manager: FakeManager, clock: VirtualClock) -> None:
    work = Work(clock, 4)
    manager.define("A", pending=2)
    manager.define("B", pending=1)
    manager.define("LOST", "NOBODY", pending=1)
    monitor = TriggerMonitor(manager, [work.module()])
    assert monitor.statistics() == TriggerStatistics(generation=0, running=0, started=0, failed=0)
    async with monitor:
        await clock.advance(1)
        assert monitor.statistics() == TriggerStatistics(
            generation=1,
            running=3,
            started=3,
            failed=0,
            running_by_queue={"A": 2, "B": 1},
            unserved={"LOST": "NOBODY"},
        )
        await clock.advance(5)
        assert monitor.statistics() == TriggerStatistics(
            generation=2, running=0, started=3, failed=0, unserved={"LOST": "NOBODY"}
        )


@pytest.mark.parametrize(
    "setting",
    [
        {"batch_size": 0},
        {"throttle_delay": -0.001},
        {"generation_interval": 0},
        {"max_tasks": 0},
        {"max_handlers": 0},
        {"stop_timeout": -1},
        {"throttle_delay": float("nan")},
    ],
    ids=str,
)
def test_a_number_out_of_range_is_a_value_error_that_names_it(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        TriggerMonitor(FakeManager(), **setting)
