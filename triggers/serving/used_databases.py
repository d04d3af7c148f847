"""The databases of a session, which are loaded with the first one: most apps have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import Connection, Database
    from broker.transactions import Coordinator, TransactionStep
    from triggers.app.handler import Handler
    from triggers.serving.serving import QueueService
    from triggers.serving.session import AppSession
    from triggers.testing.stand_ins import StandIns
    from triggers.transactions.databases import SessionDatabases


class UsedDatabases:
    """The databases that a session uses. A test sets what stands in for them, what is called behind each step, and what
    is awaited when they are open and nothing is served yet.
    """

    def __init__(self, session: AppSession) -> None:
        self.stand_ins: StandIns | None = None
        self.reached_step: Callable[[TransactionStep], Awaitable[None]] | None = None
        self.when_open: Callable[[], Awaitable[None]] | None = None
        self._session = session
        self._opened: SessionDatabases | None = None

    @property
    def opened(self) -> SessionDatabases:
        """Those that are open."""
        if self._opened is None:
            from triggers.transactions.databases import SessionDatabases

            self._opened = SessionDatabases(self._session, self)
        return self._opened

    @property
    def in_use(self) -> bool:
        """True if there are any."""
        return self._opened is not None

    @property
    def busy(self) -> bool:
        """True if one is asked for units in doubt, or the queue manager is told."""
        return self._opened is not None and any(each.busy for each in self._opened.coordinators)

    async def coordinator(self, database: Database) -> Coordinator:
        """Return the coordinator of a database, which is opened if it is not. Raises what `Database.open` does."""
        return await self.opened.coordinator(database)

    async def open_all(self) -> None:
        """Open those that the app has declared; the arguments of some handlers are known then."""
        databases = self._session.app.databases
        if databases:
            await self.opened.open_all(databases)
            self._session.handlers = [self._completed(handler) for handler in self._session.handlers]
            if self.when_open is not None:
                await self.when_open()

    def _completed(self, handler: Handler) -> Handler:
        return handler if handler.database is None else self.opened.completed(handler, handler.database)

    def serve(self, service: QueueService, connection: Connection) -> None:
        """Let a service whose handler has a database handle its deliveries in transactions."""
        database = service.handler.database
        if database is not None:
            self.opened.serve(service, connection, database)

    async def close(self) -> None:
        """Close them."""
        if self._opened is not None:
            await self._opened.close()
