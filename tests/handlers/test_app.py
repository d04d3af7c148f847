"""What an app puts, cancels and releases, inside its handlers and outside (handlers rules 1.6, 3.6, 3.7, 4.3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQMF, MQOO, MQRC, MQError
from broker.testing.clock import settle
from tests.handlers.apps import Seen, Shop
from triggers import App, Retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from broker import Connection, PutResult


@pytest.fixture(params=["embedded", "tcp"])
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    async with Shop(request.param) as shop:
        yield shop


async def test_a_delayed_put_is_handled_at_its_instant() -> None:
    async with Shop() as shop:
        seen = Seen()

        @shop.app.handler("Q")
        async def handle(body: str) -> None:
            seen.add((body, shop.clock.monotonic()))

        async with shop.running():
            await shop.app.put("Q", "late", delay=30)
            await shop.app.put("Q", "now")
            await settle()
            await shop.clock.advance(60)
            assert await seen.so_many(2) == [("now", 0), ("late", 30)]


async def test_a_message_that_waits_can_be_cancelled_and_released(shop: Shop) -> None:
    seen = Seen()

    @shop.app.handler("Q")
    async def handle(body: str) -> None:
        seen.add(body)

    async with shop.running():
        cancelled = await shop.app.put("Q", "cancelled", delay=30)
        released = await shop.app.put("Q", "released", delay=30)
        assert await shop.app.cancel(cancelled) is True
        assert await shop.app.cancel(cancelled) is False
        assert await shop.app.release(released) is True
        assert await seen.so_many(1) == ["released"]
        assert await shop.app.release(released) is False
        assert await shop.depth("Q") == 0


async def test_a_message_that_is_due_is_not_cancelled(shop: Shop) -> None:
    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(Q)")
        put = await shop.app.put("Q", "a")
        assert await shop.app.cancel(put) is False
        assert await shop.depth("Q") == 1


async def test_a_cancellation_inside_a_handler_is_part_of_its_unit() -> None:
    async with Shop() as shop:
        put: list[PutResult] = []

        @shop.app.handler("Q", retry=Retry(0))
        async def handle(body: str) -> None:
            assert await shop.app.cancel(put[0]) is True
            if body == "fails":
                raise ValueError("no")

        async with shop.running():
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            put.append(await shop.app.put("OUT", "a", delay=30))
            await shop.app.put("Q", "fails")
            await shop.get("Q.DEAD")
            assert await shop.depth("OUT") == 1
            await shop.app.put("Q", "succeeds")
            await settle()
            assert await shop.depth("OUT") == 0


async def test_a_group_is_put_whole_or_not_at_all(shop: Shop) -> None:
    seen = Seen()

    @shop.app.handler("Q", retry=Retry(0))
    async def handle(body: str) -> None:
        seen.add(len(await shop.app.put_group("OUT", ["c", "d"])))
        if body == "fails":
            raise ValueError("no")

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)\nDEFINE QLOCAL(SMALL) MAXDEPTH(1)")
        results = await shop.app.put_group("OUT", ["a", {"b": 1}], priority=3)
        assert [each.md.msg_seq_number for each in results] == [1, 2]
        with pytest.raises(MQError):
            await shop.app.put_group("SMALL", ["a", "b"])
        assert await shop.depth("SMALL") == 0
        await shop.app.put("Q", "fails")
        await shop.get("Q.DEAD")
        await shop.app.put("Q", "succeeds")
        got = [(await shop.get("OUT")) for _ in range(4)]
        assert {each.data for each in got} == {b"a", b'{"b":1}', b"c", b"d"}
        assert all(each.md.msg_flags & MQMF.MSG_IN_GROUP for each in got)
        with pytest.raises(ValueError, match="at least one body"):
            await shop.app.put_group("OUT", [])
        with pytest.raises(ValueError, match="a key is for one message"):
            await shop.app.put_group("OUT", ["a"], key="a")


async def test_a_put_whose_key_is_in_an_open_unit_is_tried_again_for_five_seconds() -> None:
    async with Shop() as shop, shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT) DEFPSIST(YES)")
        async with shop.connection.unit_of_work():
            await shop.connection.put1("OUT", b"first", key="42")
            putting = asyncio.ensure_future(shop.app.put("OUT", "second", key="42"))
            await shop.clock.advance(4.9)
            assert not putting.done()
            await shop.clock.advance(0.4)
            with pytest.raises(MQError) as raised:
                await putting
            assert raised.value.reason == MQRC.OBJECT_IN_USE
            putting = asyncio.ensure_future(shop.app.put("OUT", "second", key="42"))
            await shop.clock.advance(1)
        await shop.clock.advance(1)
        assert (await putting).duplicate
        assert await shop.depth("OUT") == 1


async def test_a_task_that_outlives_its_handler_puts_nothing_in_its_unit() -> None:
    async with Shop() as shop:
        ended, reported = asyncio.Event(), Seen()
        tasks = []

        async def outlive() -> None:
            await ended.wait()
            try:
                await shop.app.put("OUT", "joined")
            except MQError as error:
                reported.add(error.reason)
            reported.add((await shop.app.put("OUT", "apart", syncpoint=False)).reason)

        @shop.app.handler("Q")
        async def handle(body: str) -> None:
            tasks.append(asyncio.ensure_future(outlive()))

        async with shop.running():
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            await shop.app.put("Q", "a")
            await settle()
            ended.set()
            assert await reported.so_many(2) == [MQRC.HCONN_ERROR, MQRC.NONE]
            assert (await shop.get("OUT")).data == b"apart"
            await tasks[0]


async def test_puts_of_another_app_in_a_handler_are_that_apps_own() -> None:
    async with Shop() as shop:
        other = App(shop.manager, name="OTHER")

        @shop.app.handler("Q", retry=Retry(0))
        async def handle(body: str) -> None:
            await other.put("OUT", body)
            raise ValueError("no")

        async with shop.running(), other.running():
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            await shop.app.put("Q", "a")
            await shop.get("Q.DEAD")
            assert (await shop.get("OUT")).data == b"a"


async def test_puts_at_once_in_a_handler_share_its_connection(shop: Shop) -> None:
    @shop.app.handler("Q")
    async def handle(body: str) -> None:
        await asyncio.gather(*(shop.app.put("OUT", {"n": n}) for n in range(20)))

    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        await shop.app.put("Q", "a")
        assert len({(await shop.get("OUT")).data for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"expiry": 0}, ValueError),
        ({"persistence": 1}, TypeError),
        ({"delay": 1, "deliver_at": 5.0}, ValueError),
    ],
    ids=str,
)
async def test_options_that_say_nothing_are_refused(options: dict[str, object], error: type[Exception]) -> None:
    async with Shop() as shop, shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        with pytest.raises(error):
            await shop.app.put("OUT", "a", **options)  # type: ignore[arg-type]
        assert await shop.depth("OUT") == 0


async def test_options_of_a_put_are_in_its_descriptor(shop: Shop) -> None:
    async with shop.running():
        await shop.mqsc("DEFINE QLOCAL(OUT)")
        await shop.app.put(
            "OUT", "a", priority=7, expiry=12.34, persistence=False, correl_id=b"c" * 24, reply_to="BACK"
        )
        md = (await shop.get("OUT")).md
        assert (md.priority, md.expiry, md.persistence, md.correl_id, md.reply_to_q) == (7, 124, 0, b"c" * 24, "BACK")


async def test_a_put_waits_for_a_queue_manager_that_is_away_for_now() -> None:
    async with Shop("tcp") as shop:
        source = shop.source()
        shop.app.source = source
        async with shop.running() as session:
            await shop.mqsc("DEFINE QLOCAL(OUT)")
            await shop.app.put("OUT", "a")
            away = [MQError(MQRC.HOST_NOT_AVAILABLE, "for now")] * 3
            connect = source.connect

            def not_at_first(appl_name: str) -> AbstractAsyncContextManager[Connection]:
                if away:
                    raise away.pop()
                return connect(appl_name)

            source.connect = not_at_first  # type: ignore[method-assign]
            assert session._line is not None
            shop.way.cut(session._line[0])
            putting = asyncio.ensure_future(shop.app.put("OUT", "b"))
            await settle()
            assert not putting.done()
            while not putting.done():
                await shop.clock.advance(1)
            await putting
            assert (await shop.depth("OUT"), away) == (2, [])


@pytest.mark.parametrize("before", [0, 1], ids=["the first", "the second"])
async def test_a_request_waits_for_a_queue_manager_that_is_away_for_now(before: int) -> None:
    async with Shop("tcp") as shop:
        source = shop.source()
        shop.app.source = source

        @shop.app.handler("Q")
        async def answer(body: str) -> str:
            return body.upper()

        async with shop.running() as session:
            for _ in range(before):
                assert await shop.app.request("Q", "before", timeout=30) == "BEFORE"
                assert session.requests._line is not None
                shop.way.cut(session.requests._line.connection)
                await settle()
            away = [MQError(MQRC.HOST_NOT_AVAILABLE, "for now")] * 3
            connect = source.connect

            def not_at_first(appl_name: str) -> AbstractAsyncContextManager[Connection]:
                if away:
                    raise away.pop()
                return connect(appl_name)

            source.connect = not_at_first  # type: ignore[method-assign]
            asking = asyncio.ensure_future(shop.app.request("Q", "chair", timeout=30))
            await settle()
            assert not asking.done()
            while not asking.done():
                await shop.clock.advance(1)
            assert (await asking, away) == ("CHAIR", [])


async def test_a_request_waits_for_its_queue_manager_no_longer_than_for_its_reply() -> None:
    async with Shop("tcp") as shop:
        source = shop.source()
        shop.app.source = source

        def away(appl_name: str) -> AbstractAsyncContextManager[Connection]:
            raise MQError(MQRC.HOST_NOT_AVAILABLE, "for good")

        async with shop.running(handlers=False):
            source.connect = away  # type: ignore[method-assign]
            asking = asyncio.ensure_future(shop.app.request("Q", "chair", timeout=3))
            await settle()
            await shop.clock.advance(2.9)
            assert not asking.done()
            await shop.clock.advance(0.1)
            with pytest.raises(TimeoutError, match="the queue manager could not be reached within 3 s"):
                await asking


async def test_a_queue_that_an_app_only_puts_to_is_there_when_it_is_declared(shop: Shop) -> None:
    images = shop.app.queue("IMAGES")
    async with shop.running(handlers=False):
        await shop.app.put(images, b"...")
        assert await shop.depth("IMAGES") == 1
    other = App(shop.manager, name="other")  # serves what was defined for it
    other.source = shop.source()
    handled = asyncio.Event()

    @other.handler("IMAGES")
    async def scale(body: bytes) -> None:
        handled.set()

    async with other.running():
        await handled.wait()
    with pytest.raises(ValueError, match="is not a name of a queue"):
        shop.app.queue("no name")


async def test_a_worker_says_at_its_start_which_queues_it_puts_to_and_nobody_serves(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("IMAGES", "GOT", "SERVED", "Q"):
        shop.app.queue(name)

    @shop.app.handler("Q")
    async def handle(body: str) -> None: ...

    other = App(shop.manager, name="other")
    other.source = shop.source()

    @other.handler("SERVED")
    async def serve(body: str) -> None: ...

    await shop.mqsc("DEFINE QLOCAL(GOT)")
    async with other.running(), shop.connection.open("GOT", MQOO.INPUT_SHARED), shop.running():
        said = [record.getMessage() for record in caplog.records if "nobody serves" in record.getMessage()]
    assert said == ["SHOP puts to IMAGES, which nobody serves now: its messages wait for a worker that does"]
