"""The blocking face of a connection, and of deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from broker.deprecated import renamed_argument
from broker.interface.blocking.face import Blocking, Face, FaceProperty, Giving
from broker.interface.blocking.queue import SyncQueue, SyncUnitOfWork
from broker.interface.blocking.work import SyncClaims, SyncConsumer, SyncSink, SyncSinks, SyncTriggerStarts
from broker.interface.connection import Connection
from broker.interface.handlers.deliveries import Deliveries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator
    from types import TracebackType

    from broker.interface.opening import OpenCall
    from broker.interface.portal import Portal
    from broker.interface.queue import Queue
    from broker.mqi.delivery_fields import ServiceOptions
    from broker.mqi.reasons import MQRC
    from broker.mqi.structures import ObjectDescriptor
    from broker.transactions.transaction import SyncConnectionTransaction

F = TypeVar("F")
T = TypeVar("T")


def _connection(connection: Connection, portal: Portal) -> SyncConnection:
    return SyncConnection(connection, portal)


class SyncDeliveries(Face[Deliveries]):
    """The blocking face of deliveries (`Deliveries`)."""

    connect = Giving(Deliveries.connect, _connection)
    take = Blocking(Deliveries.take)
    wait = Blocking(Deliveries.wait)
    settle = Blocking(Deliveries.settle)
    step = Blocking(Deliveries.step)
    prepare = Blocking(Deliveries.prepare)
    q_name = FaceProperty[str]()


class SyncConnection(Face[Connection]):
    """The blocking face of a connection (`Connection`), for threads and programs without an event loop:
    `with broker.connect_sync(url) as connection:`, `with manager.sync() as connection:`.

    A handler that is a plain `def` is given one, whose calls are in the unit of work of what it handles. Threads may
    share it: their calls overlap, and a unit of work that one has entered is not that of the others. Each call raises
    what the call of `Connection` does; RuntimeError on the thread of the event loop that it would be done on.
    """

    put1 = Blocking(Connection.put1)
    stat = Blocking(Connection.stat)
    begin = Blocking(Connection.begin)
    commit = Blocking(Connection.commit)
    backout = Blocking(Connection.backout)
    prepare = Blocking(Connection.prepare)
    decide = Blocking(Connection.decide)
    doubts = Blocking(Connection.doubts)
    in_doubt = Blocking(Connection.in_doubt)
    connect = Giving(Connection.connect, _connection)
    mqsc = Blocking(Connection.mqsc)
    status = Blocking(Connection.status)
    figures = Blocking(Connection.figures)
    explain = Blocking(Connection.explain)
    own_user = Blocking(Connection.own_user)
    explain_open = Blocking(Connection.explain_open)
    explain_connect = Blocking(Connection.explain_connect)
    backup = Blocking(Connection.backup)
    recent_log = Blocking(Connection.recent_log)
    release_delayed = Blocking(Connection.release_delayed)
    release_waiting = Blocking(Connection.release_waiting)
    q_mgr_name = FaceProperty[str]()
    q_mgr_instance = FaceProperty[str]()
    in_unit_of_work = FaceProperty[bool]()

    def open(self, name: str | ObjectDescriptor, options: int) -> SyncQueue:
        """Open an object (MQOPEN), as `Connection.open`; `with connection.open(...) as queue:` closes it."""
        opening = _Opening(self._target, name, options, self._portal)
        if self._portal.gives_coroutines:
            return opening  # type: ignore[return-value]
        return self._portal.call(opening.opened())

    def unit_of_work(self) -> SyncUnitOfWork:
        """`with connection.unit_of_work() as unit:`, as `Connection.unit_of_work`."""
        return self._face(SyncUnitOfWork, self._target.unit_of_work())

    def transaction(self, database: Any) -> SyncConnectionTransaction:
        """`with connection.transaction("orders.db") as t:`, as `Connection.transaction`, in this thread."""
        from broker.transactions.transaction import SyncConnectionTransaction  # loaded with the first

        return SyncConnectionTransaction(self._target, self._portal, database)

    def trigger_starts(self, processes: Collection[str] | None = None, limit: int = 1000) -> SyncTriggerStarts:
        """`with connection.trigger_starts() as starts:`, as `Connection.trigger_starts`."""
        return self._face(SyncTriggerStarts, self._target.trigger_starts(processes, limit))

    @renamed_argument("terms", "options")
    def deliveries(
        self,
        q_name: str,
        *,
        order_by: str | None = None,
        total: int | None = None,
        rate: float | None = None,
        options: ServiceOptions | None = None,
    ) -> SyncDeliveries:
        """`with connection.deliveries("ORDERS") as deliveries:`, as `Connection.deliveries`."""
        made = self._target.deliveries(q_name, order_by=order_by, total=total, rate=rate, options=options)
        return self._face(SyncDeliveries, made)

    def consumer(self, name: str, *q_names: str, groups: str = "each") -> SyncConsumer:
        """`with connection.consumer("ARCHIVE", "ORDERS") as consumer:`, as `Connection.consumer`."""
        return self._face(SyncConsumer, self._target.consumer(name, *q_names, groups=groups))

    @property
    def claims(self) -> SyncClaims:
        """The calls about consumers one by one."""
        return self._face(SyncClaims, self._target.claims)

    def sink(self, name: str, query: str | None = None) -> SyncSink:
        """A sink, as `Connection.sink`."""
        return self._face(SyncSink, self._target.sink(name, query))

    @property
    def sinks(self) -> SyncSinks:
        """The calls about prepared units one by one."""
        return self._face(SyncSinks, self._target.sinks)

    def disconnect(self) -> MQRC | int:
        """End the connection (MQDISC), as `Connection.disconnect`: commits the unit of work and closes all handles."""
        made = self._target.disconnect()
        return made if self._portal.gives_coroutines else self._portal.call(made)  # type: ignore[return-value]

    def close(self) -> None:
        """End the connection, as `disconnect` does. Harmless when it has ended."""
        self.disconnect()

    def _face(self, kind: Callable[[T, Portal], F], target: T) -> F:
        return target if self._portal.gives_coroutines else kind(target, self._portal)  # type: ignore[return-value]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return another attribute of `Connection`, for a handler that was written for one."""
            if name.startswith("_") or not self._portal.awaitable:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            return getattr(self._target, name)


class _Opening:
    """An MQOPEN that a handler has its event loop make: `await` it, or enter it with `async with`."""

    def __init__(self, connection: Connection, name: str | ObjectDescriptor, options: int, portal: Portal) -> None:
        self._connection = connection
        self._name = name
        self._options = options
        self._portal = portal
        self._entered: OpenCall | None = None

    async def opened(self) -> SyncQueue:
        """The queue, opened."""
        return SyncQueue(await self._connection.open(self._name, self._options), self._portal)

    def __await__(self) -> Generator[Any, None, SyncQueue]:
        return self.opened().__await__()

    async def __aenter__(self) -> Queue:
        self._entered = self._connection.open(self._name, self._options)
        return await self._entered.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            await self._entered.__aexit__(kind, error, trace)
