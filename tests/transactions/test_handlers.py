"""Handlers with a database: outcomes, attempts and dead letters (D4.1, D4.2, D4.5, D4.7)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from broker.databases.calls import driven
from broker.databases.transaction import DatabaseTransaction
from broker.transactions import CommitRefusedError, DatabaseAwayError
from triggers import App, BatchError, Later, Reject, Retry

if TYPE_CHECKING:
    from broker.databases.calls import AdapterCalls
    from tests.transactions.shops import OrderShop
    from triggers import Attempt

HOUR = 3600


class WorkError(Exception):
    """A failure of a handler, in a test."""


async def test_d4_1_a_handler_that_returns_has_written_its_row_and_put_its_message(shop: OrderShop) -> None:
    shop.handle()
    async with shop.running():
        for order in range(1, 21):
            await shop.app.put("ORDERS", str(order))
        await shop.come_true(list(range(1, 21)))
        assert await shop.depth("ORDERS") == 0
        await shop.no_markers()


async def test_d4_1_a_handler_that_raises_is_charged_and_has_written_nothing(shop: OrderShop) -> None:
    numbers: list[int] = []

    def fail(order: int, attempt: Attempt) -> None:
        numbers.append(attempt.number)
        if attempt.number < 3:
            raise WorkError(order)

    shop.handle(fail, retry=Retry(5, backoff=1, jitter=False))
    async with shop.running():
        await shop.app.put("ORDERS", "1")
        await seen(shop, numbers, 1)
        assert (shop.books.orders(), await shop.invoices()) == ([], [])
        await advanced(shop, numbers, 3)
        await shop.come_true([1])
    assert numbers == [1, 2, 3]


async def test_d4_1_the_last_failure_and_a_reject_make_dead_letters_and_no_rows(shop: OrderShop) -> None:
    def fail(order: int, _: Attempt) -> None:
        raise Reject("no") if order == 1 else WorkError(order)

    shop.handle(fail, retry=Retry(0))
    async with shop.running():
        await shop.app.put("ORDERS", "1")
        await shop.app.put("ORDERS", "2")

        async def dead() -> bool:
            return await shop.depth("ORDERS.DEAD") == 2

        await shop.until(dead)
        assert (shop.books.orders(), shop.books.markers(), await shop.invoices()) == ([], [], [])


async def test_d4_1_later_is_not_charged(shop: OrderShop) -> None:
    numbers: list[int] = []

    def later(_: int, attempt: Attempt) -> None:
        numbers.append(attempt.number)
        if len(numbers) < 3:
            raise Later(10)

    shop.handle(later, retry=Retry(0))
    async with shop.running():
        await shop.app.put("ORDERS", "1")
        await seen(shop, numbers, 1)
        await advanced(shop, numbers, 3, 10)
        await shop.come_true([1])
    assert numbers == [1, 1, 1]


async def test_d4_1_a_timeout_rolls_back_and_is_charged(shop: OrderShop) -> None:
    if shop.threaded:
        pytest.skip("a thread cannot be cancelled")
    numbers: list[int] = []

    async def sleep(attempt: Attempt) -> None:
        numbers.append(attempt.number)
        if attempt.number == 1:
            await asyncio.Event().wait()

    shop.handle(lambda _, attempt: sleep(attempt), timeout=5, retry=Retry(2, backoff=1, jitter=False))
    async with shop.running():
        await shop.app.put("ORDERS", "1")
        await seen(shop, numbers, 1)
        await shop.clock.advance(5)
        await shop.until(partial(charged, shop))  # ROLLBACK takes real time, and the second attempt has a timeout
        await shop.clock.advance(1)
        await shop.come_true([1])
    assert numbers == [1, 2]


async def test_d4_1_a_stop_rolls_back_and_charges_nobody(shop: OrderShop) -> None:
    if shop.threaded:
        pytest.skip("a thread cannot be cancelled")
    numbers: list[int] = []

    async def sleep(attempt: Attempt) -> None:
        numbers.append(attempt.number)
        if len(numbers) == 1:
            await asyncio.Event().wait()

    shop.handle(lambda _, attempt: sleep(attempt))
    async with shop.running() as session:
        await shop.app.put("ORDERS", "1")
        await seen(shop, numbers, 1)
        session.cancel()
    assert (shop.books.orders(), shop.books.markers()) == ([], [])
    async with shop.running():
        await shop.come_true([1])
    assert numbers == [1, 1]


async def test_d4_2_what_the_database_refuses_at_commit_is_charged_and_tried_again(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[int] = []
    refuse_commits(monkeypatch, 2)
    shop.handle(lambda _, attempt: numbers.append(attempt.number), retry=Retry(2, backoff=1, jitter=False))
    async with shop.running():
        await shop.app.put("ORDERS", "1")
        await seen(shop, numbers, 1)
        await advanced(shop, numbers, 3)
        await shop.come_true([1])
    assert numbers == [1, 2, 3]


async def test_d4_2_the_last_refusal_makes_a_dead_letter(shop: OrderShop, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_commits(monkeypatch, 1)
    shop.handle(retry=Retry(0))
    async with shop.running():
        await shop.app.put("ORDERS", "1")

        async def dead() -> bool:
            return await shop.depth("ORDERS.DEAD") == 1

        await shop.until(dead)
        assert (shop.books.orders(), shop.books.markers(), await shop.invoices()) == ([], [], [])


async def test_d4_5_a_database_that_is_away_makes_no_dead_letters_and_charges_nobody(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    numbers: list[int] = []
    begin = DatabaseTransaction.begin
    tries: list[None] = []

    async def away(_: DatabaseTransaction) -> None:
        tries.append(None)
        raise DatabaseAwayError("connection refused")

    shop.handle(lambda _, attempt: numbers.append(attempt.number), retry=Retry(0))
    async with shop.running():
        monkeypatch.setattr(DatabaseTransaction, "begin", away)
        for order in range(1, 21):
            await shop.app.put("ORDERS", str(order))
        with caplog.at_level(logging.WARNING, "triggers.transactions"):
            for _ in range(HOUR // 10):
                await shop.clock.advance(10)
        assert numbers == []
        assert len(tries) > 60
        assert await shop.depth("ORDERS.DEAD") == 0
        (coordinator,) = shop.app.session.databases.opened.coordinators
        explained = str(await shop.connection.explain("ORDERS"))
        assert "their handler could not begin" in explained
        assert f"DatabaseAwayError: database {coordinator.label}: connection refused" in explained
        told = [each for each in caplog.records if getattr(each, "event", "") == "database_away"]
        assert 55 <= len(told) <= 61
        monkeypatch.setattr(DatabaseTransaction, "begin", begin)
        await advanced(shop, numbers, 20, 1, most=60)
        await shop.come_true(list(range(1, 21)))
    assert set(numbers) == {1}


async def test_d4_7_the_messages_of_a_batch_that_failed_come_again_and_the_others_are_done(shop: OrderShop) -> None:
    batches: list[list[int]] = []
    app, books = shop.app, shop.books

    async def body(orders: list[str], connection: Any) -> None:
        batches.append(list(map(int, orders)))
        for order in orders:
            if order != "3" or len(batches) > 1:
                await books.sql(connection, f"INSERT INTO orders VALUES ({order})")
                put = app.sync.put("INVOICES", order) if shop.threaded else app.put("INVOICES", order)
                if not shop.threaded:
                    await put  # type: ignore[misc]
        if len(batches) == 1:
            raise BatchError({orders.index("3"): WorkError("3")})

    declare_batch(shop, body)
    async with shop.running(handlers=False):
        for order in range(1, 11):
            await app.put("ORDERS", str(order))
    async with shop.running():
        await seen(shop, batches, 1)
        await shop.come_true([each for each in range(1, 11) if each != 3])
        await advanced(shop, batches, 2)
        await shop.come_true(list(range(1, 11)))
    assert batches == [list(range(1, 11)), [3]]


def declare_batch(shop: OrderShop, body: Any) -> None:
    """Declare the handler of a batch, of the kind that the database wants: in a thread the same calls block."""

    def plain(orders: list[str], connection: Any) -> None:
        driven(body(orders, connection))

    async def awaited(orders: list[str], connection: Any) -> None:
        await body(orders, connection)

    handler: Any = plain if shop.threaded else awaited
    handler.__annotations__ |= {"orders": list[str], "connection": shop.connection_type, "return": None}
    options: Any = {"batch": 10, "retry": Retry(3, backoff=1, jitter=False)}
    shop.app.handler("ORDERS", database=shop.database, **options)(handler)


async def test_an_async_handler_with_a_blocking_database_is_refused_at_the_decorator(shop: OrderShop) -> None:
    app = App("mq://nowhere", name="X")

    async def awaited(order: str) -> None: ...
    def plain(order: str) -> None: ...

    wrong, why = (awaited, "would hold the event loop") if shop.threaded else (plain, "is asynchronous")
    if shop.database.threaded is None:
        app.source = shop.source()
        app.handler("ORDERS", database=shop.database)(wrong)
        with pytest.raises(TypeError, match=why):
            await app.start()
    else:
        with pytest.raises(TypeError, match=why):
            app.handler("ORDERS", database=shop.database)(wrong)


async def seen(shop: OrderShop, what: list[Any], count: int) -> None:
    """Wait until handlers have been called so often."""

    async def enough() -> bool:
        return len(what) >= count

    await shop.until(enough)


async def charged(shop: OrderShop) -> bool:
    """True when an attempt has failed, and the queue manager knows."""
    [counts] = [each for q_name, _, each in shop.manager.core.deliveries.counts() if q_name == "ORDERS"]
    return bool(counts.figures()["failed"] == 1)


async def advanced(shop: OrderShop, what: list[Any], count: int, step: float = 1.0, most: float = 100) -> None:
    """Let time pass until handlers have been called so often; threads and sockets go on meanwhile in real time."""
    passed = 0.0
    while len(what) < count and passed < most:
        await asyncio.sleep(0.02)
        await shop.clock.advance(step)
        passed += step
    await seen(shop, what, count)


def refuse_commits(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Have the database refuse so many COMMITs of programs, as for a serialization failure."""
    commit, left = DatabaseTransaction.commit, [count]

    async def refused(self: DatabaseTransaction) -> None:
        calls: AdapterCalls = self._calls
        if left[0]:
            left[0] -= 1
            await calls.rollback(self.connection)
            self._open = False
            raise CommitRefusedError("could not serialize access")
        await commit(self)

    monkeypatch.setattr(DatabaseTransaction, "commit", refused)
