"""The ways in which programs work on a database of their own: the same for all tests, so that each is told once.

A way makes a `Database`, runs the program's SQL on the connection that a transaction gives, and looks at what is there
by a session that no adapter knows.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from broker.databases.database import Database
from tests.sharing.postgres import OWNER

if TYPE_CHECKING:
    from pathlib import Path

    from broker.databases.adapter import Dialect
    from tests.sharing.postgres import Postgres

ORDERS: Final = "CREATE TABLE orders (id INTEGER PRIMARY KEY)"
GONE: Final = "DROP TABLE IF EXISTS orders, lines, evermq_unit, other_unit CASCADE"


class DatabaseWay:
    """One of them. `needs`: the package without which it is skipped."""

    dialect: Dialect = "sqlite"
    needs = "sqlite3"
    places = 1  # transactions at a time
    checks_foreign_keys = True

    def __init__(self, folder: Path, postgres: Postgres | None = None) -> None:
        self.file = folder / "orders.db"
        self.postgres = postgres
        self.made: list[Any] = []

    def source(self) -> Any:
        """What a program gives, new at each call."""
        raise NotImplementedError

    def database(self, **options: Any) -> Database:
        return Database(self.source(), **options)

    async def sql(self, connection: Any, text: str) -> None:
        """Run a statement as the program does."""
        raise NotImplementedError

    async def commit(self, connection: Any) -> None:
        """Commit as a program does that should not."""
        await self.sql(connection, "COMMIT")

    async def rollback(self, connection: Any) -> None:
        await self.sql(connection, "ROLLBACK")

    async def begin(self, connection: Any) -> None:
        await self.sql(connection, "BEGIN")

    def failing(self, text: str) -> str:
        """Return an insert whose failure ends the transaction."""
        return text.replace("INSERT", "INSERT OR ROLLBACK") if self.dialect == "sqlite" else text

    async def undo_nested(self, connection: Any) -> None:
        """Undo a savepoint in which a statement has failed, where `nested` has not."""
        await self.sql(connection, "ROLLBACK TO SAVEPOINT own")

    def prepare_deferred(self) -> None:
        """Make a table whose foreign keys are looked at by COMMIT; in SQLite on connections that ask for it."""
        self.look("CREATE TABLE lines (id INTEGER REFERENCES orders DEFERRABLE INITIALLY DEFERRED)")

    async def nested(self, connection: Any, text: str) -> None:
        """Run a statement in a savepoint by the driver's own means."""
        for each in ("SAVEPOINT own", text, "RELEASE SAVEPOINT own"):
            await self.sql(connection, each)

    def look(self, text: str) -> list[tuple[Any, ...]]:
        """Return rows by a session of one's own, numbers as text."""
        with closing(sqlite3.connect(self.file)) as judge, judge:
            return [tuple(map(str, row)) for row in judge.execute(text).fetchall()]

    def orders(self) -> list[str]:
        return [row[0] for row in self.look("SELECT id FROM orders ORDER BY id")]

    def markers(self) -> list[str]:
        """The outcomes of the markers that are there."""
        return [
            row[0] for row in self.look("SELECT outcome FROM evermq_unit WHERE outcome <> 'database' ORDER BY outcome")
        ]

    async def close(self) -> None:
        """Close what the program has opened itself."""


class SqlitePath(DatabaseWay):
    checks_foreign_keys = False

    def source(self) -> Any:
        return self.file

    async def sql(self, connection: sqlite3.Connection, text: str) -> None:
        connection.execute(text)


class SqliteFunction(SqlitePath):
    checks_foreign_keys = True

    def source(self) -> Any:
        def opens() -> sqlite3.Connection:
            connection = sqlite3.connect(self.file)
            connection.execute("PRAGMA foreign_keys = ON")
            return connection

        return opens


class Aiosqlite(DatabaseWay):
    needs = "aiosqlite"

    def source(self) -> Any:
        import aiosqlite

        async def opens() -> aiosqlite.Connection:
            connection = await aiosqlite.connect(self.file)
            await connection.execute("PRAGMA foreign_keys = ON")
            return connection

        return opens

    async def sql(self, connection: Any, text: str) -> None:
        await connection.execute(text)


class AiosqliteConnect(Aiosqlite):
    checks_foreign_keys = False

    def source(self) -> Any:
        import aiosqlite

        return lambda: aiosqlite.connect(self.file)


class PostgresWay(DatabaseWay):
    dialect: Dialect = "postgresql"

    @property
    def dsn(self) -> str:
        assert self.postgres is not None
        return self.postgres.dsn()

    def look(self, text: str) -> list[tuple[Any, ...]]:
        assert self.postgres is not None
        return [tuple(row) for row in self.postgres.sql(f"SET ROLE {OWNER}", text, database=OWNER)]


class AsyncpgPool(PostgresWay):
    needs = "asyncpg"
    places = 3

    def source(self) -> Any:
        import asyncpg

        return lambda: asyncpg.create_pool(self.dsn, min_size=1, max_size=3)

    async def sql(self, connection: Any, text: str) -> None:
        await connection.execute(text)

    async def nested(self, connection: Any, text: str) -> None:
        async with connection.transaction(), connection.transaction():
            await connection.execute(text)

    async def undo_nested(self, connection: Any) -> None:
        """It is undone."""


class AsyncpgConnection(AsyncpgPool):
    places = 1

    def source(self) -> Any:
        import asyncpg

        return lambda: asyncpg.connect(self.dsn)


WAYS: Final[dict[str, type[DatabaseWay]]] = {
    "sqlite3-path": SqlitePath,
    "sqlite3-function": SqliteFunction,
    "aiosqlite": Aiosqlite,
    "aiosqlite-connect": AiosqliteConnect,
    "asyncpg-pool": AsyncpgPool,
    "asyncpg-connection": AsyncpgConnection,
}


def is_there(way: type[DatabaseWay]) -> bool:
    """True if the package of a way is installed."""
    return find_spec(way.needs) is not None
