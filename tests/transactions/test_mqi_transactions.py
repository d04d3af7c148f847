"""`connection.transaction`: a unit of work of the MQI and the program's own database, both or neither."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker import MQError, QueueManager
from broker.mqi import MQOO, MQRC
from tests.databases.ways import DatabaseWay
from tests.transactions.shops import INSERT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Connection


@pytest.fixture
async def connection() -> AsyncIterator[Connection]:
    async with QueueManager.open(name="QM1") as manager, manager.connect("test") as connection:
        await connection.mqsc("DEFINE QLOCAL(ORDERS) DEFPSIST(YES)\nDEFINE QLOCAL(INVOICES) DEFPSIST(YES)", check=True)
        yield connection


async def depth(connection: Connection, q_name: str) -> int:
    [reply] = await connection.mqsc(f"DISPLAY QLOCAL({q_name}) CURDEPTH", check=True)
    return int(reply.attributes[0]["CURDEPTH"])


async def move(connection: Connection, database: Any, way: DatabaseWay, then: Any = None) -> None:
    """Get an order, write it, and put an invoice, in one transaction of the kind that the database wants."""
    if way.needs != "sqlite3":
        async with connection.transaction(database) as t:
            async with t.mq.open("ORDERS", MQOO.INPUT_SHARED) as queue:
                order = (await queue.get()).data.decode()
            await way.sql(t.connection, INSERT.format(order))
            await t.mq.put1("INVOICES", order.encode())
            if then is not None:
                then()
        return
    await asyncio.to_thread(_move_in_thread, connection, database, then)


def _move_in_thread(connection: Any, database: Any, then: Any) -> None:
    with connection.transaction(database) as t:
        with t.mq.open("ORDERS", MQOO.INPUT_SHARED) as queue:
            order = queue.get().data.decode()
        t.connection.execute(INSERT.format(order))
        t.mq.put1("INVOICES", order.encode())
        if then is not None:
            then()


def reached(connection: Connection, way: DatabaseWay) -> Any:
    """The connection as the program has it: blocking for a database that blocks."""
    from broker import Portal, SyncConnection

    return SyncConnection(connection, Portal()) if way.needs == "sqlite3" else connection


async def test_d3_1_what_is_got_put_and_written_is_committed_together(connection: Connection, way: DatabaseWay) -> None:
    database = way.database(pool_wait=5.0)
    await connection.put1("ORDERS", b"1")
    await move(reached(connection, way), database, way)
    assert (await depth(connection, "ORDERS"), await depth(connection, "INVOICES"), way.orders()) == (0, 1, ["1"])


async def test_d3_1_an_exception_rolls_all_of_it_back(connection: Connection, way: DatabaseWay) -> None:
    database = way.database(pool_wait=5.0)
    await connection.put1("ORDERS", b"1")

    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await move(reached(connection, way), database, way, fail)
    assert (await depth(connection, "ORDERS"), await depth(connection, "INVOICES"), way.orders()) == (1, 0, [])
    await move(reached(connection, way), database, way)
    assert (await depth(connection, "ORDERS"), await depth(connection, "INVOICES"), way.orders()) == (0, 1, ["1"])


async def test_the_unit_of_a_transaction_ends_with_it_alone(connection: Connection, way: DatabaseWay) -> None:
    if way.needs == "sqlite3":
        pytest.skip("told once")
    async with connection.transaction(way.database()) as t:
        for call in (t.mq.commit, t.mq.backout, t.mq.begin, t.mq.disconnect):
            with pytest.raises(MQError) as raised:
                await call()
            assert raised.value.reason == MQRC.ENVIRONMENT_ERROR
        with pytest.raises(RuntimeError, match="not nested"):
            async with connection.transaction(way.database()):
                pass
