"""`connection.transaction(db)`: a unit of work of the MQI and the program's own database, both or neither.

async with connection.transaction(pool) as t:
    await t.connection.execute("INSERT INTO orders ...")
    async with t.mq.open("ORDERS", MQOO.OUTPUT) as queue:
        await queue.put(body)
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from broker.clock import Clock
from broker.databases.calls import driven
from broker.databases.database import database_of
from broker.interface.blocking.connection import SyncConnection
from broker.transactions.coordinator import Coordinator
from broker.transactions.producing import ProducerTransaction
from broker.transactions.unit_port import unit_connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from broker.databases.database import Database
    from broker.interface.connection import Connection
    from broker.interface.portal import Portal
    from broker.transactions.unit_port import TransactionConnection

_entered: ContextVar[ConnectionTransaction | None] = ContextVar("evermq_connection_transaction", default=None)
"""The transaction that the task which looks has entered last, or was started in."""


class ConnectionTransaction:
    """One transaction with the program's database. `mq` is a connection of its own, whose unit of work is committed
    together with the transaction of `connection`, when the block is left; an exception rolls both back.
    """

    def __init__(self, connection: Connection, database: Any) -> None:
        self._of = connection
        self._database = database_of(database)
        self._made: ProducerTransaction | None = None
        self._mq: TransactionConnection | None = None

    @property
    def mq(self) -> Any:
        """The connection to the queue manager; in a thread its calls block."""
        assert self._mq is not None, "the transaction is not entered"
        return self._mq

    @property
    def connection(self) -> Any:
        """The connection to the database, or the session, that the transaction is on."""
        assert self._made is not None, "the transaction is not entered"
        return self._made.connection

    @property
    def over(self) -> bool:
        """True if it has been left."""
        return self._made is not None and self._made.ended

    async def __aenter__(self) -> Self:
        """Begin. Raises DatabaseAwayError, DatabaseUnusableError, MQError; RuntimeError inside another transaction, and
        for a session that is in one; TypeError for a database that is for threads.
        """
        self._check_enterable()
        coordinator = await self._coordinator()
        if coordinator.opened.threaded:
            raise TypeError(
                f"the database {coordinator.label} is for threads: with connection.transaction(...) of a blocking "
                "connection, or an asynchronous driver here"
            )
        await self._begin(self._new(coordinator))
        return self

    async def _begin(self, made: ProducerTransaction) -> None:
        await made.begin()
        try:
            self._mq = await made.mq()
        except BaseException:
            await made.rollback()
            raise
        self._begun(made)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        made = self._left()
        await (made.commit() if error is None else made.rollback())

    def _check_enterable(self) -> None:
        if self._made is not None:
            raise RuntimeError("a transaction is entered once: make another with connection.transaction(...)")
        outer = _entered.get()
        if outer is not None and not outer.over:
            raise RuntimeError(
                "this task is inside a transaction already, and they are not nested: use a savepoint of the database, "
                "or leave it first"
            )

    async def _coordinator(self) -> Coordinator:
        return await databases_of(self._of).coordinator(self._database)

    def _new(self, coordinator: Coordinator) -> ProducerTransaction:
        return ProducerTransaction(
            coordinator, lambda: unit_connection(self._of), given=self._database.given, by="connection.transaction"
        )

    def _begun(self, made: ProducerTransaction) -> None:
        self._made = made
        _entered.set(self)

    def _left(self) -> ProducerTransaction:
        made, self._mq = self._made, None
        assert made is not None
        _entered.set(None)
        return made


class SyncConnectionTransaction(ConnectionTransaction):
    """`with connection.transaction(db) as t:`, of a blocking connection, in a thread: with a database for threads."""

    def __init__(self, connection: Connection, portal: Portal, database: Any) -> None:
        super().__init__(connection, database)
        self._portal = portal

    @property
    def mq(self) -> SyncConnection:
        """The connection to the queue manager."""
        return SyncConnection(super().mq, self._portal)

    def __enter__(self) -> Self:
        """Begin, in this thread. As `ConnectionTransaction`; TypeError for a database that is not for threads."""
        self._check_enterable()
        coordinator = self._portal.call(self._coordinator())
        if not coordinator.opened.threaded:
            raise TypeError(
                f"the database {coordinator.label} is asynchronous: async with connection.transaction(...) on the "
                "event loop, or a driver for threads"
            )
        made = self._new(coordinator)
        made.blocking = self._portal.call
        driven(made.begin())
        try:
            self._mq = self._portal.call(made.mq())
        except BaseException:
            driven(made.rollback())
            raise
        self._begun(made)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        made = self._left()
        driven(made.commit() if error is None else made.rollback())


class ConnectionDatabases:
    """The databases that a program uses over a connection of the MQI, from their first transaction until it ends. For
    as long it is a resolver of their units.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._opened: list[tuple[Coordinator, asyncio.Task[None]]] = []
        self._opening = asyncio.Lock()

    async def coordinator(self, database: Database) -> Coordinator:
        """Return what there is for a database, which is opened if it is not."""
        async with self._opening:
            for each, _ in self._opened:
                if each.database.key == database.key:
                    return each
            made = Coordinator(database, await database.open(self._clock), self._clock, self._connect)
            task = asyncio.get_running_loop().create_task(made.run(), name=f"coordinate {made.label}")
            self._opened.append((made, task))
            return made

    async def close(self) -> None:
        """Resolve no more, and close the databases."""
        opened, self._opened = self._opened, []
        for coordinator, task in opened:
            task.cancel()
            await asyncio.wait((task,))
            await coordinator.close()

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Connection]:
        async with await self._connection.connect() as connection:
            yield connection


def databases_of(connection: Connection) -> ConnectionDatabases:
    """The databases that are used over a connection."""
    if connection.databases is None:
        connection.databases = ConnectionDatabases(connection, Clock())
    return connection.databases
