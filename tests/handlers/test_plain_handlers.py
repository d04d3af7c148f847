"""Handlers that are a plain `def`: in their threads the calls of the app and of the connection block and are done."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, assert_type

import anyio.from_thread
import pytest

from broker import Connection, PutResult, SyncConnection, SyncQueue
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from tests.handlers.apps import SECONDS, Shop
from triggers import App, Retry
from triggers.serving.calling import called

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

WAYS = ("embedded", "tcp")


@pytest.fixture(params=WAYS)
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    async with Shop(request.param) as made:
        await made.mqsc("DEFINE QLOCAL(OUT)")
        yield made


async def bodies(shop: Shop, q_name: str = "OUT") -> list[bytes]:
    """Return the messages that were on a queue."""
    async with shop.connection.open(q_name, MQOO.INPUT_SHARED) as queue:
        return [message.data async for message in queue.messages(options=MQGMO.NO_SYNCPOINT)]


async def handled(shop: Shop, function: Callable[..., Any], **options: Any) -> BaseException | None:
    """Let a function handle one message; what it raised."""
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    shop.app.handler("Q", retry=Retry(0), **options)(function)
    async with shop.running() as session:
        reported = session.log.reported

        def tell(run: Any, settlement: Any, settled: Any) -> None:
            reported(run, settlement, settled)
            if run.server.handler.q_name == "Q":
                ended.set_result(run.error)

        session.log.reported = tell  # type: ignore[method-assign]
        await shop.app.put("Q", "a")
        async with asyncio.timeout(SECONDS):
            return await ended


async def test_what_a_plain_handler_puts_without_await_is_there_when_it_has_returned(shop: Shop) -> None:
    def handle(body: str, connection: Connection, sync: SyncConnection) -> None:
        result = shop.app.put("OUT", "app.put")
        assert isinstance(result, PutResult)
        assert_type(shop.app.sync.put("OUT", "app.sync.put"), PutResult)
        connection.put1("OUT", "put1")  # type: ignore[unused-coroutine]  # as people write it
        assert_type(sync.put1("OUT", "sync put1"), PutResult)
        with sync.open("OUT", MQOO.OUTPUT) as queue:
            assert_type(queue, SyncQueue)
            queue.put("queue")

    assert await handled(shop, handle) is None
    assert await bodies(shop) == [b"app.put", b"app.sync.put", b"put1", b"sync put1", b"queue"]


async def test_what_a_plain_handler_puts_is_in_its_unit_and_gone_when_it_raises(shop: Shop) -> None:
    def handle(body: str, connection: SyncConnection) -> None:
        shop.app.sync.put("OUT", "app")
        connection.put1("OUT", "connection")
        raise ValueError("no")

    assert isinstance(await handled(shop, handle), ValueError)
    assert await bodies(shop) == []


async def test_a_plain_handler_may_get_by_the_event_loop_as_before(shop: Shop) -> None:
    got = []

    def handle(body: str, connection: Connection) -> None:
        async def opened() -> Any:
            return await connection.open("IN", MQOO.INPUT_SHARED)

        async def whole() -> None:
            async with connection.open("IN", MQOO.INPUT_SHARED) as queue:
                got.append((await queue.get()).data)

        queue = anyio.from_thread.run(opened)
        got.append(anyio.from_thread.run(queue.get).data)
        got.append(queue.get().data)
        anyio.from_thread.run(whole)
        anyio.from_thread.run(connection.put1, "OUT", "put1")
        anyio.from_thread.run(shop.app.put, "OUT", "app.put")

    await shop.mqsc("DEFINE QLOCAL(IN)")
    for number in range(3):
        await shop.connection.put1("IN", str(number))
    assert await handled(shop, handle) is None
    assert got == [b"0", b"1", b"2"]
    assert await bodies(shop) == [b"put1", b"app.put"]


async def test_a_plain_handler_requests_and_cancels(shop: Shop) -> None:
    reported: list[Any] = []

    @shop.app.handler("DOUBLE")
    async def double(number: dict[str, int]) -> dict[str, int]:
        return {"n": 2 * number["n"]}

    later: list[PutResult] = []

    def handle(body: str) -> None:
        reported.append(shop.app.request("DOUBLE", {"n": 21}, timeout=60))
        reported.append(shop.app.cancel(later[0]))

    async with shop.app.running(handlers=False):
        later.append(await shop.app.put("OUT", "later", delay=50))
    assert await handled(shop, handle) is None
    assert reported == [{"n": 42}, True]
    assert await shop.depth("OUT") == 0


async def test_h1_6_a_call_that_waits_when_its_handler_times_out_is_2018_and_so_is_the_next(shop: Shop) -> None:
    waits, ended = asyncio.Event(), asyncio.Event()
    reasons: list[int] = []

    def handle(body: str, connection: SyncConnection) -> None:
        with connection.open("OUT", MQOO.INPUT_SHARED) as queue:
            anyio.from_thread.run_sync(waits.set)
            for call in (lambda: queue.get(wait=float("inf")), lambda: shop.app.put("OUT", "late")):
                try:
                    call()
                except MQError as error:
                    reasons.append(error.reason)
            loop.call_soon_threadsafe(ended.set)
            raise ValueError("after that")

    loop = asyncio.get_running_loop()
    handling = asyncio.ensure_future(handled(shop, handle, timeout=1))
    async with asyncio.timeout(SECONDS):
        await waits.wait()
        await shop.clock.advance(1)
        assert isinstance(await handling, TimeoutError)
        await ended.wait()
    assert reasons == [MQRC.HCONN_ERROR, MQRC.HCONN_ERROR]


async def test_h9_1_a_call_that_waits_when_its_app_stops_does_not_wait_for_ever(shop: Shop) -> None:
    waits, ended = asyncio.Event(), threading.Event()
    reasons: list[int] = []

    @shop.app.handler("Q")
    def handle(body: str) -> None:
        anyio.from_thread.run_sync(waits.set)
        try:
            shop.app.sync.request("NOBODY", "?", timeout=1e6)
        except MQError as error:
            reasons.append(error.reason)
        finally:
            ended.set()

    await shop.mqsc("DEFINE QLOCAL(NOBODY)")
    async with asyncio.timeout(SECONDS), shop.running(grace=0) as session:
        await shop.app.put("Q", "a")
        await waits.wait()
        session.cancel()
        await session.wait()
    assert ended.wait(0)
    assert reasons == [MQRC.HCONN_ERROR]


@pytest.mark.filterwarnings("ignore:coroutine 'App.put' was never awaited")
@pytest.mark.parametrize("returned", [False, True])
async def test_a_put_that_an_attempt_does_not_await_fails_it_with_its_line(
    shop: Shop, returned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(body: str) -> Any:
        made = shop.app.put("OUT", "lost")
        return made if returned else None

    error = await handled(shop, handle)
    assert isinstance(error, RuntimeError)
    place = f"{__file__}, line {handle.__code__.co_firstlineno + 1}, in "
    assert place in str(error)
    [record] = [each for each in caplog.records if each.name == "triggers.app.unawaited"]
    assert record.levelname == "ERROR"
    assert place in record.getMessage()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("call", ["put1", "queue.put"])
async def test_a_call_of_its_connection_that_an_attempt_does_not_await_fails_it(
    shop: Shop, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(body: str, connection: Connection) -> None:
        assert isinstance(connection, Connection)
        await connection.put1("OUT", "undone")
        async with connection.open("OUT", MQOO.OUTPUT) as queue:
            if call == "put1":
                connection.put1("OUT", "lost")  # type: ignore[unused-coroutine]
            else:
                queue.put("lost")  # type: ignore[unused-coroutine]

    error = await handled(shop, handle)
    assert isinstance(error, RuntimeError)
    assert f"{__file__}, line " in str(error)
    assert [each.levelname for each in caplog.records if each.name == "triggers.app.unawaited"] == ["ERROR"]
    assert await bodies(shop) == []


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_a_trigger_handler_that_forgets_to_await_has_failed_and_a_plain_one_puts(shop: Shop) -> None:
    async def forgets(connection: Connection) -> None:
        connection.put1("OUT", "lost")  # type: ignore[unused-coroutine]

    def plain(connection: Connection) -> None:
        connection.put1("OUT", "there")  # type: ignore[unused-coroutine]
        shop.app.sync.put("OUT", "by the app")

    with pytest.raises(RuntimeError, match=r"Connection\.put1\(\.\.\.\) was never awaited"):
        await called(forgets, shop.connection)
    async with shop.running():
        await called(plain, shop.connection)
    assert await bodies(shop) == [b"there", b"by the app"]


@pytest.mark.filterwarnings("ignore:coroutine 'App.put' was never awaited")
async def test_elsewhere_a_call_is_a_coroutine_and_one_that_is_dropped_is_told(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    app, loop = shop.app, asyncio.get_running_loop()
    assert asyncio.iscoroutinefunction(app.put)
    async with shop.running():
        await asyncio.to_thread(lambda: asyncio.run(app.put("OUT", "another loop")))
        await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(app.put("OUT", "threadsafe"), loop).result())
        await asyncio.to_thread(lambda: app.sync.put("OUT", "sync"))
        task = asyncio.create_task(app.put("OUT", "cancelled before it began"))
        task.cancel()
        await asyncio.wait((task,))
        app.put("OUT", "closed").close()
        with pytest.raises(RuntimeError, match="thread of the event loop"):
            app.sync.put("OUT", "would wait for itself")
        assert "unawaited" not in caplog.text
        app.put("OUT", "dropped")  # type: ignore[unused-coroutine]
        assert "App.put(...) was never awaited" in caplog.text
    assert await bodies(shop) == [b"another loop", b"threadsafe", b"sync"]


async def test_in_a_test_of_an_app_a_plain_handler_puts_too() -> None:
    app = App("mq://nowhere", name="TESTED")

    @app.handler("Q")
    def handle(body: str) -> None:
        app.put("OUT", body)  # type: ignore[unused-coroutine]

    async with app.test() as t:
        async with t.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(OUT)")
        await t.put("Q", "a")
        await t.idle()
        assert await t.messages("OUT") == ["a"]


def test_a_coroutine_is_not_given_a_blocking_connection() -> None:
    app = App("mq://nowhere")

    async def handle(body: str, connection: SyncConnection) -> None: ...

    with pytest.raises(TypeError, match="a SyncConnection is for a plain def"):
        app.handler("Q")(handle)
