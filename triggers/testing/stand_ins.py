"""The databases of a test: SQLite in memory in the place of what the app has, fresh for each test."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker import Database
from broker.transactions import database_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from triggers.app.app import App

MEMORY: Final = ":memory:"
BUSY: Final = 0.5
"""Seconds that a test's own statements wait for a transaction that is open."""


class StandIns:
    """The databases of an app in a test: a path of SQLite one in memory, any other itself, unless the test says
    what it is.
    """

    def __init__(self, app: App, said: Mapping[Any, Any]) -> None:
        self._app = app
        self._said = {database_of(each).key: stand_in for each, stand_in in said.items()}
        self._made: dict[Any, Database] = {}
        self._connections: dict[Any, sqlite3.Connection] = {}

    def of(self, database: Database) -> Database:
        """Return the database that is used in the place of one."""
        which = database.key, database.gives
        made = self._made.get(which)
        if made is None:
            made = self._made[which] = self._new(database)
        return made

    def connection(self, database: Database) -> sqlite3.Connection:
        """A connection of the test's own to a database that is in memory. Raises ValueError for another."""
        self.of(database)
        found = self._connections.get(database.key)
        if found is None:
            raise ValueError(f"{database.source!r} is no SQLite database in memory: ask it by its own driver")
        return found

    def close(self) -> None:
        """Forget what is in memory."""
        for connection in self._connections.values():
            connection.close()

    def _new(self, database: Database) -> Database:
        stand_in = self._said.get(database.key)
        if stand_in is None:
            stand_in = MEMORY if isinstance(database.source, str | Path) and database.threaded else database
        if isinstance(stand_in, str) and stand_in == MEMORY:
            return self._in_memory(database)
        return database_of(stand_in)

    def _in_memory(self, database: Database) -> Database:
        if database.source == "django" or str(database.source).startswith("django:"):
            return database
        name = f"file:/evermq-{uuid.uuid4().hex}?vfs=memdb"  # one database for all connections of the process
        self._connections[database.key] = sqlite3.connect(
            name, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY
        )
        awaited = any(
            each.database is not None and each.database.key == database.key and not each.threaded
            for each in self._app.handlers.values()
        )
        source: str | Callable[[], Any] = _opener(name) if awaited else name
        return Database(source, table=str(database.table), name=database.name or "memory", durable=False)


def _opener(name: str) -> Callable[[], Any]:
    def opened() -> Any:
        import aiosqlite

        return aiosqlite.connect(name, uri=True, isolation_level=None)

    return opened
