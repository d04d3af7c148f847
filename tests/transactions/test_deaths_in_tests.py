"""`app.test()` with a database: a worker that dies between any two steps (D4.3, D4.4, D4.6, D4.7, D4.10)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiosqlite
import pytest

from broker import Database
from broker.databases.opened import OpenDatabase
from triggers import App, BatchError, Retry
from triggers.testing.app_test import STEPS, AppTest
from triggers.testing.stuck import NoProgressError

MEMORY = ":memory:"
BEFORE_PREPARE = ("begin", "work", "mark")


@dataclass(frozen=True, slots=True)
class Order:
    """An order."""

    id: int


class Works:
    """An app with a handler that writes a row and puts a message; of aiosqlite, or of sqlite3 in a thread."""

    def __init__(self, *, threaded: bool, **options: Any) -> None:
        self.app = App("mq://nowhere", name="WORKS")
        self.database = Database("never-made.db") if threaded else Database(lambda: aiosqlite.connect("never-made.db"))
        self.attempts: list[int] = []
        self.app.queue("INVOICES")
        app, attempts = self.app, self.attempts

        def plain(order: Order, connection: sqlite3.Connection) -> None:
            attempts.append(order.id)
            connection.execute("INSERT INTO orders VALUES (?)", (order.id,))
            app.sync.put("INVOICES", order)

        async def awaited(order: Order, connection: aiosqlite.Connection) -> None:
            attempts.append(order.id)
            await connection.execute("INSERT INTO orders VALUES (?)", (order.id,))
            await app.put("INVOICES", order)

        app.handler("ORDERS", database=self.database, **options)(plain if threaded else awaited)

    def test(self, seed: int = 0) -> AppTest:
        return self.app.test(seed, databases={self.database: MEMORY})

    async def check(self, t: AppTest, orders: list[int]) -> None:
        """Each of these orders is a row and an invoice, once, and no other is."""
        rows = [row[0] for row in t.sqlite(self.database).execute("SELECT id FROM orders ORDER BY id")]
        assert (rows, sorted(each["id"] for each in await t.messages("INVOICES"))) == (orders, orders)

    def prepare(self, t: AppTest) -> None:
        # without a key: a row that is written twice is seen
        t.sqlite(self.database).execute("CREATE TABLE orders (id INTEGER)")

    def markers(self, t: AppTest) -> list[str]:
        found = t.sqlite(self.database).execute("SELECT outcome FROM evermq_unit WHERE outcome <> 'database'")
        return [row[0] for row in found]


both_kinds = pytest.mark.parametrize("threaded", [False, True], ids=["aiosqlite", "sqlite3"])


@both_kinds
async def test_d4_10_an_order_is_a_row_and_an_invoice_in_a_test(threaded: bool) -> None:
    works = Works(threaded=threaded)
    async with works.test() as t:
        works.prepare(t)
        for order in range(5):
            await t.put("ORDERS", Order(order))
        await t.idle()
        await works.check(t, [0, 1, 2, 3, 4])
        await t.advance(2)
        assert works.markers(t) == []


@both_kinds
@pytest.mark.parametrize("step", STEPS)
async def test_d4_10_a_worker_that_dies_behind_any_step_does_nothing_by_half(threaded: bool, step: str) -> None:
    works = Works(threaded=threaded, retry=Retry(3, backoff=1))
    async with works.test() as t:
        works.prepare(t)
        await t.put("ORDERS", Order(1))
        await t.kill_worker(after=step)
        await t.idle(delayed=True)
        await works.check(t, [1])
        assert len(works.attempts) == (1 if step in ("begin", "commit", "decide") else 2)
        await t.put("ORDERS", Order(2))
        await t.idle()
        await works.check(t, [1, 2])


@both_kinds
async def test_d4_3_a_worker_that_dies_between_prepare_and_commit_charges_nobody(threaded: bool) -> None:
    works = Works(threaded=threaded, retry=Retry(0))
    async with works.test() as t:
        works.prepare(t)
        await t.put("ORDERS", Order(1))
        await t.kill_worker(after="prepare")
        await t.idle(delayed=True)
        await works.check(t, [1])
        assert works.attempts == [1, 1]
        assert await t.messages("ORDERS.DEAD") == []
        await t.advance(2)
        assert works.markers(t) == ["aborted"]


async def test_d4_4_a_message_that_kills_its_worker_each_time_is_a_dead_letter_and_its_neighbours_are_spared() -> None:
    works = Works(threaded=False, retry=Retry(20, backoff=1), concurrency=1)
    async with works.test() as t:
        works.prepare(t)
        await t.put("ORDERS", Order(13))
        for _ in range(40):
            if await t.messages("ORDERS.DEAD"):
                break
            with suppress(NoProgressError):
                await t.kill_worker(after="prepare")
        assert await t.messages("ORDERS.DEAD") == [{"id": 13}]
        for order in range(5):
            await t.put("ORDERS", Order(order))
        await t.idle(delayed=True)
        await works.check(t, [0, 1, 2, 3, 4])


@both_kinds
async def test_d4_6_messages_are_handled_in_order_whatever_dies(threaded: bool) -> None:
    works = Works(threaded=threaded, retry=Retry(10, backoff=1), order_by="*")
    async with works.test() as t:
        works.prepare(t)
        for order in range(40):
            await t.put("ORDERS", Order(order))
        for step in ("prepare", "commit", "prepare", "decide", "commit"):
            await t.kill_worker(after=step)
        await t.idle(delayed=True)
        rows = [row[0] for row in t.sqlite(works.database).execute("SELECT id FROM orders ORDER BY rowid")]
        assert rows == [each["id"] for each in await t.messages("INVOICES")] == list(range(40))


async def test_d4_7_a_batch_whose_worker_dies_behind_prepare_charges_the_failed_one_and_nobody_else() -> None:
    app = App("mq://nowhere", name="WORKS")
    database = Database(lambda: aiosqlite.connect("never-made.db"))
    batches: list[list[int]] = []

    @app.handler("ORDERS", database=database, batch=10, retry=Retry(5, backoff=1))
    async def handle(given: list[Order], connection: aiosqlite.Connection) -> None:
        orders = [each.id for each in given]
        batches.append(orders)
        failed = 3 in orders and len(batches) == 1
        for order in orders:
            if order != 3 or not failed:
                await connection.execute("INSERT INTO orders VALUES (?)", (order,))
        if failed:
            raise BatchError({orders.index(3): ValueError("3")})

    async with app.test(databases={database: MEMORY}) as t:
        t.sqlite(database).execute("CREATE TABLE orders (id INTEGER)")
        await t._worker.stop()
        for order in range(10):
            await t.put("ORDERS", Order(order))
        await t._start_worker()
        with t.failures():
            await t.kill_worker(after="prepare")
            await t.idle(delayed=True)
        rows = [row[0] for row in t.sqlite(database).execute("SELECT id FROM orders ORDER BY id")]
        assert rows == list(range(10))
        assert sorted(order for batch in batches[1:] for order in batch) == list(range(10))


@both_kinds
async def test_d4_10_a_queue_manager_that_is_killed_keeps_what_is_in_doubt(threaded: bool) -> None:
    works = Works(threaded=threaded, retry=Retry(0))
    async with works.test() as t:
        works.prepare(t)
        await t.put("ORDERS", Order(1))
        t._worker.stop_behind("commit")
        while not t._worker._stopped.is_set():
            await t.clock._rest()
        await t.restart(kill=True)
        await t.idle(delayed=True)
        await works.check(t, [1])
        assert works.attempts == [1]


@both_kinds
async def test_d1_3_a_worker_that_wakes_up_when_another_has_the_message_is_refused(threaded: bool) -> None:
    works = Works(threaded=threaded, retry=Retry(3, backoff=1))
    async with works.test() as t:
        works.prepare(t)
        await t.put("ORDERS", Order(1))
        zombie = t._worker
        frozen = zombie.stop_behind("work")
        while not frozen.is_set():
            await t.clock._rest()
            await asyncio.sleep(0.001)
        zombie._source.cut()  # it is frozen with a transaction that is open, and its line is cut
        zombie._go_on.set()  # and wakes up
        await zombie._ended()
        await t._start_worker()
        await t.idle(delayed=True)
        await works.check(t, [1])
        assert works.attempts == [1, 1]


@both_kinds
async def test_d4_10_a_worker_is_started_when_what_the_dead_one_has_left_is_decided(
    threaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it is a question of time how much it has handled when the test says where it dies itself."""
    works = Works(threaded=threaded, retry=Retry(3, backoff=1), concurrency=1)
    probe, probed = OpenDatabase.probe, list[tuple[int, int]]()

    async def slow(self: OpenDatabase, unit: bytes, q_mgr: str) -> bool | None:
        before = len(works.attempts)
        for _ in range(2000):
            await asyncio.sleep(0)
        outcome = await probe(self, unit, q_mgr)
        probed.append((before, len(works.attempts)))
        return outcome

    monkeypatch.setattr(OpenDatabase, "probe", slow)
    async with works.test() as t:
        works.prepare(t)
        for order in range(20):
            await t.put("ORDERS", Order(order))
        await t.kill_worker(after="prepare")
        assert probed
        assert {before for before, _ in probed} == {after for _, after in probed}
        assert len(await t.messages("INVOICES")) < 20
        await t.kill_worker(after="commit")
        await t.idle(delayed=True)
        await works.check(t, list(range(20)))


@both_kinds
async def test_where_nothing_is_left_that_could_come_to_a_step_the_error_says_so(threaded: bool) -> None:
    works = Works(threaded=threaded)
    with pytest.raises(NoProgressError, match="no handler runs"):
        async with AppTest(works.app, patience=0.05, databases={works.database: MEMORY}) as t:
            works.prepare(t)
            await t.kill_worker(after="prepare")


async def test_a_step_that_no_transaction_has_is_refused() -> None:
    async with Works(threaded=False).test() as t:
        with pytest.raises(ValueError, match="one of begin, work, mark, prepare, commit, decide"):
            await t.kill_worker(after="vote")
