"""A transaction that is open for ten seconds is named, and then once a minute (transactions rule 7.6)."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from broker import QueueManager
from broker.testing import VirtualClock
from broker.transactions.open_transactions import OpenTransactions
from tests.transactions.shops import INSERT
from tests.transactions.test_handlers import seen
from tests.transactions.test_mqi_transactions import reached

if TYPE_CHECKING:
    from tests.databases.ways import DatabaseWay
    from tests.transactions.shops import OrderShop


class Pause:
    """Where programs wait in their transactions: on the event loop, or in a thread."""

    def __init__(self, *, threaded: bool) -> None:
        self.begun: list[None] = []
        self._event: Any = threading.Event() if threaded else asyncio.Event()

    def __call__(self, *_: object) -> Any:
        self.begun.append(None)
        return self._event.wait()

    def end(self) -> None:
        self._event.set()


def named(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, int]]:
    """What has been told of open transactions: whose they are, how many, and for how many seconds the oldest is."""
    found = []
    for each in caplog.records:
        if getattr(each, "event", "") == "transactions_open":
            by, database, count, seconds = each.args  # type: ignore[misc]
            assert re.fullmatch(r"\w+ [0-9a-f]{8}", str(database)), database
            found.append((str(by).rpartition(".")[2], int(count), round(seconds)))  # type: ignore[arg-type]
    caplog.clear()
    return found


async def told_over_time(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> list[list[tuple[str, int, int]]]:
    """Let 129 s pass; return what has been told at 9.9, 10, 69 and 129 s."""
    told = []
    for seconds in (9.9, 0.1, 59, 60):
        await clock.advance(seconds)
        told.append(named(caplog))
    return told


def over_time(by: str, count: int = 1) -> list[list[tuple[str, int, int]]]:
    """What is told of transactions that begin together."""
    return [[], [(by, count, 10)], [], [(by, count, 70)]]


async def test_transactions_of_a_handler_that_are_open_for_long_are_named(
    shop: OrderShop, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite has one at a time."""
    count = 1 if "sqlite" in shop.books.needs else 3
    pause = Pause(threaded=shop.threaded)
    shop.handle(lambda order, attempt: pause(), concurrency=count)
    async with shop.running():
        for order in range(count):
            await shop.app.put("ORDERS", str(order))
        await seen(shop, pause.begun, count)
        told = await told_over_time(shop.clock, caplog)
        pause.end()
        await shop.come_true(list(range(count)))
        await shop.clock.advance(200)
        assert named(caplog) == []
    assert told == over_time("done" if shop.threaded else "awaited", count)


async def test_a_transaction_of_a_producer_that_is_open_for_long_is_named(
    shop: OrderShop, caplog: pytest.LogCaptureFixture
) -> None:
    pause = Pause(threaded=shop.threaded)

    async def produce() -> None:
        async with shop.app.transaction(shop.database) as t:
            await shop.books.sql(t.connection, INSERT.format(1))
            await pause()

    async with shop.running():
        producing = asyncio.ensure_future(shop.produce(1, then=pause) if shop.threaded else produce())
        await seen(shop, pause.begun, 1)
        told = await told_over_time(shop.clock, caplog)
        pause.end()
        await producing
        await shop.clock.advance(200)
        assert named(caplog) == []
    assert told == over_time(f"app {shop.app.name}")


async def test_a_transaction_of_a_producer_inside_a_handler_is_named_by_that(
    shop: OrderShop, caplog: pytest.LogCaptureFixture
) -> None:
    if shop.threaded:
        pytest.skip("SQLite would wait for the transaction of the handler")
    pause = Pause(threaded=False)

    async def handler(order: str) -> None:
        async with shop.app.transaction(shop.database) as t:
            await shop.books.sql(t.connection, INSERT.format(1))
            await pause()

    shop.app.handler("ORDERS")(handler)
    async with shop.running():
        await shop.app.put("ORDERS", "1")
        await seen(shop, pause.begun, 1)
        told = await told_over_time(shop.clock, caplog)
        pause.end()
    assert told == over_time("handler")


async def test_a_transaction_of_a_connection_that_is_open_for_long_is_named(
    way: DatabaseWay, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, pause = VirtualClock(), Pause(threaded=way.needs == "sqlite3")
    monkeypatch.setattr("broker.transactions.transaction.Clock", lambda: clock)
    async with QueueManager.open(name="QM1") as manager, manager.connect("test") as connection:
        await connection.mqsc("DEFINE QLOCAL(ORDERS) DEFPSIST(YES)\nDEFINE QLOCAL(INVOICES) DEFPSIST(YES)", check=True)
        await connection.put1("ORDERS", b"1")
        moving = asyncio.ensure_future(keep_open(reached(connection, way), way, pause))
        while not pause.begun:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        told = await told_over_time(clock, caplog)
        pause.end()
        await moving
    assert told == over_time("transaction")


async def keep_open(connection: Any, way: DatabaseWay, pause: Pause) -> None:
    """A transaction of the MQI that waits."""
    database = way.database(pool_wait=5.0)
    if way.needs != "sqlite3":
        async with connection.transaction(database):
            await pause()
        return

    def in_thread() -> None:
        with connection.transaction(database):
            pause()

    await asyncio.to_thread(in_thread)


async def test_what_has_ended_is_named_no_more_and_what_is_quick_costs_no_timer_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    transactions = OpenTransactions(clock, "orders 12345678")
    for number in range(5):
        transactions.add(number, "app shop")
    assert len(clock._timers) == 1
    for number in range(4):
        transactions.discard(number)
        transactions.discard(number)
    await clock.advance(5)
    transactions.add("later", "app shop")
    await clock.advance(5)
    assert named(caplog) == [("app shop", 1, 10)]
    transactions.discard(4)
    await clock.advance(60)
    assert named(caplog) == [("app shop", 1, 65)]
    transactions.discard("later")
    await clock.advance(200)
    assert (named(caplog), clock._timers) == ([], [])
    transactions.add("anew", "app shop")
    transactions.close()
    await clock.advance(200)
    assert named(caplog) == []
