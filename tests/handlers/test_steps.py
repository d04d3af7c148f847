"""`attempt.step`: what a handler finishes is kept with its message (transactions rules 7.1 to 7.6), embedded and
over TCP, in coroutines and in plain functions.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from broker.mqi import MQRC, MQError
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore
from tests.handlers.apps import SECONDS, Seen, Shop
from tests.handlers.loops import both_loops
from triggers import Attempt, Group, Later, Message, Retry, StepError

if TYPE_CHECKING:
    from triggers.serving.session import AppSession

WAYS = ("embedded", "tcp")
AT_ONCE = Retry(5, backoff=0.0)


@dataclass
class Receipt:
    """What a payment leaves."""

    order: str
    lines: tuple[int, ...] = ()


@pytest.fixture(params=WAYS)
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    async with Shop(request.param) as made:
        await made.mqsc("DEFINE QLOCAL(OUT)")
        yield made


class Till:
    """What handlers call in steps; `calls` has each call."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.threads: set[int] = set()

    async def charge(self, order: str) -> Receipt:
        self.calls.append(f"charge {order}")
        return Receipt(order, (1, 2))

    def ship(self, order: str, *, fast: bool = False) -> Receipt:
        self.calls.append(f"ship {order} {fast}")
        self.threads.add(threading.get_ident())
        return Receipt(order)

    def plain(self, value: Any) -> Any:
        self.calls.append("plain")
        return value


async def run(shop: Shop, handle: Callable[..., Any], count: int = 1, **options: Any) -> list[Any]:
    """Let a handler, which tells `seen` what it comes to, handle one message to its end; what it told."""
    seen = Seen()

    async def told(value: object) -> None:
        seen.add(value)

    shop.app.handler("Q", **{"retry": AT_ONCE, **options})(handle(seen))
    async with shop.running():
        await shop.app.put("Q", "order")
        return await seen.so_many(count)


async def test_d7_1_a_finished_step_is_not_run_again_and_its_value_is_what_it_was(shop: Shop) -> None:
    till = Till()

    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            charged = await attempt.step("charge", till.charge, order)
            assert_type(charged, Receipt)
            shipped = await attempt.step("ship", till.ship, order, fast=True)
            assert_type(shipped, Receipt)
            plain = [await attempt.step(f"plain {value}", till.plain, value) for value in (None, 5, True, "x", (1, 2))]
            seen.add((charged, shipped, plain))
            if attempt.number < 3:
                raise ValueError("once more")

        return handler

    result = (Receipt("order", (1, 2)), Receipt("order"), [None, 5, True, "x", [1, 2]])
    assert await run(shop, handle, 3) == [result, result, result]
    assert till.calls == ["charge order", "ship order True", *["plain"] * 5]
    assert threading.get_ident() not in till.threads


@both_loops
async def test_steps_of_a_plain_handler_block_and_are_done(shop: Shop) -> None:
    till = Till()

    def handle(seen: Seen) -> Callable[..., None]:
        def handler(order: str, attempt: Attempt) -> None:
            charged: Any = attempt.step("charge", till.charge, order)
            shipped = attempt.sync.step("ship", till.ship, order)
            assert_type(shipped, Receipt)
            assert till.threads <= {threading.get_ident()}
            assert_type(attempt.sync.step("charge", till.charge, order), Receipt)
            loop.call_soon_threadsafe(seen.add, (charged, shipped))
            if attempt.number < 3:
                raise ValueError("once more")

        return handler

    loop = asyncio.get_running_loop()
    result = (Receipt("order", (1, 2)), Receipt("order"))
    assert await run(shop, handle, 3) == [result, result, result]
    assert till.calls == ["charge order", "ship order False", "charge order"]


async def test_d7_3_names_that_come_again_are_numbered_at_the_call(shop: Shop) -> None:
    calls: list[int] = []

    async def work(number: int) -> int:
        await asyncio.sleep(0)
        calls.append(number)
        return number

    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            looped = [await attempt.step("loop", work, number) for number in range(3)]
            steps = [attempt.step("loop", work, number) for number in range(10, 15)]
            gathered = await asyncio.gather(*reversed(steps))
            seen.add((looped, gathered))
            if attempt.number == 1:
                raise ValueError("once more")

        return handler

    result = ([0, 1, 2], [14, 13, 12, 11, 10])
    assert await run(shop, handle, 2) == [result, result]
    assert len(calls) == 8


