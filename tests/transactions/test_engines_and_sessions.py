"""An engine of SQLAlchemy and a maker of its sessions in one app: each handler is given what its own database gives."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from triggers import App

pytest.importorskip("sqlalchemy")
pytest.importorskip("greenlet")

from sqlalchemy import text
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("first", ["engine", "sessions"])
async def test_a_handler_is_given_what_its_own_database_gives(first: str, tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'orders.db'}")
    sessions = async_sessionmaker(engine)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE orders (id TEXT)"))
    async with QueueManager.open(name="QM1") as manager:
        app = App(manager)
        app.database({"engine": engine, "sessions": sessions}[first])
        given: dict[str, type] = {}
        both = asyncio.Event()

        async def written(queue: str, body: str, through: AsyncConnection | AsyncSession) -> None:
            await through.execute(text(f"INSERT INTO orders VALUES ('{body}')"))
            given[queue] = type(through)
            if len(given) == 2:
                both.set()

        @app.handler("A", database=engine)
        async def by_connection(body: str, connection: AsyncConnection) -> None:
            await written("A", body, connection)

        @app.handler("B", database=sessions)
        async def by_session(body: str, session: AsyncSession) -> None:
            await written("B", body, session)

        async with app.running():
            await app.put("A", "1")
            async with sessions() as session, app.transaction(session) as t:
                assert t.connection is session
                await session.execute(text("INSERT INTO orders VALUES ('3')"))
                await app.put("B", "2")
            async with app.transaction(engine) as t:
                assert type(t.connection) is AsyncConnection
            await both.wait()
        assert given == {"A": AsyncConnection, "B": AsyncSession}
    async with engine.connect() as connection:
        assert [row.id for row in await connection.execute(text("SELECT id FROM orders ORDER BY id"))] == [*"123"]
    await engine.dispose()


def test_another_annotation_is_refused_with_what_the_database_gives(tmp_path: Path) -> None:
    app = App("unused", name="SHOP")
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'orders.db'}")
    with pytest.raises(TypeError, match=r"this database gives a sqlalchemy\.ext\.asyncio\.engine\.AsyncConnection$"):

        @app.handler("A", database=engine)
        async def handle(body: str, session: AsyncSession) -> None: ...
