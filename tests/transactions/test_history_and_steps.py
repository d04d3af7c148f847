"""Handlers with a database that keep a history and finish steps (D6.2, transactions rules 6.1 and 7.6)."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from broker import Database
from broker.mqi.history import read_record
from broker.transactions import CommitRefusedError
from triggers import App, Attempt, Later, Retry
from triggers.testing.app_test import STEPS

if TYPE_CHECKING:
    from tests.transactions.shops import OrderShop


async def test_d6_2_the_record_is_committed_with_the_rows_and_the_messages(
    shop: OrderShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []
    shop.handle(lambda order, _: {"order": order}, history="7d", retry=Retry(3, backoff=0.1))
    async with shop.running():
        (coordinator,) = shop.app.session.databases.opened.coordinators
        commit = type(coordinator.opened.transaction()).commit

        async def refuse_once(self: Any) -> None:
            if not refused:
                refused.append(1)
                raise CommitRefusedError("not now")
            await commit(self)

        monkeypatch.setattr(type(coordinator.opened.transaction()), "commit", refuse_once)
        put = await shop.app.put("ORDERS", "1")

        async def ended() -> bool:
            await shop.clock.advance(1)
            return await shop.bodies("ORDERS.HISTORY") != []  # the depth counts what is only prepared

        await shop.until(ended)
        await shop.come_true([1])
        result = await shop.app.result(put, 0)
        assert (result.outcome, result.attempts, result.value) == ("succeeded", 2, {"order": 1})
        assert len(await shop.bodies("ORDERS.HISTORY")) == 1


@pytest.mark.parametrize("step", STEPS)
async def test_d6_2_a_worker_that_dies_behind_any_step_leaves_one_record_and_a_finished_step_is_not_run_again(
    step: str,
) -> None:
    app, database = App("mq://nowhere", name="WORKS"), Database("never-made.db")
    charged: list[str] = []
    later: list[str] = []

    @app.handler("ORDERS", database=database, history="7d", retry=Retry(5, backoff=1))
    def ship(order: str, connection: sqlite3.Connection, attempt: Attempt) -> str:
        connection.execute("INSERT INTO orders VALUES (?)", (order,))
        attempt.sync.step("charge", charged.append, order)
        if not later:
            later.append(order)
            raise Later(1)
        return f"shipped {order}"

    async with app.test(databases={database: ":memory:"}) as t:
        t.sqlite(database).execute("CREATE TABLE orders (id INTEGER)")
        put = await t.put("ORDERS", "1")
        await t.kill_worker(after=step)
        await t.idle(delayed=True)
        assert t.sqlite(database).execute("SELECT id FROM orders").fetchall() == [(1,)]
        (record,) = [read_record(each.data) for each in await t.browse("ORDERS.HISTORY")]
        assert (record.outcome, record.steps, record.value) == ("succeeded", ("charge",), "shipped 1")
        assert (await t.result(put)).value == "shipped 1"
        assert charged == ["1"]
