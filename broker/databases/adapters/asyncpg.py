"""asyncpg: a Pool, or a Connection.

BEGIN is asyncpg's own, `connection.transaction()`: behind one that was sent by hand it refuses the program's. It goes
to the server with a setting behind it, in one round trip. No other statement goes with it: where one failed there,
asyncpg would take BEGIN for failed, and roll nothing back.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from broker.databases import failures
from broker.databases.adapter import numbered, with_literals
from broker.databases.errors import DatabaseAwayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncpg.transaction import Transaction

    from broker.databases.adapter import Value
    from broker.databases.choosing import DatabaseSource

_END_SECONDS: Final = 5.0
"""The longest that a server may take to reset a connection that goes back to its pool, and to end those of a pool."""


class AsyncpgAdapter:
    """The adapter of asyncpg."""

    dialect: Literal["postgresql"] = "postgresql"
    gives = (asyncpg.Connection, PoolConnectionProxy)
    threaded = False

    def __init__(self, given: DatabaseSource) -> None:
        self._source: Any = given.source
        self._is_pool = isinstance(given.source, asyncpg.Pool)
        self._function = given.function
        self._turn = asyncio.Lock()
        self._new: dict[Any, Transaction] = {}
        self._begun: dict[Any, Transaction] = {}

    async def acquire(self) -> Any:
        if self._is_pool:
            return await self._source.acquire()
        await self._turn.acquire()
        try:
            if self._source.is_closed():
                if self._function is None:
                    raise DatabaseAwayError("the connection is closed: give a pool, which makes new ones")
                self._source = await self._function()
        except BaseException:
            self._turn.release()
            raise
        return self._source

    async def begin(self, connection: Any) -> None:
        if connection.is_in_transaction():
            raise RuntimeError("the connection is in a transaction already, which EverMQ must begin itself")
        self._new[connection] = connection.transaction()

    async def execute(self, connection: Any, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        if sql.startswith("SELECT") or " RETURNING " in sql:
            await self._begin_with(connection)
            return [tuple(row) for row in await connection.fetch(numbered(sql), *values)]
        text = with_literals(sql, values)  # without arguments nothing is prepared, which takes a round trip
        if sql.startswith("SET LOCAL") and await self._begin_with(connection, text):
            return []
        await self._begin_with(connection)
        await connection.execute(text)
        return []

    async def commit(self, connection: Any) -> None:
        await self._begin_with(connection)
        transaction = self._begun.pop(connection)
        tag = _tagged(transaction)
        await transaction.commit()
        if tag.last == "ROLLBACK":
            raise failures.rolled_back()

    async def _begin_with(self, connection: Any, text: str = "") -> bool:
        """Begin the transaction, with this behind it, where that is not done: return False."""
        transaction = self._new.pop(connection, None)
        if transaction is None:
            return False
        self._begun[connection] = transaction
        _tagged(transaction).behind = text
        await transaction.start()
        return True

    async def rollback(self, connection: Any) -> None:
        self._new.pop(connection, None)
        transaction = self._begun.pop(connection, None)
        if transaction is not None:
            await transaction.rollback()

    async def release(self, connection: Any, broken: bool) -> None:
        self._new.pop(connection, None)
        self._begun.pop(connection, None)
        try:
            if broken:
                connection.terminate()
        finally:
            if self._is_pool:
                await self._source.release(connection, timeout=_END_SECONDS)
            else:
                self._turn.release()

    is_duplicate = staticmethod(failures.is_duplicate)
    is_definite = staticmethod(failures.is_definite)

    async def close(self) -> None:
        """Close what a function has made."""
        if self._function is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self._source.close()
            self._source.terminate()


def watched(connection: Any) -> AnswerTag | None:
    """Keep the answer to the COMMIT of the transaction that a connection is in, whoever sends it."""
    transaction = connection._top_xact
    return None if transaction is None else _tagged(transaction)


def _tagged(transaction: Any) -> AnswerTag:
    tag = transaction._connection
    if not isinstance(tag, AnswerTag):
        transaction._connection = tag = AnswerTag(tag)
    return tag


class AnswerTag:
    """A connection of a transaction of asyncpg's that keeps the last answer, which asyncpg does not look at. What it
    executes ends with a semicolon, and `behind` goes with it.
    """

    __slots__ = ("behind", "connection", "last")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.last = ""
        self.behind = ""

    @property
    def _top_xact(self) -> Any:
        return self.connection._top_xact

    @_top_xact.setter
    def _top_xact(self, transaction: Any) -> None:
        self.connection._top_xact = transaction

    async def execute(self, query: str) -> str:
        self.last = await self.connection.execute(query + self.behind)
        self.behind = ""
        return self.last

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)
