"""The daemon: from its configuration to the ready line, and from a signal to its end."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker import MQError, QueueManager, connect
from broker.config import Config, ListenerConfig, QueueManagerConfig
from broker.config.sections import QueueSharingGroupConfig
from broker.engine import opening
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC, GetMessageOptions
from broker.server import StartError, daemon
from broker.server.errors import StoreLostError
from broker.server.watch import DaemonWatch
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFailedError
from broker.testing import FaultStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from anyio.abc import TaskStatus


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(
        queue_manager=QueueManagerConfig(name="QM1", data=tmp_path / "data", quiesce_timeout=0.2),
        listener=ListenerConfig(port=0),
    )


def with_startup(config: Config, tmp_path: Path, *texts: str) -> Config:
    """The configuration, with startup files of these texts."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / f"{number}.mqsc")
        paths[-1].write_text(text)
    section = QueueManagerConfig(name="QM1", data=tmp_path / "data", startup=tuple(paths))
    return Config(queue_manager=section, listener=config.listener)


async def running(config: Config, *services: daemon.Service, task_status: TaskStatus[str]) -> None:
    """Run the daemon; it has started when it is ready, with the ready line."""
    await daemon.run(config, services, ready=task_status.started)


def url(line: str) -> str:
    return f"mq://{line.rpartition(' ')[2]}"


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_daemon_serves_from_its_ready_line_to_a_signal(config: Config, number: int) -> None:
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config)
        assert line.startswith("EverMQ QM1 ready on 127.0.0.1:")
        async with connect(url(line)) as connection:
            assert connection.q_mgr_name == "QM1"
        os.kill(os.getpid(), number)


class Watch(DaemonWatch):
    """Is told when to end the process, and does not."""

    why = ""

    def end_now(self, why: str) -> None:
        self.why = why


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_during_the_start_gives_it_up_and_a_second_one_ends_the_process(
    config: Config, number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    watch = Watch()
    ended_after: list[str] = []

    @asynccontextmanager
    async def service(manager: QueueManager) -> AsyncIterator[None]:
        try:
            signal.raise_signal(number)
            await anyio.sleep_forever()
        finally:
            ended_after.append(watch.why)
            signal.raise_signal(number)
            ended_after.append(watch.why)
        yield

    with anyio.fail_after(30):
        assert await daemon.run(config, [service], watch=watch) == number
    assert ended_after[0] == ""
    assert ended_after[1].startswith(f"a second signal, {number.name}, during the start: the daemon ends at once; ")
    assert f"signal={number.name}: the start is given up" in caplog.text
    assert "queue manager ended name=QM1" in caplog.text
    assert "store failed" not in caplog.text


async def test_a_second_signal_changes_nothing_once_the_daemon_is_ready(config: Config) -> None:
    watch = Watch()
    async with anyio.create_task_group() as tasks:

        async def run(task_status: TaskStatus[str]) -> None:
            assert await daemon.run(config, ready=task_status.started, watch=watch) is None

        await tasks.start(run)
        terminate()
        terminate()
    assert watch.why == ""


def test_main_runs_the_daemon_on_uvloop(config: Config) -> None:
    loops: list[str] = []

    @asynccontextmanager
    async def service(manager: QueueManager) -> AsyncIterator[None]:
        import asyncio

        loops.append(type(asyncio.get_running_loop()).__module__)
        yield

    daemon.main(config, [service], ready=lambda line: terminate())
    assert loops == ["uvloop"]


async def test_startup_files_run_before_anybody_connects(config: Config, tmp_path: Path) -> None:
    config = with_startup(config, tmp_path, "DEFINE QLOCAL(A)", "DEFINE QLOCAL(B) LIKE(A)\n* done\n")
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config)
        async with connect(url(line)) as connection:
            await connection.put1("B", b"hello")
        terminate()


