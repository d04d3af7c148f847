"""Sessions and connections of SQLAlchemy that a program has, as a route of FastAPI has one."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from broker.databases.database import Database
from broker.databases.errors import TransactionEndedError
from tests.databases.flows import Q_MGR, order
from tests.databases.ways import GONE, ORDERS, AsyncAlchemyAsyncpg, SqlitePath
from tests.sharing.postgres import OWNER, Postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

sqlalchemy = pytest.importorskip("sqlalchemy")
pytest.importorskip("greenlet")

from sqlalchemy import text  # noqa: E402
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine  # noqa: E402
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column  # noqa: E402

pytestmark = pytest.mark.postgres


class Base(DeclarativeBase):  # type: ignore[misc,unused-ignore]
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture
async def engine(postgres: Postgres, tmp_path: Path) -> AsyncIterator[Any]:
    postgres.sql(GONE, f"SET ROLE {OWNER}", ORDERS, database=OWNER)
    engine = create_async_engine(AsyncAlchemyAsyncpg(tmp_path, postgres).url)
    yield engine
    await engine.dispose()


async def test_sessions_of_an_engine_are_one_database_that_is_opened_once(
    engine: Any, postgres: Postgres, tmp_path: Path
) -> None:
    way = AsyncAlchemyAsyncpg(tmp_path, postgres)
    opened = await Database(engine).open()
    for number in (1, 2):
        async with AsyncSession(engine) as session:
            database = Database(session)
            assert database.key == Database(engine).key
            assert database.given is session
            transaction = opened.transaction(database.given)
            await transaction.begin()
            assert transaction.connection is session
            session.add(Order(id=number))  # flushed before the marker
            unit = os.urandom(16)
            await transaction.mark(unit, Q_MGR)
            await transaction.commit()
            await transaction.release()
            assert not session.in_transaction()
            assert await opened.probe(unit, Q_MGR) is True
            assert len((await session.execute(text("SELECT id FROM orders"))).all()) == number  # it is not closed
    assert way.orders() == ["1", "2"]
    await opened.close()
    async with engine.connect() as connection:
        assert Database(connection).given is connection
        await connection.execute(text("SELECT 1"))  # the engine was not disposed of: it is the program's


async def test_a_session_that_is_in_a_transaction_is_refused(engine: Any) -> None:
    opened = await Database(engine).open()
    async with AsyncSession(engine) as session:
        for _ in range(2):
            await session.execute(text("SELECT 1"))
            with pytest.raises(RuntimeError, match="the session is in a transaction already"):
                await opened.transaction(session).begin()
            assert session.in_transaction()  # as it was
        await session.rollback()
        transaction = opened.transaction(session)
        await transaction.begin()
        await transaction.commit()
        await transaction.release()


async def test_a_flush_that_has_failed_and_is_swallowed_is_found(engine: Any) -> None:
    opened = await Database(engine).open()
    async with AsyncSession(engine) as session:
        for _ in range(2):
            transaction = opened.transaction(session)
            await transaction.begin()
            session.add_all([Order(id=1), Order(id=2)])
            await session.flush()
            session.add(Order(id=3))
            await session.execute(text(order(4)))
            with pytest.raises(Exception, match="duplicate"):
                await session.execute(text(order(1)))
            with pytest.raises(TransactionEndedError):
                await transaction.mark(os.urandom(16), Q_MGR)
            await transaction.release()
            assert not session.in_transaction()


def test_a_session_for_threads_is_known_by_its_engine(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look(ORDERS)
    engine = sqlalchemy.create_engine(f"sqlite:///{way.file}")
    with Session(engine) as session, engine.connect() as connection:
        for given in (session, connection):
            assert Database(given).key == Database(engine).key
            assert Database(given).given is given
            assert Database(given).threaded is True
    assert Database(engine).given is None
    engine.dispose()


def test_an_engine_of_another_database_is_a_type_error() -> None:
    engine = sqlalchemy.create_mock_engine("mysql+pymysql://", lambda *_: None)
    with pytest.raises(TypeError):
        Database(engine)


async def test_begin_is_ours_over_sqlite_and_a_program_that_begins_by_events_keeps_its_own(tmp_path: Path) -> None:
    way = SqlitePath(tmp_path)
    way.look(ORDERS)
    engine = sqlalchemy.create_engine(f"sqlite:///{way.file}")

    @sqlalchemy.event.listens_for(engine, "connect")  # type: ignore[misc,unused-ignore,untyped-decorator]
    def leave_alone(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")  # type: ignore[misc,unused-ignore,untyped-decorator]
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    opened = await Database(engine).open()

    async def flow() -> None:
        for number in (1, 2):
            transaction = opened.transaction()
            await transaction.begin()
            transaction.connection.execute(text(order(number)))
            await transaction.mark(os.urandom(16), Q_MGR)
            await transaction.commit()
            await transaction.release()

    await opened.run(flow())
    assert (way.orders(), way.markers()) == (["1", "2"], ["committed"] * 2)
    await opened.close()
    engine.dispose()
