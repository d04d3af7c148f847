"""Call a handler: a coroutine function on the event loop, another function in a thread."""

from __future__ import annotations

import math
from collections.abc import Coroutine
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from broker import Connection, Portal, SyncConnection
from broker.mqi import MQRC, MQError
from triggers.app.unawaited import Watched, attempt

if TYPE_CHECKING:
    from collections.abc import Callable


class _Attempt:
    """A handler that is called. `forgotten` is what it should have awaited."""

    __slots__ = ("forgotten",)

    def __init__(self) -> None:
        self.forgotten: RuntimeError | None = None


async def called(function: Callable[..., Any], *arguments: object) -> object:
    """Call a handler; what it returned. Raises RuntimeError where it has dropped a coroutine that it should have
    awaited.

    A plain function has a thread of its own, in which the calls of its connection block. It cannot be cancelled: it is
    left behind, and its connection ends, so that its calls are HCONN_ERROR (2018) from then on, also one that waits
    then, and what it returns changes nothing (handlers rule 1.7).
    """
    if not iscoroutinefunction(function):
        return await _in_thread(function, *arguments)
    this = _Attempt()
    token = attempt.set(this)
    try:
        given = [each.watched(partial(Watched, this)) if isinstance(each, Connection) else each for each in arguments]
        value = await function(*given)
        if isinstance(value, Coroutine):
            del value
            value = None
    finally:
        attempt.reset(token)
    if this.forgotten is not None:
        raise this.forgotten
    return value


async def _in_thread(function: Callable[..., Any], *arguments: object) -> object:
    over = False

    def check() -> None:
        if over:
            raise MQError(MQRC.HCONN_ERROR, "the trigger monitor does not wait for this handler any more")

    portal = Portal(check, awaitable=True)
    given = [SyncConnection(each, portal) if isinstance(each, Connection) else each for each in arguments]

    def call() -> object:
        with portal.entered():
            return function(*given)

    own = anyio.CapacityLimiter(math.inf)  # whoever calls handlers bounds how many run
    try:
        return await to_thread.run_sync(call, abandon_on_cancel=True, limiter=own)
    finally:
        over = True
        portal.end()
