"""sqlite3: a path, or a function that opens a connection. One transaction at a time, since SQLite has one writer.

BEGIN IMMEDIATE is ours: RELEASE of an outermost savepoint would be a COMMIT. A path has one connection, which the
threads take in turn. What a function opens may be bound to its thread: it is opened for a transaction, and closed.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from broker.databases import failures
from broker.databases.adapter import each_statement
from broker.databases.errors import DatabaseAwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.databases.adapter import Value
    from broker.databases.choosing import DatabaseSource


class InTransaction(Protocol):
    """A connection of sqlite3 or aiosqlite."""

    @property
    def in_transaction(self) -> bool: ...


CLOSING: Final = 5.0
"""Seconds for which the end waits for a transaction that is under way."""

BUSY = "another transaction holds the SQLite database, which has one writer at a time: keep transactions short"


class SQLiteAdapter:
    """The adapter of sqlite3."""

    dialect: Literal["sqlite"] = "sqlite"
    gives = (sqlite3.Connection,)
    threaded = True

    def __init__(self, given: DatabaseSource) -> None:
        self._wait = given.pool_wait
        self._is_path = given.function is None
        self._open: Callable[[], sqlite3.Connection] = given.function or self._open_path
        self._path = str(given.source)
        self._turn = threading.Lock()
        self._kept: sqlite3.Connection | None = None

    def acquire(self) -> sqlite3.Connection:
        """Wait for the other transactions of this process, and return a connection."""
        if not self._turn.acquire(timeout=self._wait):
            raise DatabaseAwayError(BUSY)
        try:
            if self._kept is None:
                self._kept = self._opened()
            return self._kept
        except BaseException:
            self._turn.release()
            raise

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin, and wait for the other processes."""
        check_idle(connection)
        connection.execute("BEGIN IMMEDIATE")

    def execute(self, connection: sqlite3.Connection, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        return executed(connection, sql, values)

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def rollback(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def release(self, connection: sqlite3.Connection, broken: bool) -> None:
        try:
            if broken or not (self._is_path or _is_in_memory(connection)):
                self._kept = None
                connection.close()
        finally:
            self._turn.release()

    is_duplicate = staticmethod(failures.is_duplicate)
    is_definite = staticmethod(failures.is_definite)

    def close(self) -> None:
        """Close the connection that is kept, behind the transaction that a thread has on it: closed meanwhile, it would
        end the process. Where that does not end in time the connection stays open.
        """
        if not self._turn.acquire(timeout=min(self._wait, CLOSING)):
            return
        try:
            kept, self._kept = self._kept, None
            if kept is not None:
                with suppress(sqlite3.ProgrammingError):  # it is bound to another thread
                    kept.close()
        finally:
            self._turn.release()

    def _open_path(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, uri=self._path.startswith("file:")
        )

    def _opened(self) -> sqlite3.Connection:
        connection = self._open()
        if getattr(connection, "autocommit", None) is False:
            connection.autocommit = True  # type: ignore[attr-defined]  # of Python 3.12; False begins by itself
        if connection.isolation_level is not None and not connection.in_transaction:
            connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {int(self._wait * 1000)}").close()
        return connection


def executed(connection: sqlite3.Connection, sql: str, values: Sequence[Value]) -> list[Any]:
    """Run statements one by one; the rows of the last."""
    rows: list[Any] = []
    for statement, own in each_statement(sql, values):
        cursor = connection.execute(statement, own)
        cursor.row_factory = None  # whatever the program has set
        rows = cursor.fetchall()
        cursor.close()
    return rows


def check_idle(connection: InTransaction) -> None:
    """Raise RuntimeError for a connection that is in a transaction."""
    if connection.in_transaction:
        raise RuntimeError(
            "the connection is in a transaction already, which EverMQ must begin itself: let the function open a new "
            "connection, and run no statement on it before"
        )


def _is_in_memory(connection: sqlite3.Connection) -> bool:
    """True if the database ends with its connection."""
    try:
        return not any(row[2] for row in executed(connection, "PRAGMA database_list", ()))
    except sqlite3.Error:
        return False
