"""Handlers that fail: their starts are held back, their queue waits, and nothing is stranded or tried in a hot loop."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MQPER, MQRC, MQError
from broker.testing import VirtualClock
from tests.triggers.fake import FakeManager, handlers
from triggers import TriggerMonitor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker import Connection, Message
    from triggers import TriggerMessage

BACKOFF = [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7, 25.5, 51.1, 102.3, 162.3, 222.3]
"""When a handler is started that always fails: 0.1 s later, then each time after twice as long, up to 60 s."""


class Failing:
    """A handler that notes when it is started, and fails while it is told to."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.times: list[float] = []
        self.fails = True

    def handlers(self) -> list[Any]:
        async def handler(trigger: TriggerMessage, connection: Connection) -> None:
            self.times.append(self.clock.monotonic())
            if self.fails:
                raise ValueError("always")

        return [handlers(P=handler)]


# The times


async def test_a_start_that_fails_is_tried_again_later_and_later_up_to_a_minute(
    manager: FakeManager, clock: VirtualClock
) -> None:
    failing = Failing(clock)
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, failing.handlers()) as monitor:
        await clock.advance(230)
        assert failing.times == pytest.approx(BACKOFF)
        statistics = monitor.statistics()
        assert (statistics.failed, statistics.running, statistics.held_back) == (13, 0, {"Q": 1})


async def test_a_success_resets_the_wait(manager: FakeManager, clock: VirtualClock) -> None:
    failing = Failing(clock)
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, failing.handlers()) as monitor:
        await clock.advance(1)
        failing.fails = False
        await clock.advance(1)
        assert (monitor.statistics().held_back, manager.leases, manager.queues["Q"].pending) == ({}, 0, 0)
        failing.fails = True
        manager.post("Q")
        await clock.advance(0.5)
    assert failing.times == pytest.approx([0, 0.1, 0.3, 0.7, 1.5, 2, 2.1, 2.3])


async def test_a_success_beside_a_failure_resets_the_wait_too(manager: FakeManager, clock: VirtualClock) -> None:
    times: list[float] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        times.append(clock.monotonic())
        if len(times) != 4:
            raise ValueError("not the fourth")

    manager.define("Q", pending=2)
    async with TriggerMonitor(manager, [handlers(P=handler)], throttle_delay=0):
        await clock.advance(0.6)
    assert times == pytest.approx([0, 0, 0.2, 0.2, 0.3, 0.5])  # the two that fail together wait for each other first


async def test_a_success_while_the_queue_waits_makes_the_next_wait_a_short_one(
    manager: FakeManager, clock: VirtualClock
) -> None:
    failures: list[float] = []
    begun = 0

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            await clock.sleep(0.35)
            return
        failures.append(clock.monotonic())
        raise ValueError("all but the first")

    manager.define("Q", pending=2)
    async with TriggerMonitor(manager, [handlers(P=handler)]):
        await clock.advance(0.75)
    assert failures == pytest.approx([0, 0.2, 0.5, 0.6])  # while the first runs, each waits 0.1 s for it


async def test_the_waits_of_one_queue_do_not_hold_up_another(manager: FakeManager, clock: VirtualClock) -> None:
    failing = Failing(clock)
    served: list[float] = []

    async def good(trigger: TriggerMessage, connection: Connection) -> None:
        served.append(clock.monotonic())

    (module,) = failing.handlers()
    manager.define("A", pending=1)
    manager.define("B", "GOOD")
    async with TriggerMonitor(manager, [module, handlers(GOOD=good)]):
        await clock.advance(2)
        manager.post("B")
        await clock.advance(0)
    assert served == [2]


async def test_a_queue_that_did_not_fail_for_a_minute_after_its_wait_begins_anew(
    manager: FakeManager, clock: VirtualClock
) -> None:
    failing = Failing(clock)
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, failing.handlers()):
        await clock.advance(3.05)
        manager.queues["Q"].pending = -1  # the message goes, so the start that is given back is not needed
        await clock.advance(70)
        assert failing.times == pytest.approx([0, 0.1, 0.3, 0.7, 1.5])
        manager.post("Q")
        await clock.advance(0.35)
    assert failing.times[5:] == pytest.approx([73.05, 73.15, 73.35])


# What a queue that waits does not do


