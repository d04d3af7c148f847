"""A shared queue in a transaction with a program's own database: refused, and both sides are backed out (D2.8)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import aiosqlite
import pytest

from broker import Database, MQError
from broker.mqi import MQPMO, MQRC, Outcome
from broker.mqi.delivery_fields import Settlement
from broker.mqi.external_units import PreparedDelivery
from tests.conformance.expect import ALL
from tests.handlers.desk import TERMS
from tests.sharing.workers import HANDLED, Workers, depth, messages, put
from triggers import App, Retry

if TYPE_CHECKING:
    from pathlib import Path

    from tests.sharing.members import Members


pytestmark = pytest.mark.postgres

DEFINITIONS = f"""{HANDLED}
DEFINE PROCESS(MINE)
DEFINE QLOCAL(WORK) TRIGGER TRIGTYPE(EVERY) PROCESS(MINE) DEFPSIST(YES)
"""
UNIT, DATABASE = b"u" * 16, b"d" * 16
SENTENCE = "a shared queue is in this unit of work"


async def test_d2_8_a_unit_with_a_shared_queue_is_refused_and_left_open(members: Members) -> None:
    """Transactions rule 2.3."""
    async with members["QM1"].connect("shop") as program:
        await program.put1("OWN", b"mine", options=MQPMO.SYNCPOINT)
        await program.put1("OUT", b"shared", options=MQPMO.SYNCPOINT)
        with pytest.raises(MQError, match=SENTENCE) as raised:
            await program.prepare(UNIT, DATABASE, "orders")
        assert raised.value.reason == MQRC.OPTION_NOT_VALID_FOR_TYPE
        assert await program.in_doubt(DATABASE, [UNIT]) == []
        assert await messages(members, "OUT") == []
        await program.commit()
    assert await messages(members, "OUT") == [b"shared"]


async def test_d2_8_a_delivery_of_a_shared_queue_is_refused_and_stays_its_workers(members: Members) -> None:
    async with Workers(members) as workers:
        deliveries = await workers.start("QM1", TERMS)
        await put(members, "Q", "a")
        (taken,) = await deliveries.take()
        prepared = PreparedDelivery(UNIT, Settlement(taken.id, Outcome.DONE))
        assert await deliveries.prepare(DATABASE, [prepared], "orders") == [MQRC.OPTION_NOT_VALID_FOR_TYPE]
        await deliveries.settle([Settlement(taken.id, Outcome.DONE)])
    assert await depth(members) == 0


class Books:
    """An app at a member, and its SQLite database of orders."""

    def __init__(self, members: Members, folder: Path) -> None:
        self.file = folder / "orders.db"
        self.app = App(members["QM1"], name="SHOP")
        self.database = Database(lambda: aiosqlite.connect(self.file))
        self.look("CREATE TABLE orders (id INTEGER)")

    def look(self, text: str) -> list[tuple[int, ...]]:
        with closing(sqlite3.connect(self.file)) as judge, judge:
            return judge.execute(text).fetchall()


async def test_d2_8_a_producer_that_puts_on_a_shared_queue_is_told_and_nothing_is_done(
    members: Members, tmp_path: Path
) -> None:
    books = Books(members, tmp_path)
    async with books.app.running():
        with pytest.raises(MQError, match=SENTENCE) as raised:
            async with books.app.transaction(books.database) as t:
                await t.connection.execute("INSERT INTO orders VALUES (1)")
                await books.app.put("OUT", "1")
        assert raised.value.reason == MQRC.OPTION_NOT_VALID_FOR_TYPE
        assert (books.look("SELECT id FROM orders"), await messages(members, "OUT")) == ([], [])
        async with books.app.transaction(books.database) as t:
            await t.connection.execute("INSERT INTO orders VALUES (2)")
            await books.app.put("OWN", "2")
        assert books.look("SELECT id FROM orders") == [(2,)]


@pytest.mark.parametrize(("queue", "out"), [("WORK", "OUT"), ("Q", "OWN")], ids=["puts there", "serves it"])
async def test_d2_8_a_handler_whose_unit_has_a_shared_queue_fails_and_nothing_is_done(
    members: Members, tmp_path: Path, queue: str, out: str
) -> None:
    """Transactions rule 8.4: with 2045 it has failed, and is a dead letter in the end."""
    books = Books(members, tmp_path)
    orders: list[str] = []

    @books.app.handler(queue, database=books.database, retry=Retry(1, backoff=1, jitter=False))
    async def ship(order: str, connection: aiosqlite.Connection) -> None:
        orders.append(order)
        await connection.execute("INSERT INTO orders VALUES (?)", (order,))
        await books.app.put(out, order)

    async with books.app.running():
        await put(members, queue, "1")
        async with members["QM1"].connect("judge") as judge, judge.open(f"{queue}.DEAD", ALL) as dead:
            letter = None
            while letter is None:  # threads and sockets take their time
                await members.clock.advance(1)
                await asyncio.sleep(0.005)
                with suppress(MQError):
                    letter = await dead.get()
        assert orders == ["1", "1"]
        assert (books.look("SELECT id FROM orders"), await messages(members, out)) == ([], [])
        assert letter.properties["evermq.attempts"] == 2
        assert SENTENCE in str(letter.properties["evermq.error"])
