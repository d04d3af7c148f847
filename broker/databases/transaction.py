"""One transaction of the program, from BEGIN to COMMIT or ROLLBACK, with its marker.

1. `begin` takes a connection, begins, and leaves something in the transaction that is gone with it: in SQLite a
   savepoint, in PostgreSQL a setting.
2. `mark` inserts the marker where that is still there. It is not where the program has ended the transaction, or has
   swallowed the error of a statement that did: else a marker without its work would be committed.
3. `commit` returns when the database has said that it is done. CommitRefusedError: it is not, and never will be.
   OutcomeUnknownError: nobody knows; COMMIT is not sent again, the marker is asked for (`OpenDatabase.probe`).
4. `release` gives the connection back, after a rollback where neither came to its end; one that was lost goes back as
   broken.
"""

from __future__ import annotations

import logging
from itertools import count
from typing import TYPE_CHECKING, Any

from broker.databases.errors import (
    CommitRefusedError,
    DatabaseAwayError,
    OutcomeUnknownError,
    ProgramDatabaseError,
)
from broker.databases.failures import ended_by_program, is_missing_table, refusal, told

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.databases.calls import AdapterCalls
    from broker.databases.markers import Markers

logger = logging.getLogger(__name__)

_numbers = count(1)  # of transactions


class DatabaseTransaction:
    """A transaction of the program's. Each method is awaited, or driven in the thread of a threaded adapter."""

    def __init__(self, calls: AdapterCalls, markers: Markers, clock: Clock, given: Any = None) -> None:
        self.connection: Any = None
        """The connection, or session, that the program is given."""
        self.is_committed = False
        self._calls = calls
        self._markers = markers
        self._clock = clock
        self._given = given
        self._number = next(_numbers)
        self._held: list[Any] = []
        self._open = False
        self._broken = False

    async def begin(self) -> None:
        """Take a connection and begin. Raises DatabaseAwayError, with nothing left behind; RuntimeError if the session
        that was given is in a transaction.
        """
        self.connection = await taken(self._calls) if self._given is None else self._given
        self._held = [self.connection]
        try:
            await self._calls.begin(self.connection)
            self._open = True
            await self._calls.execute(self.connection, self._markers.opening(self._number))
        except (ProgramDatabaseError, RuntimeError):
            await self.release()
            raise
        except Exception as error:
            self._broken = True
            await self.release()
            raise DatabaseAwayError(f"the database has not begun a transaction: {told(error)}") from error
        except BaseException:
            self._broken = True
            await self.release()
            raise

    async def mark(self, unit: bytes, q_mgr: str) -> None:
        """Write the marker. Raises CommitRefusedError; TransactionEndedError is one."""
        sql, values = self._markers.marking(self._number, self._clock.time())
        try:
            rows = await self._calls.execute(self.connection, sql, unit, q_mgr, *values)
        except CommitRefusedError:
            raise
        except Exception as error:
            if is_missing_table(error):
                raise CommitRefusedError(
                    "the table of markers has gone; make it again, by this or by a start of the app: "
                    f"{self._markers.ddl()} ({told(error)})"
                ) from error
            raise refusal(error) from error
        if not rows and self._markers.dialect == "postgresql":
            raise ended_by_program()

    async def commit(self) -> None:
        """Commit. Raises CommitRefusedError, and OutcomeUnknownError for a connection that was lost."""
        try:
            await self._calls.commit(self.connection)
        except CommitRefusedError:
            raise
        except Exception as error:
            if self._calls.adapter.is_definite(error):
                raise refusal(error) from error
            self._lose()
            raise OutcomeUnknownError(f"the connection was lost in COMMIT ({told(error)})") from error
        except BaseException:
            self._lose()
            raise
        self._open = False
        self.is_committed = True

    async def rollback(self) -> None:
        """Roll back. It never fails: a connection on which that is not possible is broken."""
        if not self._open:
            return
        self._open = False
        try:
            await self._calls.rollback(self.connection)
        except Exception as error:
            self._broken = True
            logger.debug("rollback failed: the connection is closed: %s", told(error))

    async def release(self) -> None:
        """Give the connection back, once, after a rollback if the transaction is open. It never fails."""
        if self._broken:
            self._open = False
        await self.rollback()
        while self._held:
            await given_back(self._calls, self._held.pop(), broken=self._broken)

    def _lose(self) -> None:
        self._open = False
        self._broken = True


async def taken(calls: AdapterCalls, seconds: float | None = None) -> Any:
    """Return a connection. Raises DatabaseAwayError, RuntimeError."""
    try:
        return await calls.acquire(seconds)
    except (ProgramDatabaseError, RuntimeError):
        raise
    except TimeoutError as error:
        raise DatabaseAwayError(
            "no connection to the database was free in time (Database(pool_wait=)): give its pool as many places as "
            "transactions run at once"
        ) from error
    except Exception as error:
        raise DatabaseAwayError(f"the database gives no connection: {told(error)}") from error


async def given_back(calls: AdapterCalls, connection: Any, *, broken: bool) -> None:
    """Give a connection back; that this fails is nobody's business, it is gone then."""
    try:
        await calls.release(connection, broken=broken)
    except Exception as error:
        logger.debug("connection not given back: %s", told(error))
