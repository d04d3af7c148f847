"""Message groups, order by a key, and periodic work, of handlers with a database (transactions rule 8.5)."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

import aiosqlite
import pytest

from broker.databases.calls import driven
from tests.transactions.shops import INSERT
from tests.transactions.test_deaths_in_tests import Order, Works, both_kinds
from tests.transactions.test_handlers import WorkError, advanced, refuse_commits, seen
from triggers import Attempt, Group, Retry, Tick
from triggers.testing.app_test import STEPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.transactions.shops import OrderShop

MINUTE = 60.0
ONE_MORE = Retry(2, backoff=1, jitter=False)


def declare(shop: OrderShop, body: Any, kinds: dict[str, Any], decorator: Callable[[Any], Any]) -> None:
    """Declare a function of the kind that the database wants; it is called with the given arguments by name."""

    def plain(**given: Any) -> None:
        driven(body(**given))

    async def awaited(**given: Any) -> None:
        await body(**given)

    source = awaited if not shop.threaded else plain
    names = ", ".join(kinds)
    passed = ", ".join(f"{name}={name}" for name in kinds)
    head, call = ("def", "call") if shop.threaded else ("async def", "await call")
    found: dict[str, Any] = {"call": source}
    exec(f"{head} work({names}):\n    {call}({passed})\n", found)
    found["work"].__annotations__ = {**kinds, "return": None}
    found["work"].__module__ = __name__
    decorator(found["work"])


async def put_in(shop: OrderShop, q_name: str, body: str) -> None:
    """Put from a handler of either kind."""
    if shop.threaded:
        shop.app.sync.put(q_name, body)
    else:
        await shop.app.put(q_name, body)


async def test_d4_1_a_group_is_one_transaction(shop: OrderShop) -> None:
    groups: list[list[int]] = []

    async def ship(group: Group[str], connection: Any, attempt: Attempt) -> None:
        orders = [int(each) for each in group]
        groups.append([attempt.number, *orders])
        for order in orders:
            await shop.books.sql(connection, INSERT.format(order))
            await put_in(shop, "INVOICES", str(order))
            if order == 2 and len(groups) == 1:
                raise WorkError(order)

    kinds = {"group": Group[str], "connection": shop.connection_type, "attempt": Attempt}
    declare(shop, ship, kinds, shop.app.handler("ORDERS", database=shop.database, retry=ONE_MORE))
    async with shop.running():
        await shop.app.put_group("ORDERS", ["1", "2", "3"])
        await seen(shop, groups, 1)
        assert (shop.books.orders(), shop.books.markers(), await shop.invoices()) == ([], [], [])
        await advanced(shop, groups, 2)
        await shop.come_true([1, 2, 3])
        assert await shop.depth("ORDERS") == 0
    assert groups == [[1, 1, 2, 3], [2, 1, 2, 3]]


async def test_d4_2_a_group_whose_commit_is_refused_comes_again_whole(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[int] = []
    refuse_commits(monkeypatch, 1)

    async def ship(group: Group[str], connection: Any, attempt: Attempt) -> None:
        numbers.append(attempt.number)
        for order in group:
            await shop.books.sql(connection, INSERT.format(order))
            await put_in(shop, "INVOICES", order)

    kinds = {"group": Group[str], "connection": shop.connection_type, "attempt": Attempt}
    declare(shop, ship, kinds, shop.app.handler("ORDERS", database=shop.database, retry=ONE_MORE))
    async with shop.running():
        await shop.app.put_group("ORDERS", ["1", "2"])
        await seen(shop, numbers, 1)
        await advanced(shop, numbers, 2)
        await shop.come_true([1, 2])
        assert await shop.depth("ORDERS") == 0
    assert numbers == [1, 2]


async def test_d4_6_members_of_a_group_that_come_one_by_one_keep_their_order_behind_a_refused_commit(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[int] = []
    refuse_commits(monkeypatch, 1)
    shop.handle(lambda order, _: orders.append(order), retry=ONE_MORE, concurrency=3)
    async with shop.running():
        await shop.app.put_group("ORDERS", ["1", "2", "3"])
        await seen(shop, orders, 1)
        await advanced(shop, orders, 4)
        await shop.come_true([1, 2, 3])
        assert await shop.invoices() == ["1", "2", "3"]
    assert orders == [1, 1, 2, 3]


async def test_d4_6_the_next_of_a_key_waits_for_the_decision_and_another_key_does_not(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[int] = []
    refuse_commits(monkeypatch, 1)
    shop.handle(
        lambda order, _: orders.append(order), retry=Retry(2, backoff=30, jitter=False), order_by="account",
        concurrency=3,
    )  # fmt: skip
    async with shop.running():
        await shop.app.put("ORDERS", "1", properties={"account": "a"})
        await seen(shop, orders, 1)
        await shop.app.put("ORDERS", "2", properties={"account": "a"})
        await shop.app.put("ORDERS", "3", properties={"account": "b"})
        await shop.come_true([3])
        await advanced(shop, orders, 4)
        await shop.come_true([1, 2, 3])
        assert await shop.invoices() == ["3", "1", "2"]
    assert orders == [1, 3, 1, 2]


async def test_d2_5_a_group_that_is_put_in_a_transaction_is_there_whole_or_not_at_all(shop: OrderShop) -> None:
    async def order(number: int, *, fails: bool) -> None:
        if shop.threaded:
            with shop.app.transaction(shop.database) as t:
                driven(shop.books.sql(t.connection, INSERT.format(number)))
                t.put_group("INVOICES", [str(number), str(number + 1)])
                if fails:
                    raise WorkError(number)
            return
        async with shop.app.transaction(shop.database) as t:
            await shop.books.sql(t.connection, INSERT.format(number))
            await shop.app.put_group("INVOICES", [str(number), str(number + 1)])
            if fails:
                raise WorkError(number)

    async def made(number: int, *, fails: bool = False) -> None:
        if shop.threaded:
            await asyncio.to_thread(lambda: driven(order(number, fails=fails)))
        else:
            await order(number, fails=fails)

    async with shop.running():
        with pytest.raises(WorkError):
            await made(1, fails=True)
        assert (await shop.invoices(), shop.books.orders()) == ([], [])
        await made(3)
        assert (await shop.invoices(), shop.books.orders()) == (["3", "4"], ["3"])
        first, second = await browsed(shop)
        assert first.md.group_id == second.md.group_id != bytes(24)
        assert [each.md.msg_seq_number for each in (first, second)] == [1, 2]


async def browsed(shop: OrderShop) -> list[Any]:
    from broker.mqi import MQGMO, MQOO

    async with shop.connection.open("INVOICES", MQOO.BROWSE) as queue:
        return [await queue.get(options=MQGMO.BROWSE_NEXT) for _ in range(2)]


# Periodic work


async def test_periodic_work_writes_its_row_and_puts_its_message_in_one_transaction(shop: OrderShop) -> None:
    numbers: list[int] = []
    left: list[Any] = []

    async def report(tick: Tick, connection: Any, attempt: Attempt) -> None:
        numbers.append(attempt.number)
        if attempt.number == 2:
            left.append(shop.books.orders())
        order = int(tick.scheduled_at.timestamp() % 3600 // MINUTE)
        await shop.books.sql(connection, INSERT.format(order))
        await put_in(shop, "INVOICES", str(order))
        if len(numbers) == 1:
            raise WorkError(order)

    kinds = {"tick": Tick, "connection": shop.connection_type, "attempt": Attempt}
    declare(shop, report, kinds, shop.app.every("1m", database=shop.database, retry=ONE_MORE))
    async with shop.running():
        await advanced(shop, numbers, 4, most=4 * MINUTE)
        await shop.until(lambda: at_rest(shop))
        rows = sorted(map(int, shop.books.orders()))
        assert rows == sorted(map(int, await shop.invoices()))
        assert rows == [rows[0], rows[0] + 1, rows[0] + 2]
    assert (numbers, left) == ([1, 2, 1, 1], [[]])


async def at_rest(shop: OrderShop) -> bool:
    return len(await shop.invoices()) == len(shop.books.orders()) == 3


async def test_d4_2_a_run_whose_commit_is_refused_is_tried_again_and_the_schedule_goes_on(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: list[tuple[float, int]] = []
    refuse_commits(monkeypatch, 1)

    async def report(tick: Tick, connection: Any, attempt: Attempt) -> None:
        ticks.append((tick.scheduled_at.timestamp(), attempt.number))
        await shop.books.sql(connection, INSERT.format(int(tick.scheduled_at.timestamp()) % 100_000))

    kinds = {"tick": Tick, "connection": shop.connection_type, "attempt": Attempt}
    declare(shop, report, kinds, shop.app.every("1m", database=shop.database, retry=ONE_MORE))
    async with shop.running():
        await advanced(shop, ticks, 3, most=3 * MINUTE)

        async def two() -> bool:
            return len(shop.books.orders()) == 2

        await shop.until(two)
    (first, one), (again, two_), (second, three) = ticks
    assert (again, second) == (first, first + MINUTE)
    assert (one, two_, three) == (1, 2, 1)


@both_kinds
@pytest.mark.parametrize("step", STEPS)
async def test_d4_10_periodic_work_whose_worker_dies_behind_a_step_is_done_once(threaded: bool, step: str) -> None:
    works = Works(threaded=threaded)
    app = works.app

    def plain(tick: Tick, connection: Any) -> None:
        connection.execute("INSERT INTO orders VALUES (?)", (number(tick),))
        app.sync.put("INVOICES", Order(number(tick)))

    async def awaited(tick: Tick, connection: Any) -> None:
        await connection.execute("INSERT INTO orders VALUES (?)", (number(tick),))
        await app.put("INVOICES", Order(number(tick)))

    work = plain if threaded else awaited
    kind = sqlite3.Connection if threaded else aiosqlite.Connection
    work.__annotations__ = {"tick": Tick, "connection": kind, "return": None}
    app.every("1m", database=works.database, retry=Retry(3, backoff=1))(work)
    async with works.test() as t:
        works.prepare(t)
        dying = asyncio.ensure_future(t.kill_worker(after=step))
        await t.clock.advance(MINUTE)
        await dying
        await t.advance(2 * MINUTE)
        rows = [row[0] for row in t.sqlite(works.database).execute("SELECT id FROM orders ORDER BY id")]
        assert rows == sorted(each["id"] for each in await t.messages("INVOICES"))
        assert len(rows) == len(set(rows)) >= 2


def number(tick: Tick) -> int:
    return int(tick.scheduled_at.timestamp() // MINUTE)
