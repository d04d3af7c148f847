"""The databases of a running app: opened at its start or with their first transaction, and closed with it.

Every running app that has a database is a resolver of its units, and a cleaner of its markers, whether it serves
handlers or not.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from broker.transactions import Coordinator, DatabaseAwayError, database_of, unit_connection
from triggers.transactions.handler_database import Absence, HandlerDatabase
from triggers.transactions.handling import TransactionRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker import Connection, Database
    from broker.transactions import TransactionConnection
    from triggers.app.handler import Handler
    from triggers.serving.serving import QueueService
    from triggers.serving.session import AppSession
    from triggers.serving.used_databases import UsedDatabases

logger = logging.getLogger(__name__)

AWAY_MIN: Final = 0.1
AWAY_MAX: Final = 5.0
"""Seconds between two attempts to open a database that is away at the start."""

IDLE_MAX: Final = 100
"""The number of connections for units of work that are kept."""


class SessionDatabases:
    """The databases of one session of an app."""

    def __init__(self, session: AppSession, used: UsedDatabases) -> None:
        self._session = session
        self._used = used
        self.coordinators: list[Coordinator] = []
        self._absences: dict[Coordinator, Absence] = {}
        self._opening = asyncio.Lock()
        self._idle: list[TransactionConnection] = []
        self._handled: list[HandlerDatabase] = []

    async def open_all(self, databases: Iterable[Database]) -> None:
        """Open those that the app has declared. One that is away is waited for where the queue manager is. Raises
        DatabaseAwayError, DatabaseUnusableError, TypeError.
        """
        for database in databases:
            pause = AWAY_MIN
            while True:
                try:
                    await self.coordinator(database)
                    break
                except DatabaseAwayError as error:
                    if not self._session.waits:
                        raise
                    if pause == AWAY_MIN:
                        logger.warning(
                            "%s waits for its database: %s",
                            self._session.app.name,
                            error,
                            extra={"event": "database_awaited"},
                        )
                if not await self._session.pause(pause * (0.5 + self._session.source.random.random() / 2)):
                    return
                pause = min(2 * pause, AWAY_MAX)

    async def coordinator(self, given: Database) -> Coordinator:
        """Return what there is for a database, which is opened if it is not. Raises DatabaseAwayError,
        DatabaseUnusableError, TypeError.
        """
        if (found := self.found(given)) is not None:
            return found
        async with self._opening:
            if (found := self.found(given)) is not None:
                return found
            database = next((each for each in self._session.app.databases if is_same(each, given)), given)
            stand_ins = self._used.stand_ins
            used = database if stand_ins is None else stand_ins.of(database)
            coordinator = Coordinator(
                database,
                await used.open(self._session.clock),
                self._session.clock,
                lambda: self._session.source.connect(self._session.app.name),
            )
            coordinator.reached = self._used.reached_step
            self.coordinators.append(coordinator)
            self._absences[coordinator] = Absence(self._session.clock, self._session.source.random, coordinator.label)
            self._session.tasks.start_soon(coordinator.run, name=f"coordinate {coordinator.label}")
            return coordinator

    def found(self, database: Database) -> Coordinator | None:
        """Return what there is for a database that is open."""
        return next((each for each in self.coordinators if is_same(each.database, database)), None)

    def completed(self, handler: Handler, database: Database) -> Handler:
        """The handler with its arguments, now that its database is open. Raises TypeError."""
        coordinator = self.found(database)
        if coordinator is None:
            return handler
        return handler.completed_with(coordinator.opened.gives, threaded=coordinator.opened.threaded)

    def serve(self, service: QueueService, connection: Connection, database: Database) -> None:
        """Let a service handle its deliveries in transactions."""
        coordinator = self.found(database)
        assert coordinator is not None
        service.database = HandlerDatabase(coordinator, self._absences[coordinator], connection, service)
        service.run_kind = TransactionRun
        self._handled = [each for each in self._handled if each.committing]
        self._handled.append(service.database)

    # Connections for units of work

    async def unit(self) -> TransactionConnection:
        """Return a connection for a transaction. Raises MQError."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.port.broken:
                return connection
        return await unit_connection(await self._session.connection(), self._session.app.name)

    def give_back(self, connection: TransactionConnection) -> None:
        """Keep a connection for the next transaction."""
        if not connection.port.broken and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)

    # The end

    async def close(self) -> None:
        """Leave what is not committed yet to a resolver, and close the databases."""
        running = [run.task for each in self._handled for run in each.committing if run.task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=1)
        idle, self._idle = self._idle, []
        for connection in idle:
            if not connection.port.broken:
                await connection.end()
        for coordinator in self.coordinators:
            await coordinator.close()


def declared(databases: list[Database], source: Any) -> Database:
    """Return the database among those of an app that a program means by a source; a new one is one of them then."""
    made = database_of(source)
    for each in databases:
        if is_same(each, made):
            return each
    databases.append(made)
    return made


def is_same(one: Database, other: Database) -> bool:
    """True if both are the same database of a program: one object, or one source with the same options. An engine and a
    maker of its sessions are two, since handlers are given a connection by the one and a session by the other.
    """
    if one is other or one.key != other.key:
        return one is other
    return one.given is not None or other.given is not None or one.gives == other.gives