async def test_d7_3_what_changed_code_does_not_ask_for_is_ignored_and_what_is_new_runs(shop: Shop) -> None:
    till = Till()

    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            if attempt.number == 1:
                await attempt.step("old", till.plain, "old")
                await attempt.step("same", till.plain, "first")
                raise ValueError("a new version is deployed")
            seen.add([await attempt.step(name, till.plain, "second") for name in ("new", "same")])

        return handler

    assert await run(shop, handle) == [["second", "first"]]
    assert len(till.calls) == 3


async def test_d7_3_a_kept_value_that_the_annotation_cannot_read_is_an_ordinary_failure(shop: Shop) -> None:
    def text() -> str:
        return "secret"

    async def number() -> int:
        raise AssertionError("it is not called")

    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            if attempt.number == 1:
                await attempt.step("value", text)
                raise ValueError("a new version is deployed")
            try:
                await attempt.step("value", number)
            except StepError as error:
                seen.add((attempt.number, str(error)))
                if attempt.number == 2:
                    raise

        return handler

    seen = await run(shop, handle, 2)
    assert [number for number, _ in seen] == [2, 3]
    text_of = seen[0][1]
    assert text_of.startswith("what was kept of step 'value' is not what ")
    assert "number" in text_of
    assert "secret" not in text_of


async def test_a_value_that_is_not_of_the_annotation_fails_the_first_time_too(shop: Shop) -> None:
    def lies() -> int:
        return "text"  # type: ignore[return-value]

    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            with pytest.raises(StepError, match="what was kept of step 'lies'"):
                await attempt.step("lies", lies)
            seen.add(attempt.number)

        return handler

    assert await run(shop, handle) == [1]


async def test_a_step_that_raises_is_not_kept(shop: Shop) -> None:
    calls: list[int] = []

    def broken() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("away")
        return 5

    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            seen.add((attempt.number, await attempt.step("broken", broken)))

        return handler

    assert await run(shop, handle) == [(3, 5)]
    assert len(calls) == 3


async def test_the_msg_id_is_the_same_at_each_attempt(shop: Shop) -> None:
    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(message: Message, attempt: Attempt) -> None:
            seen.add((attempt.msg_id, message.md.msg_id))
            if attempt.number == 1:
                raise ValueError("once more")

        return handler

    first, second = await run(shop, handle, 2)
    assert first == second
    assert first[0] == first[1] != bytes(24)


async def test_later_between_steps_is_a_sleep_that_is_durable(shop: Shop) -> None:
    till = Till()

    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            await attempt.step("charge", till.charge, order)
            if await attempt.step("asked", till.plain, attempt.number) == 1 and not waited:
                waited.append(shop.clock.time())
                seen.add("later")
                raise Later(3600)
            await attempt.step("ship", till.ship, order)
            seen.add((attempt.number, shop.clock.time() - waited[0]))

        return handler

    waited: list[float] = []
    seen = Seen()
    shop.app.handler("Q")(handle(seen))
    async with shop.running():
        await shop.app.put("Q", "order")
        await seen.so_many(1)
        await asyncio.sleep(0)
        await shop.clock.advance(3599)
        assert len(seen) == 1
        await shop.clock.advance(1)
        assert (await seen.so_many(2))[1] == (1, pytest.approx(3600))
    assert till.calls == ["charge order", "plain", "ship order False"]


