"""A program's database, as it names it: what it works with, and the options."""

from __future__ import annotations

from inspect import isawaitable, isclass, iscoroutine
from pathlib import Path
from typing import Any

from broker.clock import Clock
from broker.databases.adapter import Adapter
from broker.databases.calls import AdapterCalls
from broker.databases.choosing import DatabaseSource, adapter_of, library_of, package_of
from broker.databases.errors import DatabaseAwayError, ProgramDatabaseError
from broker.databases.failures import told
from broker.databases.markers import Markers, TableName
from broker.databases.opened import OpenDatabase
from broker.databases.preparing import DatabaseCheck


class Database:
    """The program's own database, in whose transactions messages are put and handled.

    `source` is what the program works with: a path or a function that opens a connection (sqlite3), a function that
    opens one (aiosqlite), a Pool or Connection (asyncpg), an AsyncConnectionPool, ConnectionPool or connection (psycopg
    3), an Engine, AsyncEngine, sessionmaker, async_sessionmaker, session or connection (SQLAlchemy 2), "django" or
    "django:ALIAS" (Django), an object with the members of `Adapter`; or a function that makes one of these when the app
    starts, which is closed by the app.

    `table` is the name of the table of markers, which the app makes at its start if it may (`create`). `name` is what
    people see. With `durable=False` a database is taken that may lose a COMMIT. `outcome_wait`: seconds to find out
    what has become of a COMMIT whose answer was lost. `pool_wait`: seconds to wait for a connection.

    Raises TypeError for a source that no adapter takes, ValueError for a table or seconds that are none.
    """

    def __init__(
        self,
        source: Any,
        *,
        table: str = "evermq_unit",
        create: bool = True,
        name: str = "",
        durable: bool = True,
        outcome_wait: float = 10.0,
        pool_wait: float = 30.0,
    ) -> None:
        for option, seconds in (("outcome_wait", outcome_wait), ("pool_wait", pool_wait)):
            if not seconds > 0:
                raise ValueError(f"Database({option}={seconds!r}): it takes seconds, more than 0")
        self.source = source
        self.table = TableName.parsed(table)
        self.create = create
        self.name = name
        self.durable = durable
        self.outcome_wait = outcome_wait
        self.pool_wait = pool_wait
        home, self.given = _home_of(source)
        """A session or connection that the program has for this transaction alone; None for what gives them."""
        self.key = (str(home) if isinstance(home, str | Path) else id(home), self.table, name)
        """The same for all that is of one database, such as the sessions of an engine."""
        self._home = home  # which keeps its id
        self._adapter = None if _is_function(source) else adapter_of(DatabaseSource(source, pool_wait))

    @property
    def threaded(self) -> bool | None:
        """True if its transactions block, so that they are for threads; None where that is known when it is open."""
        return None if self._adapter is None else self._adapter.threaded

    @property
    def gives(self) -> tuple[type, ...]:
        """The types of the connections that it gives; none where that is known when it is open."""
        return () if self._adapter is None else self._adapter.gives

    async def open(self, clock: Clock | None = None) -> OpenDatabase:
        """Make the source if it is a function, look at the database, and make its table if need be.

        Raises DatabaseAwayError: try again later. DatabaseUnusableError: somebody has to do what its text says.
        TypeError for what a function has made and no adapter takes.
        """
        adapter = await self._made()
        calls = AdapterCalls(adapter, self.pool_wait)
        markers = Markers(self.table, adapter.dialect)
        opened = OpenDatabase(calls, markers, clock or Clock())
        try:
            check = DatabaseCheck(calls, markers, create=self.create, durable=self.durable)
            opened.prepared(await opened.run(check.run()), self.name)
        except BaseException:
            await opened.close()
            raise
        return opened

    async def _made(self) -> Adapter:
        if not _is_function(self.source):
            await _begun(self.source)
            return adapter_of(DatabaseSource(self.source, self.pool_wait))
        try:
            made = self.source()
            if iscoroutine(made):
                made = await made
            if (opens := _opener_of(made)) == "sqlite3":
                made.close()  # it is bound to this thread: each transaction opens its own
                return adapter_of(DatabaseSource(Path(), self.pool_wait, self.source))
            if not opens and isawaitable(made):
                made = await made
            await _begun(made)
        except (ProgramDatabaseError, TypeError):
            raise
        except Exception as error:
            raise DatabaseAwayError(f"the function of the database has failed: {told(error)}") from error
        return adapter_of(DatabaseSource(made, self.pool_wait, self.source))


def database_of(source: Any) -> Database:
    """Return a Database as it is, and one with the default options for anything else. Raises TypeError."""
    return source if isinstance(source, Database) else Database(source)


def _home_of(source: Any) -> tuple[Any, Any]:
    """Return what stands for a database, and what was given of it, None for itself."""
    if _is_function(source) or isinstance(source, Adapter) or package_of(source) != "sqlalchemy":
        return source, None
    from broker.databases.adapters.sqlalchemy import home_of

    return home_of(source)


def _is_function(source: Any) -> bool:
    """True for what is called to make the source. Makers of sessions are called for each transaction."""
    return callable(source) and not isclass(source) and not isinstance(source, Adapter) and library_of(source) is None


def _opener_of(made: Any) -> str:
    """Return the package of SQLite whose connection a function has opened; "" where it has made something else."""
    found = library_of(made)
    return found if found in ("sqlite3", "aiosqlite") else ""


async def _begun(source: Any) -> None:
    """Begin a pool that was made and not opened yet; harmless for one that was."""
    if isawaitable(source) and hasattr(source, "acquire"):  # of asyncpg
        await source
    elif hasattr(source, "getconn") and source.closed:  # of psycopg
        opening = source.open()
        if isawaitable(opening):
            await opening
