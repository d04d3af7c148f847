"""One delivery under its handler, from the first step of its task to its settlement (handlers rule 1.1).

1. The outcome is decided once, by the first of: return, exception, timeout, stop, end of the connection. It is settled
   in the turn in which it is decided.
2. Nothing that the handler does afterwards counts: its connection has ended with the delivery, so every call is
   HCONN_ERROR (2018). That it swallows its cancellation and returns is no success.
3. It keeps its place until it has ended in fact. While it has not, that is logged once a minute.
4. A task that is done when its timer fires has ended, and not timed out.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import anyio.to_thread

from broker import Portal, SyncConnection
from broker.mqi import Failure, Outcome, Settlement, tail
from triggers.app.unawaited import Watched, attempt
from triggers.app.verdicts import BatchError, Later, Reject
from triggers.bodies.bodies import UnreadableError
from triggers.serving.attempt import Attempt
from triggers.serving.failures import ended, failure_of, waits_at

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from anyio import CapacityLimiter

    from broker import Clock, Connection, Delivered, Message
    from broker.mqi import Returned
    from triggers.app.handler import Handler
    from triggers.monitor.process import TriggerMessage
    from triggers.serving.steps import AttemptSteps
    from triggers.transactions.transaction import AppTransaction

T = TypeVar("T")

DONE: Final = Outcome.DONE.value

OVERDUE_INTERVAL: Final = 60.0
"""Seconds between two records about a handler that goes on after its end was decided."""

current: ContextVar[Run | None] = ContextVar("evermq_run", default=None)
"""The delivery that the task which looks handles, or was started by its handler."""

transaction: ContextVar[AppTransaction | None] = ContextVar("evermq_transaction", default=None)
"""The `app.transaction` that the task which looks has entered last, or was started in."""


class Cancellable(Protocol):
    """A timer, as `Clock.call_later` returns it."""

    def cancel(self) -> None: ...


class QueueServer(Protocol):
    """The server of a queue, as a run needs it."""

    handler: Handler
    clock: Clock
    limiter: CapacityLimiter
    owner: object
    """The session of an app: its `put` joins the unit of a delivery."""
    app: object
    around: Callable[[Run, Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]] | None
    """The call round a handler, inside the timeout and the unit of work."""

    @property
    def cancelled(self) -> bool:
        """True if the task of the server has been cancelled, and with it its runs."""

    @property
    def crashed(self) -> bool:
        """True if a handler has ended the event loop: the queue manager finds out which."""

    def connect_ahead(self, delivered: Delivered) -> None: ...
    def forget_ahead(self, delivered: Delivered) -> None: ...
    async def connect(self, delivered: Delivered) -> Connection: ...
    async def keep_step(self, delivered: Delivered, name: str, value: bytes) -> None: ...
    async def reply(self, run: Run, value: object) -> None: ...
    def returned(self, run: Run, value: object) -> Returned | None: ...
    def settle(self, run: Run, settlement: Settlement) -> None: ...
    def ended(self, run: Run) -> None: ...
    def overdue(self, run: Run) -> None: ...


class Run:
    """A delivery that was taken, and the task of its handler. `error` is what the handler raised."""

    __slots__ = (
        "_connecting", "_connection", "_overdue", "_timer", "_unread", "began", "begun", "decided", "delivered",
        "error", "forgotten", "portal", "server", "steps", "task",
    )  # fmt: skip

    joins = True  # what the app puts in it is in its unit of work
    steps: AttemptSteps  # once the attempt has asked for one

    def __init__(self, server: QueueServer, delivered: Delivered) -> None:
        self.server = server
        self.delivered = delivered
        self.task: asyncio.Task[None] | None = None
        self._timer: Cancellable | None = None
        self.began = server.clock.monotonic()
        self.begun = False
        self.decided: Settlement | None = None
        self.error: BaseException | None = None
        self.forgotten: RuntimeError | None = None  # what it should have awaited
        self.portal: Portal | None = None  # of the thread of a plain function
        self._connection: Connection | None = None
        self._connecting: asyncio.Lock | None = None
        self._overdue: Cancellable | None = None
        self._unread: dict[int, UnreadableError] | None = None

    # What arguments are made of

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the delivery."""
        return self.delivered.messages

    @property
    def trigger(self) -> TriggerMessage:
        """The trigger message of the queue."""
        return self.delivered.trigger

    @property
    def attempt(self) -> Attempt:
        """The attempt that this is."""
        delivered = self.delivered
        return Attempt(delivered.attempt, delivered.limit, delivered.waited, self.server.handler.q_name, self)

    @property
    def app(self) -> object:
        """The app whose handler it is."""
        return self.server.app

    @property
    def database_connection(self) -> Any:
        """The connection to the handler's database; `TransactionRun` has one."""
        raise NotImplementedError

    @property
    def connection(self) -> Connection | SyncConnection:
        """The connection of the delivery, which `connected` has made; for a thread one whose calls block."""
        assert self._connection is not None
        if self.portal is not None:
            return SyncConnection(self._connection, self.portal)
        return self._connection.watched(partial(Watched, self))

    def unreadable(self, place: int, error: UnreadableError) -> None:
        """The message at this place of a batch cannot be read: it fails alone."""
        if self._unread is None:
            self._unread = {}
        self._unread[place] = error

    # Its connection

    async def connected(self) -> Connection:
        """The connection whose unit of work is that of the delivery; made when it is first asked for.

        Raises HCONN_ERROR (2018) once the outcome is decided.
        """
        self.check_open()
        if self._connection is None:
            if self._connecting is None:
                self._connecting = asyncio.Lock()
            async with self._connecting:
                if self._connection is None:
                    self._connection = await self.server.connect(self.delivered)
            self.check_open()
        return self._connection

    def check_open(self) -> None:
        """Raises HCONN_ERROR (2018) once the outcome is decided."""
        if self.decided is not None:
            raise ended(self.server.handler.q_name, self.decided.outcome)

    # Its life

    async def live(self) -> None:
        """The task: call the handler, and decide by what it does."""
        server = self.server
        try:
            if self.decided is not None:  # stopped before it began
                return
            self.begun = True
            current.set(self)
            attempt.set(self)
            timeout = server.handler.timeout
            if timeout is not None:
                self._timer = server.clock.call_later(timeout, self._time_out)
            value = await (self._call() if server.around is None else server.around(self, self._call()))
            returned = None
            if value is not None and self.decided is None:
                await server.reply(self, value)
                if server.handler.options.history:
                    returned = server.returned(self, value)
            del value  # it may be what it should have awaited
            if self.forgotten is not None:
                raise self.forgotten
        except BaseException as error:
            self._raised(error)
        else:
            if self.decided is None:
                failed = () if self._unread is None else self._unread_ones()
                if returned is None:
                    self._settle(Settlement(self.delivered.id, DONE, ran=self._ran(), failed=failed))
                else:
                    self._settle(Settlement(self.delivered.id, DONE, ran=self._ran(), failed=failed, value=returned))
        finally:
            if self._overdue is not None:
                self._overdue.cancel()
            server.ended(self)

    def stop(self) -> None:
        """The worker stops: nothing has happened, and the message is returned. A handler that runs is cancelled."""
        if self.server.crashed:
            self.lose()
        elif self.decided is None:
            self._decide(Outcome.RETURNED.value)
            self._cancel()

    def hurry(self) -> None:
        """The worker stops, and the outcome is decided already."""

    def offend(self) -> None:
        """The handler has cancelled the tasks that serve it: that is its failure, and no stop from outside."""
        if self.decided is None:
            self._raised(RuntimeError("the handler cancelled the tasks of its event loop"))
            self._cancel()

    def lose(self) -> Settlement:
        """The connection of the worker has ended, and with it the delivery: there is nothing left to settle. What would
        have been settled now.
        """
        if self.decided is None:
            self.decided = Settlement(self.delivered.id, Outcome.RETURNED.value)
            self._disarm()
            self._end_calls()
            self._cancel()
        return self.decided

    async def _call(self) -> Any:
        handler = self.server.handler
        arguments = handler.arguments
        assert arguments is not None
        if handler.threaded:
            self.portal = Portal(self.check_open, awaitable=True)
        if arguments.connects:
            await self.connected()
        given = [bind(self) for bind in arguments.positional]
        if arguments.named:
            named = {name: bind(self) for name, bind in arguments.named.items()}
            return await (self._in_thread(*given, **named) if handler.threaded else handler.function(*given, **named))
        return await (self._in_thread(*given) if handler.threaded else handler.function(*given))

    async def _in_thread(self, *given: Any, **named: Any) -> Any:
        """Call a plain function, which nobody can cancel: its place is kept until it has ended."""
        function, portal = self.server.handler.function, self.portal
        assert portal is not None

        def call() -> tuple[Any, BaseException | None]:
            try:
                with portal.entered():
                    return function(*given, **named), None
            except BaseException as error:  # SystemExit would leave the task of the thread, and end the event loop
                return None, error

        (value, raised), cancelled = await self._outlasted(self._begin_thread(call))
        if raised is not None:
            raise raised
        if cancelled is not None:
            raise cancelled
        return value

    def _begin_thread(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Make a call in a thread, which the handler has until it returns."""
        return asyncio.ensure_future(anyio.to_thread.run_sync(call, limiter=self.server.limiter))

    async def _outlasted(self, thread: asyncio.Future[T]) -> tuple[T, asyncio.CancelledError | None]:
        """Wait for what a thread does, which no cancellation ends. Return what it has done, and the cancellation."""
        cancelled: asyncio.CancelledError | None = None
        while not thread.done():
            try:
                await asyncio.wait((thread,))
            except asyncio.CancelledError as error:
                cancelled = error
                if self.decided is None and self.server.cancelled:
                    self.stop()
        return thread.result(), cancelled

    def _raised(self, error: BaseException) -> None:
        """Decide the outcome by the exception of the handler, unless it is decided."""
        if self.decided is not None:
            return
        if isinstance(error, asyncio.CancelledError) and self.server.cancelled:
            if self.server.crashed:
                self.lose()
            else:
                self._decide(Outcome.RETURNED.value)
            return
        self.error = error
        self._settle(self._judged(error))

    def _judged(self, error: BaseException) -> Settlement:
        """Return the settlement for an exception of the handler."""
        end = partial(Settlement, self.delivered.id, ran=self._ran())
        if isinstance(error, Later):
            return end(Outcome.LATER.value, seconds=error.seconds, counted=error.counted)
        if isinstance(error, Reject):
            return end(Outcome.REJECTED.value, failure=self._failure(error), feedback=error.feedback)
        if isinstance(error, UnreadableError):
            return end(Outcome.UNREADABLE.value, failure=failure_of(error, 0))
        if isinstance(error, BatchError) and self._in_range(error):
            return end(Outcome.DONE.value, failed=self._failed_ones(error))
        again = self.server.handler.retry.tries_again(error)
        return end(Outcome.FAILED.value if again else Outcome.REJECTED.value, failure=self._failure(error))

    def _time_out(self) -> None:
        """The timer: the attempt has failed, and what it goes on to do does not count."""
        task = self.task
        if self.decided is not None or task is None or task.done():
            return
        handler = self.server.handler
        error = TimeoutError(f"the handler ran for longer than its timeout of {handler.timeout:g} s")
        self.error = error
        failure = Failure("TimeoutError", str(error), tail(waits_at(task), handler.options.traceback))
        again = handler.retry.tries_again(error)
        outcome = Outcome.FAILED if again else Outcome.REJECTED
        self._decide(outcome.value, failure=failure, timed_out=again)
        self._cancel()

    def _decide(self, outcome: int, **reported: Any) -> None:
        """Settle the delivery. Nothing decides after this."""
        self._settle(Settlement(self.delivered.id, outcome, ran=self._ran(), **reported))

    def _settle(self, settlement: Settlement) -> None:
        if self._timer is not None:
            self._disarm()
        self.decided = settlement
        self._end_calls()
        self.server.settle(self, settlement)

    def _end_calls(self) -> None:
        """End the calls that its thread waits for: their answers do not come any more."""
        if self.portal is not None:
            self.portal.end()

    def _ran(self) -> float:
        """For how many seconds the handler has run."""
        return self.server.clock.monotonic() - self.began if self.begun else 0.0

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cancel(self) -> None:
        """End the handler, as far as that can be done from outside."""
        if self.task is not None and self.begun and not self.task.done():
            self.task.cancel()
            self._look_later()

    def _look_later(self) -> None:
        self._overdue = self.server.clock.call_later(OVERDUE_INTERVAL, self._is_overdue)

    def _is_overdue(self) -> None:
        if self.task is not None and not self.task.done():
            self.server.overdue(self)
            self._look_later()

    # Why it failed

    def _failure(self, error: BaseException) -> Failure:
        return failure_of(error, self.server.handler.options.traceback)

    def _unread_ones(self) -> tuple[tuple[int, Failure], ...]:
        """The messages of a batch that could not be read: each comes alone next time, and is a dead letter then."""
        if self._unread is None:
            return ()
        return tuple((place, failure_of(error, 0)) for place, error in self._unread.items())

    def _places(self) -> list[int]:
        """Return the places in the batch of the messages that the handler was given."""
        unread = self._unread or {}
        return [place for place in range(len(self.messages)) if place not in unread]

    def _in_range(self, error: BatchError) -> bool:
        return all(type(place) is int and 0 <= place < len(self._places()) for place in error.errors)

    def _failed_ones(self, error: BatchError) -> tuple[tuple[int, Failure], ...]:
        places = self._places()
        named = {places[place]: self._failure(each) for place, each in error.errors.items()}
        return tuple(sorted([*named.items(), *self._unread_ones()]))
