"""The blocking faces: `manager.sync()`, `broker.connect_sync`; calls from another event loop than the manager's."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, assert_type

import pytest
import uvloop

import broker
from broker import Message, QueueManager, SyncConnection, SyncQueue
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQOO, MQRC, MQError
from broker.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPEN = MQOO.INPUT_SHARED | MQOO.OUTPUT
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


class Elsewhere:
    """A queue manager with a listener, on an event loop in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.manager: QueueManager
        self.url = ""
        self._ready = threading.Event()
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Elsewhere:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()

    def end(self) -> None:
        """End the queue manager and its event loop."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        async with QueueManager.open(name="QM1") as self.manager, self.manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(OTHER)")
            async with Server(self.manager, ListenerConfig(port=0), LimitsConfig()) as server:
                self.url = f"mq://{server.addresses[0]}"
                self._ready.set()
                await self._stop.wait()


@pytest.fixture(params=sorted(LOOPS))
def elsewhere(request: pytest.FixtureRequest) -> Iterator[Elsewhere]:
    with Elsewhere(LOOPS[request.param]()) as made:
        yield made


@pytest.fixture(params=["manager.sync", "connect_sync"])
def connect(request: pytest.FixtureRequest, elsewhere: Elsewhere) -> Callable[[], SyncConnection]:
    if request.param == "manager.sync":
        return elsewhere.manager.sync
    return lambda: broker.connect_sync(elsewhere.url)


def test_the_calls_of_a_connection_block(connect: Callable[[], SyncConnection]) -> None:
    with connect() as connection:
        assert_type(connection, SyncConnection)
        assert connection.q_mgr_name == "QM1"
        with connection.open("Q", OPEN) as queue:
            assert_type(queue, SyncQueue)
            queue.put("a", persistence=1)
            queue.put_many(["b", "c"])
            message = queue.get()
            assert_type(message, Message)
            assert message.data == b"a"
            assert [each.data for each in queue.messages()] == [b"b", b"c"]
            with pytest.raises(MQError) as nothing:
                queue.get(wait=0.001)
            assert nothing.value.reason == MQRC.NO_MSG_AVAILABLE
        assert connection.status()["name"] == "QM1"
        with connection.connect("another") as other:
            other.put1("Q", "d")


def test_a_unit_of_work_is_that_of_the_thread_that_has_entered_it(connect: Callable[[], SyncConnection]) -> None:
    with connect() as connection, connection.open("Q", OPEN) as queue:
        with connection.unit_of_work() as unit:
            queue.put("in it")
            beside = threading.Thread(target=connection.put1, args=("OTHER", "beside it"))
            beside.start()
            beside.join()
            assert (unit.puts, connection.in_unit_of_work) == (1, True)
            with connection.open("OTHER", OPEN) as other:
                assert other.get(options=4).data == b"beside it"  # MQGMO.NO_SYNCPOINT
        with pytest.raises(ValueError, match="no") as raised, connection.unit_of_work():
            queue.put("undone")
            raise ValueError("no")
        assert raised.value.__notes__ == ["unit of work on QM1 backed out: 1 put and 0 gets undone"]
        assert not connection.in_unit_of_work
        assert [message.data for message in queue.messages()] == [b"in it"]


def test_a_loop_over_a_queue_consumers_sinks_and_starts_block_too(connect: Callable[[], SyncConnection]) -> None:
    with connect() as connection:
        with connection.sink("S", "job").batch(1) as batch:
            batch.put("Q", "published")
        with connection.consumer("C", "Q") as consumer:
            claimed = consumer.claim(10)
            assert [message.data for message in claimed] == [b"published"]
            claimed.acknowledge()
        connection.put1("Q", "looped")
        with connection.open("Q", OPEN) as queue:
            assert next(iter(queue)).data == b"looped"
        with connection.trigger_starts() as starts:
            assert starts.pending() == []


def test_close_ends_it_and_twice_is_harmless(connect: Callable[[], SyncConnection]) -> None:
    threads = set(threading.enumerate())
    connection = connect()
    connection.put1("Q", "a")
    connection.close()
    connection.close()
    with pytest.raises(MQError) as ended:
        connection.put1("Q", "b")
    assert ended.value.reason == MQRC.HCONN_ERROR
    assert set(threading.enumerate()) == threads


def test_leaving_by_an_exception_backs_out(connect: Callable[[], SyncConnection]) -> None:
    with pytest.raises(ValueError, match="no"), connect() as connection:
        connection.put1("Q", "undone", options=2)  # MQPMO.SYNCPOINT
        raise ValueError("no")
    with connect() as connection, connection.open("Q", OPEN) as queue, pytest.raises(MQError):
        queue.get()


def test_a_call_that_waits_ends_with_its_queue_manager(elsewhere: Elsewhere) -> None:
    connection = elsewhere.manager.sync()
    queue = connection.open("Q", OPEN)
    ending = threading.Timer(0, elsewhere.end)
    ending.start()
    with pytest.raises(MQError):
        queue.get(wait=float("inf"))
    ending.join()
    with pytest.raises(MQError) as gone:
        queue.get()
    assert gone.value.reason == MQRC.CONNECTION_BROKEN
    connection.close()


def test_what_cannot_be_reached_leaves_no_thread() -> None:
    threads = set(threading.enumerate())
    with pytest.raises(MQError) as away:
        broker.connect_sync("mq://127.0.0.1:1")
    assert away.value.reason == MQRC.HOST_NOT_AVAILABLE
    with pytest.raises(ValueError, match="no://url"):
        broker.connect_sync("no://url")
    assert set(threading.enumerate()) == threads


def test_one_that_is_dropped_warns(elsewhere: Elsewhere) -> None:
    connections = [broker.connect_sync(elsewhere.url)]
    with pytest.warns(ResourceWarning, match="was not closed"):
        connections.clear()


async def test_on_the_loops_own_thread_a_blocking_call_is_refused() -> None:
    async with QueueManager.open(name="QM1") as manager:
        connection = manager.sync()
        with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
            connection.put1("Q", "a")
        with pytest.raises(RuntimeError, match="await"), connection:
            pass
        assert await asyncio.to_thread(lambda: connection.status()["name"]) == "QM1"
        await asyncio.to_thread(connection.close)


async def test_connect_sync_works_beside_a_loop_that_runs_here(elsewhere: Elsewhere) -> None:
    with broker.connect_sync(elsewhere.url) as connection:  # as in a cell of a notebook
        connection.put1("Q", "a")
    with elsewhere.manager.sync() as connection:
        assert connection.q_mgr_name == "QM1"


@pytest.mark.parametrize("way", ["embedded", "tcp"])
def test_a_call_from_another_event_loop_is_refused_and_does_nothing(elsewhere: Elsewhere, way: str) -> None:
    async def connected() -> Any:
        return await broker.connect(elsewhere.url).__aenter__() if way == "tcp" else elsewhere.manager.connect()

    def there(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, elsewhere.loop).result(20)

    async def here() -> None:
        for call in (connection.put1("Q", "x"), connection.mqsc("CLEAR QLOCAL(Q)"), queue.get(), queue.put("x")):
            with pytest.raises(RuntimeError, match=r"asyncio\.run_coroutine_threadsafe"):
                await call
        if way == "embedded":
            for manage in (elsewhere.manager.connect, elsewhere.manager.status):
                with pytest.raises(RuntimeError, match=r"asyncio\.run_coroutine_threadsafe"):
                    manage()

    async def opened() -> Any:
        return await connection.open("Q", OPEN)

    async def depth() -> int:
        return sum([1 async for _ in queue.messages()])

    connection = there(connected())
    queue = there(opened())
    there(connection.put1("Q", "there"))
    asyncio.run(here())
    assert there(depth()) == 1
    there(connection.disconnect())
