"""`app.transaction(db)`: what a program writes into its own database and what it puts, both or neither.

    async with app.transaction(pool) as t:
        await t.connection.execute("INSERT INTO orders ...")
        await app.put("ORDERS", order)

With a database for threads it is entered by `with`, in a thread: there its calls, and those of the app, block.
"""

from __future__ import annotations

from contextlib import ExitStack
from threading import get_ident
from typing import TYPE_CHECKING, Any, Self

from broker import portal_here
from broker.mqi import MQRC, MQError
from broker.transactions import ProducerTransaction, database_of, driven
from triggers.serving.run import current, transaction

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from contextvars import Token
    from types import TracebackType
    from typing import Unpack

    from broker import Connection, Database, PutResult
    from triggers.app.app import App
    from triggers.app.putting import PutOptions
    from triggers.serving.run import Run
    from triggers.serving.session import AppSession


class AppTransaction:
    """One transaction with the program's database; `app.transaction(db)` makes it, and its block is entered once.

    What the app puts in the block, by this task and by those that it starts there, is in it; `syncpoint=False` leaves a
    put outside. Left cleanly it commits both, and returns when the messages are there; left by an exception it rolls
    both back.
    """

    def __init__(self, app: App, source: Any) -> None:
        self._app = app
        self._database: Database = database_of(source)
        self._session: AppSession
        self._made: ProducerTransaction | None = None
        self._token: Token[Any] | None = None
        self._blocking = False
        self._stack = ExitStack()
        self.run: Run | None = None
        """The delivery in whose handler it was entered."""

    @property
    def connection(self) -> Any:
        """The connection to the database, or the session, that the transaction is on."""
        return self._entered().connection

    @property
    def unit(self) -> bytes:
        """The name of the unit of work, when it is being committed; empty before."""
        return self._entered().unit

    @property
    def owner(self) -> object:
        """The session of the app whose puts it takes."""
        return self._session

    # Puts

    def put(self, q_name: str, body: object, **options: Unpack[PutOptions]) -> Any:
        """`app.put`, in this transaction: to be awaited; in a thread it blocks and returns the PutResult."""
        return self._call(self._session.puts.put(q_name, body, options))

    def put_group(self, q_name: str, bodies: Sequence[object], **options: Unpack[PutOptions]) -> Any:
        """`app.put_group`, in this transaction; as `put`."""
        return self._call(self._session.puts.put_group(q_name, bodies, options))

    def cancel(self, put: PutResult) -> Any:
        """`app.cancel`, in this transaction; as `put`."""
        return self._call(self._session.puts.cancel(put))

    async def connected(self) -> Connection:
        """The connection whose unit of work is that of the transaction. Raises HCONN_ERROR (2018) once it is over."""
        self.check_open()
        return await self._entered().mq()

    def check_open(self) -> None:
        """Raises HCONN_ERROR (2018) once the transaction is over."""
        if self._made is None or self._made.ended:
            raise MQError(MQRC.HCONN_ERROR, f"this transaction of {self._app.name} is over")

    # `async with`

    async def __aenter__(self) -> Self:
        """Begin. Raises DatabaseAwayError, DatabaseUnusableError; RuntimeError inside another transaction, and for a
        session that is in one; TypeError for a database that is for threads.
        """
        self._check_enterable()
        coordinator = await self._session.databases.coordinator(self._database)
        if coordinator.opened.threaded:
            raise TypeError(
                f"the database {coordinator.label} blocks, and BEGIN would hold the event loop: `with "
                "app.transaction(...)` in a thread (asyncio.to_thread), or take an asynchronous driver"
            )
        made = self._new(coordinator)
        await made.begin()
        self._begun(made)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        made = self._left()
        if error is None:
            await made.commit()
        else:
            await made.rollback()

    # `with`, in a thread

    def __enter__(self) -> Self:
        """Begin, in a thread. Raises RuntimeError on the thread of the event loop, TypeError for a database that is not
        for threads; as `async with` otherwise.
        """
        self._check_enterable()
        session = self._session
        portal = session.portal
        if get_ident() == session.thread:
            raise RuntimeError(
                "a transaction that is entered by `with` would hold the event loop on this thread: `async with "
                "app.transaction(...)` here, or `with` in another thread, await asyncio.to_thread(function)"
            )
        coordinator = portal.call(session.databases.coordinator(self._database))
        if not coordinator.opened.threaded:
            raise TypeError(
                f"the database {coordinator.label} is asynchronous: `async with app.transaction(...)` on the event "
                "loop, or take a driver for threads"
            )
        self._blocking = True
        made = self._new(coordinator)
        made.blocking = portal.call
        driven(made.begin())
        self._begun(made)
        if portal_here() is None:
            self._stack.enter_context(portal.entered())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        made = self._left()
        self._stack.close()
        driven(made.commit() if error is None else made.rollback())

    def _check_enterable(self) -> None:
        if self._made is not None:
            raise RuntimeError("a transaction is entered once: make another with app.transaction(...)")
        self._session = self._app.session
        self.run = current.get()
        outer = transaction.get()
        if outer is not None and outer.run is self.run and not outer.over:
            raise RuntimeError(
                "this task is inside a transaction already, and they are not nested: use a savepoint of the database "
                "inside it, or leave it first"
            )

    @property
    def over(self) -> bool:
        """True if it has been left."""
        return self._made is None or self._made.ended

    def _new(self, coordinator: Any) -> ProducerTransaction:
        databases = self._session.databases.opened
        by = f"app {self._app.name}" if self.run is None else f"handler {self.run.server.handler.name}"
        return ProducerTransaction(coordinator, databases.unit, databases.give_back, self._database.given, by=by)

    def _begun(self, made: ProducerTransaction) -> None:
        self._made = made
        self._token = transaction.set(self)

    def _left(self) -> ProducerTransaction:
        made = self._entered()
        if self._token is not None:
            try:
                transaction.reset(self._token)
            except ValueError:  # it is left in another context, as fixtures are
                transaction.set(None)
        return made

    def _entered(self) -> ProducerTransaction:
        if self._made is None:
            raise RuntimeError("the transaction is not entered: async with app.transaction(...) as t: ...")
        return self._made

    def _call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        self._entered()
        inside = self._inside(coroutine)
        return self._session.portal.call(inside) if self._blocking else inside

    async def _inside(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Await a call of the app in this transaction, wherever it is made."""
        token = transaction.set(self)
        try:
            return await coroutine
        finally:
            transaction.reset(token)
