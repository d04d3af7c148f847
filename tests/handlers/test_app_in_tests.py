"""`app.test()`: an app in a test (handlers rule 11)."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import anyio
import pytest

from broker.mqi import MQError
from broker.testing import settle
from tests.handlers.loops import asyncio_alone
from triggers import App, Attempt, Reject, Retry
from triggers.testing import AppTest, Event, NoProgressError

shop = App("mq://127.0.0.1:1", name="shop")
"""An app of a module, whose own queue manager does not exist."""

HANDLED: dict[int, list[str]] = {}
"""What each thread's tests have handled."""


class Broken(Exception):
    """The exception of handlers in these tests."""


@shop.handler("ORDERS", retry=Retry(3, backoff=(60, 600)))
async def ship(order: str, attempt: Attempt) -> None:
    HANDLED.setdefault(threading.get_ident(), []).append(f"{order} {attempt.number}")
    if order.startswith("fog"):
        raise Broken(order)
    if order == "stuck":
        await asyncio.Event().wait()  # here it is stuck
    if order == "slow":
        await asyncio.sleep(0.05)
    await shop.put("SHIPPED", {"order": order})


@shop.handler("SHIPPED")
async def shipped(order: dict[str, str]) -> None:
    HANDLED[threading.get_ident()].append(f"{order['order']} shipped")


@shop.handler("REJECTED")
async def reject(order: str) -> None:
    raise Reject("nobody wants it")


@shop.handler("THREADED")
def block(seconds: str) -> None:
    time.sleep(float(seconds))  # here it blocks
    HANDLED[0] = [seconds]


@shop.handler("TIMED", retry=Retry(0), timeout=3600)
async def oversleep(seconds: str, attempt: Attempt) -> None:
    if seconds == "for ever":
        await asyncio.Event().wait()
    await anyio.sleep(float(seconds))


@pytest.fixture
def handled() -> list[str]:
    """Return the list of what was handled, with the attempts."""
    HANDLED.clear()
    return HANDLED.setdefault(threading.get_ident(), [])


