"""Django: "django", or "django:ALIAS" for another of its databases. The program uses its models as ever.

A transaction is `atomic(durable=True)`. A block that Django has marked for rollback would be left quietly: it is asked
before the marker. The functions of `on_commit` run behind COMMIT, before the queue manager is told.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Literal

from django.db import connections, transaction

from broker.databases import failures
from broker.databases.adapter import each_statement
from broker.databases.adapters.sqlite import BUSY
from broker.databases.errors import DatabaseAwayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.databases.adapter import Value
    from broker.databases.choosing import DatabaseSource

logger = logging.getLogger(__name__)

_INERROR = 3  # the status of a transaction that has failed, in libpq


class DjangoAdapter:
    """The adapter of Django. Connections are those of the thread."""

    gives: tuple[type, ...] = ()
    threaded = True

    def __init__(self, given: DatabaseSource) -> None:
        self._alias = str(given.source).partition(":")[2] or "default"
        self._wait = given.pool_wait
        self._turn = threading.Lock()
        self._begun: dict[int, _Block] = {}

    @property
    def dialect(self) -> Literal["sqlite", "postgresql"]:
        """The SQL of the database. Raises TypeError for one that is neither."""
        vendor = connections[self._alias].vendor
        if vendor == "sqlite":
            return "sqlite"
        if vendor == "postgresql":
            return "postgresql"
        raise TypeError(f"Django's database {self._alias!r} is {vendor}: a database is PostgreSQL or SQLite")

    def acquire(self) -> Any:
        if self.dialect == "sqlite" and not self._turn.acquire(timeout=self._wait):
            raise DatabaseAwayError(BUSY)
        return connections[self._alias]

    def begin(self, connection: Any) -> None:
        if connection.in_atomic_block:
            raise RuntimeError(
                "Django is in atomic() here already: call it outside, without ATOMIC_REQUESTS "
                "(@transaction.non_atomic_requests), and in tests with TransactionTestCase"
            )
        self._begun[id(connection)] = _Block(self._alias)

    def execute(self, connection: Any, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        if connection.needs_rollback:
            raise failures.swallowed()
        rows: Sequence[Sequence[Any]] = []
        for statement, own in each_statement(sql, values):
            with connection.cursor() as cursor:
                cursor.execute(statement.replace("?", "%s"), own or None)
                rows = cursor.fetchall() if cursor.description is not None else []
        return rows

    def commit(self, connection: Any) -> None:
        if connection.needs_rollback or _has_failed(connection.connection):
            raise failures.rolled_back()
        self._begun.pop(id(connection)).commit()

    def rollback(self, connection: Any) -> None:
        block = self._begun.pop(id(connection), None)
        if block is not None:
            block.rollback()

    def release(self, connection: Any, broken: bool) -> None:
        try:
            if broken:
                self.rollback(connection)
                connection.close()
            else:
                connection.close_if_unusable_or_obsolete()  # as behind a request: CONN_MAX_AGE
        finally:
            if self._turn.locked() and self.dialect == "sqlite":
                self._turn.release()

    is_duplicate = staticmethod(failures.is_duplicate)
    is_definite = staticmethod(failures.is_definite)


class _Block:
    """An atomic block that was entered."""

    def __init__(self, alias: str) -> None:
        self._atomic = transaction.atomic(using=alias, durable=True)
        self._atomic.__enter__()
        self._is_committed = False
        transaction.on_commit(self._committed, using=alias)  # the first of all: it runs when COMMIT is done

    def commit(self) -> None:
        """Leave it with COMMIT. What a function of `on_commit` raises is logged: the transaction is committed."""
        try:
            self._atomic.__exit__(None, None, None)
        except Exception:
            if not self._is_committed:
                raise
            logger.exception(
                "a function of on_commit has failed; the transaction is committed", extra={"event": "on_commit_failed"}
            )

    def rollback(self) -> None:
        """Leave it with ROLLBACK."""
        self._atomic.__exit__(RuntimeError, RuntimeError(), None)

    def _committed(self) -> None:
        self._is_committed = True


def _has_failed(driver: Any) -> bool:
    """True if PostgreSQL would answer COMMIT with ROLLBACK."""
    info = getattr(driver, "info", None)
    return getattr(info, "transaction_status", None) == _INERROR