async def test_new_starts_wait_with_those_held_back_and_all_are_tried_together(
    manager: FakeManager, clock: VirtualClock
) -> None:
    failing = Failing(clock)
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, failing.handlers()):
        await clock.advance(0.05)
        manager.post("Q", 3)
        await clock.advance(0.2)
        assert failing.times == pytest.approx([0, 0.1, 0.1, 0.1, 0.1])
        assert [count for _, _, count in manager.taken] == [1, 4]


async def test_a_start_held_back_occupies_no_place(manager: FakeManager, clock: VirtualClock) -> None:
    failing = Failing(clock)
    served: list[float] = []

    async def good(trigger: TriggerMessage, connection: Connection) -> None:
        served.append(clock.monotonic())

    (module,) = failing.handlers()
    manager.define("A", pending=1)
    manager.define("B", "GOOD")
    async with TriggerMonitor(manager, [module, handlers(GOOD=good)], max_tasks=1, max_handlers=1) as monitor:
        await clock.advance(1)
        assert (monitor.statistics().held_back, monitor.statistics().running_by_queue) == ({"A": 1}, {})
        manager.post("B")
        await clock.advance(0)
        assert served == [1]


async def test_a_queue_that_waits_does_not_make_the_loop_spin(manager: FakeManager, clock: VirtualClock) -> None:
    looked = 0

    class Counted(list[Exception]):
        def __bool__(self) -> bool:
            nonlocal looked
            looked += 1
            return False

    failing = Failing(clock)
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, failing.handlers(), generation_interval=1000):
        await clock.advance(60)
        manager.failures = Counted()
        manager.post("Q", 5)
        await clock.advance(30)
        assert looked == 1


# What may happen meanwhile


async def test_what_is_held_back_is_pending_again_when_the_monitor_stops(
    manager: FakeManager, clock: VirtualClock
) -> None:
    failing = Failing(clock)
    manager.define("Q", pending=3)
    async with TriggerMonitor(manager, failing.handlers()) as monitor:
        await clock.advance(2)
        assert (manager.leases, manager.queues["Q"].pending) == (3, 0)
    assert (manager.leases, manager.queues["Q"].pending, monitor.statistics().held_back) == (0, 3, {})
    started = len(failing.times)
    await clock.advance(100)
    assert len(failing.times) == started


async def test_the_waits_outlive_the_generations(manager: FakeManager, clock: VirtualClock) -> None:
    failing = Failing(clock)
    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, failing.handlers(), generation_interval=0.25) as monitor:
        await clock.advance(13)
        assert monitor.statistics().generation > 50
        assert failing.times == pytest.approx(BACKOFF[:8])


async def test_a_queue_deleted_while_its_start_is_held_back_is_forgotten(
    manager: FakeManager, clock: VirtualClock
) -> None:
    failing = Failing(clock)
    async with (
        QueueManager.open(name="QM1", clock=clock) as real,
        real.connect() as operator,
        TriggerMonitor(real, failing.handlers()) as monitor,
    ):
        await operator.mqsc("DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) PROCESS(P) TRIGGER TRIGTYPE(EVERY)")
        await operator.put1("Q", b"A")
        await clock.advance(0.05)
        assert monitor.statistics().held_back == {"Q": 1}
        assert [reply.code for reply in await operator.mqsc("DELETE QLOCAL(Q) PURGE")] == ["AMQ8007I"]
        await clock.advance(100)
        assert (len(failing.times), monitor.statistics().held_back) == (1, {})


@pytest.mark.parametrize("reason", [MQRC.CONNECTION_BROKEN, MQRC.Q_MGR_STOPPING])
async def test_a_connection_that_is_lost_takes_the_leases_and_the_waits_with_it(
    manager: FakeManager, clock: VirtualClock, reason: MQRC
) -> None:
    failing = Failing(clock)
    manager.define("Q", pending=2)
    async with TriggerMonitor(manager, failing.handlers()) as monitor:
        await clock.advance(0.05)
        manager.stop(reason)
        await monitor.wait()
        assert (manager.queues["Q"].pending, manager.leases) == (2, 0)
        await clock.advance(100)
        assert (len(failing.times), monitor.statistics().held_back) == (2, {})


# With a queue manager


