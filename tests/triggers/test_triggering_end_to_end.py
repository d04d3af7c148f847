"""Triggering as a whole: a queue manager, its commands, puts, and the handlers that they start."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MQPER, MQPMO, MQRC, MQError
from broker.testing import VirtualClock
from tests.triggers.fake import handlers, module
from triggers import TriggerMessage, TriggerMonitor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker import Connection, Queue

TPF_PROCESS = "ZMQSC DEF PROCESS-MYPROCESS APPLICID-appl ENVRDATA-MYENVR USERDATA-TESTING"
TPF_QUEUE = "ZMQSC ALTER QL-TESTQ PROCESS-MYPROCESS TRIGGER TRIGTYPE-EVERY TRIGDATA-THISISTRIGGER"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def manager(clock: VirtualClock) -> AsyncIterator[QueueManager]:
    """A queue manager in memory, with two triggered queues."""
    async with QueueManager.open(name="QM1", clock=clock) as manager:
        async with manager.connect("operator") as operator:
            await run(operator, "DEFINE QLOCAL(TESTQ)", TPF_PROCESS, TPF_QUEUE)
            await run(operator, "DEFINE QLOCAL(OTHERQ) PROCESS(MYPROCESS) TRIGGER TRIGTYPE(EVERY)")
        yield manager


async def run(connection: Connection, *commands: str) -> None:
    for command in commands:
        for reply in await connection.mqsc(command):
            assert reply.ok, (command, reply.text)


def pending(manager: QueueManager) -> dict[str, int]:
    return {queue["name"]: queue["trigger_pending"] for queue in manager.status()["queues"] if queue["trigger_pending"]}


class Getting:
    """A handler that gets the message of its start under syncpoint."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.triggers: list[TriggerMessage] = []
        self.got: list[tuple[float, bytes]] = []
        self.error: Exception | None = None

    def handlers(self) -> list[Any]:
        async def handler(trigger: TriggerMessage, connection: Connection) -> None:
            self.triggers.append(trigger)
            async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
                message = await queue.get(options=MQGMO.SYNCPOINT)
                self.got.append((self.clock.monotonic(), message.data))
                if self.error is not None:
                    raise self.error

        return [handlers(MYPROCESS=handler)]


@pytest.fixture
def getting(clock: VirtualClock) -> Getting:
    return Getting(clock)


@pytest.fixture
async def testq(manager: QueueManager) -> AsyncIterator[Queue]:
    async with manager.connect("putter") as connection, connection.open("TESTQ", MQOO.OUTPUT) as queue:
        yield queue


async def test_a_handler_is_told_what_the_commands_of_tpf_defined(
    manager: QueueManager, clock: VirtualClock, testq: Queue, getting: Getting
) -> None:  # S-6, S-14, S-25, S-26
    async with TriggerMonitor(manager, getting.handlers()):
        await testq.put(b"one")
        await clock.advance(0)
    (trigger,) = getting.triggers
    assert trigger == TriggerMessage("TESTQ", "MYPROCESS", "THISISTRIGGER", "APPL", "MYENVR", "TESTING", "QM1")
    assert len(bytes(trigger)) == 732
    assert bytes(trigger)[168:172] == b"    "
    assert [data for _, data in getting.got] == [b"one"]


async def test_25_messages_at_once_start_10_10_and_5_handlers(
    manager: QueueManager, clock: VirtualClock, testq: Queue, getting: Getting
) -> None:  # S-4, S-17
    for number in range(25):
        await testq.put(str(number))
    async with TriggerMonitor(manager, getting.handlers()) as monitor:
        await clock.advance(1)
        assert monitor.statistics().started == 25
    times = [time for time, _ in getting.got]
    assert times == pytest.approx([0.0] * 10 + [0.001] * 10 + [0.002] * 5)
    assert [int(data) for _, data in getting.got] == list(range(25))


