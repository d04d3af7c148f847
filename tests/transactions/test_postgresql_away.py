"""A real PostgreSQL that is stopped, or has no place for a connection more: nobody is charged for it (D4.5)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.databases.ways import GONE, ORDERS, AsyncpgPool, DatabaseWay, PsycopgPool, is_there
from tests.sharing.postgres import OWNER
from tests.transactions.shops import OrderShop
from tests.transactions.test_handlers import advanced, seen
from triggers import Retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.sharing.postgres import Postgres
    from triggers import Attempt

pytestmark = pytest.mark.postgres

MINUTES = 60
COUNT = 20
END_ALL = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{OWNER}'"


class ImpatientPool(PsycopgPool):
    """A pool of psycopg that tries again at each call, and not when its own pauses are over, which are real."""

    def source(self) -> Any:
        import psycopg_pool

        pool = psycopg_pool.ConnectionPool
        return lambda: pool(self.dsn, min_size=1, max_size=3, open=False, reconnect_timeout=0.05)


WAYS: Final[dict[str, type[DatabaseWay]]] = {"asyncpg": AsyncpgPool, "psycopg": ImpatientPool}


@pytest.fixture(params=[("asyncpg", "tcp"), ("psycopg", "embedded")], ids=["asyncpg", "psycopg"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path, durable_postgres: Postgres) -> AsyncIterator[OrderShop]:
    """A shop on a PostgreSQL of its own, whose places are waited for only briefly: that wait is real."""
    name, door = request.param
    if not is_there(WAYS[name]):
        pytest.skip(f"{name} needs {WAYS[name].needs}, which comes with the extra `full`")
    durable_postgres.sql(GONE, f"SET ROLE {OWNER}", ORDERS, database=OWNER)
    way = WAYS[name](tmp_path, durable_postgres)
    async with OrderShop(way, door, pool_wait=0.1) as made:
        yield made
    await way.close()


def go(how: str, server: Postgres) -> None:
    """It is gone, or as good as that: without a place for the program's user."""
    if how == "stopped":
        server.stop("immediate")
    else:
        server.sql(f"ALTER ROLE {OWNER} CONNECTION LIMIT 0", END_ALL)


def come_back(how: str, server: Postgres) -> None:
    if how == "stopped":
        server.start()
    else:
        server.sql(f"ALTER ROLE {OWNER} CONNECTION LIMIT -1")


async def let_pass(shop: OrderShop, minutes: int) -> None:
    """Let time pass; the database is asked in real time meanwhile."""
    for _ in range(minutes):
        await asyncio.sleep(0.02)
        await shop.clock.advance(60)


@pytest.mark.parametrize("how", ["stopped", "full"])
async def test_d4_5_a_postgresql_that_is_away_for_an_hour_charges_nobody_and_all_is_handled_when_it_is_back(
    shop: OrderShop, durable_postgres: Postgres, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    numbers: list[int] = []

    def note(_: int, attempt: Attempt) -> None:
        numbers.append(attempt.number)

    shop.handle(note, retry=Retry(0), concurrency=3)
    async with shop.running():
        await shop.app.put("ORDERS", "1")
        await shop.come_true([1])  # so that the pool has connections
        await asyncio.to_thread(go, how, durable_postgres)
        with caplog.at_level(logging.INFO, "triggers.transactions"):
            for order in range(2, COUNT + 1):
                await shop.app.put("ORDERS", str(order))
            await let_pass(shop, MINUTES)
            assert numbers == [1]
            assert await shop.depth("ORDERS.DEAD") == 0
            told = [each.getMessage() for each in caplog.records if getattr(each, "event", "") == "database_away"]
            assert 2 <= len(told) <= MINUTES + 1  # not at each try; how many of these fit is real time
            await asyncio.to_thread(come_back, how, durable_postgres)
            await advanced(shop, numbers, COUNT, 1, most=60)
            await shop.come_true(list(range(1, COUNT + 1)))
        assert [each.getMessage() for each in caplog.records if "database is back" in each.getMessage()]
    assert numbers == [1] * COUNT


async def test_d4_5_a_postgresql_that_crashes_under_a_handler_charges_one_attempt_at_most(
    shop: OrderShop, durable_postgres: Postgres
) -> None:
    numbers: dict[int, list[int]] = {}
    begun: list[int] = []

    def crash(order: int, attempt: Attempt) -> None:
        numbers.setdefault(order, []).append(attempt.number)
        begun.append(order)
        if len(begun) == COUNT // 2:
            durable_postgres.stop("immediate")  # before COMMIT of this one, in the transactions of the others

    shop.handle(crash, retry=Retry(1, backoff=1, jitter=False), concurrency=3)
    async with shop.running():
        for order in range(1, COUNT + 1):
            await shop.app.put("ORDERS", str(order))
        await seen(shop, begun, COUNT // 2)
        await let_pass(shop, 10)
        assert await shop.depth("ORDERS.DEAD") == 0
        await asyncio.to_thread(durable_postgres.start)

        async def all_done() -> bool:
            await shop.clock.advance(1)
            return len(await shop.invoices()) >= COUNT

        await shop.until(all_done)
        await shop.come_true(list(range(1, COUNT + 1)))
    charged = [order for order, attempts in numbers.items() if attempts[-1] > 1]
    assert max(max(attempts) for attempts in numbers.values()) == 2
    assert 1 <= len(charged) <= 3
