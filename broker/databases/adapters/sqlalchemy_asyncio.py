"""SQLAlchemy 2 for asyncio: an AsyncEngine, an async_sessionmaker, or a session or connection that the program has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker

from broker.databases.adapters.sqlalchemy import AlchemyAdapter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.databases.adapter import Value
    from broker.databases.choosing import DatabaseSource


def async_engine_of(source: Any) -> AsyncEngine:
    """Return the engine of a session or connection. Raises TypeError for what has none."""
    match source:
        case AsyncEngine():
            return source
        case AsyncConnection():
            return source.engine
        case async_sessionmaker():
            return async_engine_of(source())
        case AsyncSession() if isinstance(source.bind, AsyncEngine | AsyncConnection):
            return async_engine_of(source.bind)
        case AsyncSession():
            bind = source.get_bind()
            return AsyncEngine(bind if isinstance(bind, Engine) else bind.engine)
    raise TypeError(f"of SQLAlchemy for asyncio a database is no {type(source).__qualname__}")


def is_given(source: Any) -> bool:
    """True for a session or connection, which is the program's own."""
    return isinstance(source, AsyncConnection | AsyncSession)


class AsyncSQLAlchemyAdapter(AlchemyAdapter):
    """The adapter of SQLAlchemy for coroutines."""

    threaded = False
    maker, kind, connection = async_sessionmaker, AsyncSession, AsyncConnection

    def __init__(self, given: DatabaseSource) -> None:
        super().__init__(given, async_engine_of(given.source))
        self._turn = asyncio.Lock() if self.dialect == "sqlite" else None

    async def acquire(self) -> Any:
        if self._turn is not None:
            await self._turn.acquire()
        try:
            made = self._source() if self._makes_sessions else await self._source.connect()
        except BaseException:
            if self._turn is not None:
                self._turn.release()
            raise
        self._lent.add(id(made))
        return made

    async def begin(self, connection: Any) -> None:
        await connection.run_sync(self._steps.begin)

    async def execute(self, connection: Any, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = await connection.run_sync(self._steps.execute, sql, *values)
        return rows

    async def commit(self, connection: Any) -> None:
        await connection.run_sync(self._steps.commit)

    async def rollback(self, connection: Any) -> None:
        await connection.rollback()

    async def release(self, connection: Any, broken: bool) -> None:
        """Give back what was taken here."""
        is_ours = self._is_ours(connection)
        try:
            if broken:
                await connection.invalidate()
        finally:
            try:
                if is_ours:
                    await connection.close()
            finally:
                if is_ours and self._turn is not None:
                    self._turn.release()

    async def close(self) -> None:
        """Close what a function has made."""
        if self._function is not None:
            await self._engine.dispose()