async def test_one_message_on_another_queue_waits_for_10_starts_at_most(
    manager: QueueManager, clock: VirtualClock, testq: Queue, getting: Getting
) -> None:
    async with manager.connect() as connection:
        for number in range(100):
            await connection.put1("OTHERQ", str(number))
    await testq.put(b"the one")
    async with TriggerMonitor(manager, getting.handlers()):
        await clock.advance(1)
    assert len(getting.triggers) == 101
    assert [trigger.q_name for trigger in getting.triggers].index("TESTQ") == 10


async def test_a_put_after_30_idle_seconds_starts_a_handler_at_once(
    manager: QueueManager, clock: VirtualClock, testq: Queue, getting: Getting
) -> None:  # S-19, S-20
    async with TriggerMonitor(manager, getting.handlers()) as monitor:
        await clock.advance(30)
        assert (monitor.statistics().generation, monitor.statistics().started) == (7, 0)
        await testq.put(b"late")
        await clock.advance(0)
        assert getting.got == [(30, b"late")]


async def test_200_puts_a_second_for_20_seconds_are_each_handled_once(
    manager: QueueManager, clock: VirtualClock, testq: Queue, getting: Getting
) -> None:
    async def put() -> None:
        for number in range(4000):
            await testq.put(str(number))
            await clock.sleep(0.005)

    async with TriggerMonitor(manager, getting.handlers()) as monitor, anyio.create_task_group() as tasks:
        tasks.start_soon(put)
        await clock.advance(21)
        assert monitor.statistics().generation >= 4
        assert monitor.statistics().started == 4000
    assert [int(data) for _, data in getting.got] == list(range(4000))


async def test_a_unit_of_work_counts_when_it_is_committed(
    manager: QueueManager, clock: VirtualClock, getting: Getting
) -> None:
    async with TriggerMonitor(manager, getting.handlers()), manager.connect() as connection:
        for _ in range(5):
            await connection.put1("TESTQ", b"", options=MQPMO.SYNCPOINT)
        await connection.backout()
        await clock.advance(1)
        assert getting.triggers == []
        for _ in range(5):
            await connection.put1("TESTQ", b"", options=MQPMO.SYNCPOINT)
        await clock.advance(1)
        assert getting.triggers == []
        await connection.commit()
        await clock.advance(1)
        assert len(getting.triggers) == 5


async def test_a_handler_that_raises_leaves_its_message_on_the_queue_with_the_backout_counted(
    manager: QueueManager, clock: VirtualClock, testq: Queue, getting: Getting, caplog: pytest.LogCaptureFixture
) -> None:
    getting.error = ValueError("bad message")
    async with TriggerMonitor(manager, getting.handlers()) as monitor:
        await testq.put(b"poison")
        await clock.advance(0.05)
        assert (monitor.statistics().failed, monitor.statistics().running) == (1, 0)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "queue=TESTQ generation=1 trigger=MQTMC2(q_name='TESTQ'" in record.getMessage()
    assert pending(manager) == {"TESTQ": 1}
    async with manager.connect() as connection, connection.open("TESTQ", MQOO.INPUT_SHARED) as queue:
        message = await queue.get()
        assert (message.data, message.md.backout_count) == (b"poison", 1)


async def test_a_handler_that_returns_commits_what_is_open(
    manager: QueueManager, clock: VirtualClock, testq: Queue, getting: Getting
) -> None:
    async with TriggerMonitor(manager, getting.handlers()):
        await testq.put(b"one")
        await clock.advance(1)
    async with manager.connect() as connection, connection.open("TESTQ", MQOO.INPUT_SHARED) as queue:
        with pytest.raises(MQError) as caught:
            await queue.get()
    assert caught.value.reason == MQRC.NO_MSG_AVAILABLE


