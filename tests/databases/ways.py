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

    def look_as_judge(self, text: str) -> None:
        """Meddle, as one that may."""
        assert self.postgres is not None
        self.postgres.sql(text, database=OWNER)

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


class AsyncPostgresWay(PostgresWay):
    """A driver for coroutines, whose `transaction()` nests."""

    async def sql(self, connection: Any, text: str) -> None:
        await connection.execute(text)

    async def nested(self, connection: Any, text: str) -> None:
        async with connection.transaction(), connection.transaction():
            await connection.execute(text)

    async def undo_nested(self, connection: Any) -> None:
        """It is undone."""


class AsyncpgPool(AsyncPostgresWay):
    needs = "asyncpg"
    places = 3

    def source(self) -> Any:
        import asyncpg

        return lambda: asyncpg.create_pool(self.dsn, min_size=1, max_size=3)


class AsyncpgConnection(AsyncpgPool):
    places = 1

    def source(self) -> Any:
        import asyncpg

        return lambda: asyncpg.connect(self.dsn)


class PsycopgWay(PostgresWay):
    needs = "psycopg"

    async def sql(self, connection: Any, text: str) -> None:
        connection.execute(text)

    async def nested(self, connection: Any, text: str) -> None:
        with connection.transaction(), connection.transaction():
            connection.execute(text)

    async def undo_nested(self, connection: Any) -> None:
        """It is undone."""


class PsycopgPool(PsycopgWay):
    needs = "psycopg_pool"
    places = 3

    def source(self) -> Any:
        import psycopg_pool

        return lambda: psycopg_pool.ConnectionPool(self.dsn, min_size=1, max_size=3, open=False)


class PsycopgConnection(PsycopgWay):
    def source(self) -> Any:
        import psycopg

        return lambda: psycopg.connect(self.dsn, autocommit=True)


class AsyncPsycopgPool(AsyncPostgresWay):
    needs = "psycopg_pool"
    places = 3

    def source(self) -> Any:
        import psycopg_pool

        return lambda: psycopg_pool.AsyncConnectionPool(self.dsn, min_size=1, max_size=3, open=False)


class AsyncPsycopgConnection(AsyncPsycopgPool):
    places = 1

    def source(self) -> Any:
        import psycopg

        return lambda: psycopg.AsyncConnection.connect(self.dsn)


class AlchemyWay(DatabaseWay):
    """An engine of SQLAlchemy's, or sessions of it."""

    needs = "sqlalchemy"
    driver = "sqlite"
    checks_foreign_keys = False

    @property
    def url(self) -> str:
        if self.dialect == "sqlite":
            return f"{self.driver}:///{self.file}"
        assert self.postgres is not None
        return f"{self.driver}://{OWNER}@/{OWNER}?host={self.postgres.folder}&port={self.postgres.port}"

    def source(self) -> Any:
        import sqlalchemy

        return lambda: sqlalchemy.create_engine(self.url, **self.size)

    @property
    def size(self) -> dict[str, int]:
        return {} if self.dialect == "sqlite" else {"pool_size": 3, "max_overflow": 0, "pool_timeout": 1}

    async def sql(self, connection: Any, text: str) -> None:
        from sqlalchemy import text as clause

        connection.execute(clause(text))

    async def nested(self, connection: Any, text: str) -> None:
        from sqlalchemy import text as clause

        with connection.begin_nested():
            connection.execute(clause(text))

    async def undo_nested(self, connection: Any) -> None:
        """It is undone."""


class AlchemySession(AlchemyWay):
    def source(self) -> Any:
        import sqlalchemy
        import sqlalchemy.orm

        return lambda: sqlalchemy.orm.sessionmaker(sqlalchemy.create_engine(self.url, **self.size))


class AlchemyPsycopg(AlchemyWay):
    dialect: Dialect = "postgresql"
    driver = "postgresql+psycopg"
    places = 3
    checks_foreign_keys = True
    look = PostgresWay.look


class AsyncAlchemy(AlchemyWay):
    needs = "greenlet"
    driver = "sqlite+aiosqlite"

    def source(self) -> Any:
        from sqlalchemy.ext.asyncio import create_async_engine

        return lambda: create_async_engine(self.url, **self.size)

    async def sql(self, connection: Any, text: str) -> None:
        from sqlalchemy import text as clause

        await connection.execute(clause(text))

    async def nested(self, connection: Any, text: str) -> None:
        from sqlalchemy import text as clause

        async with connection.begin_nested():
            await connection.execute(clause(text))


class AsyncAlchemyAsyncpg(AsyncAlchemy):
    dialect: Dialect = "postgresql"
    driver = "postgresql+asyncpg"
    places = 3
    checks_foreign_keys = True
    look = PostgresWay.look


class AsyncAlchemySession(AsyncAlchemyAsyncpg):
    def source(self) -> Any:
        from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

        return lambda: async_sessionmaker(create_async_engine(self.url, **self.size))


class Django(DatabaseWay):
    needs = "django"
    alias = "default"
    checks_foreign_keys = False

    @property
    def settings(self) -> dict[str, Any]:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(self.file)}

    def source(self) -> Any:
        if not self.made:
            self.configure()
            self.made.append(self.alias)
        return f"django:{self.alias}" if self.alias != "default" else "django"

    def configure(self) -> None:
        """Settings as those of a project; this test's database in them."""
        import django
        from django.conf import settings
        from django.db import connections

        if not settings.configured:
            settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
            django.setup()
        connections.settings = connections.configure_settings({**settings.DATABASES, self.alias: self.settings})
        if hasattr(connections._connections, self.alias):
            delattr(connections._connections, self.alias)

    async def sql(self, connection: Any, text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)

    async def nested(self, connection: Any, text: str) -> None:
        from django.db import transaction

        with transaction.atomic(self.alias), connection.cursor() as cursor:
            cursor.execute(text)

    async def undo_nested(self, connection: Any) -> None:
        """It is undone."""


class DjangoPostgres(Django):
    places = 0  # each thread has its own
    dialect: Dialect = "postgresql"
    alias = "orders"
    checks_foreign_keys = True
    look = PostgresWay.look

    @property
    def settings(self) -> dict[str, Any]:
        assert self.postgres is not None
        where = {"HOST": str(self.postgres.folder), "PORT": self.postgres.port}
        return {"ENGINE": "django.db.backends.postgresql", "NAME": OWNER, "USER": OWNER, **where}


WAYS: Final[dict[str, type[DatabaseWay]]] = {
    "sqlite3-path": SqlitePath,
    "sqlite3-function": SqliteFunction,
    "aiosqlite": Aiosqlite,
    "aiosqlite-connect": AiosqliteConnect,
    "asyncpg-pool": AsyncpgPool,
    "asyncpg-connection": AsyncpgConnection,
    "psycopg-pool": PsycopgPool,
    "psycopg-connection": PsycopgConnection,
    "psycopg-async-pool": AsyncPsycopgPool,
    "psycopg-async-connection": AsyncPsycopgConnection,
    "sqlalchemy-sqlite": AlchemyWay,
    "sqlalchemy-session-sqlite": AlchemySession,
    "sqlalchemy-psycopg": AlchemyPsycopg,
    "sqlalchemy-aiosqlite": AsyncAlchemy,
    "sqlalchemy-asyncpg": AsyncAlchemyAsyncpg,
    "sqlalchemy-session-asyncpg": AsyncAlchemySession,
    "django-sqlite": Django,
    "django-postgres": DjangoPostgres,
}


def is_there(way: type[DatabaseWay]) -> bool:
    """True if the package of a way is installed."""
    return find_spec(way.needs) is not None
