"""Queue managers and connections live in no task of the program's: they are entered and left in any, in any order."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import Context
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio
import pytest

from broker import Connection, MQError, QueueManager, connect
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC
from broker.server import Server
from broker.storage.memory import MemoryStore
from triggers import App

T = TypeVar("T")

HERE = Path(__file__).as_posix()
ALL = MQOO.INPUT_SHARED | MQOO.OUTPUT


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


async def elsewhere(work: Awaitable[T]) -> T:
    """Await this in a task of its own, which ends with it."""

    async def do() -> T:
        return await work

    return await asyncio.create_task(do())


async def until(done: Callable[[], bool]) -> None:
    """Return when this is so, which takes some turns of the event loop."""
    while not done():  # noqa: ASYNC110
        await asyncio.sleep(0)


Door: TypeAlias = "Callable[[], Awaitable[Connection]]"


@asynccontextmanager
async def embedded(manager: QueueManager) -> AsyncIterator[Door]:
    yield lambda: manager.connect("test")


@asynccontextmanager
async def over_tcp(manager: QueueManager) -> AsyncIterator[Door]:
    async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
        yield lambda: connect(f"mq://{server.addresses[0]}", appl_name="test")


@asynccontextmanager
async def reconnecting(manager: QueueManager) -> AsyncIterator[Door]:
    async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
        yield lambda: connect(f"mq://{server.addresses[0]}", appl_name="test", reconnect=True)


DOORS = pytest.mark.parametrize("through", [embedded, over_tcp, reconnecting])


async def has(manager: QueueManager, q_name: str = "Q") -> list[bytes]:
    """The messages on a queue, which are got."""
    async with manager.connect() as connection, connection.open(q_name, MQOO.INPUT_SHARED) as queue:
        return [bytes(message.data) for message in await queue.get_many(256)]


async def define(connection: Connection) -> None:
    await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)", check=True)


# In any task, in any order


async def test_a_queue_manager_is_left_in_another_task_than_it_was_entered_in() -> None:
    entering = QueueManager.open(name="QM1")
    manager = await elsewhere(entering.__aenter__())
    async with manager.connect() as connection:
        await define(connection)
    await elsewhere(entering.__aexit__(None, None, None))
    with pytest.raises(MQError, match="QM1 is stopping"):
        manager.connect()


async def test_two_queue_managers_are_left_in_the_order_of_entering() -> None:
    first, second = QueueManager.open(name="QM1"), QueueManager.open(name="QM2")
    await first.__aenter__()
    await second.__aenter__()
    await first.__aexit__(None, None, None)
    async with second.connect() as connection:
        await define(connection)
    await second.__aexit__(None, None, None)
    await asyncio.sleep(0)  # no cancel scope is left behind


async def test_a_queue_manager_is_awaited_and_closed_twice(tmp_path: Path) -> None:
    manager = await elsewhere(QueueManager.open(name="QM1", data=tmp_path / "data"))
    async with manager.connect() as connection:
        await define(connection)
        await connection.put1("Q", b"A")
    await asyncio.gather(elsewhere(manager.close()), manager.close())
    await manager.close()
    again = await QueueManager.open(name="QM1", data=tmp_path / "data")
    assert await has(again) == [b"A"]
    await again.close()


async def test_closing_what_was_never_opened_is_harmless() -> None:
    await QueueManager.open(name="QM1").close()


async def test_what_was_awaited_can_be_entered_once() -> None:
    async with await QueueManager.open(name="QM1") as manager:
        with pytest.raises(RuntimeError, match=r"queue manager QM1 is open already, since .*test_lives\.py:\d+"):
            await manager
        async with await manager.connect() as connection:
            await define(connection)
    with pytest.raises(RuntimeError, match="queue manager QM1 has ended: open another"):
        await manager


@DOORS
async def test_a_connection_is_awaited_and_closed_as_by_mqdisc(through: Callable[..., object]) -> None:
    async with QueueManager.open(name="QM1") as manager, through(manager) as door:  # type: ignore[attr-defined]
        connection = await elsewhere(door())
        await define(connection)
        await connection.put1("Q", b"A", options=MQPMO.SYNCPOINT)
        assert await elsewhere(connection.close()) == MQRC.NONE
        assert await connection.close() == MQRC.NONE
        assert await has(manager) == [b"A"]  # MQDISC commits


async def test_two_connections_are_left_in_the_order_of_entering() -> None:
    async with QueueManager.open(name="QM1") as manager, over_tcp(manager) as door:
        first, second = await door(), await door()
        await first.close()
        await define(second)
        await second.close()


@DOORS
async def test_a_queue_manager_that_ends_closes_its_connections_and_backs_out_their_units(
    through: Callable[..., object], tmp_path: Path
) -> None:
    manager = await QueueManager.open(name="QM1", data=tmp_path / "data")
    serving = through(manager)
    door = await serving.__aenter__()  # type: ignore[attr-defined]
    idle, working = await door(), await door()
    await define(idle)
    await idle.put1("Q", b"kept")
    await working.put1("Q", b"undone", options=MQPMO.SYNCPOINT)
    await serving.__aexit__(None, None, None)  # type: ignore[attr-defined]
    await manager.close()
    assert await idle.close() == MQRC.NONE
    with pytest.raises(MQError, match="the unit of work was backed out") as caught:
        await working.close()
    assert caught.value.reason == MQRC.CONNECTION_BROKEN
    assert await working.close() == MQRC.NONE  # once
    async with QueueManager.open(name="QM1", data=tmp_path / "data") as again:
        assert await has(again) == [b"kept"]


async def test_another_event_loop_is_refused() -> None:
    manager = await QueueManager.open(name="QM1")
    with pytest.raises(RuntimeError, match="queue manager QM1 was opened on another event loop"):
        await asyncio.to_thread(asyncio.run, manager.close())
    await manager.close()


# What fails in the background, and cancellation


def fail() -> None:
    raise ZeroDivisionError("a mistake of ours")


def make_mistake(manager: QueueManager) -> None:
    """One in a step of the journal, which ends the queue manager."""
    manager.journal._step(fail)


def lone(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        (group,) = group.exceptions
    return group


async def test_a_mistake_of_the_journal_cancels_the_block_and_is_raised_where_it_is_left() -> None:
    cancelled = False
    with pytest.raises(ExceptionGroup) as caught:
        async with QueueManager.open(name="QM1") as manager:
            make_mistake(manager)
            try:
                await anyio.sleep_forever()
            except asyncio.CancelledError:
                cancelled = True
                raise
    assert cancelled
    assert isinstance(lone(caught.value), ZeroDivisionError)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_it_is_raised_by_who_leaves_when_the_task_that_entered_has_ended() -> None:
    entering = QueueManager.open(name="QM1")
    manager = await elsewhere(entering.__aenter__())
    make_mistake(manager)
    await manager.stopped()
    with pytest.raises(ExceptionGroup) as caught:
        await entering.__aexit__(None, None, None)
    assert isinstance(lone(caught.value), ZeroDivisionError)


async def test_it_is_logged_and_raised_by_close_where_there_is_no_block(caplog: pytest.LogCaptureFixture) -> None:
    manager = await QueueManager.open(name="QM1")
    connection = await manager.connect()
    make_mistake(manager)
    await manager.stopped()
    with pytest.raises(MQError):
        await connection.status()
    await until(lambda: manager._life.over)
    with pytest.raises(ExceptionGroup):
        await manager.close()
    await manager.close()
    assert [each.levelno for each in caplog.records if each.name == "broker.life"] == [logging.ERROR]


@pytest.mark.parametrize("native", [True, False], ids=["a task", "a scope of anyio"])
async def test_a_block_that_is_cancelled_ends_its_queue_manager_in_order(native: bool, tmp_path: Path) -> None:
    inside = asyncio.Event()

    async def block() -> None:
        async with QueueManager.open(name="QM1", data=tmp_path / "data") as manager, manager.connect() as connection:
            await define(connection)
            await connection.put1("Q", b"A")
            inside.set()
            await anyio.sleep_forever()

    if native:
        task = asyncio.create_task(block())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(block)
            await inside.wait()
            tasks.cancel_scope.cancel()
    async with QueueManager.open(name="QM1", data=tmp_path / "data") as again:  # its lock is free
        assert await has(again) == [b"A"]


class GateStore(MemoryStore):
    """A store that opens, or closes, when it is let."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.reached, self.let, self.closed = asyncio.Event(), asyncio.Event(), False
        self._gate = gate

    async def _pass(self, gate: str) -> None:
        if gate == self._gate:
            self.reached.set()
            await self.let.wait()

    async def open(self) -> None:
        await self._pass("open")
        await super().open()

    async def close(self) -> None:
        await self._pass("close")
        await super().close()
        self.closed = True