async def test_a_first_queue_starts_one_handler_that_takes_what_there_is(
    manager: QueueManager, clock: VirtualClock
) -> None:
    got: list[bytes] = []
    starts = 0

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        nonlocal starts
        starts += 1
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            with suppress(MQError):  # NO_MSG_AVAILABLE (2033)
                while True:
                    got.append((await queue.get(wait=2)).data)

    async with manager.connect() as connection:
        await run(connection, "ALTER QLOCAL(TESTQ) TRIGTYPE(FIRST)")
        async with TriggerMonitor(manager, [handlers(MYPROCESS=handler)]):
            for number in range(3):
                await connection.put1("TESTQ", str(number))
            await clock.advance(5)
            assert (starts, got) == (1, [b"0", b"1", b"2"])
            await connection.put1("TESTQ", "3")
            await clock.advance(5)
            assert (starts, got[3:]) == (2, [b"3"])


async def test_applicid_selects_a_function_when_no_process_name_does(
    manager: QueueManager, clock: VirtualClock, testq: Queue
) -> None:
    started: list[str] = []

    async def appl(trigger: TriggerMessage, connection: Connection) -> None:
        started.append(trigger.appl_id)

    async with TriggerMonitor(manager, [module(appl)]):
        await testq.put(b"one")
        await clock.advance(1)
    assert started == ["APPL"]


async def test_a_process_that_nobody_serves_stays_pending_until_somebody_does(
    manager: QueueManager, clock: VirtualClock, testq: Queue, getting: Getting
) -> None:
    async with TriggerMonitor(manager) as monitor:
        await testq.put(b"one")
        await clock.advance(10)
        assert monitor.statistics().unserved == {"TESTQ": "MYPROCESS"}
        assert pending(manager) == {"TESTQ": 1}
    async with TriggerMonitor(manager, getting.handlers()):
        await clock.advance(1)
    assert [data for _, data in getting.got] == [b"one"]


async def test_a_start_cancelled_at_stop_is_pending_again_and_its_message_on_the_queue(
    manager: QueueManager, clock: VirtualClock, testq: Queue
) -> None:
    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            await queue.get(options=MQGMO.SYNCPOINT)
            await clock.sleep(3600)

    async def program() -> None:
        async with TriggerMonitor(manager, [handlers(MYPROCESS=handler)]):
            await testq.put(b"one")
            await clock.sleep(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(program)
        await clock.advance(60)
    assert pending(manager) == {"TESTQ": 1}
    assert next(queue["depth"] for queue in manager.status()["queues"] if queue["name"] == "TESTQ") == 1


async def test_through_a_connection_the_monitor_works_as_beside_the_manager(
    manager: QueueManager, clock: VirtualClock, testq: Queue, getting: Getting
) -> None:
    async with manager.connect("worker") as source, TriggerMonitor(source, getting.handlers(), clock=clock):
        await testq.put(b"one")
        await clock.advance(1)
        assert [data for _, data in getting.got] == [b"one"]


@pytest.mark.parametrize("quiesces", [True, False])
async def test_when_the_queue_manager_ends_first_the_monitor_ends_quietly(
    clock: VirtualClock, getting: Getting, quiesces: bool
) -> None:
    async with anyio.create_task_group() as tasks:

        async def program(manager: QueueManager) -> None:
            async with TriggerMonitor(manager, getting.handlers()) as monitor:
                await monitor.wait()

        async with QueueManager.open(name="QM1", clock=clock) as manager:
            tasks.start_soon(program, manager)
            await clock.advance(1)
            if quiesces:
                tasks.start_soon(clock.advance, 5)
                await manager.quiesce(5)


async def test_a_restart_starts_a_handler_for_each_message_that_waits(
    clock: VirtualClock, getting: Getting, tmp_path: Path
) -> None:
    async with QueueManager.open(name="QM1", data=tmp_path, clock=clock) as manager, manager.connect() as connection:
        await run(connection, "DEFINE QLOCAL(TESTQ)", TPF_PROCESS, TPF_QUEUE)
        for number in range(3):
            await connection.put1("TESTQ", str(number), persistence=MQPER.PERSISTENT)
        assert pending(manager) == {"TESTQ": 3}
    async with QueueManager.open(name="QM1", data=tmp_path, clock=clock) as manager:
        async with TriggerMonitor(manager, getting.handlers()):
            await clock.advance(1)
        assert (len(getting.got), pending(manager)) == (3, {})
