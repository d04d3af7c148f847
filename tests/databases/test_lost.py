"""Connections that are lost, at each step and at each byte of COMMIT: it ends as the database says, and no pool gets a
broken connection back.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from broker.databases.database import Database
from broker.databases.errors import (
    CommitRefusedError,
    DatabaseAwayError,
    OutcomeUnknownError,
    TransactionEndedError,
)
from tests.databases.flows import Q_MGR, committed, order, within
from tests.databases.ways import GONE, ORDERS, AsyncpgPool
from tests.sharing.postgres import OWNER
from tests.sharing.proxy import CutAt, Proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker.databases.opened import OpenDatabase
    from broker.databases.transaction import DatabaseTransaction
    from tests.databases.ways import DatabaseWay
    from tests.sharing.postgres import Postgres

pytestmark = pytest.mark.postgres

TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'evermq' AND state LIKE 'idle in%'"


@pytest.fixture
async def opened_postgres(way: DatabaseWay, opened: OpenDatabase) -> OpenDatabase:
    """Each way over PostgreSQL, in use."""
    if way.dialect != "postgresql":
        pytest.skip("SQLite has no server")
    return opened


@pytest.mark.parametrize("step", [2, 3, 5])
async def test_d5_4_a_session_that_the_server_ends_leaves_nothing_and_the_pool_goes_on(
    opened_postgres: OpenDatabase, way: DatabaseWay, step: int
) -> None:
    """In step 2 the program's SQL fails, in 3 the marker, in 5 COMMIT."""
    for number in (1, 2):
        unit = os.urandom(16)

        async def ended(transaction: DatabaseTransaction, unit: bytes = unit, number: int = number) -> None:
            await way.sql(transaction.connection, order(number))
            if step == 2:
                way.look_as_judge(TERMINATE)
                await way.sql(transaction.connection, order(number + 10))
            if step == 3:
                way.look_as_judge(TERMINATE)
            await transaction.mark(unit, Q_MGR)
            way.look_as_judge(TERMINATE)
            await transaction.commit()

        with pytest.raises({2: Exception, 3: CommitRefusedError, 5: OutcomeUnknownError}[step]):
            await within(opened_postgres, ended)
        assert await opened_postgres.probe(unit, Q_MGR) is False
        assert way.orders() == []
    for number in range(6):
        await committed(opened_postgres, way, number)
    assert len(way.orders()) == 6


async def test_d1_5_a_late_commit_behind_an_aborted_marker_fails(
    opened_postgres: OpenDatabase, way: DatabaseWay
) -> None:
    unit = os.urandom(16)

    async def late(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(1))
        await transaction.mark(unit, Q_MGR)
        way.look_as_judge(TERMINATE)
        judge = (
            await AsyncpgPool(way.file.parent, way.postgres).database().open() if not opened_postgres.threaded else None
        )
        if judge is not None:
            assert await judge.probe(unit, Q_MGR) is False
            await judge.close()
        await transaction.commit()

    with pytest.raises(OutcomeUnknownError):
        await within(opened_postgres, late)
    assert await opened_postgres.probe(unit, Q_MGR) is False
    assert (way.orders(), way.markers()) == ([], ["aborted"])


async def test_a_commit_that_is_answered_with_rollback_is_refused(
    opened_postgres: OpenDatabase, way: DatabaseWay
) -> None:
    async def failed(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(1))
        await transaction.mark(os.urandom(16), Q_MGR)
        with pytest.raises(Exception, match="division by zero"):
            await way.sql(transaction.connection, "SELECT 1 / 0")
        await transaction.commit()

    for _ in range(2):
        with pytest.raises(TransactionEndedError):
            await within(opened_postgres, failed)
        assert (way.orders(), way.markers()) == ([], [])
    await committed(opened_postgres, way, 1)


@pytest.fixture
async def proxied(postgres: Postgres, tmp_path: Path) -> AsyncIterator[tuple[Proxy, OpenDatabase, AsyncpgPool]]:
    """A pool of asyncpg through a proxy, with an empty table of orders."""
    postgres.sql(GONE, f"SET ROLE {OWNER}", ORDERS, database=OWNER)
    way = AsyncpgPool(tmp_path, postgres)
    async with Proxy(postgres) as proxy:

        def pool() -> Any:
            return asyncpg.create_pool(proxy.dsn, min_size=1, max_size=2)

        opened = await Database(pool, pool_wait=5.0).open()
        yield proxy, opened, way
        await opened.close()


@pytest.mark.parametrize("direction", ["to_server", "to_client"])
async def test_d1_6_a_line_that_is_cut_at_each_byte_of_commit_ends_as_the_database_says(
    proxied: tuple[Proxy, OpenDatabase, AsyncpgPool], direction: str
) -> None:
    proxy, opened, way = proxied
    outcomes = []
    for number in range(1, 200):
        unit = os.urandom(16)
        cut = CutAt(proxy, number - 1)

        async def cut_in_commit(transaction: DatabaseTransaction, unit: bytes = unit, number: int = number,
                                cut: CutAt = cut) -> None:  # fmt: skip
            await way.sql(transaction.connection, order(number))
            await transaction.mark(unit, Q_MGR)
            setattr(proxy, direction, cut)
            await transaction.commit()

        try:
            await within(opened, cut_in_commit)
            is_committed = True
        except OutcomeUnknownError:
            is_committed = None
        finally:
            setattr(proxy, direction, None)
        if not cut.has_cut:
            break
        word = await opened.probe(unit, Q_MGR)
        while word is None:  # the server has not noticed the cut yet
            word = await opened.probe(unit, Q_MGR)
        assert is_committed is None or word is is_committed
        assert (str(number) in way.orders()) is word
        outcomes.append(word)
    assert len(outcomes) >= 12, "a COMMIT or its answer has more bytes"
    assert direction == "to_server" or any(outcomes)
    assert direction == "to_client" or not outcomes[0]


async def test_a_server_that_is_gone_is_away_and_when_it_is_back_all_goes_on(
    proxied: tuple[Proxy, OpenDatabase, AsyncpgPool],
) -> None:
    proxy, opened, way = proxied
    await committed(opened, way, 1)
    await proxy.cut()
    for _ in range(3):
        with pytest.raises(DatabaseAwayError):
            await committed(opened, way, 2)
        assert await opened.probe(os.urandom(16), Q_MGR) is None
        with pytest.raises(DatabaseAwayError):
            await opened.delete([os.urandom(16)])
    await proxy.mend()
    await committed(opened, way, 3)
    assert way.orders() == ["1", "3"]


async def test_a_server_that_is_silent_when_a_connection_goes_back_costs_the_pool_no_place(
    proxied: tuple[Proxy, OpenDatabase, AsyncpgPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.databases.adapters.asyncpg._END_SECONDS", 0.01)
    proxy, opened, way = proxied

    for number in (1, 2, 3):  # the pool has two places

        async def silent_then(transaction: DatabaseTransaction, number: int = number) -> None:
            await way.sql(transaction.connection, order(number))
            await transaction.mark(os.urandom(16), Q_MGR)
            await transaction.commit()
            proxy.to_server = lambda _: b""

        await within(opened, silent_then)
        proxy.to_server = None
    await committed(opened, way, 4)
    assert way.orders() == ["1", "2", "3", "4"]
