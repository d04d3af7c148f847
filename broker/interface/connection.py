"""A connection to a queue manager (Hconn), embedded or over the wire."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from broker.deprecated import renamed, renamed_argument
from broker.interface.batches.async_puts import AsyncPuts, AsyncStatus, asynchronous
from broker.interface.claims.claim_calls import Claims
from broker.interface.claims.consumer import Consumer
from broker.interface.claims.sinks import Sink, Sinks
from broker.interface.data import prepared
from broker.interface.external.external_units import ExternalUnitCalls
from broker.interface.handlers.deliveries import Deliveries
from broker.interface.handlers.starts import TriggerStarts
from broker.interface.message import PutResult, known_reason
from broker.interface.opening import OpenCall, descriptor
from broker.interface.options import answered_later, get_options, put_options
from broker.interface.port import answer, drop, unit_gone
from broker.interface.properties import with_properties
from broker.interface.put_extras import put_extras
from broker.interface.queue import Queue
from broker.interface.units import UnitOfWork, entered
from broker.interface.watching import watched
from broker.mqi.constants.connections import MQSTAT
from broker.mqi.constants.options import MQGMO, MQPMO
from broker.mqi.delivery_fields import NO_EXTRAS, ServiceOptions
from broker.mqi.errors import CommandFailedError, MQError
from broker.mqi.reasons import MQRC
from broker.unclosed import warn_unclosed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
    from pathlib import Path
    from types import TracebackType

    from broker.interface.batches.read_ahead import ReadAhead
    from broker.interface.data import Data
    from broker.interface.port import Port
    from broker.interface.put_extras import PutArguments
    from broker.interface.tagging import Tagging
    from broker.interface.units import Guard
    from broker.interface.watching import Watch
    from broker.mqi.explanations import Explanation
    from broker.mqi.layouts.folders import Value
    from broker.mqi.replies import CommandReply
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions
    from broker.unclosed import SourceLine

_PUT_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_GET_SYNCPOINT: Final = (MQGMO.SYNCPOINT | MQGMO.SYNCPOINT_IF_PERSISTENT).value


class Connection(ExternalUnitCalls):
    """A connection: `async with manager.connect()` or `async with broker.connect(url)`, or either of them awaited, and
    `close`, in any tasks of one event loop.

    Calls may overlap; they take effect in the order in which they are made. Leaving the context cleanly disconnects
    (MQDISC), which commits the unit of work; leaving it by an exception backs it out. When its queue manager ends
    before, the unit of work is backed out. One that was awaited and is dropped unclosed warns with the line where it
    was opened, and ends as by an exception.

    `before_backout` is for whoever gives a program its connection: a function to await before an exception, other than
    a cancellation, backs out a unit of work for the first time. What the unit has got stays locked meanwhile. So is
    `guard`, which sees what is got under syncpoint before the program does.
    """

    queue_kind: type[Queue] = Queue
    """The class of an opened object."""

    _watch: Watch

    def __init__(self, port: Port, tagging: Tagging | None = None) -> None:
        self.port = port
        self.opened_at: SourceLine | None = None  # the line of the program, where one has asked for it
        self._loop: asyncio.AbstractEventLoop | None = None  # until it is closed by who has awaited it
        self._tagging = tagging
        self.unit: UnitOfWork | None = None  # the unit_of_work() that is open, whoever entered it
        self._works = False  # under syncpoint: something was put or got since the last commit or backout
        self.async_puts = AsyncPuts()
        self.loops: set[ReadAhead] = set()  # `async for`, from the first step until it is left
        self.reading: set[ReadAhead] = set()  # those that have read something ahead
        self.before_backout: Callable[[], Awaitable[object]] | None = None
        self.guard: Guard | None = None

    @property
    def q_mgr_name(self) -> str:
        """The name of the queue manager."""
        return self.port.q_mgr_name

    @property
    def works(self) -> bool:
        """True if something was put or got under syncpoint since the last commit or backout."""
        return self._works

    @property
    def in_unit_of_work(self) -> bool:
        """True if a put or get of this task that names no syncpoint option is under syncpoint: the task has entered
        `unit_of_work()`, or was started inside it.
        """
        unit = self.unit
        return unit is not None and unit.joined

    def open(self, name: str | ObjectDescriptor, options: int) -> OpenCall:
        """Open an object (MQOPEN) by name or descriptor with MQOO options.

        Await it for the `Queue`, or use it in `async with`, which closes the queue. Raises MQError, among others
        UNKNOWN_OBJECT_NAME (2085), OBJECT_IN_USE (2042), OPTIONS_ERROR (2046); TypeError for options that are no flags.
        """
        return OpenCall(self, name, options)

    async def put1(
        self,
        name: str | ObjectDescriptor,
        data: Data,
        md: MessageDescriptor | None = None,
        options: PutMessageOptions | int = 0,
        *,
        persistence: int | None = None,
        properties: Mapping[str, Value] | None = None,
        **extras: Unpack[PutArguments],
    ) -> PutResult:
        """Open, put one message, close (MQPUT1). The defaults of its queue are not known before: a put that does not
        say ASYNC_RESPONSE is synchronous, and so is one outside syncpoint that does not say NOT_PERSISTENT. `delay`,
        `deliver_at`, `key` and `window` are as with `Queue.put`.
        """
        extra_options = put_extras(extras) if extras else NO_EXTRAS
        md, body = prepared(data, md, persistence)
        pmo = self.put_options(options)
        od = descriptor(name)
        sent, body = (md, body) if not properties else with_properties(md, body, properties)
        unit = self.unit
        if not asynchronous(int(pmo.options), md, by_default=False, persistent=True):
            placed = await answer(self.port.put1(od, sent, pmo, body, extra_options))
            if unit is not None:
                unit.count_put(pmo.options, placed)
            return PutResult(md, placed)
        call = self.port.put1(od, sent, answered_later(pmo), body, extra_options)
        counter = None if unit is None else partial(unit.count_put, pmo.options)
        await self.async_puts.follow(call, od.object_name, len(body), counter)
        return PutResult(md, None)

    async def stat(self, type: int = MQSTAT.TYPE_ASYNC_ERROR) -> AsyncStatus:
        """Return the outcome of the asynchronous puts made before this call, since the last (MQSTAT); the counts begin
        anew.

        Raises STAT_TYPE_ERROR (2430) for another type: there is no reconnection to ask about.
        """
        if type != MQSTAT.TYPE_ASYNC_ERROR:
            raise MQError(MQRC.STAT_TYPE_ERROR, f"type={type}: only TYPE_ASYNC_ERROR can be asked for")
        return await self.async_puts.status()

    async def begin(self) -> MQRC | int:
        """Begin a unit of work; raises UOW_IN_PROGRESS (2128) when one is open."""
        return known_reason(await answer(self.port.begin()))

    async def commit(self) -> MQRC | int:
        """Commit the unit of work (MQCMIT), which is the connection's, whatever tasks have put and got in it; returns
        when it is durable. Raises BACKED_OUT (2003) when it was undone.
        """
        self._unit_ends()
        reason = known_reason(await answer(self.port.commit()))
        if self.guard is not None:
            self.guard.committed()
        return reason

    async def backout(self) -> MQRC | int:
        """Back out the unit of work (MQBACK), which is the connection's."""
        self._unit_ends()
        return known_reason(await answer(self.port.backout()))

    def unit_of_work(self) -> UnitOfWork:
        """`async with connection.unit_of_work() as unit:` commits on a clean exit and backs out on any other.

        Inside, a put or get that names no syncpoint option is under syncpoint. Inside are the task that has entered it
        and those that it starts there, until the block is left; a call of any other task on this connection is outside
        syncpoint unless it says SYNCPOINT. A unit open at entry, this task's or another's, is UOW_IN_PROGRESS (2128) at
        once: tasks that each want units of their own take a connection each, by `connection.connect()`.

        `unit.puts` and `unit.gets` tell how many messages are in it, and an exception that backs it out bears a note of
        what was undone. A get that still waits when the block is left ends with NO_MSG_AVAILABLE (2033).
        """
        return UnitOfWork(self)

    async def mqsc(self, text: str, *, check: bool = False) -> list[CommandReply]:
        """Run MQSC or ZMQSC commands; one reply a command. A command that fails is a reply that is not `ok`, and the
        commands behind it are run all the same.

        With `check` nothing behind it is run, and CommandFailedError is raised: an MQError that has the replies.
        """
        replies = await answer(self.port.mqsc(text, check))
        if check and replies and not replies[-1].ok:
            raise CommandFailedError(replies)
        return replies

    async def explain(
        self,
        q_name: str,
        *,
        msg_id: bytes | None = None,
        correl_id: bytes | None = None,
        group_id: bytes | None = None,
    ) -> Explanation:
        """Explain why messages of a queue are not delivered: all of them, or those with the identifiers given.

        The `findings` tell, each with a code, a sentence and figures, what keeps messages from getters: uncommitted and
        by whom and since when, locked, incomplete groups and what they lack, ... Nothing is changed. Raises
        UNKNOWN_OBJECT_NAME (2085).
        """
        return await answer(self.port.explain(q_name, msg_id, correl_id, group_id))

    async def backup(self, path: str | Path) -> None:
        """Have the queue manager make a copy of its data in a directory of its machine that is new or empty: return
        when that is whole, read back and on the medium. It holds all that was durable before the call. Cancelled, it
        leaves nothing. Raises STORAGE_MEDIUM_FULL (2192), FILE_SYSTEM_ERROR (2208).
        """
        await answer(self.port.backup(_absolute(path)))

    def trigger_starts(self, processes: Collection[str] | None = None, limit: int = 1000) -> TriggerStarts:
        """Take trigger starts as leases, for the named process definitions or for all; at most `limit` at a time."""
        return TriggerStarts(self.port, processes, limit)

    @renamed_argument("terms", "options")
    def deliveries(
        self,
        q_name: str,
        *,
        order_by: str | None = None,
        total: int | None = None,
        rate: float | None = None,
        options: ServiceOptions | None = None,
    ) -> Deliveries:
        """`async with connection.deliveries("ORDERS") as deliveries:` takes messages together with the trigger starts
        that they count, each in a unit of work of its own; `order_by`, `total` and `rate` go before those of `options`.
        """
        options = options or ServiceOptions()
        return Deliveries(
            self.port,
            q_name,
            options._replace(
                order_by=options.order_by if order_by is None else order_by,
                total=options.total if total is None else total,
                rate=options.rate if rate is None else rate,
            ),
        )

    async def release_delayed(self, q_name: str, msg_id: bytes | None = None) -> int:
        """Let delayed messages of a queue be available now, as if their instant had come: the one with this MsgId, or
        all. Return how many there were, when it is durable that they are delayed no longer. Raises
        UNKNOWN_OBJECT_NAME (2085), STORAGE_MEDIUM_FULL (2192).
        """
        return await answer(self.port.release_delayed(q_name, msg_id))

    release_waiting = renamed("release_waiting", release_delayed)

    @property
    def claims(self) -> Claims:
        """The calls about consumers one by one, for programs that keep their positions themselves."""
        return Claims(self.port)

    def consumer(self, name: str, *q_names: str, groups: str = "each") -> Consumer:
        """`async with connection.consumer("ARCHIVE", "ORDERS") as consumer:` claims messages of these queues (names, or
        generic ones: `ORDERS.*`) durably, outside any unit of work, until it acknowledges them.

        Without names the consumer keeps the queues that it has. `groups="whole"` claims only complete groups and
        logical messages, each together and in its order. To enter it raises OBJECT_NAME_ERROR (2152),
        UNKNOWN_OBJECT_NAME (2085), OPTION_NOT_VALID_FOR_TYPE (2045) for a temporary dynamic queue,
        SYNCPOINT_LIMIT_REACHED (2024) for one consumer too many.
        """
        return Consumer(self.claims, name, q_names, groups)

    @property
    def sinks(self) -> Sinks:
        """The calls about prepared units one by one."""
        return Sinks(self.port)

    def sink(self, name: str, query: str | None = None) -> Sink:
        """`async with connection.sink("IMPORT", "job 5").batch(7) as batch:` puts messages that appear together, and
        once. `query` names whose batches they are, and the sink belongs to it from the first on; without one no ledger
        is kept, and the same number is published as often as it is written.
        """
        return Sink(self.sinks, name, query)

    async def connect(self, appl_name: str = "") -> Connection:
        """Another connection to the same queue manager: in the same process, or on the same socket if that has room."""
        return Connection(await answer(self.port.connect(appl_name)))

    async def disconnect(self) -> MQRC | int:
        """End the connection (MQDISC): commits the unit of work and closes all handles. Harmless when it has ended.

        Raises CONNECTION_BROKEN (2009) when it broke with a unit of work open, which was backed out, and no other call
        has said so.
        """
        return await self._end(commit=True)

    async def close(self) -> MQRC | int:
        """End the connection, as `disconnect` does."""
        return await self.disconnect()

    async def _end(self, *, commit: bool) -> MQRC | int:
        self._loop = None
        self._give_back()
        if self.databases is not None:
            await self.databases.close()
        works, self._works = self._works, False
        if not self.port.broken:
            return known_reason(await answer(self.port.disconnect(commit=commit)))
        if commit and works and not self.port.end_reported:
            raise unit_gone()
        return MQRC.NONE

    def put_options(self, options: PutMessageOptions | int) -> PutMessageOptions:
        """The whole structure for a put that is made now."""
        unit = self.unit
        pmo = put_options(options, in_unit=unit is not None and unit in entered.get())
        if int(pmo.options) & _PUT_SYNCPOINT and not self.port.broken:
            self._works = True
        return pmo

    def get_options(self, options: GetMessageOptions | int, wait: float | None) -> GetMessageOptions:
        """The whole structure for a get that is made now."""
        unit = self.unit
        gmo = get_options(options, wait, in_unit=unit is not None and unit in entered.get())
        if int(gmo.options) & _GET_SYNCPOINT and not self.port.broken:
            self._works = True
        return gmo

    def watched(self, watch: Watch) -> Self:
        """The same connection, whose calls and those of the queues it opens are watched, for whoever gives a program
        its connection: `watch` is given each coroutine that a call makes, with the frame of its caller, and returns
        what the program awaits instead.
        """
        return watched(self, watch)

    async def hold_backout(self, kind: type[BaseException] | None) -> None:
        """Await `before_backout`, if an exception of this kind is about to back out the unit of work, once."""
        before_backout, self.before_backout = self.before_backout, None
        if before_backout is not None and kind is not None and not issubclass(kind, asyncio.CancelledError):
            await before_backout()

    def _unit_ends(self) -> None:
        """The unit of work is committed or backed out now."""
        self._give_back()
        self._works = False
        if self.unit is not None:
            self.unit.begin_anew()

    def _give_back(self) -> None:
        """Give back the messages that loops have read ahead: they are in no unit of work that ends now."""
        for ahead in list(self.reading):
            ahead.give_back()

    def __await__(self) -> Generator[Any, None, Self]:
        return self._opened().__await__()

    async def _opened(self) -> Self:
        """It is open, and somebody is to close it."""
        await self._tag()
        self._loop = asyncio.get_running_loop()
        return self

    async def _tag(self) -> None:
        tagging, self._tagging = self._tagging, None
        if tagging is not None:
            await tagging.take(self.port)

    async def __aenter__(self) -> Self:
        await self._tag()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.hold_backout(kind)
        try:
            await self._end(commit=kind is None)
        except MQError:
            if kind is None:
                raise

    def __del__(self) -> None:
        loop = self._loop
        if loop is None or self.port.broken:
            return
        if self.opened_at is not None:
            warn_unclosed(f"a connection to {self.q_mgr_name}", self.opened_at, self)
        if not loop.is_closed():
            loop.call_soon_threadsafe(drop, self.port)

    def __repr__(self) -> str:
        return f"<Connection to {self.q_mgr_name}{' ended' if self.port.broken else ''}>"


def _absolute(path: str | Path) -> str:
    return os.path.abspath(path)