class Orders:
    """A handler that gets a message in a unit of work and cannot do anything with poison."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.done: list[bytes] = []
        self.failures: list[tuple[float, bytes, int]] = []
        self.poison = {b"poison"}

    def judge(self, message: Message) -> None:
        if message.data in self.poison:
            self.failures.append((self.clock.monotonic(), message.data, message.md.backout_count))
            raise ValueError("poison")
        self.done.append(message.data)

    def handlers(self, way: str = "in a unit") -> list[Any]:
        async def in_a_unit(trigger: TriggerMessage, connection: Connection) -> None:
            async with connection.unit_of_work(), connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
                self.judge(await queue.get())

        async def under_syncpoint(trigger: TriggerMessage, connection: Connection) -> None:
            async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
                self.judge(await queue.get(options=MQGMO.SYNCPOINT))

        return [handlers(P=in_a_unit if way == "in a unit" else under_syncpoint)]


@pytest.fixture
def virtual() -> VirtualClock:
    return VirtualClock()


STORES = pytest.mark.parametrize("triggered", ["in memory", "durable"], indirect=True)


@pytest.fixture
async def triggered(
    request: pytest.FixtureRequest, virtual: VirtualClock, tmp_path: Path
) -> AsyncIterator[tuple[QueueManager, Connection]]:
    """A queue manager with a triggered queue Q, and a connection to put to it."""
    durable = getattr(request, "param", None) == "durable"
    async with QueueManager.open(name="QM1", data=tmp_path if durable else None, clock=virtual) as manager:
        async with manager.connect("putter") as connection:
            await connection.mqsc(
                f"DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) PROCESS(P) TRIGGER TRIGTYPE(EVERY) "
                f"DEFPSIST({'YES' if durable else 'NO'})"
            )
            yield manager, connection
        manager.core.check_invariants()


async def put(connection: Connection, *bodies: bytes) -> None:
    for body in bodies:
        await connection.put1("Q", body, persistence=MQPER.PERSISTENCE_AS_Q_DEF)


STEP = 0.06
"""What a time may be off by, where the store's thread answers between two steps of the clock."""


async def pass_time(manager: QueueManager, clock: VirtualClock, seconds: float) -> None:
    """Let time pass, and the store do its work meanwhile."""
    for _ in range(round(seconds * 20)):
        await clock.advance(0.05)
        while not manager.journal.idle:  # the store has a thread of its own
            await asyncio.sleep(0)
            await clock.advance(0)


GOOD = [b"1", b"2", b"3", b"4", b"5"]


@STORES
@pytest.mark.parametrize("way", ["in a unit", "under syncpoint"])
@pytest.mark.parametrize("before", [True, False])
async def test_the_good_messages_behind_a_poison_one_go_through_and_that_is_tried_again_and_again(
    triggered: tuple[QueueManager, Connection], virtual: VirtualClock, before: bool, way: str
) -> None:
    manager, connection = triggered
    orders = Orders(virtual)
    if before:
        await put(connection, b"poison", *GOOD)
    async with TriggerMonitor(manager, orders.handlers(way)) as monitor:
        if not before:
            await put(connection, b"poison", *GOOD)
        await pass_time(manager, virtual, 20)
        assert sorted(orders.done) == GOOD
        times = [time for time, _, _ in orders.failures]
        waits = [later - earlier for earlier, later in pairwise(times)]
        assert waits[-4:] == pytest.approx([0.8, 1.6, 3.2, 6.4], abs=STEP)
        assert len(times) < 10
        assert [count for _, _, count in orders.failures] == list(range(len(times)))
        assert monitor.statistics().held_back == {"Q": 1}
        orders.poison.clear()
        await pass_time(manager, virtual, 20)
        assert sorted(orders.done) == [*GOOD, b"poison"]
        assert manager.status()["queues"][-1]["trigger_running"] == 0


@pytest.mark.parametrize("way", ["in a unit", "under syncpoint"])
async def test_more_poison_than_a_batch_of_starts_does_not_keep_the_good_messages_back(
    triggered: tuple[QueueManager, Connection], virtual: VirtualClock, way: str
) -> None:
    manager, connection = triggered
    orders = Orders(virtual)
    orders.poison = {b"poison %d" % number for number in range(25)}
    await put(connection, *sorted(orders.poison), *GOOD)
    async with TriggerMonitor(manager, orders.handlers(way)):
        await pass_time(manager, virtual, 1.8)
    assert sorted(orders.done) == GOOD