async def test_leaving_that_is_cancelled_ends_the_queue_manager_wholly() -> None:
    store = GateStore("close")
    manager = await QueueManager.open(name="QM1", store=store)
    closing = asyncio.create_task(manager.close())
    await store.reached.wait()
    for _ in range(3):
        closing.cancel()
        await asyncio.sleep(0)
    assert not closing.done()
    store.let.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert store.closed


async def test_entering_that_is_cancelled_leaves_nothing_behind() -> None:
    store = GateStore("open")
    before = asyncio.all_tasks()
    entering = asyncio.create_task(elsewhere(QueueManager.open(name="QM1", store=store)))
    await store.reached.wait()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    await until(lambda: asyncio.all_tasks() == before)


# What is never closed


@DOORS
async def test_a_connection_that_is_dropped_warns_with_its_line_and_is_ended(through: Callable[..., object]) -> None:
    async with QueueManager.open(name="QM1") as manager, through(manager) as door:  # type: ignore[attr-defined]
        async with manager.connect() as other:
            await define(other)
            connection = await door()
            await connection.put1("Q", b"acknowledged")
            await connection.put1("Q", b"in a unit of work", options=MQPMO.SYNCPOINT)
            match = "a connection to QM1 was opened here and never closed"
            with pytest.warns(ResourceWarning, match=match) as reported:  # noqa: PT031
                del connection
                gc.collect()
            assert [each.filename for each in reported] == [__file__]
            await until(lambda: len(manager.conversations) == 1)
        assert await has(manager) == [b"acknowledged"]