@pytest.mark.parametrize("threaded", [False, True], ids=["coroutine", "plain"])
async def test_what_a_step_puts_stays_though_the_attempt_fails(shop: Shop, threaded: bool) -> None:
    """It is kept, and not done again: so what it has put must be there."""

    async def tell() -> None:
        await shop.app.put("OUT", "in a step")

    def tell_in_thread() -> None:
        shop.app.sync.put("OUT", "in a step, in a thread")

    def handle(seen: Seen) -> Callable[..., Any]:
        async def handler(order: str, attempt: Attempt) -> None:
            await shop.app.put("OUT", f"attempt {attempt.number}")
            await attempt.step("tell", tell)
            await attempt.step("tell too", tell_in_thread)
            await shop.app.put("OUT", f"attempt {attempt.number}, behind")
            seen.add(attempt.number)
            if attempt.number < 3:
                raise ValueError("once more")

        def plain(order: str, attempt: Attempt) -> None:
            shop.app.sync.put("OUT", f"attempt {attempt.number}")
            attempt.sync.step("tell", tell)
            attempt.sync.step("tell too", tell_in_thread)
            shop.app.sync.put("OUT", f"attempt {attempt.number}, behind")
            loop.call_soon_threadsafe(seen.add, attempt.number)
            if attempt.number < 3:
                raise ValueError("once more")

        return plain if threaded else handler

    loop = asyncio.get_running_loop()
    assert await run(shop, handle, 3) == [1, 2, 3]
    found = sorted([(await shop.get("OUT")).data.decode() for _ in range(4)])
    assert found == ["attempt 3", "attempt 3, behind", "in a step", "in a step, in a thread"]
    assert await shop.depth("OUT") == 0


@both_loops
@pytest.mark.parametrize("threaded", [False, True], ids=["coroutine", "plain"])
async def test_d7_2_what_a_thread_comes_to_after_the_timeout_is_refused(shop: Shop, threaded: bool) -> None:
    go_on, calls = threading.Event(), []

    def slow() -> int:
        calls.append(1)
        if len(calls) == 1:
            loop.call_soon_threadsafe(seen.add, "began")
            assert go_on.wait(SECONDS)
        return len(calls)

    async def handler(order: str, attempt: Attempt) -> None:
        try:
            seen.add(await attempt.step("slow", slow))
        except (asyncio.CancelledError, MQError) as error:
            seen.add(type(error).__name__)
            raise

    def plain(order: str, attempt: Attempt) -> None:
        try:
            value: Any = attempt.sync.step("slow", slow)
        except MQError as error:
            value = error.reason
        loop.call_soon_threadsafe(seen.add, value)

    loop, seen = asyncio.get_running_loop(), Seen()
    shop.app.handler("Q", retry=AT_ONCE, timeout=10.0)(plain if threaded else handler)
    async with shop.running():
        await shop.app.put("Q", "order")
        await seen.so_many(1)
        await shop.clock.advance(10)
        go_on.set()
        told = await seen.so_many(3)
    assert sorted(map(str, told[1:])) == sorted(["2", str(int(MQRC.HCONN_ERROR)) if threaded else "CancelledError"])
    assert len(calls) == 2


async def test_d7_4_each_limit_is_a_value_error_at_the_attempt(shop: Shop) -> None:
    def large(length: int) -> str:
        return "x" * (length - 2)

    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            with pytest.raises(ValueError, match="a value of 65537 bytes, more than 65536: return a reference"):
                await attempt.step("large", large, 65_537)
            for name in ("", "x" * 101):
                with pytest.raises(ValueError, match="a step has a name of 1 to 100 characters"):
                    await attempt.step(name, large, 5)
            with pytest.raises(ValueError, match="so ends the name of a step that is called again"):
                await attempt.step("charge#2", large, 5)
            with pytest.raises(TypeError, match="the name of a step is a str, not 5"):
                await attempt.step(5, large, 5)  # type: ignore[call-overload]
            for _ in range(3):
                await attempt.step("x" * 100, large, 65_536)
            with pytest.raises(ValueError, match="a message 1000 steps of 262144 bytes in all"):
                await attempt.step("a", large, 65_536)
            await asyncio.gather(*(attempt.step("many", large, 2) for _ in range(997)))
            with pytest.raises(ValueError, match="a message has at most 1000 steps"):
                await attempt.step("one more", called.append, 1)
            seen.add(len(called))

        return handler

    called: list[int] = []
    assert await run(shop, handle) == [0]


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object()])
async def test_a_value_without_a_form_fails_the_attempt(shop: Shop, value: object) -> None:
    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            with pytest.raises((TypeError, ValueError), match=r"step 'value' of .*test_steps.py"):
                await attempt.step("value", partial(Till().plain, value))
            with pytest.raises(TypeError, match="what a step returns is kept as a body is: "):
                await attempt.step("formless", formless)
            seen.add(attempt.number)

        return handler

    def formless() -> set[int]:
        raise AssertionError("it is not called")

    assert await run(shop, handle) == [1]


