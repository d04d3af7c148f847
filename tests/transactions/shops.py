"""Apps with a database under test: orders, of which each is to be a row in the database and an invoice on its queue."""

from __future__ import annotations

import asyncio
import importlib
import time
from typing import TYPE_CHECKING, Any, Final

from broker.databases.calls import driven
from broker.mqi import MQGMO, MQOO, MQRC, MQError
from tests.databases.ways import PsycopgWay, SqlitePath
from tests.handlers.apps import Shop
from triggers import Attempt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker import Database
    from broker.storage.store import Store
    from tests.databases.ways import DatabaseWay

QUICK: Final = ("sqlite3-path", "aiosqlite", "asyncpg-pool")
"""The ways that the quick tier has: those whose drivers are always there."""

INSERT: Final = "INSERT INTO orders VALUES ({})"
MARKERS_SECONDS: Final = 2.0
SECONDS: Final = 20.0
"""Real seconds after which a test that waits has failed."""


class OrderShop(Shop):
    """A shop whose orders are rows of a database, and whose invoices are messages."""

    def __init__(self, way: DatabaseWay, door: str = "embedded", store: Store | None = None, **options: Any) -> None:
        super().__init__(door, store)
        self.books = way
        self.database: Database = way.database(**{"pool_wait": 5.0, **options})
        self.lines: list[Any] = []
        driver = {"psycopg_pool": "psycopg"}.get(way.needs, way.needs)
        self.connection_type = getattr(importlib.import_module(driver), "Connection")  # noqa: B009

    @property
    def threaded(self) -> bool:
        return isinstance(self.books, SqlitePath | PsycopgWay)

    async def __aenter__(self) -> OrderShop:
        await super().__aenter__()
        self.app.queue("INVOICES")
        self.app.database(self.database)
        return self

    # What programs do

    async def produce(self, order: int, then: Callable[[Any], None] | None = None, **options: Any) -> None:
        """Write a row and put an invoice, in one transaction; `then` is the last thing in it."""
        if self.threaded:
            await asyncio.to_thread(self._produce_in_thread, order, then, options)
            return
        async with self.app.transaction(self.database) as t:
            await self.books.sql(t.connection, INSERT.format(order))
            await self.app.put("INVOICES", str(order), **options)
            if then is not None:
                then(t)

    def _produce_in_thread(self, order: int, then: Callable[[Any], None] | None, options: Any) -> None:
        with self.app.transaction(self.database) as t:
            driven(self.books.sql(t.connection, INSERT.format(order)))
            t.put("INVOICES", str(order), **options)
            if then is not None:
                then(t)

    def handle(self, work: Callable[[int, Attempt], Any] | None = None, q_name: str = "ORDERS", **options: Any) -> None:
        """Declare a handler that writes a row and puts an invoice for each order; `work` is what it does then."""
        app, kind = self.app, self.connection_type

        def done(order: str, connection: Any, attempt: Attempt) -> Any:
            driven(self.books.sql(connection, INSERT.format(int(order))))
            app.sync.put("INVOICES", order)
            return None if work is None else work(int(order), attempt)

        async def awaited(order: str, connection: Any, attempt: Attempt) -> Any:
            await self.books.sql(connection, INSERT.format(int(order)))
            await app.put("INVOICES", order)
            value = None if work is None else work(int(order), attempt)
            return await value if asyncio.iscoroutine(value) else value

        handler: Any = done if self.threaded else awaited
        handler.__annotations__["connection"] = kind
        handler.__annotations__ |= {"order": str, "attempt": Attempt, "return": None}
        app.handler(q_name, database=self.database, **options)(handler)

    # What there is

    async def invoices(self) -> list[str]:
        """The invoices that may be got, in their order."""
        return await self.bodies("INVOICES")

    async def bodies(self, q_name: str) -> list[str]:
        """The bodies of the messages that may be got from a queue."""
        found = []
        async with self.connection.open(q_name, MQOO.BROWSE) as queue:
            try:
                while True:
                    found.append((await queue.get(options=MQGMO.BROWSE_NEXT)).data.decode())
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise
        return found

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait, in real time, for what threads and sockets bring about."""
        end = time.monotonic() + SECONDS
        while not await holds():
            assert time.monotonic() < end, "it has not come true"
            await asyncio.sleep(0.005)

    async def come_true(self, orders: list[int]) -> None:
        """Wait until these orders are rows and invoices, each once, and no other is."""
        wanted = sorted(map(str, orders))

        async def holds() -> bool:
            return sorted(await self.invoices()) == wanted

        await self.until(holds)
        assert sorted(self.books.orders()) == wanted

    async def no_markers(self) -> None:
        """Let the time pass in which decided markers are deleted, and wait for that."""

        async def holds() -> bool:
            await self.clock.advance(MARKERS_SECONDS)
            return self.books.markers() == []

        await self.until(holds)
