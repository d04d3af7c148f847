"""What single drivers have of their own: Django's blocks and hooks, SQLite's one writer, round trips, own adapters."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import aiosqlite
import pytest

from broker.databases.adapter import MEMBERS, Adapter, each_statement
from broker.databases.database import Database
from broker.databases.errors import CommitRefusedError, DatabaseAwayError, TransactionEndedError
from broker.databases.failures import is_definite, is_duplicate
from tests.databases.conftest import made_way
from tests.databases.flows import Q_MGR, committed, order, within
from tests.databases.ways import GONE, ORDERS, Aiosqlite, SqlitePath
from tests.sharing.postgres import OWNER, Postgres
from tests.sharing.proxy import Proxy

if TYPE_CHECKING:
    from pathlib import Path

    from broker.databases.transaction import DatabaseTransaction
    from tests.databases.ways import DatabaseWay


# SQLite


async def test_a_resolver_that_is_cancelled_in_begin_leaves_no_transaction_to_aiosqlite(tmp_path: Path) -> None:
    begins, go_on = threading.Event(), threading.Event()
    made: list[aiosqlite.Connection] = []

    def opens() -> aiosqlite.Connection:
        made.append(aiosqlite.connect(tmp_path / "orders.db"))
        return made[-1]

    def trace(sql: str) -> None:
        if sql.startswith("BEGIN"):
            begins.set()
            go_on.wait(20)

    opened = await Database(opens).open()
    await made[-1].set_trace_callback(trace)
    probing = asyncio.create_task(opened.probe(bytes(16), "QM"))
    await asyncio.to_thread(begins.wait)
    probing.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    go_on.set()
    await asyncio.wait((probing,))
    await made[-1].set_trace_callback(None)  # type: ignore[arg-type]
    transaction = opened.transaction()
    try:
        await transaction.begin()
        await transaction.release()
    finally:
        await opened.close()


async def test_a_connection_of_aiosqlite_that_is_being_opened_when_the_database_is_closed_is_closed(
    tmp_path: Path,
) -> None:
    made: list[aiosqlite.Connection] = []

    def opens() -> aiosqlite.Connection:
        made.append(aiosqlite.connect(tmp_path / "orders.db"))
        return made[-1]

    opened = await Database(opens).open()
    adapter: Any = opened.adapter
    await adapter.close()  # as one that was broken
    opening = asyncio.create_task(adapter.acquire())
    await asyncio.sleep(0)
    opening.cancel()
    await opened.close()
    await asyncio.wait((opening,))
    assert (opening.cancelled(), len(made)) == (True, 2)
    with pytest.raises(ValueError, match="no active connection"):
        _ = made[-1].in_transaction


async def test_d4_9_a_transaction_asks_the_thread_of_aiosqlite_three_times_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, asked = Aiosqlite(tmp_path), list[str]()
    way.look(ORDERS)
    for name in ("execute", "executemany", "executescript", "execute_fetchall"):
        made = getattr(aiosqlite.Connection, name)

        def counted(connection: aiosqlite.Connection, sql: str, *rest: Any, _made: Any = made) -> Any:
            asked.append(sql.split()[0])
            return _made(connection, sql, *rest)

        monkeypatch.setattr(aiosqlite.Connection, name, counted)
    opened = await way.database().open()
    try:
        for number in (1, 2):
            asked.clear()
            await committed(opened, way, number)
            assert asked == ["BEGIN", "INSERT", "INSERT", "COMMIT"]  # the first INSERT is the program's
        assert (way.orders(), way.markers()) == (["1", "2"], ["committed"] * 2)
        asked.clear()
        transaction = opened.transaction()
        await transaction.begin()
        await way.sql(transaction.connection, "COMMIT")
        with pytest.raises(TransactionEndedError, match="has ended the transaction itself"):
            await transaction.mark(bytes(15) + b"3", Q_MGR)
        await transaction.release()
        assert way.markers() == ["committed"] * 2
    finally:
        await opened.close()
        await way.close()


async def test_d4_9_who_waits_for_the_connection_of_aiosqlite_begins_before_the_rest_of_the_one_before_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    way, seen = Aiosqlite(tmp_path), list[str]()
    way.look(ORDERS)
    script = aiosqlite.Connection.executescript

    def noted(connection: aiosqlite.Connection, sql: str) -> Any:
        seen.append(sql.split()[0])
        return script(connection, sql)

    monkeypatch.setattr(aiosqlite.Connection, "executescript", noted)
    opened = await way.database().open()
    first, second = opened.transaction(), opened.transaction()
    await first.begin()

    waiting = asyncio.ensure_future(second.begin())
    for _ in range(3):
        await asyncio.sleep(0)
    assert seen == ["BEGIN"]
    await first.rollback()
    await first.release()
    seen.append("the rest of the first")
    assert seen == ["BEGIN", "BEGIN", "the rest of the first"]
    await waiting
    await second.release()
    await opened.close()
    await way.close()


async def test_trap_of_begin_immediate_it_waits_in_another_thread_than_the_event_loops(tmp_path: Path) -> None:
    way = Aiosqlite(tmp_path)
    way.look(ORDERS)
    opened = await way.database().open()
    with closing(sqlite3.connect(way.file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.ensure_future(committed(opened, way, 1))
        for _ in range(200):  # turns of a loop that goes on
            await asyncio.sleep(0)
        assert not task.done()
        other.execute("COMMIT")
        await task
    assert way.orders() == ["1"]
    await opened.close()


@pytest.mark.parametrize("kind", [SqlitePath, Aiosqlite])
async def test_a_commit_that_a_reader_keeps_from_the_file_is_refused_and_the_next_goes_on(
    kind: type[DatabaseWay], tmp_path: Path
) -> None:
    way = kind(tmp_path)
    way.look(ORDERS)
    opened = await way.database(pool_wait=0.05).open()

    async def work(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(1))
        await transaction.mark(os.urandom(16), Q_MGR)
        await transaction.commit()

    with closing(sqlite3.connect(way.file, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM orders").fetchall()
        for _ in range(2):
            with pytest.raises(CommitRefusedError, match="database is locked"):
                await within(opened, work)
    await within(opened, work)
    assert (way.orders(), way.markers()) == (["1"], ["committed"])
    await opened.close()


@pytest.mark.parametrize("kind", [SqlitePath, Aiosqlite])
async def test_a_connection_that_the_program_closes_is_opened_again(kind: type[DatabaseWay], tmp_path: Path) -> None:
    way = kind(tmp_path)
    way.look(ORDERS)
    opened = await way.database().open()

    async def closed(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(1))
        closing = transaction.connection.close()
        if not opened.threaded:
            await closing
        await transaction.mark(os.urandom(16), Q_MGR)

    for number in (2, 3):
        with pytest.raises(CommitRefusedError):
            await within(opened, closed)
        await committed(opened, way, number)
    assert way.orders() == ["2", "3"]
    await opened.close()


async def test_with_connection_of_sqlite3_commits_and_is_found(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look(ORDERS)
    opened = await way.database().open()

    async def work(transaction: DatabaseTransaction) -> None:
        with transaction.connection as connection:
            connection.execute(order(1))
        await transaction.mark(os.urandom(16), Q_MGR)

    with pytest.raises(TransactionEndedError, match="with connection:"):
        await within(opened, work)
    assert way.markers() == []
    await opened.close()


async def test_a_function_whose_connection_is_in_a_transaction_is_refused(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look(ORDERS)
    way.look("CREATE TABLE seen (at INTEGER)")

    def opens() -> sqlite3.Connection:
        connection = sqlite3.connect(way.file)
        if threading.current_thread() is not threading.main_thread():
            connection.execute("INSERT INTO seen VALUES (1)")
        return connection

    for _ in range(2):
        with pytest.raises(RuntimeError, match="in a transaction already"):
            await Database(opens).open()


async def test_a_connection_that_a_thread_works_on_is_not_closed_beneath_it(tmp_path: Path) -> None:
    opened = await Database(tmp_path / "shop.db", pool_wait=0.01).open()
    adapter: Any = opened.adapter
    connection = adapter.acquire()
    adapter.begin(connection)
    await opened.close()  # it waits for the thread, and gives up
    assert connection.execute("SELECT 1").fetchall() == [(1,)]
    adapter.rollback(connection)
    adapter.release(connection, False)
    adapter.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


async def test_a_row_factory_of_the_program_is_left_alone(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look(ORDERS)

    def opens() -> sqlite3.Connection:
        connection = sqlite3.connect(way.file)
        connection.row_factory = lambda _cursor, row: {"value": row[0]}
        return connection

    opened = await Database(opens).open()
    unit = await committed(opened, way, 1)
    assert await opened.probe(unit, Q_MGR) is True
    await opened.close()


# An adapter of the program's own


class OwnAdapter:
    """The least that an adapter is: eleven members, over sqlite3."""

    dialect = "sqlite"
    gives = (sqlite3.Connection,)
    threaded = True
    is_duplicate = staticmethod(is_duplicate)
    is_definite = staticmethod(is_definite)

    def __init__(self, file: Path) -> None:
        self.file = file
        self.broken: list[bool] = []

    def acquire(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file, isolation_level=None)

    def begin(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")

    def execute(self, connection: sqlite3.Connection, sql: str, *values: bytes | str) -> list[Any]:
        return [connection.execute(text, own).fetchall() for text, own in each_statement(sql, values)][-1]

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def rollback(self, connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")

    def release(self, connection: sqlite3.Connection, broken: bool) -> None:
        self.broken.append(broken)
        connection.close()


async def test_an_adapter_of_the_programs_own_has_eleven_members(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look(ORDERS)
    own = OwnAdapter(way.file)
    adapter: Any = own
    assert isinstance(adapter, Adapter)
    assert len(MEMBERS) == 11
    opened = await Database(adapter).open()
    units = [await committed(opened, way, number) for number in (1, 2)]
    assert [await opened.probe(unit, Q_MGR) for unit in [*units, os.urandom(16)]] == [True, True, False]
    assert not any(own.broken)
    await opened.close()
    for name in MEMBERS:
        less = type("Less", (), {each: getattr(OwnAdapter, each) for each in MEMBERS if each != name})()
        assert not isinstance(less, Adapter)


# Round trips


@pytest.mark.postgres
async def test_asyncpg_has_one_round_trip_beside_the_programs_own(postgres: Postgres) -> None:
    import asyncpg

    assert await round_trips(postgres, lambda dsn: lambda: asyncpg.create_pool(dsn, min_size=1, max_size=1)) == 1


@pytest.mark.postgres
async def test_asyncpg_that_keeps_no_statements_has_one_more(postgres: Postgres) -> None:
    """Behind a pooler such as PgBouncer; the one that has the row comes with what begins."""
    import asyncpg

    def source(dsn: str) -> Any:
        return lambda: asyncpg.create_pool(dsn, min_size=1, max_size=1, statement_cache_size=0)

    assert await round_trips(postgres, source) == 2


@pytest.mark.postgres
async def test_a_handler_that_resets_all_settings_is_refused_and_the_next_goes_on(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    way = made_way("asyncpg-pool", request, tmp_path)
    opened = await way.database().open()

    async def reset(transaction: DatabaseTransaction) -> None:
        await way.sql(transaction.connection, order(1))
        await way.sql(transaction.connection, "RESET ALL")
        await transaction.mark(os.urandom(16), Q_MGR)

    with pytest.raises(TransactionEndedError):
        await within(opened, reset)
    await committed(opened, way, 2)
    assert (way.orders(), way.markers()) == (["2"], ["committed"])
    await opened.close()


@pytest.mark.postgres
async def test_psycopg_has_two_round_trips_beside_the_programs_own(postgres: Postgres) -> None:
    pool = pytest.importorskip("psycopg_pool")
    count = await round_trips(
        postgres, lambda dsn: lambda: pool.AsyncConnectionPool(dsn, min_size=1, max_size=1, open=False)
    )
    assert count == 2


async def round_trips(postgres: Postgres, source: Any) -> int:
    """Count the round trips of a transaction with a marker, beside BEGIN, a statement of the program's and COMMIT: not
    of the first on a connection, which may prepare statements.
    """
    postgres.sql(GONE, f"SET ROLE {OWNER}", ORDERS, database=OWNER)
    async with Proxy(postgres) as proxy:
        opened = await Database(source(proxy.dsn)).open()
        turns = Turns()

        async def work(transaction: DatabaseTransaction, number: int = 2) -> None:
            await transaction.connection.execute(order(number))
            await transaction.mark(os.urandom(16), Q_MGR)
            await transaction.commit()
            turns.end()

        await within(opened, partial(work, number=1))
        turns = Turns()
        proxy.to_server, proxy.to_client = turns.asked, turns.answered
        await within(opened, work)
        proxy.to_server = proxy.to_client = None
        await opened.close()
    return turns.count - 3


class Turns:
    """Count how often a line turns from asking to answering."""

    def __init__(self) -> None:
        self.count = 0
        self._asking = False
        self._ended = False

    def asked(self, piece: bytes) -> bytes:
        self._asking = True
        return piece

    def answered(self, piece: bytes) -> bytes:
        if self._asking and not self._ended:
            self.count += 1
        self._asking = False
        return piece

    def end(self) -> None:
        self._ended = True


# Django


@pytest.fixture(params=["django-sqlite", pytest.param("django-postgres", marks=pytest.mark.postgres)])
def django_way(request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseWay:
    pytest.importorskip("django")
    return made_way(request.param, request, tmp_path)


async def test_what_on_commit_raises_does_not_undo_the_commit(
    django_way: DatabaseWay, caplog: pytest.LogCaptureFixture
) -> None:
    from django.db import IntegrityError, transaction

    opened = await django_way.database().open()
    alias = opened.adapter._alias  # type: ignore[attr-defined]
    for number in (1, 2):

        async def work(mine: DatabaseTransaction, number: int = number) -> None:
            await django_way.sql(mine.connection, order(number))

            def hook() -> None:
                raise IntegrityError("of a hook")

            transaction.on_commit(hook, using=alias)
            await mine.mark(os.urandom(16), Q_MGR)
            await mine.commit()

        await within(opened, work)
    assert (django_way.orders(), django_way.markers()) == (["1", "2"], ["committed"] * 2)
    assert "a function of on_commit has failed; the transaction is committed" in caplog.text
    await opened.close()


async def test_a_block_of_django_that_is_marked_for_rollback_is_found(django_way: DatabaseWay) -> None:
    from django.db import transaction

    opened = await django_way.database().open()
    alias = opened.adapter._alias  # type: ignore[attr-defined]

    async def work(mine: DatabaseTransaction) -> None:
        await django_way.sql(mine.connection, order(1))
        transaction.set_rollback(True, using=alias)
        await mine.mark(os.urandom(16), Q_MGR)

    async def unmarked(mine: DatabaseTransaction) -> None:
        await django_way.sql(mine.connection, order(1))
        transaction.set_rollback(True, using=alias)
        await mine.commit()

    for each in (work, unmarked, work):
        with pytest.raises(TransactionEndedError):
            await within(opened, each)
        assert (django_way.orders(), django_way.markers()) == ([], [])
    await committed(opened, django_way, 1)
    await opened.close()


async def test_a_thread_that_is_in_atomic_already_is_refused(django_way: DatabaseWay) -> None:
    from django.db import transaction

    opened = await django_way.database().open()
    alias = opened.adapter._alias  # type: ignore[attr-defined]

    async def nested() -> None:
        with transaction.atomic(alias):
            await opened.transaction().begin()

    for _ in range(2):
        with pytest.raises(RuntimeError, match="ATOMIC_REQUESTS"):
            await opened.run(nested())
    await committed(opened, django_way, 1)
    await opened.close()


async def test_an_alias_that_django_does_not_know_is_an_error_that_names_it(django_way: DatabaseWay) -> None:
    django_way.source()
    with pytest.raises(Exception, match="nowhere"):
        await Database("django:nowhere").open()


# psycopg


@pytest.mark.postgres
async def test_d5_4_a_read_only_transaction_is_refused_with_a_sentence(postgres: Postgres) -> None:
    psycopg = pytest.importorskip("psycopg")
    postgres.sql(GONE, f"SET ROLE {OWNER}", ORDERS, database=OWNER)
    connection = await psycopg.AsyncConnection.connect(postgres.dsn())
    opened = await Database(connection).open()
    await connection.set_read_only(True)
    for _ in range(2):
        transaction = opened.transaction()
        await transaction.begin()
        with pytest.raises(CommitRefusedError, match="the transaction is read-only, so its marker cannot be written"):
            await transaction.mark(os.urandom(16), Q_MGR)
        await transaction.release()
    await connection.close()
    with pytest.raises(DatabaseAwayError, match="the connection of psycopg is closed: give a pool"):
        await opened.transaction().begin()
    await opened.close()