DROPPED = """
import asyncio, sys
from broker import QueueManager

async def main():
    manager = await QueueManager.open(name="QM1", data=sys.argv[1])  # line 6
    connection = manager.connect()
    async with connection:
        await connection.mqsc("DEFINE QLOCAL(Q)")
        for number in range(100):
            await connection.put1("Q", str(number))

if sys.argv[2] == "uvloop":
    import uvloop
    uvloop.run(main())
elif sys.argv[2] == "asyncio":
    asyncio.run(main())
else:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "closed at once"])
def test_a_queue_manager_that_is_dropped_warns_with_its_line_and_loses_nothing(loop: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(DROPPED)
    command = [sys.executable, "-W", "always::ResourceWarning", str(program), str(tmp_path / "data"), loop]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert f"{program}:6: ResourceWarning: queue manager QM1 was opened here and never closed" in done.stderr

    async def look() -> list[bytes]:
        async with QueueManager.open(name="QM1", data=tmp_path / "data") as manager:
            return await has(manager)

    assert asyncio.run(look()) == [b"%d" % number for number in range(100)]


def test_one_that_its_loop_ends_where_warnings_are_errors_ends_in_order_all_the_same() -> None:
    store = MemoryStore()
    reported: list[dict[str, object]] = []

    async def main() -> QueueManager:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        return await QueueManager.open(name="QM1", store=store)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        manager = asyncio.run(main())
    assert [type(each["exception"]) for each in reported] == [ResourceWarning]
    asyncio.run(manager.close())  # it has ended
    assert manager.core.quiescing is False
    with pytest.raises(MQError, match="QM1 is stopping"):
        manager.connect()


async def test_a_get_that_waits_when_its_queue_manager_is_closed_ends_with_2162() -> None:
    manager = await QueueManager.open(name="QM1")
    connection = await manager.connect()
    await define(connection)
    queue = await connection.open("Q", ALL)
    waiting = asyncio.create_task(elsewhere(queue.get(options=MQGMO.WAIT, wait=60)))
    await connection.status()
    await manager.close()
    with pytest.raises(MQError) as caught:
        await waiting
    assert caught.value.reason == MQRC.Q_MGR_STOPPING
    await connection.close()


# Without an event loop of asyncio, as under trio


@pytest.mark.parametrize("door", ["manager", "awaited manager", "address", "addresses", "app", "app at an address"])
def test_without_an_event_loop_of_asyncio_one_line_says_what_there_must_be(door: str, tmp_path: Path) -> None:
    opened: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "manager": lambda: QueueManager.open(name="QM1", data=tmp_path).__aenter__(),
        "awaited manager": lambda: awaited(QueueManager.open(name="QM1", data=tmp_path)),
        "address": lambda: connect("mq://127.0.0.1:1").__aenter__(),
        "addresses": lambda: connect("mq://127.0.0.1:1,127.0.0.1:2").__aenter__(),
        "app": lambda: App(tmp_path).start(),
        "app at an address": lambda: App("mq://127.0.0.1:1").start(),
    }
    with pytest.raises(RuntimeError, match=r"^EverMQ runs on asyncio, and no event loop of asyncio runs here: .*trio$"):
        opened[door]().send(None)  # as a loop that is not asyncio's begins a task


async def awaited(opened: Awaitable[T]) -> T:
    return await opened


def test_a_program_without_anyio_has_tasks_started_in_callbacks_where_sniffio_is_installed() -> None:
    library = pytest.importorskip("sniffio").current_async_library_cvar
    started: list[str | None] = []

    async def work() -> None:
        started.append(library.get())

    async def program() -> None:
        async with QueueManager.open(store=MemoryStore(), name="QM1") as manager:
            asyncio.get_running_loop().call_soon(manager.start_soon, work)
            await until(lambda: bool(started))

    Context().run(asyncio.run, program())
    assert started == ["asyncio"]
