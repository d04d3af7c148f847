"""An app whose process freezes at a step of its first transaction, by SIGSTOP: it is imported by workers alone."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from broker import Database
from triggers import App, Retry

if TYPE_CHECKING:
    from broker.transactions import TransactionStep
    from triggers.serving.session import AppSession

WAY, ADDRESS = os.environ["FROZEN_WAY"], os.environ["FROZEN_ADDRESS"]
STEPS = [each for each in os.environ.get("FROZEN_BEHIND", "").split() if each]
INSERT = "INSERT INTO orders VALUES ({})"


async def reached(step: TransactionStep) -> None:
    """Stand still behind a step, until somebody sends SIGCONT."""
    if STEPS and step.value == STEPS[0]:
        STEPS.pop(0)
        os.kill(os.getpid(), signal.SIGSTOP)


class FreezingApp(App):
    """An app whose process freezes."""

    def running(self, **options: Any) -> AppSession:
        session = super().running(**options)
        session.databases.reached_step = reached
        return session


def source() -> tuple[Any, type]:
    """The database, and the type of its connections."""
    if WAY == "asyncpg":
        import asyncpg

        return lambda: asyncpg.create_pool(ADDRESS, min_size=1, max_size=2), asyncpg.Connection
    if WAY == "psycopg":
        import psycopg
        import psycopg_pool

        return lambda: psycopg_pool.ConnectionPool(ADDRESS, min_size=1, max_size=2, open=False), psycopg.Connection
    if WAY == "aiosqlite":
        import aiosqlite

        return lambda: aiosqlite.connect(ADDRESS), aiosqlite.Connection
    import sqlite3

    return ADDRESS, sqlite3.Connection


app = FreezingApp("mq://127.0.0.1:1", name="FROZEN")
app.queue("INVOICES")
_source, _kind = source()


async def awaited(order: str, connection: Any) -> None:
    await connection.execute(INSERT.format(order))
    await app.put("INVOICES", order)


def plain(order: str, connection: Any) -> None:
    connection.execute(INSERT.format(order))
    app.sync.put("INVOICES", order)


_handler = plain if WAY in ("psycopg", "sqlite3") else awaited
_handler.__annotations__ |= {"order": str, "connection": _kind, "return": None}
app.handler("ORDERS", database=Database(_source), concurrency=1, retry=Retry(3, backoff=1))(_handler)
