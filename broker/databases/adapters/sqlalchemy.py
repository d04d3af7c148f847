"""SQLAlchemy 2: an engine, a maker of sessions, or a session or connection that the program has; async or for threads.

A session is flushed before the marker; its objects expire behind COMMIT as ever. Over SQLite BEGIN is ours, since the
driver begins by itself only before it writes, and RELEASE of an outermost savepoint would be a COMMIT.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session, sessionmaker

from broker.databases import failures
from broker.databases.adapter import each_statement, numbered
from broker.databases.adapters.sqlite import BUSY
from broker.databases.errors import DatabaseAwayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.databases.adapter import Value
    from broker.databases.choosing import DatabaseSource

_INERROR = 3  # the status of a transaction that has failed, in libpq


def sqlalchemy_adapter(given: DatabaseSource) -> Any:
    """Return the adapter for an engine, a maker of sessions, or what an engine is known by. Raises TypeError."""
    if is_async(given.source):
        from broker.databases.adapters.sqlalchemy_asyncio import AsyncSQLAlchemyAdapter, async_engine_of

        maker = hasattr(given.source, "kw")
        return AsyncSQLAlchemyAdapter(given if maker else given._replace(source=async_engine_of(given.source)))
    maker = isinstance(given.source, sessionmaker)
    return SQLAlchemyAdapter(given if maker else given._replace(source=engine_of(given.source)))


def home_of(source: Any) -> tuple[Any, Any]:
    """Return what stands for the database of a source, an engine, and what was given of it: None for engines and makers
    of sessions. Raises TypeError.
    """
    if is_async(source):
        from broker.databases.adapters.sqlalchemy_asyncio import async_engine_of, is_given

        return async_engine_of(source), source if is_given(source) else None
    return engine_of(source), source if isinstance(source, Connection | Session) else None


def is_async(source: Any) -> bool:
    """True for what SQLAlchemy has for asyncio, which needs a package more."""
    return any(each.__module__.startswith("sqlalchemy.ext.asyncio") for each in type(source).__mro__)


def engine_of(source: Any) -> Engine:
    """Return the engine of a session or connection. Raises TypeError for what has none."""
    match source:
        case Engine():
            return source
        case Connection():
            return source.engine
        case sessionmaker():
            return engine_of(source())
        case Session():
            return source.get_bind().engine
    raise TypeError(f"of SQLAlchemy a database is an engine, a sessionmaker, a session or a connection, not {source!r}")


class AlchemyAdapter:
    """The part of the adapters of SQLAlchemy that does not wait. `maker` and `kind` are the classes of a maker of
    sessions and of a session, `connection` that of a connection.
    """

    maker: type
    kind: type
    connection: type

    def __init__(self, given: DatabaseSource, engine: Any) -> None:
        self._source: Any = given.source
        self._engine: Any = engine
        self._function = given.function
        self._steps = AlchemySteps(given.pool_wait, self.dialect)
        self._wait = given.pool_wait
        self._lent: set[int] = set()

    @property
    def dialect(self) -> Literal["sqlite", "postgresql"]:
        """The SQL of the engine. Raises TypeError for one that is neither."""
        return dialect_of(self._engine)

    @property
    def gives(self) -> tuple[type, ...]:
        return (self.kind,) if self._makes_sessions else (self.connection,)

    @property
    def _makes_sessions(self) -> bool:
        return isinstance(self._source, self.maker)

    def _is_ours(self, connection: Any) -> bool:
        """True for what was taken here, which goes back: what the program has given is its own."""
        is_ours = id(connection) in self._lent
        self._lent.discard(id(connection))
        return is_ours

    is_duplicate = staticmethod(failures.is_duplicate)
    is_definite = staticmethod(failures.is_definite)


class SQLAlchemyAdapter(AlchemyAdapter):
    """The adapter of SQLAlchemy for threads."""

    threaded = True
    maker, kind, connection = sessionmaker, Session, Connection

    def __init__(self, given: DatabaseSource) -> None:
        super().__init__(given, engine_of(given.source))
        self._turn = threading.Lock() if self.dialect == "sqlite" else None

    def acquire(self) -> Any:
        if self._turn is not None and not self._turn.acquire(timeout=self._wait):
            raise DatabaseAwayError(BUSY)
        try:
            made = self._source() if self._makes_sessions else self._source.connect()
        except BaseException:
            if self._turn is not None:
                self._turn.release()
            raise
        self._lent.add(id(made))
        return made

    def begin(self, connection: Any) -> None:
        self._steps.begin(connection)

    def execute(self, connection: Any, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        return self._steps.execute(connection, sql, *values)

    def commit(self, connection: Any) -> None:
        self._steps.commit(connection)

    def rollback(self, connection: Any) -> None:
        connection.rollback()

    def release(self, connection: Any, broken: bool) -> None:
        """Give back what was taken here."""
        is_ours = self._is_ours(connection)
        try:
            if broken:
                connection.invalidate()
        finally:
            try:
                if is_ours:
                    connection.close()
            finally:
                if is_ours and self._turn is not None:
                    self._turn.release()

    def close(self) -> None:
        """Close what a function has made."""
        if self._function is not None:
            self._engine.dispose()


class AlchemySteps:
    """The steps on a Connection or Session; those of the async ones run in `run_sync`."""

    def __init__(self, wait: float, dialect: str) -> None:
        self._busy = int(wait * 1000)
        self._is_sqlite = dialect == "sqlite"

    def begin(self, of: Connection | Session) -> None:
        if of.in_transaction():
            raise RuntimeError(
                "the session is in a transaction already, which a first statement begins by itself: commit it or roll "
                "it back before app.transaction(session)"
            )
        of.begin()
        connection = _connection(of)
        if self._is_sqlite:
            if of.info.get(_LIMITED) is None:
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {self._busy}")
            if not _driver(connection).in_transaction:
                connection.exec_driver_sql("BEGIN IMMEDIATE")

    def execute(self, of: Connection | Session, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        begun = of.in_transaction()
        try:
            if isinstance(of, Session):
                of.flush()
            rows = self._executed(_connection(of), sql, values)
        except InvalidRequestError as error:  # of a session behind a flush that has failed
            raise failures.swallowed() from error
        if not begun:  # a setting of the connection's: the transaction that it has begun is none
            of.info[_LIMITED] = True
            of.rollback()
        return rows

    def commit(self, of: Connection | Session) -> None:
        tag = _watched(_driver(_connection(of)))
        of.commit()
        if tag is not None and tag.last == "ROLLBACK":
            raise failures.rolled_back()

    def _executed(self, connection: Connection, sql: str, values: Sequence[Value]) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = []
        for statement, own in each_statement(sql, values):
            result = connection.exec_driver_sql(_styled(statement, connection.dialect.paramstyle), own or None)
            rows = result.fetchall() if result.returns_rows else []
        return rows


_LIMITED = "evermq_busy_timeout"


def _connection(of: Connection | Session) -> Connection:
    return of.connection() if isinstance(of, Session) else of


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _watched(driver: Any) -> Any:
    """Have the answer to COMMIT kept where a driver does not look at it. Raises TransactionEndedError where it is known
    before that nothing would be committed.
    """
    package = type(driver).__module__.partition(".")[0]
    if package == "asyncpg":
        from broker.databases.adapters.asyncpg import watched

        return watched(driver)
    if package == "psycopg" and driver.info.transaction_status == _INERROR:
        raise failures.rolled_back()
    if package == "psycopg2" and driver.get_transaction_status() == _INERROR:
        raise failures.rolled_back()
    return None


def _styled(statement: str, paramstyle: str) -> str:
    """Return a statement with the placeholders of a driver."""
    if paramstyle == "numeric_dollar":
        return numbered(statement)
    return statement if paramstyle == "qmark" else statement.replace("?", "%s")


def dialect_of(engine: Any) -> Literal["sqlite", "postgresql"]:
    name = engine.dialect.name
    if name == "sqlite":
        return "sqlite"
    if name == "postgresql":
        return "postgresql"
    raise TypeError(f"an engine of {name}: a database is PostgreSQL or SQLite")
