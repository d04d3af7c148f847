"""Serving a queue: take deliveries for the places that are free, run their handlers, settle what they did.

`App` and the trigger monitor serve queues with it. A worker takes only what it starts at once: no message waits in a
busy process behind a long one (handlers rule 6.1). Each delivery has one bare task; what holds those tasks, and ends
them, is `QueueService.run`. The one thing that may outlive it is a handler that ignores its cancellation for longer
than `CLEAN_UP`: a stop must not wait for that for ever (handlers rule 9.3).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from broker.mqi import MQRC, MQError, Outcome
from triggers.monitor.connections import ENDED
from triggers.serving.run import Run
from triggers.serving.settler import Settler
from triggers.serving.taker import TakeTask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from broker import Clock, Connection, Delivered, Deliveries
    from broker.mqi import Returned, Settled, Settlement
    from broker.transactions import PreparedDelivery
    from triggers.app.handler import Handler
    from triggers.serving.loop_watch import HandlerWatch
    from triggers.serving.outcomes import OutcomeLog
    from triggers.transactions.handler_database import HandlerDatabase

logger = logging.getLogger(__name__)

CLEAN_UP: Final = 5.0
"""Seconds that handlers have after they were cancelled (handlers rule 9.1)."""

LOOK: Final = 0.1
"""Seconds between two looks at whether a queue manager that quiesces is gone."""

_NOT_THERE: Final = MQRC.HOBJ_ERROR  # asked for each message: see `DONE` of `broker.mqi.delivery_fields`


class QueueService:
    """Serves one queue over a connection, from `run` until `stop`, or until the connection ends.

    - `log` is notified of each outcome, `watch` when a handler begins and ends.
    - `app`: what a parameter annotated `App` is given. `owner`: whose puts join the unit of a delivery.
    - `replies` puts what a handler returns, in the unit of its delivery.
    - `database` is that of the handler, for a `run_kind` with transactions.
    - `around` is called round each call of the handler, inside its timeout and its unit of work.

    `running` is how many handlers run, `cancelled_runs` how many a stop had to cancel, `taken` how many deliveries it
    was given.
    """

    def __init__(
        self,
        connection: Connection,
        handler: Handler,
        clock: Clock,
        log: OutcomeLog,
        *,
        owner: object = None,
        app: object = None,
    ) -> None:
        if handler.arguments is None:
            handler = handler.complete()
        self.handler = handler
        self.clock = clock
        self.owner = owner
        self.app = app
        self.around: Callable[[Run, Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]] | None = None
        self.watch: HandlerWatch | None = None
        self.replies: Callable[[Run, object], Awaitable[None]] | None = None
        self.run_kind: type[Run] = Run
        self.database: HandlerDatabase | None = None
        self.limiter = anyio.CapacityLimiter(handler.concurrency)
        self.cancelled_runs = 0
        self.taken = 0
        self.runs: set[Run] = set()
        self._connection = connection
        self._log = log
        self._deliveries: Deliveries
        self._settler: Settler
        self._unsettled = 0
        self._task: asyncio.Task[Any] | None = None
        self._taker: TakeTask | None = None
        self._stopping = False
        self._lost = False
        self.crashed = False
        self._room: asyncio.Future[None] | None = None
        self._news: asyncio.Future[None] | None = None
        self._warned_of_value = False
        self._value_of: Callable[[object, int], Returned] | None = None

    @property
    def running(self) -> int:
        """The number of running handlers."""
        return len(self.runs)

    @property
    def unsettled(self) -> int:
        """The number of unsettled deliveries."""
        return self._unsettled

    @property
    def cancelled(self) -> bool:
        """True if the task that serves has been cancelled, and with it its handlers."""
        return self._task is not None and self._task.cancelling() > 0

    # Its life

    async def run(self, began: Callable[[], None] | None = None) -> None:
        """Serve until stopped, and return when all that was taken is settled. `began` is called when the queue manager
        knows of it. Cancelled, it returns what runs, uncharged.

        Raises MQError: what `Port.serve` and `Port.take_deliveries` raise, such as UNKNOWN_OBJECT_NAME (2085),
        OPTION_NOT_VALID_FOR_TYPE (2045), OBJECT_IN_USE (2042), Q_DELETED (2052), CONNECTION_BROKEN (2009).
        """
        self._task = asyncio.current_task()
        try:
            async with self._connection.deliveries(self.handler.q_name, options=self.handler.options) as deliveries:
                self._deliveries = deliveries
                self._settler = Settler(deliveries, self.reported)
                if began is not None:
                    began()
                await self._take_until_stopped(deliveries)
            await self.settled()
        except MQError as error:
            await self._ended_by(error)
            raise
        except BaseException:
            with anyio.CancelScope(shield=True):
                if self.crashed:
                    self._connection.port.break_()
                    self._lose()
                    self._unsettled = 0
                self.cancel()
                await within(self.clock, CLEAN_UP, self.idle())
            raise
        await within(self.clock, CLEAN_UP, self.idle())

    def stop(self) -> None:
        """Take nothing more, in this turn of the loop; return what was taken and has not begun."""
        self._stopping = True
        if self._taker is not None:
            self._taker.cancel()
        for run in list(self.runs):
            if not run.begun:
                run.stop()

    def cancel(self) -> None:
        """Cancel what runs, and return it uncharged."""
        self.stop()
        for run in list(self.runs):
            if run.decided is None:
                self.cancelled_runs += 1
                run.stop()
            else:
                run.hurry()

    async def settled(self) -> None:
        """Return when no outcome is open, and all are settled."""
        while self._unsettled:
            await self._next()

    async def idle(self) -> None:
        """Return when besides no handler runs any more."""
        while self.runs or self._unsettled:
            await self._next()

    async def _take_until_stopped(self, deliveries: Deliveries) -> None:
        if self._stopping:
            return
        self._taker = taker = TakeTask(
            self._take(deliveries), loop=asyncio.get_running_loop(), name=f"take {self.handler.q_name}",
            by_handler=self._cancelled_by, by_end_of_loop=self._loop_ended,
        )  # fmt: skip
        try:
            await asyncio.wait((taker,))
        finally:
            taker.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((taker,))
        if not taker.cancelled():
            taker.result()

    async def _take(self, deliveries: Deliveries) -> None:
        loop = asyncio.get_running_loop()
        places, name = self.handler.concurrency, f"handle {self.handler.q_name}"
        while True:
            free = min(places - len(self.runs), 2 * places - self._unsettled)
            if free < (1 if self.database is None else self.database.least_free(places)):
                self._room = loop.create_future()
                await self._room
                continue
            for delivered in await deliveries.take(free):
                self.taken += 1
                run = self.run_kind(self, delivered)
                self.runs.add(run)
                if self.watch is not None:
                    self.watch.began()
                self._unsettled += 1
                run.task = asyncio.Task(run.live(), loop=loop, name=name)  # a third cheaper than `create_task`

    def _cancelled_by(self, run: Run) -> None:
        """A handler has cancelled the tasks of its event loop; unless it is the service that was to stop."""
        if not self._stopping and run.server is self:
            run.offend()

    def _loop_ended(self) -> None:
        """A handler has ended the event loop: what runs is lost as with a worker that crashes (handlers rule 1.4)."""
        self.crashed = bool(self.runs)

    async def _ended_by(self, error: MQError) -> None:
        """There are no more deliveries. While the queue manager quiesces, handlers may still end; when the connection
        is gone, their units of work are too.
        """
        if error.reason == MQRC.Q_MGR_QUIESCING:
            self.stop()
            while self._unsettled and not self._connection.port.broken:
                await within(self.clock, LOOK, self.settled())
        if self._connection.port.broken or error.reason in ENDED - {MQRC.Q_MGR_QUIESCING}:
            self._lose()
        else:
            await self.settled()
        await within(self.clock, CLEAN_UP, self.idle())

    def _lose(self) -> None:
        self._lost = True
        for run in list(self.runs):
            if run.decided is None:
                self.reported(run, run.lose(), None)
        self._changed()

    # What runs need

    def connect_ahead(self, delivered: Delivered) -> None:
        """Begin to make the connection of a delivery, for a `connect` to come; `forget_ahead` where none comes."""
        self._deliveries.connect_ahead(delivered, self.handler.name)

    def forget_ahead(self, delivered: Delivered) -> None:
        """Nobody will ask for the connection of a delivery."""
        self._deliveries.forget_ahead(delivered)

    async def connect(self, delivered: Delivered) -> Connection:
        """The connection of a delivery."""
        return await self._deliveries.connect(delivered, self.handler.name)

    async def keep_step(self, delivered: Delivered, name: str, value: bytes) -> None:
        """Keep a step that was finished for a delivery: it is durable when this returns."""
        await self._deliveries.step(delivered, name, value)

    async def reply(self, run: Run, value: object) -> None:
        """Put what a handler has returned as a reply, where one is asked for."""
        if self.replies is not None and run.messages[0].md.reply_to_q:
            await self.replies(run, value)
        elif not self._warned_of_value and not self.handler.options.history:
            self._warned_of_value = True
            logger.warning(
                "a handler returns a value, and its message asks for no reply: handler=%s queue=%s type=%s",
                self.handler.name, self.handler.q_name, type(value).__name__, extra={"event": "value_without_reply"},
            )  # fmt: skip

    def returned(self, run: Run, value: object) -> Returned | None:
        """Return the value of a handler for the history of its queue; nothing of a batch."""
        if self.handler.batch:
            return None
        if self._value_of is None:
            from triggers.history.returned import returned  # most handlers have none

            self._value_of = returned
        return self._value_of(value, self.handler.options.history_value)

    async def prepare(self, database: bytes, prepared: Sequence[PreparedDelivery], name: str = "") -> list[int]:
        """Prepare deliveries, whose outcome is decided by a database. Raises MQError."""
        return await self._deliveries.prepare(database, prepared, name)

    def settle(self, run: Run, settlement: Settlement) -> None:
        """Settle a delivery, with what else is settled in this turn of the loop."""
        self._settler.add(run, settlement)

    def ended(self, run: Run) -> None:
        """The handler of a delivery has ended, and its place is free."""
        self.runs.discard(run)
        if self.watch is not None:
            self.watch.ended()
        self._changed()

    def overdue(self, run: Run) -> None:
        """A handler goes on although its outcome is decided."""
        assert run.decided is not None
        logger.warning(
            "a handler goes on after its end, and nothing that it does counts: handler=%s queue=%s msg_id=%s "
            "outcome=%s since_s=%.0f",
            self.handler.name, self.handler.q_name, run.messages[0].md.msg_id.hex(),
            Outcome(run.decided.outcome).name.lower(), self.clock.monotonic() - run.began - run.decided.ran,
            extra={"event": "handler_goes_on"},
        )  # fmt: skip

    def reported(self, run: Run, settlement: Settlement, settled: Settled | None) -> None:
        """The queue manager has settled a delivery, or nobody knows whether it has."""
        self._unsettled -= 1
        if settled is not None and settled.reason == _NOT_THERE:
            settled = None
        self._log.reported(run, settlement, settled)
        self._changed()

    def _changed(self) -> None:
        """A place is free, or an outcome is known."""
        for waiting in (self._room, self._news):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
        self._room = self._news = None

    async def _next(self) -> None:
        """Wait for the next change."""
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._news)


def _cancel(task: asyncio.Task[object]) -> None:
    task.cancel()


async def within(clock: Clock, seconds: float, awaited: Coroutine[Any, Any, object]) -> bool:
    """Wait for something for so many seconds at most. True if it has come."""
    task = asyncio.get_running_loop().create_task(awaited)
    timer = clock.call_later(seconds, partial(_cancel, task))
    try:
        await asyncio.wait((task,))
    finally:
        timer.cancel()
        task.cancel()
    if task.cancelled():
        return False
    task.result()
    return True
