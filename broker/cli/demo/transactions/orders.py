"""The table of orders in the database of the demonstration. It has no key: an order that is written twice is two rows.

The tables of a demonstration have names of their own, so that it meets nothing else in a database that it is given.
"""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from broker.cli.program_database import is_postgresql, source_of_address
from broker.databases.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

PLACES: Final = 4
"""Transactions at a time in one worker."""

_BUSY_SECONDS: Final = 30.0


class OrderTable(Protocol):
    """The orders of one account, and the markers of their transactions."""

    connection_type: type

    async def create(self) -> None:
        """Make the table of orders."""

    async def drop(self) -> None:
        """Remove both tables."""

    async def numbers(self) -> Counter[int]:
        """Return how many rows each order has."""

    def database(self) -> Database:
        """The database, for `@app.handler(database=)`."""

    async def write(self, connection: Any, order: int) -> None:
        """Insert the row of an order in the transaction of a connection."""

    async def has(self, connection: Any, order: int) -> bool:
        """True if the transaction of a connection sees a row of an order."""
        ...

    def opened(self) -> AbstractAsyncContextManager[Any]:
        """A connection of one's own, for who commits by hand."""

    async def begin(self, connection: Any) -> None: ...

    async def commit(self, connection: Any) -> None: ...


class SQLiteOrders:
    """A table of orders in an SQLite file."""

    def __init__(self, address: str, name: str) -> None:
        import aiosqlite

        self.connection_type: type = aiosqlite.Connection
        self._address = address
        self._name = name

    async def create(self) -> None:
        await self._run(f"CREATE TABLE {self._name} (number INTEGER NOT NULL)")

    async def drop(self) -> None:
        for name in (self._name, f"{self._name}_unit"):
            await self._run(f"DROP TABLE IF EXISTS {name}")

    async def numbers(self) -> Counter[int]:
        return Counter(row[0] for row in await self._run(f"SELECT number FROM {self._name}"))

    def database(self) -> Database:
        import aiosqlite

        return Database(lambda: aiosqlite.connect(self._address), table=f"{self._name}_unit", name="demo")

    async def write(self, connection: Any, order: int) -> None:
        await connection.execute(f"INSERT INTO {self._name} VALUES (?)", (order,))

    async def has(self, connection: Any, order: int) -> bool:
        return bool(await connection.execute_fetchall(f"SELECT 1 FROM {self._name} WHERE number = ?", (order,)))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        import aiosqlite

        async with aiosqlite.connect(self._address, timeout=_BUSY_SECONDS, isolation_level=None) as connection:
            yield connection

    async def begin(self, connection: Any) -> None:
        await connection.execute("BEGIN IMMEDIATE")

    async def commit(self, connection: Any) -> None:
        await connection.execute("COMMIT")

    async def _run(self, sql: str) -> list[Any]:
        async with self.opened() as connection:
            return list(await connection.execute_fetchall(sql))


class PostgresOrders:
    """A table of orders in a PostgreSQL database."""

    def __init__(self, address: str, name: str) -> None:
        self._source = source_of_address(address, places=PLACES)
        import asyncpg

        self.connection_type: type = asyncpg.Connection
        self._address = address
        self._name = name

    async def create(self) -> None:
        async with self.opened() as connection:
            await connection.execute(f"CREATE TABLE {self._name} (number bigint NOT NULL)")

    async def drop(self) -> None:
        async with self.opened() as connection:
            await connection.execute(f"DROP TABLE IF EXISTS {self._name}, {self._name}_unit")

    async def numbers(self) -> Counter[int]:
        async with self.opened() as connection:
            return Counter(row[0] for row in await connection.fetch(f"SELECT number FROM {self._name}"))

    def database(self) -> Database:
        return Database(self._source, table=f"{self._name}_unit", name="demo")

    async def write(self, connection: Any, order: int) -> None:
        await connection.execute(f"INSERT INTO {self._name} VALUES ($1)", order)

    async def has(self, connection: Any, order: int) -> bool:
        return bool(await connection.fetch(f"SELECT 1 FROM {self._name} WHERE number = $1", order))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        import asyncpg

        connection = await asyncpg.connect(self._address)
        try:
            yield connection
        finally:
            await connection.close()

    async def begin(self, connection: Any) -> None:
        await connection.execute("BEGIN")

    async def commit(self, connection: Any) -> None:
        await connection.execute("COMMIT")


def order_table(address: str, name: str) -> OrderTable:
    """The orders in a database. Raises CannotRunError."""
    return PostgresOrders(address, name) if is_postgresql(address) else SQLiteOrders(address, name)
