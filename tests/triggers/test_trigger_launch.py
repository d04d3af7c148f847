"""One started handler: its task, its connection, its unit of work, and its end."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio import from_thread, to_thread

from broker.mqi import MQRC, MQError
from tests.triggers.fake import FakeManager, handlers
from triggers import TriggerMessage, TriggerMonitor

if TYPE_CHECKING:
    from broker import Connection
    from broker.testing import VirtualClock


async def test_a_handler_gets_the_trigger_message_and_a_connection_in_a_task_named_for_the_queue(
    manager: FakeManager, clock: VirtualClock
) -> None:
    seen: list[tuple[TriggerMessage, Connection, str]] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        task = asyncio.current_task()
        assert task is not None
        seen.append((trigger, connection, task.get_name()))

    manager.define("Q", "P", "APPL", pending=2)
    async with TriggerMonitor(manager, [handlers(P=handler)]):
        await clock.advance(1)
    assert [trigger for trigger, _, _ in seen] == [TriggerMessage("Q", "P", appl_id="APPL", q_mgr_name="QM1")] * 2
    assert [name for _, _, name in seen] == ["trigger:Q:1", "trigger:Q:2"]
    assert seen[0][1] is not seen[1][1]
    assert manager.connected == ["trigger monitor", "P", "P"]
    assert manager.ended[:2] == [("P", True), ("P", True)]


async def test_with_a_connection_as_its_source_the_handlers_connect_through_it(
    manager: FakeManager, clock: VirtualClock
) -> None:
    seen: list[TriggerMessage] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        seen.append(trigger)

    manager.define("Q", pending=2)
    async with manager.connect("worker") as source, TriggerMonitor(source, [handlers(P=handler)], clock=clock):
        await clock.advance(1)
        assert len(seen) == 2
    assert manager.connected == ["worker", "trigger monitor", "P", "P"]


class Unheard(BaseException):
    """An exception that no `except Exception` catches."""


ERRORS = [
    ValueError("bad order"),
    MQError(MQRC.Q_FULL),
    asyncio.CancelledError(),
    SystemExit(1),
    KeyboardInterrupt(),
    GeneratorExit(),
    Unheard(),
    BaseExceptionGroup("several", [KeyboardInterrupt()]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_an_exception_backs_out_and_is_logged_with_the_queue_and_the_trigger_message(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        raise error

    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, [handlers(P=handler)]) as monitor:
        await clock.advance(0.05)
        assert (monitor.statistics().running, monitor.statistics().failed) == (0, 1)
        assert manager.ended == [("P", False)]
        assert (manager.leases, manager.queues["Q"].pending) == (1, 0)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "queue=Q generation=1 trigger=MQTMC2(q_name='Q', process_name='P'" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is error


async def test_a_handler_waits_for_its_connection_and_its_start_is_not_lost(
    manager: FakeManager, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    times: list[float] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        times.append(clock.monotonic())

    manager.define("Q")
    async with TriggerMonitor(manager, [handlers(P=handler)]):
        await clock.advance(1)
        manager.refusals += [MQError(MQRC.MAX_CONNS_LIMIT_REACHED)] * 3
        manager.post("Q")
        await clock.advance(1)
    assert times == pytest.approx([1.7])
    assert "waits 0.4 s for a connection: queue=Q process=P reason=MQRC_MAX_CONNS_LIMIT_REACHED (2025)" in caplog.text


async def test_a_start_whose_handler_gets_no_connection_any_more_is_given_back(
    manager: FakeManager, clock: VirtualClock
) -> None:
    started: list[Any] = []

    async def handler(trigger: TriggerMessage, connection: Connection) -> None:
        started.append(trigger)

    manager.define("Q")
    async with TriggerMonitor(manager, [handlers(P=handler)]) as monitor:
        await clock.advance(1)
        manager.refusals.append(MQError(MQRC.Q_MGR_QUIESCING))
        manager.post("Q")
        await clock.advance(1)
        await monitor.wait()  # who cannot connect any more starts nothing more
        assert (started, manager.queues["Q"].pending, manager.ports) == ([], 1, [])


async def test_a_plain_function_runs_in_a_thread_and_makes_its_calls_from_there(
    manager: FakeManager, clock: VirtualClock
) -> None:
    threads: list[str] = []

    def handler(trigger: TriggerMessage, connection: Connection) -> None:
        from_thread.run(clock.sleep, 0)
        threads.append(threading.current_thread().name)
        if len(threads) == 1:
            raise ValueError("once")

    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, [handlers(P=handler)]) as monitor:
        with anyio.fail_after(20):
            while not manager.ended:
                await clock.advance(0)
            assert manager.ended == [("P", False)]
            await clock.advance(0.15)
            while len(manager.ended) < 2:
                await clock.advance(0)
        assert manager.ended[1] == ("P", True)
        assert monitor.statistics().failed == 1
    assert len(threads) == 2
    assert threading.current_thread().name not in threads


async def test_a_thread_that_goes_on_when_the_monitor_stops_can_do_nothing_more(
    manager: FakeManager, clock: VirtualClock
) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    broken: list[bool] = []

    def handler(trigger: TriggerMessage, connection: Connection) -> None:
        begun.set()
        go_on.wait(20)
        broken.append(connection.port.broken)
        ended.set()

    manager.define("Q", pending=1)
    async with TriggerMonitor(manager, [handlers(P=handler)], stop_timeout=0):
        with anyio.fail_after(20):
            while not begun.is_set():
                await clock.advance(0)
    assert manager.ended == [("P", False), ("trigger monitor", True)]
    assert manager.queues["Q"].pending == 1
    go_on.set()
    assert await to_thread.run_sync(ended.wait, 20)
    assert broken == [True]