@STORES
async def test_a_handler_of_first_that_always_fails_is_not_started_in_a_hot_loop(
    triggered: tuple[QueueManager, Connection], virtual: VirtualClock
) -> None:
    manager, connection = triggered
    orders = Orders(virtual)
    await connection.mqsc("ALTER QLOCAL(Q) TRIGTYPE(FIRST)")
    async with TriggerMonitor(manager, orders.handlers()):
        await put(connection, b"poison")
        await pass_time(manager, virtual, 13)
        waits = [later - earlier for (earlier, *_), (later, *_) in pairwise(orders.failures)]
        assert waits[:6] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2], abs=STEP)
        assert len(orders.failures) <= 8
        orders.poison.clear()
        await pass_time(manager, virtual, 30)
        assert orders.done == [b"poison"]


async def test_a_handler_of_first_that_fails_before_it_opens_the_queue_is_started_again(
    triggered: tuple[QueueManager, Connection], virtual: VirtualClock
) -> None:
    manager, connection = triggered
    failing = Failing(virtual)
    await connection.mqsc("ALTER QLOCAL(Q) TRIGTYPE(FIRST)")
    async with TriggerMonitor(manager, failing.handlers()):
        await put(connection, b"A", b"B")
        await pass_time(manager, virtual, 1)
    assert failing.times == pytest.approx([0, 0.1, 0.3, 0.7])


async def test_a_start_whose_message_has_gone_is_not_tried_for_ever(
    triggered: tuple[QueueManager, Connection], virtual: VirtualClock
) -> None:
    manager, connection = triggered
    orders = Orders(virtual)
    async with TriggerMonitor(manager, orders.handlers()) as monitor:
        await put(connection, b"poison", b"poison")
        await pass_time(manager, virtual, 0.35)
        assert monitor.statistics().held_back == {"Q": 2}
        async with connection.open("Q", MQOO.INPUT_SHARED) as queue:
            await queue.get_many(2)
        started = monitor.statistics().started
        await pass_time(manager, virtual, 100)
        assert (monitor.statistics().started, monitor.statistics().held_back) == (started, {})


# Waiting for the others


async def test_the_unit_of_a_handler_that_fails_alone_is_backed_out_at_once(
    triggered: tuple[QueueManager, Connection], virtual: VirtualClock
) -> None:
    manager, connection = triggered
    async with TriggerMonitor(manager, Orders(virtual).handlers()) as monitor:
        await put(connection, b"poison")
        await pass_time(manager, virtual, 0.05)
        assert (monitor.statistics().running, monitor.statistics().failed) == (0, 1)


async def test_a_unit_waits_for_others_0_1_seconds_at_most_and_once(
    triggered: tuple[QueueManager, Connection], virtual: VirtualClock
) -> None:
    manager, connection = triggered
    ends: list[float] = []
    begins: list[float] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        begins.append(virtual.monotonic())
        if len(begins) == 1:
            await virtual.sleep(10)
            return
        for _ in range(2):
            try:
                async with connection.unit_of_work():
                    raise ValueError
            except ValueError:
                ends.append(virtual.monotonic())

    await put(connection, b"A", b"B")
    async with TriggerMonitor(manager, [handlers(P=handler)]):
        await pass_time(manager, virtual, 20)
    assert (begins, ends) == ([0, 0], [0.1, 0.1])


async def test_a_cancelled_handler_waits_for_nobody(
    triggered: tuple[QueueManager, Connection], virtual: VirtualClock
) -> None:
    manager, connection = triggered
    ended: list[float] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        try:
            async with connection.unit_of_work():
                await virtual.sleep(1000)
        finally:
            ended.append(virtual.monotonic())

    async def program() -> None:
        async with TriggerMonitor(manager, [handlers(P=handler)], stop_timeout=0):
            await put(connection, b"A", b"B")
            await virtual.sleep(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program)
        await pass_time(manager, virtual, 1)
        assert ended == [1, 1]


async def test_a_connection_without_anybody_who_waits_backs_out_as_ever(
    triggered: tuple[QueueManager, Connection], virtual: VirtualClock
) -> None:
    manager, connection = triggered
    with pytest.raises(MQError):
        async with connection.unit_of_work():
            await put(connection, b"A")
            raise MQError(MQRC.Q_FULL)
    assert manager.core.objects.queues["Q"].depth == 0
