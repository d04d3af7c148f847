"""psycopg 3: an AsyncConnectionPool, a ConnectionPool, or a connection of either kind."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from broker.databases import failures
from broker.databases.errors import DatabaseAwayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.databases.adapter import Value
    from broker.databases.choosing import DatabaseSource


def psycopg_adapter(given: DatabaseSource) -> PsycopgAdapter | AsyncPsycopgAdapter:
    """Return the adapter for a pool or connection. Raises TypeError."""
    source = given.source
    if isinstance(source, psycopg.AsyncConnection):
        return AsyncPsycopgAdapter(given)
    if isinstance(source, psycopg.Connection):
        return PsycopgAdapter(given)
    import psycopg_pool  # a package of its own

    if isinstance(source, psycopg_pool.AsyncConnectionPool):
        return AsyncPsycopgAdapter(given)
    if isinstance(source, psycopg_pool.ConnectionPool):
        return PsycopgAdapter(given)
    raise TypeError(f"of psycopg a database is a pool or a connection, and no {type(source).__qualname__}")


class PsycopgAdapter:
    """The adapter of psycopg for threads."""

    dialect: Literal["postgresql"] = "postgresql"
    gives = (psycopg.Connection,)
    threaded = True

    def __init__(self, given: DatabaseSource) -> None:
        self._source: Any = given.source
        self._is_pool = not isinstance(given.source, psycopg.Connection)
        self._function = given.function
        self._wait = given.pool_wait
        self._turn = threading.Lock()

    def acquire(self) -> Any:
        if self._is_pool:
            return self._source.getconn(self._wait)
        if not self._turn.acquire(timeout=self._wait):
            raise TimeoutError
        try:
            if self._source.closed:
                if self._function is None:
                    raise _closed()
                self._source = self._function()
        except BaseException:
            self._turn.release()
            raise
        return self._source

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        _check_idle(connection)
        if connection.autocommit:
            connection.execute("BEGIN", prepare=False)

    def execute(self, connection: psycopg.Connection[Any], sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        cursor = psycopg.Cursor(connection, row_factory=tuple_row)
        cursor.execute(sql.replace("?", "%s").encode(), values, prepare=False)
        return cursor.fetchall() if cursor.description is not None else []

    def commit(self, connection: psycopg.Connection[Any]) -> None:
        _check_open(connection)
        cursor = psycopg.Cursor(connection)
        cursor.execute("COMMIT", prepare=False)
        _check_committed(cursor.statusmessage)

    def rollback(self, connection: psycopg.Connection[Any]) -> None:
        connection.rollback()

    def release(self, connection: psycopg.Connection[Any], broken: bool) -> None:
        try:
            if broken:
                connection.close()
        finally:
            if self._is_pool:
                self._source.putconn(connection)
            else:
                self._turn.release()

    is_duplicate = staticmethod(failures.is_duplicate)
    is_definite = staticmethod(failures.is_definite)

    def close(self) -> None:
        """Close what a function has made."""
        if self._function is not None:
            self._source.close()


class AsyncPsycopgAdapter:
    """The adapter of psycopg for coroutines."""

    dialect: Literal["postgresql"] = "postgresql"
    gives = (psycopg.AsyncConnection,)
    threaded = False

    def __init__(self, given: DatabaseSource) -> None:
        self._source: Any = given.source
        self._is_pool = not isinstance(given.source, psycopg.AsyncConnection)
        self._function = given.function
        self._wait = given.pool_wait
        self._turn = asyncio.Lock()

    async def acquire(self) -> Any:
        if self._is_pool:
            return await self._source.getconn(self._wait)
        await self._turn.acquire()
        try:
            if self._source.closed:
                if self._function is None:
                    raise _closed()
                self._source = await self._function()
        except BaseException:
            self._turn.release()
            raise
        return self._source

    async def begin(self, connection: psycopg.AsyncConnection[Any]) -> None:
        _check_idle(connection)
        if connection.autocommit:
            await connection.execute("BEGIN", prepare=False)

    async def execute(
        self, connection: psycopg.AsyncConnection[Any], sql: str, *values: Value
    ) -> Sequence[Sequence[Any]]:
        cursor = psycopg.AsyncCursor(connection, row_factory=tuple_row)
        await cursor.execute(sql.replace("?", "%s").encode(), values, prepare=False)
        return await cursor.fetchall() if cursor.description is not None else []

    async def commit(self, connection: psycopg.AsyncConnection[Any]) -> None:
        _check_open(connection)
        cursor = psycopg.AsyncCursor(connection)
        await cursor.execute("COMMIT", prepare=False)
        _check_committed(cursor.statusmessage)

    async def rollback(self, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.rollback()

    async def release(self, connection: psycopg.AsyncConnection[Any], broken: bool) -> None:
        try:
            if broken:
                await connection.close()
        finally:
            if self._is_pool:
                await self._source.putconn(connection)
            else:
                self._turn.release()

    is_duplicate = staticmethod(failures.is_duplicate)
    is_definite = staticmethod(failures.is_definite)

    async def close(self) -> None:
        """Close what a function has made."""
        if self._function is not None:
            await self._source.close()


_Connection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


def _check_idle(connection: _Connection) -> None:
    if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        raise RuntimeError("the connection of psycopg is in a transaction already: commit it or roll it back before")


def _check_open(connection: _Connection) -> None:
    """Raise TransactionEndedError where COMMIT would be answered, and nothing committed."""
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise failures.rolled_back()
    if status == TransactionStatus.IDLE:
        raise failures.ended_by_program()


def _check_committed(tag: str | None) -> None:
    if tag == "ROLLBACK":
        raise failures.rolled_back()


def _closed() -> DatabaseAwayError:
    return DatabaseAwayError("the connection of psycopg is closed: give a pool, which makes new ones")
