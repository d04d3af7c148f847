"""A pool between a member and the database, such as PgBouncer: it will do where each client has a session of its own.

A pool that lends sessions for one transaction each would give a member the settings of another, and tell it of nothing.
It is found out by what cannot be had there: a notification is heard by nobody, since its session is not the client's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

import anyio
import asyncpg

from broker.sharing.database.schema import UnsuitableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.sharing.database.sessions import DatabaseSession

HEAR_SECONDS: Final = 2.0
"""The time in which a notification comes."""

_SHARED: Final = (
    "a pool in between lends its sessions for one transaction each: connect to PostgreSQL itself, or to a pool that "
    "gives each client a session of its own (pool_mode = session in PgBouncer)"
)


async def check_pool(session: DatabaseSession, another: Callable[[], Awaitable[DatabaseSession]]) -> None:
    """Refuse a pool whose sessions are not their client's own. `session` has nothing set yet, which others would get;
    `another` makes one more. Raises UnsuitableError, what the database raises.
    """
    try:
        if await session.fetchval("SELECT pg_backend_pid()") == session.get_server_pid():
            return  # nobody is in between: the server itself has told its number
        if not await _hears(session, another):
            raise UnsuitableError(_SHARED)
    except (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError) as error:
        raise UnsuitableError(_SHARED) from error


async def _hears(session: DatabaseSession, another: Callable[[], Awaitable[DatabaseSession]]) -> bool:
    heard, channel = anyio.Event(), f"evermq_{uuid4().hex}"
    await session.add_listener(channel, lambda *_: heard.set())
    other = await another()
    try:
        await other.execute(f"NOTIFY {channel}")
        with anyio.move_on_after(HEAR_SECONDS):
            await heard.wait()
    finally:
        other.terminate()
    await session.execute(f"UNLISTEN {channel}")
    return heard.is_set()
