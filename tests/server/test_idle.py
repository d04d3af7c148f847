"""Connections while the queue manager quiesces: idle ones end at once, and are told; others have the time.

The clock of the queue manager stands until a test moves it: what ends without that has ended at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker import Connection, MQError, QueueManager, connect
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import MQGMO, MQOO, MQPMO, MQRC
from broker.server import Server
from broker.server.server import IDLE_LOOK_SECONDS
from broker.testing import VirtualClock
from triggers import App

HOUR = 3600.0


def port_of(connection: Connection) -> Any:
    return connection.port


async def until(done: Callable[[], bool]) -> None:
    """Return when this is so, which takes some turns of the event loop."""
    while not done():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def quiesce(manager: QueueManager, server: Server) -> None:
    """As the daemon does at a signal."""
    asyncio.get_running_loop().call_soon(server.end_idle)
    await manager.quiesce(HOUR)


@asynccontextmanager
async def quiescing(manager: QueueManager, server: Server) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(quiesce(manager, server))
    await until(lambda: manager.core.quiescing)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def use_nothing(connection: Connection) -> None: ...


async def put_once(connection: Connection) -> None:
    await connection.put1("Q", b"A")


async def put_and_commit(connection: Connection) -> None:
    async with connection.unit_of_work():
        await connection.put1("Q", b"A")


async def open_and_browse(connection: Connection) -> None:
    await connection.put1("Q", b"A")
    queue = await connection.open("Q", MQOO.BROWSE | MQOO.OUTPUT)
    await queue.get(options=MQGMO.BROWSE_FIRST)
    await connection.status()  # behind which it is known that the message was taken


async def back_out(connection: Connection) -> None:
    await connection.begin()
    await connection.backout()


@pytest.mark.parametrize("reconnect", [False, True], ids=["once", "reconnecting"])
@pytest.mark.parametrize("use", [use_nothing, put_once, put_and_commit, open_and_browse, back_out])
async def test_an_idle_connection_ends_at_once(
    manager: QueueManager, server: Server, url: str, use: Callable[[Connection], Awaitable[None]], reconnect: bool
) -> None:
    async with connect(url, reconnect=reconnect) as connection:
        await use(connection)
        await quiesce(manager, server)


async def test_its_next_call_says_why_and_leaving_it_is_quiet(manager: QueueManager, server: Server, url: str) -> None:
    connection = await connect(url)
    further = await connection.connect()
    await quiesce(manager, server)
    for each in (connection, further):
        await until(lambda each=each: each.port.broken)  # type: ignore[misc]
        with pytest.raises(MQError, match="QM1 is stopping") as caught:
            await each.put1("Q", b"A")
        assert caught.value.reason == MQRC.Q_MGR_STOPPING
        with pytest.raises(MQError, match="QM1 is stopping") as caught:
            await each.put1("Q", b"A")
        assert caught.value.reason == MQRC.HCONN_ERROR
        assert await each.close() == MQRC.NONE


async def test_a_get_that_waits_ends_with_2162(manager: QueueManager, server: Server, url: str) -> None:
    async with connect(url) as connection:
        queue = await connection.open("Q", MQOO.INPUT_SHARED)
        options = MQGMO.SYNCPOINT  # a unit of work that has nothing in it: nobody need hear that it was backed out
        waits = [asyncio.create_task(queue.get(options=options, wait=float("inf"))) for _ in range(3)]
        await connection.status()
        await quiesce(manager, server)
        assert [getattr(error, "reason", error) for error in await asyncio.gather(*waits, return_exceptions=True)] == [
            MQRC.Q_MGR_STOPPING
        ] * 3
        await until(lambda: connection.port.broken)


async def test_a_unit_of_work_has_the_time(
    manager: QueueManager, server: Server, url: str, clock: VirtualClock
) -> None:
    async with connect(url) as connection:
        await connection.put1("Q", b"A", options=MQPMO.SYNCPOINT)
        async with quiescing(manager, server) as over:
            await clock.advance(5)
            assert not over.done()
            await connection.put1("Q", b"B", options=MQPMO.SYNCPOINT)
            await connection.commit()
            await clock.advance(IDLE_LOOK_SECONDS)
            await over
    assert manager.core.objects.queues["Q"].depth == 2


async def test_a_unit_of_work_that_has_only_begun_has_it_too(
    manager: QueueManager, server: Server, url: str, clock: VirtualClock
) -> None:
    async with connect(url) as connection:
        async with connection.unit_of_work():
            running = quiescing(manager, server)
            over = await running.__aenter__()
            await clock.advance(5)
            await connection.put1("Q", b"A")
        await clock.advance(IDLE_LOOK_SECONDS)
        await over
        await running.__aexit__(None, None, None)
    assert manager.core.objects.queues["Q"].depth == 1


async def test_one_connection_of_a_line_has_the_time_and_another_has_not(
    manager: QueueManager, server: Server, url: str, clock: VirtualClock
) -> None:
    async with connect(url, reconnect=True) as connection:
        other = await connection.connect()
        await other.put1("Q", b"A", options=MQPMO.SYNCPOINT)
        async with quiescing(manager, server) as over:
            await clock.advance(1)
            assert [each.hconn.unit is not None for each in manager.conversations] == [True]
            assert not over.done()
            await other.commit()
            await other.close()
            await over
    assert manager.core.objects.queues["Q"].depth == 1


async def test_a_trigger_start_has_the_time(
    manager: QueueManager, server: Server, url: str, clock: VirtualClock
) -> None:
    async with connect(url) as connection:
        await connection.mqsc("DEFINE PROCESS(P)\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)", check=True)
        await connection.put1("Q", b"A")
        async with connection.trigger_starts() as starts:
            (start,) = await starts.take("Q", 1)
            async with quiescing(manager, server) as over:
                await clock.advance(5)
                assert not over.done()
                start.done()
                await clock.advance(IDLE_LOOK_SECONDS)
                await over


async def test_a_program_that_has_put_once_by_an_app_ends_at_once(
    manager: QueueManager, server: Server, url: str
) -> None:
    app = App(url)
    app.handler("ORDERS")(ship)
    await app.start(handlers=False)
    await app.put("ORDERS", "3 chairs")
    with pytest.raises(TimeoutError):
        await app.request("ORDERS", "a table", timeout=0.5)  # its connection waits for replies from now on
    assert len(manager.conversations) == 2
    await quiesce(manager, server)
    await app.stop()


async def ship(order: str) -> None: ...


async def test_a_handler_that_runs_has_the_time(
    manager: QueueManager, server: Server, url: str, clock: VirtualClock
) -> None:
    app = App(url)
    began, go_on = asyncio.Event(), asyncio.Event()

    @app.handler("ORDERS")
    async def slow(order: str) -> None:
        began.set()
        await go_on.wait()
        await app.put("Q", order)

    await app.start()
    await app.put("ORDERS", "3 chairs")
    await began.wait()
    async with quiescing(manager, server) as over:
        await clock.advance(5)
        assert not over.done()
        go_on.set()
        await until(lambda: not manager.core.objects.queues["ORDERS"].depth)
        while not over.done():
            await clock.advance(IDLE_LOOK_SECONDS)
        await over
    queues = manager.core.objects.queues
    assert (queues["ORDERS"].depth, queues["Q"].depth) == (0, 1)
    await app.stop()


async def test_one_that_reconnects_goes_on_with_the_next_queue_manager(
    manager: QueueManager, clock: VirtualClock
) -> None:
    async with Server(manager, ListenerConfig(port=0), LimitsConfig()) as server:
        address = server.addresses[0]
        connection = await connect(f"mq://{address}", reconnect=True, clock=clock)
        queue = await connection.open("Q", MQOO.OUTPUT)
        await queue.put(b"A")
        await quiesce(manager, server)
        await until(lambda: port_of(connection).down)
        put = asyncio.create_task(queue.put(b"B"))  # waits for the next
    port = int(address.rpartition(":")[2])
    async with (
        QueueManager.open(name="QM1", defaults="mq", clock=clock) as second,
        second.connect() as beside,
        Server(second, ListenerConfig(port=port), LimitsConfig()),
    ):
        await beside.mqsc("DEFINE QLOCAL(Q)", check=True)
        while not put.done():
            await clock.advance(1)
        await put
        await connection.close()
        assert second.core.objects.queues["Q"].depth == 1