async def test_a_handler_of_batches_or_groups_has_no_steps(shop: Shop) -> None:
    seen = Seen()

    async def batch(orders: list[str], attempt: Attempt) -> None:
        with pytest.raises(RuntimeError, match="steps are for a handler of single messages"):
            await attempt.step("charge", Till().charge, orders[0])
        seen.add(attempt.msg_id)

    async def group(orders: Group[str], attempt: Attempt) -> None:
        with pytest.raises(RuntimeError, match="not of batches or groups"):
            await attempt.step("charge", Till().charge, orders[0])
        seen.add(attempt.msg_id)

    shop.app.handler("Q", batch=2, batch_wait=0.0)(batch)
    shop.app.handler("G")(group)
    async with shop.running():
        put = await shop.app.put("Q", "order")
        first, _ = await shop.app.put_group("G", ["a", "b"])
        assert set(await seen.so_many(2)) == {put.md.msg_id, first.md.msg_id}


async def test_a_step_that_is_not_awaited_is_told_and_fails_the_attempt(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    till = Till()

    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            seen.add(attempt.number)
            if attempt.number == 1:
                attempt.step("charge", till.charge, order)  # type: ignore[unused-coroutine]

        return handler

    assert await run(shop, handle, 2) == [1, 2]
    assert till.calls == []
    (told,) = [each.getMessage() for each in caplog.records if each.name == "triggers.app.unawaited"]
    assert told.startswith("Attempt.step(...) was never awaited and did nothing: await it (")
    assert "test_steps.py" in told


@both_loops
async def test_a_full_disk_is_not_the_handlers_fault(caplog: pytest.LogCaptureFixture) -> None:
    """What was done is done again: the message waits for room, uncharged."""
    store, till, seen = FaultStore(MemoryStore()), Till(), Seen()
    async with Shop(store=store) as shop:

        @shop.app.handler("Q", retry=Retry(0))
        async def handle(order: str, attempt: Attempt) -> None:
            await attempt.step("charge", till.charge, order)
            if not seen:
                store.fill()
            seen.add(attempt.number)
            await attempt.step("ship", till.ship, order)
            seen.add("done")

        async with shop.running() as session:
            await shop.app.put("Q", "order")
            for count, wait in ((1, 1), (2, 2), (3, 0)):
                await seen.so_many(count)
                await _settled(session)
                if count == 3:
                    store.make_room()
                    wait = 4
                await shop.clock.advance(wait)
            assert await seen.so_many(5) == [1, 1, 1, 1, "done"]
    assert till.calls == ["charge order", *["ship order False"] * 4]
    (first, *_) = [each.getMessage() for each in caplog.records if each.getMessage().startswith("handled ")]
    assert "outcome=retry" in first
    assert "MQRC_STORAGE_MEDIUM_FULL" in first


async def _settled(session: AppSession) -> None:
    """Return when what was handled is settled."""
    async with asyncio.timeout(SECONDS):
        for service in session.services.values():
            await service.settled()


async def test_a_handler_is_tested_with_an_attempt_of_its_own() -> None:
    """It keeps nothing, and gives what would be read back."""
    till, attempt = Till(), Attempt(1, 3, 0.0, "ORDERS")
    assert await attempt.step("charge", till.charge, "order") == Receipt("order", (1, 2))
    assert await attempt.step("plain", till.plain, (1, 2)) == [1, 2]
    assert attempt == Attempt(1, 3, 0.0, "ORDERS")
    assert attempt.msg_id == bytes(24)
    with pytest.raises(RuntimeError, match="for the thread of a handler that is a plain def"):
        attempt.sync.step("charge", till.charge, "order")


async def test_in_a_coroutine_the_blocking_face_is_refused(shop: Shop) -> None:
    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            with pytest.raises(RuntimeError, match=r"await attempt\.step"):
                attempt.sync.step("charge", Till().charge, order)
            seen.add(attempt.number)

        return handler

    assert await run(shop, handle) == [1]


async def test_an_attempt_without_steps_loads_nothing_and_keeps_nothing(shop: Shop) -> None:
    def handle(seen: Seen) -> Callable[..., Awaitable[None]]:
        async def handler(order: str, attempt: Attempt) -> None:
            seen.add(hasattr(attempt._run, "steps"))

        return handler

    assert await run(shop, handle) == [False]
