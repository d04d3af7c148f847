"""Short transactions of EverMQ's own on the program's database: for the look at the start, resolvers and cleaners."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from broker.databases.errors import DatabaseAwayError, DatabaseUnusableError, ProgramDatabaseError
from broker.databases.failures import has_waited, sqlstate_of, told
from broker.databases.transaction import given_back, taken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from broker.databases.adapter import Value
    from broker.databases.calls import AdapterCalls

_LATER: Final = ("08", "53", "57", "40", "55P03")
"""Beginnings of SQLSTATEs of what will be better later."""


@asynccontextmanager
async def transacted(calls: AdapterCalls, seconds: float | None = None) -> AsyncIterator[Any]:
    """Yield a connection that is in a transaction, and commit at the end. Errors of the driver are raised as they are.
    With `seconds` nobody is waited for any longer, neither for a connection nor for a lock.
    """
    connection = await taken(calls, seconds)
    broken = True
    try:
        await _limit_busy(calls, connection, seconds)
        await calls.begin(connection)
        if seconds is not None and calls.adapter.dialect == "postgresql":
            await calls.execute(connection, f"SET LOCAL lock_timeout = {int(seconds * 1000)}")
        yield connection
        await calls.commit(connection)
        await _limit_busy(calls, connection, None if seconds is None else calls.pool_wait)
        broken = False
    except BaseException:
        broken = not await _rolled_back(calls, connection, seconds)
        raise
    finally:
        await given_back(calls, connection, broken=broken)


async def rows_of(calls: AdapterCalls, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
    """Run a statement in a transaction of its own; its rows. Raises DatabaseAwayError, DatabaseUnusableError."""
    try:
        async with transacted(calls) as connection:
            return await calls.execute(connection, sql, *values)
    except (ProgramDatabaseError, RuntimeError):
        raise
    except Exception as error:
        raise judged(calls, error) from error


def judged(calls: AdapterCalls, error: Exception) -> ProgramDatabaseError:
    """Return the error for one of the driver: will it be better later, or must somebody do something?"""
    if is_away(calls, error):
        return DatabaseAwayError(f"the database cannot be used now: {told(error)}")
    return DatabaseUnusableError(f"the database refuses what EverMQ asks for: {told(error)}")


def is_away(calls: AdapterCalls, error: Exception) -> bool:
    """True for an error of the driver that may not come again later."""
    definite = calls.adapter.is_definite(error)
    return not definite or has_waited(error) or (sqlstate_of(error) or "").startswith(_LATER)


async def _limit_busy(calls: AdapterCalls, connection: Any, seconds: float | None) -> None:
    """Limit how long SQLite waits for others; it takes this outside a transaction alone."""
    if seconds is not None and calls.adapter.dialect == "sqlite":
        await calls.execute(connection, f"PRAGMA busy_timeout = {int(seconds * 1000)}")


async def _rolled_back(calls: AdapterCalls, connection: Any, seconds: float | None) -> bool:
    """Roll back; False where the connection is of no more use."""
    try:
        await calls.rollback(connection)
        await _limit_busy(calls, connection, None if seconds is None else calls.pool_wait)
    except Exception:
        return False
    return True
