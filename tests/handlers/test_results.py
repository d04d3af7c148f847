"""`app.result`, and the history that an app's handlers keep (transactions rule 6.7)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from broker import QueueManager
from broker.config import LimitsConfig, ListenerConfig
from broker.mqi import Returned
from broker.mqi.history import read_record
from broker.server import Server
from broker.testing import VirtualClock
from tests.handlers.apps import Seen, Shop
from tests.server.proxy import Proxy
from tests.server.test_over_the_wire import until
from triggers import App, BatchError, Later, NotServableError, Reject, RequestError, Retry
from triggers.history.returned import returned

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@dataclass
class Quote:
    customer: str
    price: int


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture(params=["embedded", "tcp"])
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    async with Shop(request.param) as shop:
        yield shop


async def test_d6_3_a_result_is_there_before_during_and_after(shop: Shop) -> None:
    go = asyncio.Event()

    @shop.app.handler("QUOTES", history="7d")
    async def quote(customer: str) -> Quote:
        await go.wait()
        return Quote(customer, 40)

    async with shop.running():
        put = await shop.app.put("QUOTES", "anna")
        with pytest.raises(TimeoutError):
            await shop.app.result(put, 0)
        waiting = asyncio.ensure_future(shop.app.result(put, type=Quote))
        many = [asyncio.ensure_future(shop.app.result(put, 60)) for _ in range(300)]
        await asyncio.sleep(0)
        go.set()
        during = await waiting
        after = await shop.app.result(put, 0, Quote)
        assert (during.outcome, during.attempts, during.error) == ("succeeded", 1, None)
        assert during.value == after.value == Quote("anna", 40)
        assert during.ended == after.ended == pytest.approx(shop.clock.time(), abs=1)
        assert {(await each).value["price"] for each in many} == {40}
        by_id = await shop.app.result(put.md.msg_id)
        assert by_id.record == during.record
        assert by_id.record.worker.startswith("SHOP")
        assert by_id.record.handler.endswith("quote")


async def test_d6_3_a_result_of_what_failed_raises_where_its_value_is_asked_for(shop: Shop) -> None:
    @shop.app.handler("QUOTES", history=3600, retry=Retry(1, 1.0))
    async def quote(customer: str) -> str:
        if customer == "nobody":
            raise Reject("no such customer", 70_000)
        raise ValueError("no price")

    async with shop.running():
        rejected = await shop.app.result(await shop.app.put("QUOTES", "nobody"))
        assert (rejected.outcome, rejected.error) == ("rejected", "Reject: no such customer")
        with pytest.raises(RequestError, match="no such customer") as caught:
            rejected.value  # noqa: B018
        assert caught.value.reason == 70_000
        failed_put = await shop.app.put("QUOTES", "anna")
        waiting = asyncio.ensure_future(shop.app.result(failed_put))
        await shop.clock.advance(2)
        failed = await waiting
        many = await asyncio.gather(*[shop.app.result(failed_put, 0) for _ in range(300)])
        assert {each.error for each in many} == {failed.error}
        assert (failed.outcome, failed.attempts, failed.error) == ("dead_lettered", 2, "ValueError: no price")
        with pytest.raises(RequestError):
            failed.value  # noqa: B018


async def test_d6_3_a_wait_for_a_result_ends_with_its_time(shop: Shop) -> None:
    @shop.app.handler("QUOTES", history="1h")
    async def quote(customer: str) -> None:
        raise Later(1000)

    async with shop.running():
        put = await shop.app.put("QUOTES", "anna")
        waiting = asyncio.ensure_future(shop.app.result(put, 30))
        await shop.clock.advance(31)
        with pytest.raises(TimeoutError, match="within 30 s"):
            await waiting
        with pytest.raises(ValueError, match="timeout=-1"):
            await shop.app.result(put, -1)


async def test_d6_3_a_duplicate_has_the_result_of_the_first(shop: Shop) -> None:
    @shop.app.handler("QUOTES", history="1h")
    async def quote(customer: str) -> str:
        return customer.upper()

    async with shop.running():
        first = await shop.app.put("QUOTES", "anna", key="1")
        assert (await shop.app.result(first)).value == "ANNA"
        second = await shop.app.put("QUOTES", "berta", key="1")
        assert second.duplicate
        assert (await shop.app.result(second)).value == "ANNA"


async def test_d6_3_a_queue_without_a_history_is_a_lookup_error(shop: Shop) -> None:
    @shop.app.handler("ORDERS")
    async def ship(order: str) -> None: ...

    async with shop.running():
        put = await shop.app.put("ORDERS", "chair")
        with pytest.raises(LookupError, match=r"ORDERS\.HISTORY"):
            await shop.app.result(put)
        with pytest.raises(LookupError, match="say queue="):
            await shop.app.result(put.md.msg_id)
        with pytest.raises(LookupError, match=r"ORDERS\.HISTORY"):
            await shop.app.result(put.md.msg_id, queue="ORDERS")
        with pytest.raises(LookupError, match="MsgId of zeros"):
            await shop.app.result(bytes(24), queue="ORDERS")
        with pytest.raises(TypeError, match="24 bytes"):
            await shop.app.result(b"short")


async def test_d6_3_a_msg_id_alone_is_looked_for_on_all_histories_of_the_app(shop: Shop) -> None:
    @shop.app.handler("ORDERS", history="1h")
    async def ship(order: str) -> str:
        return "shipped"

    @shop.app.handler("QUOTES", history="1h")
    async def quote(order: str) -> str:
        return "quoted"

    async with shop.running():
        ids = [(await shop.app.put(name, "chair")).md.msg_id for name in ("ORDERS", "QUOTES")]
        assert [(await shop.app.result(each)).value for each in ids] == ["shipped", "quoted"]


async def test_d6_3_a_dead_letter_that_was_put_back_has_its_last_result() -> None:
    from broker.dead_letters import DeadLetterQueue, Wanted

    broken = True
    async with Shop() as shop:

        @shop.app.handler("QUOTES", history="1h", retry=0)
        async def quote(customer: str) -> str:
            if broken:
                raise ValueError("not now")
            return "now"

        async with shop.running():
            put = await shop.app.put("QUOTES", "anna")
            assert (await shop.app.result(put)).outcome == "dead_lettered"
            broken = False
            async with DeadLetterQueue(shop.connection, "QUOTES.DEAD") as letters:
                async for _ in letters.retry(Wanted()):
                    pass
            await shop.clock.advance(1)
            assert (await shop.app.result(put)).value == "now"


async def test_d6_3_results_are_there_after_a_restart_and_for_another_program() -> None:
    app = App("mq://nowhere", name="SHOP")

    @app.handler("QUOTES", history="1h")
    async def quote(customer: str) -> dict[str, Any]:
        return {"customer": customer}

    async with app.test() as t:
        put = await t.put("QUOTES", "anna")
        await t.idle()
        await t.restart(kill=True)
        assert (await app.result(put, 0)).value == {"customer": "anna"}
        result = await t.result(put)
        assert result.outcome == "succeeded"


async def test_d6_3_a_wait_goes_on_when_the_queue_manager_is_there_again(tmp_path: Path) -> None:
    clock = VirtualClock()

    def app(source: Any, name: str) -> App:
        made = App(source, name=name)

        @made.handler("QUOTES", history="1h")
        async def quote(customer: str) -> str:
            return customer.upper()

        return made

    def listening(manager: QueueManager) -> Server:
        return Server(manager, ListenerConfig(port=0), LimitsConfig())

    async with AsyncExitStack() as stack:
        async with QueueManager.open(name="QM1", data=tmp_path, clock=clock) as first, listening(first) as server:
            proxy = await stack.enter_async_context(Proxy(server.addresses[0]))
            asking = app(proxy.url, "ASKS")
            asking.source.clock = clock  # type: ignore[misc]
            await stack.enter_async_context(asking.running(handlers=False))
            put = await asking.put("QUOTES", "anna")
            waiting = asyncio.ensure_future(asking.result(put, 3600))
            await until(lambda: first.core.objects.queues["QUOTES.HISTORY"].waiters.count == 1)
            proxy.cut()
        async with QueueManager.open(name="QM1", data=tmp_path, clock=clock) as second, listening(second) as server:
            proxy.lead_to(server.addresses[0])
            async with app(second, "WORKER").running():
                while not waiting.done():
                    await clock.advance(1)
                    await asyncio.sleep(0)
                assert (await waiting).value == "ANNA"


async def test_a_plain_function_asks_for_results_too(shop: Shop) -> None:
    seen = Seen()

    @shop.app.handler("QUOTES", history="1h")
    def quote(customer: str) -> str:
        return customer.upper()

    @shop.app.handler("ORDERS")
    def order(customer: str) -> None:
        put = shop.app.sync.put("QUOTES", customer, syncpoint=False)
        results = [shop.app.sync.result(put, type=str).value]
        results.append(shop.app.result(put).value)  # type: ignore[attr-defined]  # it blocks here
        loop.call_soon_threadsafe(seen.add, results)

    loop = asyncio.get_running_loop()
    async with shop.running():
        await shop.app.put("ORDERS", "anna")
        await seen.so_many(1)
        put = await shop.app.put("QUOTES", "berta")
        result = await asyncio.to_thread(lambda: shop.app.sync.result(put, 60))
        assert (seen, result.value) == ([["ANNA", "ANNA"]], "BERTA")


async def test_a_value_without_json_is_told_by_its_type(shop: Shop) -> None:
    @shop.app.handler("QUOTES", history="1h", history_value=10)
    async def quote(kind: str) -> Any:
        return {"set": {1, 2}, "long": "x" * 20, "none": None, "number": 7}[kind]

    async with shop.running():
        results = {
            kind: await shop.app.result(await shop.app.put("QUOTES", kind))
            for kind in ("set", "long", "none", "number")
        }
        assert (results["none"].value, results["number"].value) == (None, 7)
        for kind, type_name, length in (("set", "set", 2), ("long", "str", 22)):
            record = results[kind].record
            assert (record.outcome, record.value_type, record.value_length) == ("succeeded", type_name, length)
            with pytest.raises(ValueError, match=f"a {type_name} of length {length}"):
                results[kind].value  # noqa: B018


def test_no_value_fails_the_work() -> None:
    class Bad:
        def __len__(self) -> int:
            raise RuntimeError

    assert returned({"price": 40}, 100) == Returned(b'{"price":40}')
    assert returned(float("nan"), 100) == Returned(b"", "float", 0)
    assert returned(Bad(), 100) == Returned(b"", "Bad", 0)
    assert returned("\udc80", 100) == Returned(b"", "str", 1)
    assert returned("abc", 3) == Returned(b"", "str", 5)


async def test_with_a_history_a_returned_value_is_not_warned_of(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    @shop.app.handler("QUOTES", history="1h")
    async def quote(customer: str) -> str:
        return "40"

    async with shop.running():
        await shop.app.result(await shop.app.put("QUOTES", "anna"))
    assert "asks for no reply" not in caplog.text


async def test_a_request_has_its_reply_and_its_record(shop: Shop) -> None:
    @shop.app.handler("QUOTES", history="1h")
    async def quote(customer: str) -> str:
        return customer.upper()

    async with shop.running():
        assert await shop.app.request("QUOTES", "anna", timeout=60) == "ANNA"
        assert await shop.depth("QUOTES.HISTORY") == 1


async def test_a_batch_has_records_without_a_value(shop: Shop) -> None:
    @shop.app.handler("QUOTES", history="1h", batch=3, retry=0)
    async def quote(customers: list[str]) -> str:
        raise BatchError({1: ValueError("no price")}) if len(customers) == 3 else ValueError("alone")

    async with shop.running():
        puts = [await shop.app.put("QUOTES", each) for each in ("a", "b", "c")]
        await shop.clock.advance(1)
        outcomes = [(await shop.app.result(put, 0)).outcome for put in puts]
        assert outcomes == ["succeeded", "dead_lettered", "succeeded"]


async def test_an_app_defines_the_histories_of_its_queues(shop: Shop) -> None:
    @shop.app.handler("QUOTES", history=timedelta(days=7))
    async def quote(customer: str) -> None: ...

    async with shop.running():
        [queue] = await shop.mqsc("DISPLAY QLOCAL('QUOTES.HISTORY') MAXDEPTH DEFPSIST DESCR")
        assert (queue["MAXDEPTH"], queue["DEFPSIST"]) == (999_999_999, "YES")


async def test_a_history_that_is_no_queue_of_its_own_is_an_error_at_the_start() -> None:
    async with Shop() as shop:
        await shop.mqsc("DEFINE QALIAS('QUOTES.HISTORY') TARGET('ELSEWHERE')")

        @shop.app.handler("QUOTES", history="1h")
        async def quote(customer: str) -> None: ...

        with pytest.raises(NotServableError, match=r"QUOTES\.HISTORY is no local queue"):
            async with shop.running():
                pass


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"history": "soon"}, "history='soon': 'soon' is no length of time"),
        ({"history": 0}, "history=0: for how long"),
        ({"history": "20000d"}, "history=1728000000.0: a number of seconds"),
        ({"history": True}, "history=True"),
        ({"history": "1h", "history_value": -1}, "history_value=-1"),
        ({"history": "1h", "history_value": "4k"}, "history_value='4k'"),
        ({"history": "1h", "history_value": 100_000}, "history_value=100000"),
    ],
)
def test_options_of_a_history_that_say_nothing_are_a_value_error(options: dict[str, Any], text: str) -> None:
    app = App("mq://nowhere")
    with pytest.raises(ValueError, match=text):

        @app.handler("QUOTES", **options)
        async def quote(customer: str) -> None: ...


def test_a_queue_whose_name_is_too_long_has_no_history() -> None:
    app = App("mq://nowhere")
    with pytest.raises(ValueError, match="too long a name"):

        @app.handler("Q" * 40 + ".HISTORY", history="1h")
        async def quote(customer: str) -> None: ...


async def test_periodic_work_has_a_history_too() -> None:
    app = App("mq://nowhere", name="SHOP")

    @app.every("1h", history="7d")
    async def report() -> str:
        return "sent"

    async with app.test() as t:
        await t.advance("3h")
        (name,) = [each.options.history for each in app.handlers.values() if each.options.history]
        assert name.endswith(".HISTORY")
        found = [read_record(each.data) for each in await t.browse(name)]
        assert [each.value for each in found] == ["sent"] * 3