async def test_a_startup_command_that_fails_ends_the_start_with_its_reply(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = with_startup(config, tmp_path, "DEFINE QLOCAL(A)\nDEFINE QLOCAL(A)")
    with pytest.raises(StartError, match=r"0.mqsc, line 2: .* failed; .* AMQ8150E"):
        await daemon.run(config)
    assert "AMQ8150E" in caplog.text


@pytest.mark.parametrize(
    ("texts", "place", "stays"),
    [
        (["ALTER QLOCAL(NO)"], "0.mqsc, line 1: the startup command ALTER QLOCAL(NO)", "nothing was run before it"),
        (
            ["* first\n\nDEFINE QLOCAL(A)\nDEFINE QLOCAL(B) +\n  MAXDEPHT(1)\nDEFINE QLOCAL(C)"],
            "0.mqsc, line 4: the startup command DEFINE QLOCAL(B) MAXDEPHT(1)",
            "the startup command before it took effect and stays",
        ),
        (
            ["DEFINE QLOCAL(A)", "DEFINE QLOCAL(B)", "DEFINE QLOCAL(D); START CHANNEL(C); DEFINE QLOCAL(C)"],
            "2.mqsc, line 1: the startup command START CHANNEL(C)",
            "the 3 startup commands before it took effect and stay",
        ),
    ],
)
async def test_a_start_that_fails_says_where_and_what_stays(
    config: Config, tmp_path: Path, texts: list[str], place: str, stays: str
) -> None:
    with pytest.raises(StartError) as caught:
        await daemon.run(with_startup(config, tmp_path, *texts))
    assert f"{place} failed; {stays}. " in str(caught.value)
    async with QueueManager.open(name="QM1", data=tmp_path / "data") as manager:
        assert "C" not in manager.core.objects.queues  # what stands behind the failure was not run
        assert ("A" in manager.core.objects.queues) == (stays != "nothing was run before it")


async def test_warnings_of_startup_commands_are_logged(
    config: Config, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with anyio.create_task_group() as tasks:
        await tasks.start(running, with_startup(config, tmp_path, "DEFINE QLOCAL(A) STATQ(ON)"))
        terminate()
    assert "EMQ0002W: STATQ is kept and shown" in caplog.text


async def test_a_startup_file_that_is_not_there_ends_the_start(config: Config, tmp_path: Path) -> None:
    config = with_startup(config, tmp_path, "")
    (tmp_path / "0.mqsc").unlink()
    with pytest.raises(StartError, match=r"cannot read the startup commands in .*0.mqsc"):
        await daemon.run(config)


async def test_a_group_without_the_extra_that_it_needs_ends_the_start(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    group = QueueSharingGroupConfig(name="GRP1", dsn="postgresql://user@host/database")
    with pytest.raises(StartError, match=r"a queue-sharing group needs asyncpg: pip install 'evermq\[postgres\]'"):
        await daemon.run(replace(config, queue_sharing_group=group))


async def test_a_port_in_use_ends_the_start(config: Config, tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config)
        port = int(line.rpartition(":")[2])
        other = Config(queue_manager=QueueManagerConfig(data=tmp_path / "other"), listener=ListenerConfig(port=port))
        with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{port}"):
            await daemon.run(other)
        terminate()


async def test_a_signal_ends_waits_that_asked_for_it_and_the_daemon_ends_with_the_last_connection(
    config: Config,
) -> None:
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config)
        async with connect(url(line)) as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)")
            queue = await connection.open("Q", MQOO.INPUT_SHARED)
            options = GetMessageOptions(options=MQGMO.WAIT | MQGMO.FAIL_IF_QUIESCING, wait_interval=-1)
            terminate()
            with pytest.raises(MQError) as caught:
                await queue.get(options=options)
            assert caught.value.reason == MQRC.Q_MGR_QUIESCING


async def test_a_connection_that_stays_is_ended_after_the_quiesce_timeout(config: Config) -> None:
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, config)
        async with connect(url(line)) as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)")
            await connection.put1("Q", b"in a unit of work", options=MQPMO.SYNCPOINT)
            queue = await connection.open("Q", MQOO.INPUT_SHARED)
            terminate()
            with pytest.raises(MQError) as caught:
                await queue.get(wait=float("inf"))
            assert caught.value.reason == MQRC.Q_MGR_STOPPING


async def test_a_connection_that_has_put_once_does_not_make_the_stop_last(config: Config) -> None:
    patient = replace(config, queue_manager=replace(config.queue_manager, quiesce_timeout=60.0))
    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        line = await tasks.start(running, patient)
        connection = await connect(url(line))
        await connection.mqsc("DEFINE QLOCAL(Q)")
        await connection.put1("Q", b"A")
        terminate()
    await connection.close()
    assert anyio.current_time() - began < 50


async def test_services_live_from_before_the_ready_line_to_the_signal(config: Config) -> None:
    story = []

    @asynccontextmanager
    async def service(name: str, manager: QueueManager) -> AsyncIterator[None]:
        story.append(f"{name} begins")
        async with manager.connect():
            yield
        story.append(f"{name} ends")

    async with anyio.create_task_group() as tasks:
        services = [partial(service, name) for name in ("one", "two")]
        await tasks.start(partial(running, config, *services))
        assert story == ["one begins", "two begins"]
        terminate()
    assert sorted(story[2:]) == ["one ends", "two ends"]


async def test_a_service_that_does_not_end_is_cancelled_after_the_quiesce_timeout(config: Config) -> None:
    @asynccontextmanager
    async def service(manager: QueueManager) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        await tasks.start(running, config, service)
        terminate()


@pytest.mark.parametrize("moment", ["start", "run"])
async def test_a_service_that_fails_ends_the_daemon_with_its_error(config: Config, moment: str) -> None:
    @asynccontextmanager
    async def service(manager: QueueManager) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            if moment == "start":
                raise ZeroDivisionError

            async def fail() -> None:
                raise ZeroDivisionError

            tasks.start_soon(fail)
            yield

    with pytest.raises(ZeroDivisionError):
        await daemon.run(config, [service])


async def test_a_store_that_fails_ends_the_daemon_with_an_error(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FaultStore(MemoryStore())
    monkeypatch.setattr(opening, "LogStore", lambda path, **_: store)
    ready: list[str] = []

    async def put() -> Any:
        async with connect(url(ready[0])) as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)")
            store.fail_next(StoreFailedError("input/output error"))
            await connection.put1("Q", b"hello", persistence=1)

    async with anyio.create_task_group() as tasks:

        def begin(line: str) -> None:
            ready.append(line)
            tasks.start_soon(expect, put)

        async def expect(work: Any) -> None:
            with pytest.raises(MQError, match="2009"):
                await work()

        with pytest.raises(StoreLostError, match="the store of QM1 has failed: input/output error"):
            await daemon.run(config, ready=begin)
