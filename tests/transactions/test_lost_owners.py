"""Units whose owner is frozen or gone, and what a program does wrong (D1.4, D1.5, D1.7, D1.8; traps 1 to 7)."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from broker.databases.calls import driven
from broker.mqi.external_units import Decision
from broker.transactions import CommitRefusedError, TransactionStep, unit_connection
from broker.transactions.coordinator import Coordinator
from broker.transactions.markers import OLD, clean
from tests.sharing.postgres import OWNER
from tests.transactions.shops import INSERT, OrderShop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.databases.ways import DatabaseWay

HOUR, DAY = 3600, 86_400


@asynccontextmanager
async def resolving(shop: OrderShop, way: DatabaseWay | None = None) -> AsyncIterator[Coordinator]:
    """Another program that resolves, with this database or another."""
    database = (way or shop.books).database(pool_wait=5.0)
    opened = await database.open(shop.clock)
    coordinator = Coordinator(database, opened, shop.clock, lambda: shop.way.connect("resolver"))
    task = asyncio.ensure_future(coordinator.run())
    try:
        yield coordinator
    finally:
        task.cancel()
        await asyncio.wait((task,))
        await opened.close()


async def frozen_behind(shop: OrderShop, step: TransactionStep, meanwhile: Callable[[Any], Awaitable[None]]) -> Any:
    """Produce order 1 with a program that loses its line behind a step, and goes on when `meanwhile` is over."""
    coordinator = await shop.app.session.databases.coordinator(shop.database)
    seen: list[Any] = []

    async def reached(made: TransactionStep) -> None:
        if made is step and not seen:
            (connection,) = [each for each in shop.lines if not each.port.broken]
            seen.append(connection)
            shop.way.cut(connection)
            await meanwhile(coordinator)

    coordinator.reached = reached
    try:
        return await shop.produce(1)
    finally:
        coordinator.reached = None
        assert seen


@pytest.fixture
def lines(shop: OrderShop, monkeypatch: pytest.MonkeyPatch) -> OrderShop:
    """The shop, which knows the connections of the units of its producers (`shop.lines`)."""

    async def unit(self: Any) -> Any:
        made = await unit_connection(await self._session.connection(), "SHOP")
        shop.lines.append(made)
        return made

    monkeypatch.setattr("triggers.transactions.databases.SessionDatabases.unit", unit)
    return shop


async def in_doubt(shop: OrderShop) -> int:
    return len(await shop.mqsc("DISPLAY THREAD(*) TYPE(INDOUBT)"))


async def test_d1_4_a_resolver_waits_for_a_commit_that_comes_later(lines: OrderShop) -> None:
    shop = lines
    if shop.books.dialect == "sqlite":
        pytest.skip("told over PostgreSQL, where others go on meanwhile")

    async def meanwhile(coordinator: Coordinator) -> None:
        async def asked() -> bool:
            return coordinator.resolver is not None and coordinator.resolver.asks > 0

        await shop.until(asked)
        await asyncio.sleep(0.1)
        assert shop.books.markers() == []
        assert await shop.invoices() == []

    async with shop.running():
        await frozen_behind(shop, TransactionStep.PREPARE, meanwhile)
        for _ in range(5):
            await shop.clock.advance(2)
        await shop.come_true([1])
        await shop.no_markers()


async def test_d1_5_a_transaction_that_the_database_has_ended_is_aborted_by_the_resolver(lines: OrderShop) -> None:
    shop = lines
    if shop.books.dialect == "sqlite":
        pytest.skip("a session of PostgreSQL is ended")

    async def meanwhile(_: object) -> None:
        assert shop.books.postgres is not None
        shop.books.postgres.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction' "
            f"AND datname = '{OWNER}'"
        )

        async def aborted() -> bool:
            return shop.books.markers() == ["aborted"]

        await shop.until(aborted)

    async with shop.running():
        with pytest.raises(CommitRefusedError, match="never will be"):
            await frozen_behind(shop, TransactionStep.PREPARE, meanwhile)
        assert (await shop.invoices(), shop.books.orders(), shop.books.markers()) == ([], [], ["aborted"])


async def test_d1_4_a_program_that_dies_behind_commit_leaves_it_to_the_resolver(lines: OrderShop) -> None:
    shop = lines

    async def meanwhile(coordinator: Coordinator) -> None:
        async def decided() -> bool:
            await shop.clock.advance(2)
            return await shop.invoices() == ["1"]

        await shop.until(decided)

    async with shop.running():
        await frozen_behind(shop, TransactionStep.COMMIT, meanwhile)
        await shop.come_true([1])
        await shop.no_markers()


@pytest.mark.parametrize("how", ["commit", "rollback", "swallow"])
async def test_d1_7_a_program_that_ends_its_transaction_is_told_and_no_marker_is_left(
    shop: OrderShop, how: str
) -> None:
    async def wrong(connection: Any) -> None:
        books = shop.books
        if how == "swallow":
            with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
                await books.sql(connection, books.failing(INSERT.format(1)))
        else:
            await (books.commit(connection) if how == "commit" else books.rollback(connection))

    async with shop.running():
        with pytest.raises(CommitRefusedError):
            if shop.threaded:
                await asyncio.to_thread(produce_in_thread, shop, wrong)
            else:
                async with shop.app.transaction(shop.database) as t:
                    await shop.books.sql(t.connection, INSERT.format(1))
                    await shop.app.put("INVOICES", "1")
                    await wrong(t.connection)
        assert (await shop.invoices(), shop.books.markers()) == ([], [])
        assert shop.books.orders() == (["1"] if how == "commit" else [])
        await shop.produce(2)
        assert await shop.invoices() == ["2"]


def produce_in_thread(shop: OrderShop, wrong: Any) -> None:
    with shop.app.transaction(shop.database) as t:
        driven(shop.books.sql(t.connection, INSERT.format(1)))
        t.put("INVOICES", "1")
        driven(wrong(t.connection))


async def test_d1_8_a_resolver_of_another_database_touches_nothing(
    shop: OrderShop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from tests.databases.ways import SqlitePath

    staging = SqlitePath(tmp_path_factory.mktemp("staging"))
    staging.look("CREATE TABLE orders (id INTEGER)")
    async with resolving(shop, staging) as stray, shop.way.connect("program") as connection:
        opened = await shop.database.open(shop.clock)
        await shop.mqsc("DEFINE QLOCAL(INVOICES) DEFPSIST(YES)")
        unit = secrets.token_bytes(16)
        mq = await unit_connection(connection)
        await mq.put1("INVOICES", b"1")
        await mq.prepare(unit, opened.id, "orders")
        await mq.end()
        await shop.clock.advance(DAY * 3)
        assert stray.resolver is not None
        assert stray.resolver.asks == 0
        assert staging.markers() == []
        assert [each.unit for each in await connection.doubts(opened.id, wait=False)] == [unit]
        assert await connection.decide(opened.id, [Decision(unit, commit=True)]) == [0]
        assert await shop.invoices() == ["1"]
        await opened.close()


async def test_d1_9_a_cleaner_takes_old_markers_of_its_own_queue_manager_that_are_not_in_doubt(
    shop: OrderShop,
) -> None:
    opened = await shop.database.open(shop.clock)
    await shop.mqsc("DEFINE QLOCAL(INVOICES) DEFPSIST(YES)")
    other = "00000000-0000-4000-8000-000000000001"
    async with shop.way.connect("program") as connection:
        mine = connection.q_mgr_instance
        units = {name: secrets.token_bytes(16) for name in ("decided", "in doubt", "of another", "aborted")}
        mq = await unit_connection(connection)
        await mq.put1("INVOICES", b"1")
        await mq.prepare(units["in doubt"], opened.id, "orders")
        for name, unit in units.items():
            if name == "aborted":
                assert await opened.probe(unit, mine) is False
            else:
                await marked(opened, unit, other if name == "of another" else mine)
        assert await clean(opened, connection, shop.clock) == 0
        await shop.clock.advance(OLD + 2)
        assert await clean(opened, connection, shop.clock) == 1
        assert sorted(shop.books.markers()) == ["aborted", "committed", "committed"]
        await shop.clock.advance(DAY)
        assert await clean(opened, connection, shop.clock) == 1
        assert sorted(shop.books.markers()) == ["committed", "committed"]
        assert await connection.decide(opened.id, [Decision(units["in doubt"], commit=True)]) == [0]
        assert await clean(opened, connection, shop.clock) == 1
        assert shop.books.markers() == ["committed"]
        await mq.end()
    await opened.close()


async def marked(opened: Any, unit: bytes, q_mgr: str) -> None:
    """Commit a marker."""

    async def run() -> None:
        tx = opened.transaction()
        await tx.begin()
        await tx.mark(unit, q_mgr)
        await tx.commit()
        await tx.release()

    await opened.run(run())
