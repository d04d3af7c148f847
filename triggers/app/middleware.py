"""Middleware that runs round every handler of an app (handlers rules 13.3, 13.4).

    class Audited(Middleware):
        async def before(self, delivery: Delivery) -> None: ...

    app = App("mq://127.0.0.1:1414", middleware=[Audited()])

It runs in the task of the handler: inside its timeout, and in its unit of work. What it puts with `app.put`, or through
the connection of the delivery, is there when the message is handled, and not when it is not.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from broker.mqi import log_exception
from triggers.app import tracing
from triggers.app.verdicts import Later

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import TypeAlias

    from broker import Connection, Message
    from triggers.monitor.process import TriggerMessage
    from triggers.serving.attempt import Attempt
    from triggers.serving.run import Run

    Around: TypeAlias = Callable[[Run, Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]

logger = logging.getLogger(__name__)


class Delivery:
    """A delivery as a middleware sees it."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def q_name(self) -> str:
        """The name of the queue."""
        return self._run.server.handler.q_name

    @property
    def handler(self) -> str:
        """The name of the handler: `shop.orders:ship`."""
        return self._run.server.handler.name

    @property
    def messages(self) -> Sequence[Message]:
        """Its messages: one, but for batches and groups."""
        return self._run.messages

    @property
    def attempt(self) -> Attempt:
        """The attempt of this delivery."""
        return self._run.attempt

    @property
    def trigger(self) -> TriggerMessage:
        """The trigger message of the queue."""
        return self._run.trigger

    async def connection(self) -> Connection:
        """The connection whose unit of work is that of the delivery. Raises HCONN_ERROR (2018) when it has ended."""
        return await self._run.connected()

    def __repr__(self) -> str:
        return f"<Delivery of {self.q_name} to {self.handler}, attempt {self.attempt.number}>"


class Middleware:
    """Called round each attempt. Those of an app are called in their order before the handler, and in the opposite one
    after it.
    """

    async def before(self, delivery: Delivery) -> None:
        """Called before the handler. What it raises fails the attempt, and the handler is not called."""

    async def after(self, delivery: Delivery) -> None:
        """Called when the handler has returned, before that is committed. What it raises fails the attempt."""

    async def failed(self, delivery: Delivery, error: BaseException) -> None:
        """Called when the attempt has failed, with what the handler or a middleware raised; of a timeout that is a
        TimeoutError. Not called where a stop, or the end of the connection, cancels the handler. What it raises is
        logged.
        """


def around(middleware: Sequence[Middleware]) -> Around | None:
    """Return the call to make round a handler; None where there is nothing to call."""
    if not middleware and not tracing.in_use():
        return None

    async def call_around(run: Run, call: Coroutine[Any, Any, Any]) -> Any:
        handler = run.server.handler
        with tracing.attempt_span(handler.q_name, handler.name, run.messages):
            try:
                return await _called(middleware, run, call)
            except Later as error:
                later = error  # no failure that the span should tell
        raise later

    return call_around


async def _called(middleware: Sequence[Middleware], run: Run, call: Coroutine[Any, Any, Any]) -> Any:
    delivery = Delivery(run)
    try:
        try:
            for each in middleware:
                await each.before(delivery)
            value = await call
        finally:
            call.close()  # where it was never begun
        for each in reversed(middleware):
            await each.after(delivery)
    except BaseException as error:
        cause = run.error or (None if run.decided or run.server.cancelled else error)
        if cause is not None:
            await _tell_failed(middleware, delivery, cause)
        raise
    return value


async def _tell_failed(middleware: Sequence[Middleware], delivery: Delivery, error: BaseException) -> None:
    for each in reversed(middleware):
        try:
            await each.failed(delivery, error)
        except Exception as wrong:
            log_exception(
                logger,
                logging.ERROR,
                wrong,
                "%s.failed raised, of %r",
                type(each).__name__,
                delivery,
                extra={"event": "middleware_failed"},
            )
