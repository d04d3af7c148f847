"""Starts that are missing, and queues that name no process."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from broker import QueueManager
from broker.mqi import MQAT, MQGMO, MQMT, MQOO, MQPER, MQRC, MQTM, MessageDescriptor, MQError
from broker.testing import VirtualClock
from tests.triggers.fake import FakeManager, handlers
from tests.triggers.test_triggering_end_to_end import pending, run
from triggers import TriggerMessage, TriggerMonitor

if TYPE_CHECKING:
    from broker import Connection


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


# The sweep


async def test_every_sweep_interval_the_queue_manager_is_asked_for_missing_starts(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[float] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        started.append(clock.monotonic())

    manager.define("Q")
    manager.stranded = ["Q"]
    async with TriggerMonitor(manager, [handlers(P=handler)]) as monitor:
        await clock.advance(59)
        assert (started, manager.sweeps) == ([], [])
        await clock.advance(121)
        assert (started, manager.sweeps) == ([60], [60, 120, 180])
        assert monitor.statistics().swept == 1
    assert len(warnings(caplog)) == 1


async def test_a_monitor_that_is_adjusted_sweeps_and_renews_itself_by_the_new_intervals_at_once(
    manager: FakeManager, clock: VirtualClock
) -> None:
    figures = {"batch_size": 1, "throttle_delay": 0.0, "max_tasks": 5, "max_handlers": 2}
    async with TriggerMonitor(manager, generation_interval=1000, sweep_interval=1000) as monitor:
        await clock.advance(5)
        monitor.adjust(generation_interval=10, sweep_interval=20, **figures)  # type: ignore[arg-type]
        await clock.advance(45)
        assert manager.sweeps == [25, 45]
        assert monitor.statistics().generation == 1 + 1 + 4
        with pytest.raises(ValueError, match="sweep_interval=0: must be above 0 seconds"):
            monitor.adjust(generation_interval=1, sweep_interval=0, **figures)  # type: ignore[arg-type]
        await clock.advance(20)
        assert manager.sweeps == [25, 45, 65]


async def test_a_sweep_that_fails_is_logged_and_the_next_one_is_made(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with TriggerMonitor(manager, sweep_interval=10, generation_interval=100):
        await clock.advance(5)
        manager.failures.append(MQError(MQRC.UNEXPECTED_ERROR))
        await clock.advance(20)
        assert manager.sweeps == [10, 20]
    (line,) = warnings(caplog)
    assert "the sweep for missing starts failed" in line


async def test_a_message_that_a_handler_did_not_get_is_started_again_by_the_sweep() -> None:
    clock = VirtualClock()
    got: list[tuple[float, bytes]] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        if clock.monotonic() < 30:
            return  # and leaves its message
        async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
            got.append((clock.monotonic(), (await queue.get(options=MQGMO.SYNCPOINT)).data))

    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect() as connection:
        await run(connection, "DEFINE PROCESS(P)", "DEFINE QLOCAL(Q) PROCESS(P) TRIGGER TRIGTYPE(EVERY)")
        async with TriggerMonitor(manager, [handlers(P=handler)], sweep_interval=10) as monitor:
            await connection.put1("Q", "one")
            await connection.put1("Q", "two")
            await clock.advance(25)
            assert monitor.statistics().started == 4  # two puts, two sweeps
            await clock.advance(40)
    assert got == [(30, b"one"), (40, b"two")]


@pytest.mark.parametrize("sweep_interval", [0, -1, float("nan")])
def test_an_interval_of_nothing_is_a_value_error(sweep_interval: float) -> None:
    with pytest.raises(ValueError, match="sweep_interval"):
        TriggerMonitor(FakeManager(), sweep_interval=sweep_interval)


# CUIR


async def test_s_3_first_without_a_process_calls_the_exit_once_with_the_descriptor_and_the_mqtm() -> None:
    clock = VirtualClock()
    called: list[tuple[MessageDescriptor, MQTM]] = []

    async with QueueManager.open(name="QM1", clock=clock) as manager, manager.connect() as connection:

        async def cuir(md: MessageDescriptor, trigger: MQTM) -> None:
            called.append((md, trigger))
            async with manager.connect() as own, own.open(trigger.q_name, MQOO.INPUT_SHARED) as queue:
                with suppress(MQError):  # NO_MSG_AVAILABLE (2033)
                    while True:
                        await queue.get()

        await run(connection, "DEFINE QLOCAL(Q) TRIGGER TRIGTYPE(FIRST) TRIGDATA('some data')")
        for _ in range(3):
            await connection.put1("Q", "x")
        async with TriggerMonitor(manager, cuir=cuir):
            await clock.advance(1)
            assert len(called) == 1
        assert pending(manager) == {}
    md, trigger = called[0]
    assert trigger == MQTM("Q", "", "some data", appl_type=MQAT.UNKNOWN)
    assert (md.version, md.msg_type, md.format, md.persistence) == (1, MQMT.DATAGRAM, "MQTRIG", MQPER.NOT_PERSISTENT)
    assert (md.reply_to_q_mgr, md.put_appl_type, md.put_appl_name, md.expiry) == ("QM1", MQAT.QMGR, "QM1", -1)


async def test_s_7_a_queue_with_a_process_runs_that_and_not_the_exit(manager: FakeManager, clock: VirtualClock) -> None:
    ran: list[str] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        ran.append(trigger.q_name)

    def cuir(md: MessageDescriptor, trigger: MQTM) -> None:
        raise AssertionError

    manager.define("Q", "P", pending=1)
    async with TriggerMonitor(manager, [handlers(P=handler)], cuir=cuir):
        await clock.advance(1)
    assert ran == ["Q"]


async def test_r_9_without_an_exit_its_start_stays_pending_and_is_reported_once(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    manager.define("A", "", pending=1)
    manager.define("B", "", pending=1)
    async with TriggerMonitor(manager) as monitor:
        await clock.advance(20)
        assert monitor.statistics().unserved == {"A": "", "B": ""}
    assert [queue.pending for queue in manager.queues.values()] == [1, 1]
    assert len([line for line in warnings(caplog) if "there is no CUIR exit" in line]) == 2


async def test_an_exit_that_fails_is_tried_again_later(manager: FakeManager, clock: VirtualClock) -> None:
    times: list[float] = []

    async def cuir(md: MessageDescriptor, trigger: MQTM) -> None:
        times.append(round(clock.monotonic(), 3))
        if len(times) < 3:
            raise ValueError("not yet")

    manager.define("Q", "", pending=1)
    async with TriggerMonitor(manager, cuir=cuir):
        await clock.advance(5)
    assert times == [0, 0.1, 0.3]


def test_what_is_no_function_is_a_type_error() -> None:
    exit: Any = "shop:cuir"
    with pytest.raises(TypeError, match="cuir='shop:cuir'"):
        TriggerMonitor(FakeManager(), cuir=exit)