def line(marked: str) -> int:
    """The number of the line of this file that ends so."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {marked}"))


async def test_idle_returns_when_all_is_handled_and_time_stands(handled: list[str]) -> None:
    async with shop.test() as t:
        for order in ("a", "slow", "b"):
            await t.put("ORDERS", order)
        await t.idle()
        assert sorted(handled) == ["a 1", "a shipped", "b 1", "b shipped", "slow 1", "slow shipped"]
        assert t.clock.monotonic() == 0
        assert [event.outcome for event in t.events] == ["done"] * 6


async def test_idle_waits_for_a_handler_in_a_thread() -> None:
    async with shop.test() as t:
        await t.put("THREADED", "0.05")
        await t.idle()
        assert HANDLED[0] == ["0.05"]


async def test_h11_1_idle_raises_the_object_that_a_handler_raised(handled: list[str]) -> None:
    async with shop.test() as t:
        await t.put("ORDERS", "fog")
        with pytest.raises(Broken, match="fog") as caught:
            await t.idle()
        assert caught.traceback[-1].name == "ship"
        await t.idle()  # once


async def test_several_are_raised_as_a_group(handled: list[str]) -> None:
    async with shop.test() as t:
        await t.put("ORDERS", "fog")
        await t.put("ORDERS", "fog again")
        await t.put("REJECTED", "snow")
        with pytest.raises(BaseExceptionGroup, match="handlers raised 3 exceptions") as caught:
            await t.idle()
        assert sorted(map(str, caught.value.exceptions)) == ["fog", "fog again", "nobody wants it"]


async def test_leaving_raises_what_nobody_was_told(handled: list[str]) -> None:
    with pytest.raises(Broken) as caught:
        async with shop.test(seed=7) as t:
            await t.put("ORDERS", "fog")
    assert caught.value.__notes__ == ["the test of shop ran with seed=7"]


async def test_what_a_test_raises_itself_goes_before_and_tells_the_seed(handled: list[str]) -> None:
    with pytest.raises(KeyError) as caught:
        async with shop.test(seed=7) as t:
            await t.put("ORDERS", "fog")
            raise KeyError
    assert caught.value.__notes__ == ["the test of shop ran with seed=7"]


async def test_failures_are_collected_instead(handled: list[str]) -> None:
    async with shop.test() as t:
        await t.put("ORDERS", "fog")
        with t.failures() as seen:
            await t.idle()
        assert [type(error) for error in seen] == [Broken]


async def test_what_is_on_a_queue_is_decoded(handled: list[str]) -> None:
    async with shop.test() as t:
        with t.failures():
            await t.put("REJECTED", "snow")
            await t.idle()
        async with t.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(ELSEWHERE)", check=True)
        for body in ({"n": 1}, "text", b"bytes"):
            await t.put("ELSEWHERE", body)
        assert await t.messages("ELSEWHERE") == [{"n": 1}, "text", b"bytes"]
        assert await t.messages("REJECTED.DEAD") == ["snow"]
        (letter,) = await t.browse("REJECTED.DEAD")
        assert letter.properties["evermq.error"] == "nobody wants it"
        with pytest.raises(MQError, match="2085"):
            await t.messages("NOWHERE")


async def trace(seed: int, count: int) -> list[Event]:
    """Return what happens to so many orders, of which each tenth fails."""
    async with shop.test(seed) as t:
        with t.failures():
            for number in range(count):
                await t.put("ORDERS", f"{'fog' if number % 10 == 9 else 'order'} {number}")
                if number % 20 == 19:
                    await t.advance(40)
        return t.events[:count]


@asyncio_alone
async def test_h11_3_the_same_seed_gives_the_same_thousand_events(handled: list[str]) -> None:
    first, second = await trace(4, 1000), await trace(4, 1000)
    assert len(first) == len(second) == 1000
    assert [place for place, (one, other) in enumerate(zip(first, second, strict=True)) if one != other] == []
    other = await trace(5, 1000)
    assert {event.msg_id for event in other}.isdisjoint(event.msg_id for event in first)


async def test_another_seed_gives_another_order(handled: list[str]) -> None:
    orders = set()
    for seed in range(8):
        events = await trace(seed, 60)
        orders.add(tuple((event.queue, event.attempt, event.outcome) for event in events))
    assert len(orders) > 1


async def one_of_many(name: str) -> list[str]:
    """A test of the app that gives other tests turns."""
    async with shop.test() as t:
        for number in range(5):
            await t.put("SHIPPED", {"order": f"{name} {number}"})
            await settle()
        async with t.connect() as connection:
            assert (await connection.status())["name"] == "TEST"
        await t.idle()
        return [f"{name} {event.queue} {event.attempt}" for event in t.events]


async def test_h11_4_tests_of_one_app_of_a_module_do_not_meet_in_threads_or_in_tasks() -> None:
    expected = {f"test {number}": [f"test {number} SHIPPED 1"] * 5 for number in range(8)}
    found: dict[str, list[str]] = {}

    def run(name: str) -> None:
        HANDLED[threading.get_ident()] = []
        found[name] = asyncio.run(one_of_many(name))

    threads = [threading.Thread(target=run, args=(name,)) for name in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected
    HANDLED[threading.get_ident()] = []
    together = await asyncio.gather(*(one_of_many(name) for name in expected))
    assert dict(zip(expected, together, strict=True)) == expected


async def test_an_app_that_is_not_in_a_test_any_more_does_not_run(handled: list[str]) -> None:
    async with shop.test() as t:
        await t.put("ORDERS", "a")
        await t.idle()
    with pytest.raises(RuntimeError, match="the app shop does not run"):
        await shop.put("ORDERS", "b")


async def test_h11_5_a_handler_that_waits_for_what_never_comes_is_named_with_the_line(handled: list[str]) -> None:
    test = AppTest(shop, patience=0.3)
    with pytest.raises(NoProgressError) as caught:
        async with test as t:
            await t.put("ORDERS", "stuck")
            await t.idle()
    assert str(caught.value).splitlines() == [
        "nothing has gone on for 0.3 seconds; `advance` lets time pass. These handlers run:",
        f"  {__name__}:ship, attempt 1 of a message of ORDERS: waits at {__file__}:{line('here it is stuck')} in ship",
    ]
    assert AppTest(shop).patience == 5


async def test_a_thread_that_does_not_end_is_named_too() -> None:
    with pytest.raises(NoProgressError) as caught:
        async with AppTest(shop, patience=0.1) as t:
            await t.put("THREADED", "0.5")
            await t.idle()
    assert f"in a thread at {__file__}:{line('here it blocks')} in block" in str(caught.value)


async def test_a_worker_that_is_killed_is_followed_by_another(handled: list[str]) -> None:
    async with shop.test() as t:
        await t.put("ORDERS", "stuck")
        await t.advance(0)
        with t.failures() as seen:
            await t.kill_worker()
        assert seen == []
        await t.put("ORDERS", "a")
        await t.advance(0)
        assert "a shipped" in handled
        assert [event.outcome for event in t.events[:1]] == ["unknown"]


async def test_the_queue_manager_is_restarted_and_has_its_messages(handled: list[str]) -> None:
    for kill in (False, True):
        async with shop.test() as t:
            async with t.connect() as connection:
                await connection.mqsc("DEFINE QLOCAL(ELSEWHERE)", check=True)
            await t.put("ELSEWHERE", "kept")
            before = t.manager
            await t.restart(kill=kill)
            assert t.manager is not before
            assert await t.messages("ELSEWHERE") == ["kept"]
            await t.put("ORDERS", "after")
            await t.idle()
            assert "after shipped" in handled


async def test_a_full_disk_refuses_puts_and_lets_what_only_removes_through(handled: list[str]) -> None:
    async with shop.test() as t:
        await t.put("SHIPPED", {"order": "a"})
        with t.disk_full():
            with pytest.raises(MQError, match="2192"):
                await t.put("ORDERS", "b")
            await t.idle()
        assert "a shipped" in handled
        await t.put("ORDERS", "c")
        await t.idle()
        assert "c shipped" in handled


async def test_advance_takes_lengths_of_time(handled: list[str]) -> None:
    async with shop.test() as t:
        await t.advance("1h 30m")
        await t.advance(0.5)
        assert t.clock.monotonic() == 5400.5
        with pytest.raises(ValueError, match="no length of time"):
            await t.advance("soon")


async def test_a_queue_that_cannot_be_served_is_told_when_the_test_begins() -> None:
    wrong = App("mq://127.0.0.1:1", name="wrong")

    @wrong.handler("SYSTEM.DEFAULT.LOCAL.QUEUE")
    async def handle(body: bytes) -> None: ...

    with pytest.raises(Exception, match="TRIGTYPE"):
        async with wrong.test():
            pass


async def test_a_timeout_fires_for_a_handler_that_sleeps_for_longer() -> None:
    async with shop.test() as t:
        await t.put("TIMED", "7200")
        with t.failures() as seen:
            await t.idle()
        assert [str(error) for error in seen] == ["the handler ran for longer than its timeout of 3600 s"]
        assert t.clock.monotonic() == pytest.approx(3600)
        await t.put("TIMED", "0.01")  # a sleep that is short enough takes its real time, and no other
        await t.idle()
        assert t.clock.monotonic() == pytest.approx(3600)


async def test_a_timeout_fires_for_a_handler_that_waits_for_what_never_comes() -> None:
    async with AppTest(shop, patience=0.05) as t:
        await t.put("TIMED", "for ever")
        with t.failures() as seen:
            await t.idle()
        assert [type(error) for error in seen] == [TimeoutError]
