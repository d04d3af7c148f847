"""The loop of TPF's monitor: batches, throttle delay, round the queues, event wait, and a new generation every 5 s."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker.mqi import MQRC, MQError
from tests.triggers.fake import FakeManager, handlers
from triggers import TriggerMonitor

if TYPE_CHECKING:
    from broker.testing import VirtualClock
    from triggers import TriggerMessage


class Runs:
    """A handler that notes its starts, with their times, and waits until it may end."""

    def __init__(self, manager: FakeManager, *, ends: bool = True) -> None:
        self.manager = manager
        self.starts: list[tuple[float, str]] = []
        self.may_end = asyncio.Semaphore(1_000_000 if ends else 0)

    async def __call__(self, trigger: TriggerMessage, connection: Any) -> None:
        self.starts.append((self.manager.clock.monotonic(), trigger.q_name))
        await self.may_end.acquire()

    async def end(self, count: int) -> None:
        for _ in range(count):
            self.may_end.release()
        await self.manager.clock.advance(0)

    def of(self, q_name: str) -> int:
        return sum(name == q_name for _, name in self.starts)


def serving(runs: Runs, *processes: str) -> list[Any]:
    async def handler(trigger: TriggerMessage, connection: Any) -> None:
        await runs(trigger, connection)

    return [handlers(**dict.fromkeys(processes or ("P",), handler))]


async def test_25_starts_come_in_runs_of_10_10_and_5_with_the_throttle_delay_between(
    manager: FakeManager, clock: VirtualClock
) -> None:  # S-13, S-15, H12.7
    runs = Runs(manager)
    manager.define("Q", pending=25)
    async with TriggerMonitor(manager, serving(runs)) as monitor:
        await clock.advance(1)
        assert [count for _, _, count in manager.taken] == [10, 10, 5]
        assert [time for time, _, _ in manager.taken] == pytest.approx([0, 0.001, 0.002])
        assert len(runs.starts) == monitor.statistics().started == 25
        assert manager.leases == 0


async def test_the_throttle_delay_and_the_batch_size_can_be_set(manager: FakeManager, clock: VirtualClock) -> None:
    manager.define("Q", pending=5)
    async with TriggerMonitor(manager, serving(Runs(manager)), batch_size=2, throttle_delay=0.5):
        await clock.advance(2)
    assert manager.taken == [(0, "Q", 2), (0.5, "Q", 2), (1.0, "Q", 1)]


async def test_without_a_throttle_delay_all_is_started_at_once_in_batches(
    manager: FakeManager, clock: VirtualClock
) -> None:
    manager.define("Q", pending=25)
    async with TriggerMonitor(manager, serving(Runs(manager)), throttle_delay=0):
        await clock.advance(0)
    assert manager.taken == [(0, "Q", 10), (0, "Q", 10), (0, "Q", 5)]


async def test_a_queue_with_many_starts_lets_the_next_one_have_its_turn(
    manager: FakeManager, clock: VirtualClock
) -> None:  # S-15
    runs = Runs(manager)
    manager.define("A", pending=100)
    manager.define("B", pending=1)
    async with TriggerMonitor(manager, serving(runs)):
        await clock.advance(1)
    assert [q_name for _, q_name in runs.starts].index("B") <= 10
    assert (runs.of("A"), runs.of("B")) == (100, 1)


async def test_queues_have_their_turn_in_the_order_of_their_names(manager: FakeManager, clock: VirtualClock) -> None:
    for q_name in ("C", "A", "B"):
        manager.define(q_name, pending=15)
    async with TriggerMonitor(manager, serving(Runs(manager)), throttle_delay=0):
        await clock.advance(0)
    assert [(q_name, count) for _, q_name, count in manager.taken] == [
        ("A", 10), ("B", 10), ("C", 10), ("A", 5), ("B", 5), ("C", 5),
    ]  # fmt: skip


async def test_a_post_starts_a_handler_after_30_idle_seconds_and_6_changes_of_generation(
    manager: FakeManager, clock: VirtualClock
) -> None:  # S-18, S-21
    runs = Runs(manager)
    manager.define("Q")
    async with TriggerMonitor(manager, serving(runs)) as monitor:
        await clock.advance(30)
        assert (monitor.statistics().generation, monitor.statistics().started) == (7, 0)
        assert manager.taken == []
        manager.post("Q")
        await clock.advance(0)  # the post wakes the monitor: no time passes
        assert runs.starts == [(30, "Q")]


async def test_200_posts_a_second_for_20_seconds_start_as_many_handlers(
    manager: FakeManager, clock: VirtualClock
) -> None:  # S-22
    runs = Runs(manager)
    manager.define("Q")

    async def post() -> None:
        for _ in range(4000):
            manager.post("Q")
            await clock.sleep(0.005)

    async with TriggerMonitor(manager, serving(runs)) as monitor, anyio.create_task_group() as tasks:
        tasks.start_soon(post)
        await clock.advance(21)
        assert monitor.statistics().generation >= 4
        assert monitor.statistics().started == len(runs.starts) == 4000
        assert sum(count for _, _, count in manager.taken) == 4000
    assert manager.queues["Q"].pending == 0


@pytest.mark.parametrize("latency", [0.03, 0.4, 0.9])
async def test_over_a_slow_line_generations_lose_nothing_and_double_nothing(latency: float) -> None:
    manager = FakeManager()
    runs = Runs(manager)
    manager.define("A")
    manager.define("B")

    async def post() -> None:
        for number in range(200):
            manager.post("AB"[number % 2])
            await manager.clock.sleep(0.05)

    manager.latency = latency
    async with anyio.create_task_group() as tasks:
        source = manager.connect()
        tasks.start_soon(manager.clock.advance, 80)
        async with TriggerMonitor(source, serving(runs), generation_interval=1, clock=manager.clock) as monitor:
            await post()
            await manager.clock.sleep(50)
            assert monitor.statistics().generation > 30
            assert (runs.of("A"), runs.of("B")) == (100, 100)
    assert manager.queues["A"].pending == manager.queues["B"].pending == 0


async def test_a_retired_generation_starts_what_it_had_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    manager = FakeManager()
    runs = Runs(manager)
    manager.define("Q", pending=1)
    manager.latency = 1.0  # asked at 1, answered at 2
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manager.clock.advance, 20)
        async with TriggerMonitor(manager, serving(runs), generation_interval=1.5) as monitor:
            await manager.clock.sleep(1.8)
            assert (manager.queues["Q"].pending, runs.starts, monitor.statistics().generation) == (0, [], 2)
            await manager.clock.sleep(0.5)
            assert runs.starts == [(2.0, "Q")]
            await manager.clock.sleep(5)
            assert len(runs.starts) == 1


async def test_only_the_current_generation_asks_for_starts(manager: FakeManager, clock: VirtualClock) -> None:
    manager.define("A", pending=100)
    manager.define("B", pending=100)
    async with TriggerMonitor(
        manager, serving(Runs(manager)), batch_size=1, throttle_delay=2.5, generation_interval=1
    ) as monitor:
        await clock.advance(5.9)  # old generations wake from their throttle delay in the middle of a second
        assert monitor.statistics().generation == 6
        assert [time for time, _, _ in manager.taken] == [0, 1, 2, 3, 4, 5]


async def test_a_handler_that_ends_during_a_pass_is_not_overlooked(manager: FakeManager, clock: VirtualClock) -> None:
    runs = Runs(manager, ends=False)
    manager.define("A", pending=2)
    manager.define("B")
    manager.define("C", pending=1)  # the last that starts something: the next pass begins with A again
    async with TriggerMonitor(manager, serving(runs), max_handlers=1):
        await clock.advance(1)
        manager.latency = 0.5
        manager.post("B")  # the monitor hears of it at 1.5, has the counts at 2, asks for B's start
        await clock.advance(0.8)
        manager.queues["B"].pending = 0  # another monitor was quicker: the answer at 2.5 is empty
        await runs.end(1)  # its connection has ended at 2.3
        await clock.advance(2)
        assert (runs.of("A"), runs.of("B")) == (2, 0)
        manager.latency = 0
        await runs.end(2)
        await clock.advance(1)


async def test_a_generation_that_dies_is_replaced_at_once(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs(manager)
    manager.define("Q")
    async with TriggerMonitor(manager, serving(runs)) as monitor:
        await clock.advance(1)
        manager.failures.append(RuntimeError("a fault"))
        manager.post("Q")
        await clock.advance(0)
        assert runs.starts == [(1, "Q")]
        assert monitor.statistics().generation == 2
        assert "trigger monitor generation 1 died" in caplog.text
        assert "RuntimeError: a fault" in caplog.text


async def test_a_fault_that_lasts_does_not_spin(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs(manager)
    manager.define("Q", pending=1)
    manager.failures += [MQError(MQRC.UNEXPECTED_ERROR)] * 12
    async with TriggerMonitor(manager, serving(runs)) as monitor:
        await clock.advance(0)
        assert monitor.statistics().generation == 2
        await clock.advance(1.2)
        assert monitor.statistics().generation == 13
        assert len(runs.starts) == 1


async def test_one_queue_has_no_more_handlers_than_its_cap(manager: FakeManager, clock: VirtualClock) -> None:
    runs = Runs(manager, ends=False)
    manager.define("A", pending=10)
    manager.define("B", pending=2)
    async with TriggerMonitor(manager, serving(runs), max_handlers=4) as monitor:
        await clock.advance(1)
        assert (runs.of("A"), runs.of("B")) == (4, 2)
        assert monitor.statistics().running_by_queue == {"A": 4, "B": 2}
        await runs.end(1)  # no post: the ended handler wakes the loop
        assert runs.of("A") == 5
        await runs.end(100)
        await clock.advance(1)
        assert (runs.of("A"), runs.of("B")) == (10, 2)


async def test_all_queues_together_have_no_more_handlers_than_the_cap_and_a_tenth_is_kept(
    manager: FakeManager, clock: VirtualClock
) -> None:
    runs = Runs(manager, ends=False)
    manager.define("A", pending=50)
    manager.define("B")
    manager.define("C", pending=0)
    async with TriggerMonitor(manager, serving(runs), max_tasks=20) as monitor:
        await clock.advance(1)
        assert runs.of("A") == 18
        manager.post("B", 5)
        await clock.advance(1)
        assert (runs.of("A"), runs.of("B")) == (18, 1)
        manager.post("C", 5)
        await clock.advance(6)
        assert (runs.of("A"), runs.of("B"), runs.of("C")) == (18, 1, 1)
        assert monitor.statistics().running == 20
        assert manager.queues["A"].pending == 32
        await runs.end(60)
        await clock.advance(1)
        assert (runs.of("A"), runs.of("B"), runs.of("C")) == (50, 5, 5)


async def test_at_the_cap_places_that_become_free_go_round_the_queues(
    manager: FakeManager, clock: VirtualClock
) -> None:
    runs = Runs(manager, ends=False)
    manager.define("A", pending=100)
    manager.define("B", pending=100)
    async with TriggerMonitor(manager, serving(runs), max_tasks=4) as monitor:
        await clock.advance(1)
        for _ in range(40):
            await runs.end(1)
            await clock.advance(0.01)
        assert monitor.statistics().running == 4
        assert runs.of("A") + runs.of("B") == 44
        assert runs.of("B") >= 19
        await runs.end(200)


async def test_a_process_that_nobody_serves_stays_pending_and_is_logged_once(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs(manager)
    manager.define("LOST", "NOBODY", appl_id="WHO", pending=3)
    manager.define("Q")
    async with TriggerMonitor(manager, serving(runs, "P", "OTHER")) as monitor:
        await clock.advance(12)
        manager.post("LOST")
        manager.post("Q")
        await clock.advance(0)
        assert runs.of("Q") == 1
        assert manager.queues["LOST"].pending == 4
        assert monitor.statistics().unserved == {"LOST": "NOBODY"}
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        "no handler serves process NOBODY (APPLICID WHO), which queue LOST names: "
        "its starts stay pending; processes served here: OTHER, P"
    ]


async def test_a_queue_that_a_worker_serves_is_no_warning(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    manager.define("ORDERS", "ORDERS", pending=1)
    manager.served.add("ORDERS")
    async with TriggerMonitor(manager) as monitor:
        await clock.advance(59)
        assert (monitor.statistics().unserved, manager.asked) == ({"ORDERS": "ORDERS"}, 1)
        assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == []
        manager.served.clear()
        await clock.advance(12)
    [reported] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert reported.getMessage().startswith("no handler serves process ORDERS ")
    assert (reported.__dict__["queue"], reported.__dict__["process_name"], reported.__dict__["starts"]) == (
        "ORDERS",
        "ORDERS",
        1,
    )


async def test_starts_that_another_monitor_takes_are_no_warning(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    manager.define("ORDERS", "ORDERS")
    async with TriggerMonitor(manager):
        for _ in range(20):
            manager.post("ORDERS")
            await clock.advance(0)
            manager.queues["ORDERS"].pending = 0
            await clock.advance(1)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == []


async def test_a_process_that_nobody_serves_does_not_make_the_loop_spin(
    manager: FakeManager, clock: VirtualClock
) -> None:
    manager.define("LOST", "NOBODY", pending=3)
    looked = 0

    class Counted(list[Exception]):
        def __bool__(self) -> bool:
            nonlocal looked
            looked += 1
            return False

    manager.failures = Counted()
    async with TriggerMonitor(manager, serving(Runs(manager))):
        await clock.advance(4)
    assert looked == 1


async def test_a_queue_deleted_during_the_pass_is_passed_over(manager: FakeManager, clock: VirtualClock) -> None:
    runs = Runs(manager)
    for q_name in "ABC":
        manager.define(q_name, pending=1)
    async with TriggerMonitor(manager, serving(runs), throttle_delay=1) as monitor:
        await clock.advance(0.5)
        del manager.queues["B"]
        await clock.advance(1)
        assert [q_name for _, q_name in runs.starts] == ["A", "C"]
        assert monitor.statistics().generation == 1


async def test_handlers_outlive_their_generation(manager: FakeManager, clock: VirtualClock) -> None:
    runs = Runs(manager, ends=False)
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, serving(runs)) as monitor:
        await clock.advance(11)
        assert (monitor.statistics().generation, monitor.statistics().running) == (3, 1)
        await runs.end(1)
        assert (monitor.statistics().running, manager.leases, manager.ended) == (0, 0, [("P", True)])
