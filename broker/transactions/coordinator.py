"""A database that a program has opened, with what the program does for its units: it commits, resolves and cleans.

`run` is the life of it, in a task of who has opened it: the resolver, and the cleaner at the start and hourly, over one
connection after the other.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from broker.databases.errors import ProgramDatabaseError
from broker.mqi.errors import MQError
from broker.transactions.asking import outcome_of
from broker.transactions.decisions import DecisionSender
from broker.transactions.markers import DecidedMarkers, clean
from broker.transactions.open_transactions import OpenTransactions
from broker.transactions.resolver import Resolver
from broker.transactions.time_limit import limited

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from broker.clock import Clock
    from broker.databases.database import Database
    from broker.databases.opened import OpenDatabase
    from broker.interface.connection import Connection
    from broker.mqi.external_units import Decision
    from broker.transactions.steps import TransactionStep

logger = logging.getLogger(__name__)

CLEAN_EVERY: Final = 3600.0
"""Seconds between two cleanings."""

AGAIN_MIN: Final = 0.1
AGAIN_MAX: Final = 5.0
"""Seconds until a connection that has ended is made anew, doubling from the one to the other."""

CLOSING: Final = 5.0
"""The longest that the end waits for decisions, and for the deletion of markers."""


class Coordinator:
    """A database as a program uses it. `connect` makes a connection for the resolver.

    `reached` is for tests: it is called behind each step of a transaction.
    """

    def __init__(
        self,
        database: Database,
        opened: OpenDatabase,
        clock: Clock,
        connect: Callable[[], AbstractAsyncContextManager[Connection]],
    ) -> None:
        self.database = database
        self.opened = opened
        self.clock = clock
        self.markers = DecidedMarkers(opened, clock)
        self.open = OpenTransactions(clock, opened.label)
        self.decisions = DecisionSender(opened.id, opened.label, self._decided)
        self.reached: Callable[[TransactionStep], Awaitable[None]] | None = None
        self.resolver: Resolver | None = None
        self._cleaning = False
        self._connect = connect

    @property
    def label(self) -> str:
        """The database, for people."""
        return self.opened.label

    @property
    def name(self) -> str:
        """The program's name of the database."""
        return self.opened.name

    @property
    def busy(self) -> bool:
        """True if the database is asked, or cleaned, or the queue manager is told, at this moment."""
        asks = self.resolver is not None and self.resolver.asks > 0
        return asks or self.decisions.busy or self.markers.deleting or self._cleaning

    # For transactions

    async def ask(self, unit: bytes, q_mgr: str, since: float) -> bool | None:
        """Return the outcome of a COMMIT that was sent at that instant of the clock; None: there is no word in time."""
        return await outcome_of(self.opened, self.clock, unit, q_mgr, since + self.database.outcome_wait)

    def decide(self, connection: Connection, decision: Decision, *, within: float = 0.0) -> asyncio.Future[int]:
        """Send a decision, which is known for good, now or within so many seconds: it is sent again where nobody
        answers it.
        """
        return self.decisions.send(connection, decision, within=within)

    def _decided(self, unit: bytes, committed: bool) -> None:
        if committed:
            self.markers.add(unit)

    # Its life

    async def run(self) -> None:
        """Resolve and clean, until cancelled."""
        pause = AGAIN_MIN
        while True:
            begun = self.clock.monotonic()
            try:
                async with self._connect() as connection:
                    await self._serve(connection)
            except MQError as error:
                logger.debug("resolver connects again database=%s: %s", self.label, error)
            pause = AGAIN_MIN if self.clock.monotonic() - begun > AGAIN_MAX else min(2 * pause, AGAIN_MAX)
            await self.clock.sleep(pause)

    async def _serve(self, connection: Connection) -> None:
        self.resolver = Resolver(self.opened, self.clock, self.decisions, connection)
        resolving = asyncio.get_running_loop().create_task(self.resolver.run(), name=f"resolve {self.label}")
        cleaning = asyncio.get_running_loop().create_task(self._clean(connection), name=f"clean {self.label}")
        try:
            await asyncio.wait((resolving, cleaning), return_when=asyncio.FIRST_COMPLETED)
        finally:
            resolving.cancel()
            cleaning.cancel()
            await asyncio.wait((resolving, cleaning))
        for task in (resolving, cleaning):
            if not task.cancelled():
                task.result()

    async def _clean(self, connection: Connection) -> None:
        while True:
            self._cleaning = True
            try:
                if count := await clean(self.opened, connection, self.clock):
                    logger.info("markers deleted: count=%d database=%s", count, self.label)
            except ProgramDatabaseError as error:
                logger.warning("markers not deleted database=%s: %s", self.label, error)
            finally:
                self._cleaning = False
            await self.clock.sleep(CLEAN_EVERY)

    async def close(self) -> None:
        """Wait for the decisions that are under way, delete the markers of what is decided, close the database."""
        self.open.close()
        try:
            await limited(self.clock, CLOSING, self._end(), f"end {self.label}")
        finally:
            await self.opened.close()

    async def _end(self) -> None:
        await self.decisions.drain()
        await self.markers.close()
