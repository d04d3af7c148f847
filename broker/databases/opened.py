"""A database while an app runs: its transactions, and the markers for who resolves and who cleans."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from concurrent.futures import ThreadPoolExecutor
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.databases.calls import driven
from broker.databases.errors import DatabaseAwayError, ProgramDatabaseError
from broker.databases.failures import told
from broker.databases.markers import ABORTED, COMMITTED, ID_UNIT, units_of
from broker.databases.short_transactions import is_away, judged, rows_of, transacted
from broker.databases.transaction import DatabaseTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from broker.clock import Clock
    from broker.databases.adapter import Adapter, Value
    from broker.databases.calls import AdapterCalls
    from broker.databases.markers import Markers
    from broker.databases.preparing import PreparedDatabase

T = TypeVar("T")

logger = logging.getLogger(__name__)

LOCK_SECONDS: Final = 2.0
"""The longest that a resolver waits for a transaction that may still be committed."""

DELETED_MAX: Final = 1000
"""The number of markers that a transaction deletes at most."""

_THREADS: Final = 2


class OpenDatabase:
    """A database that has been looked at (`Database.open`). It belongs to one event loop."""

    def __init__(self, calls: AdapterCalls, markers: Markers, clock: Clock) -> None:
        self.id = b""
        self.name = ""
        self.weakness = ""
        """Why a COMMIT may be lost there, which Database(durable=False) takes; "" where none is."""
        self.markers = markers
        self.clock = clock
        self._calls = calls
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    @property
    def adapter(self) -> Adapter:
        return self._calls.adapter

    @property
    def threaded(self) -> bool:
        """True if a transaction blocks: it runs in one thread, and never in that of the event loop."""
        return self._calls.threaded

    @property
    def gives(self) -> tuple[type, ...]:
        """The types of connections, by which a handler's parameter is known."""
        return self._calls.adapter.gives

    @property
    def label(self) -> str:
        """The name and eight digits of a hash of the id, for people: the id itself is a secret."""
        return f"{self.name} {hashlib.sha256(self.id).hexdigest()[:8]}"

    def prepared(self, found: PreparedDatabase, name: str) -> None:
        """Know what the look at the database has found."""
        self.id, self.name, self.weakness = found.id, name or found.name, found.weakness

    def transaction(self, given: Any = None) -> DatabaseTransaction:
        """A transaction of the program, not yet begun: on a connection of its own, or on a session that is given."""
        return DatabaseTransaction(self._calls, self.markers, self.clock, given)

    # For who resolves and who cleans: from the event loop

    async def probe(self, unit: bytes, q_mgr: str) -> bool | None:
        """Find out what a unit's transaction has come to, or see to it that it is never committed: insert the marker as
        aborted. True: committed. False: aborted. None: not known yet, since the transaction is open or the database is
        away; ask again. Raises DatabaseUnusableError where asking again will not help.
        """
        return await self.run(self._probe(unit, q_mgr))

    async def delete(self, units: Iterable[bytes]) -> None:
        """Delete markers, up to 1,000 in a transaction. Raises DatabaseAwayError, DatabaseUnusableError."""
        left = [unit for unit in units if unit != ID_UNIT]
        for start in range(0, len(left), DELETED_MAX):
            part = left[start : start + DELETED_MAX]
            await self.run(rows_of(self._calls, self.markers.delete(len(part)), *part))

    async def old_markers(self, q_mgr: str, before: float, limit: int) -> list[bytes]:
        """Return the units of markers of a queue manager's instance from before a time, aborted ones only a day later:
        at most `limit`, oldest first. Raises DatabaseAwayError, DatabaseUnusableError.
        """
        return units_of(await self.run(rows_of(self._calls, self.markers.old(before, limit), q_mgr)))

    async def rows(self, sql: str, *values: Value) -> Sequence[Sequence[Any]]:
        """Run a statement in a transaction of its own. Raises DatabaseAwayError, DatabaseUnusableError."""
        return await self.run(rows_of(self._calls, sql, *values))

    async def close(self) -> None:
        """Close what was made when it was opened: the connections of paths, and what a function has made."""
        if self._closed:
            return
        self._closed = True
        close = getattr(self.adapter, "close", None)
        try:
            if close is not None:
                await self.run(_plain(close) if self.threaded else close())
        except Exception as error:
            logger.debug("database not closed: %s", told(error))
        finally:
            if self._threads is not None:
                self._threads.shutdown(wait=False)

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine of this database from the event loop; that of a threaded one runs in a thread of ours."""
        if not self.threaded:
            return await coroutine
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "evermq-database")
        running = asyncio.get_running_loop().run_in_executor(self._threads, driven, coroutine)
        try:
            return await running
        finally:
            if running.cancelled() and getcoroutinestate(coroutine) == CORO_CREATED:  # no thread will begin it
                coroutine.close()

    async def _probe(self, unit: bytes, q_mgr: str) -> bool | None:
        try:
            async with transacted(self._calls, LOCK_SECONDS) as connection:
                await self._calls.execute(connection, self.markers.insert(ABORTED, self.clock.time()), unit, q_mgr)
        except DatabaseAwayError:
            return None
        except (ProgramDatabaseError, RuntimeError):
            raise
        except Exception as error:
            if not self.adapter.is_duplicate(error):
                if is_away(self._calls, error):
                    return None
                raise judged(self._calls, error) from error
        else:
            return False
        return await self._word_of(unit)

    async def _word_of(self, unit: bytes) -> bool | None:
        """Read, in a new transaction, the marker that is there."""
        try:
            rows = await rows_of(self._calls, self.markers.select_outcome, unit)
        except DatabaseAwayError:
            return None
        return {COMMITTED: True, ABORTED: False}.get(rows[0][0]) if rows else None


async def _plain(function: Callable[[], None]) -> None:
    function()
