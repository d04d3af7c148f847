"""Asynchronous puts (MQPMO_ASYNC_RESPONSE): the program does not wait for the outcome, and asks for all of them later.

A put is asynchronous when it says so, or says nothing and its queue had DEFPRESP(ASYNC) when it was opened. Persistent
messages outside syncpoint are put synchronously all the same: otherwise nobody would know when they are durable. What
has been put and has no answer yet is bounded; beyond that a put waits for the oldest.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from broker.mqi.constants.descriptor import MQPER
from broker.mqi.constants.options import MQPMO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQCC, MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.interface.answers import Placed
    from broker.interface.port import Call
    from broker.mqi.structures import MessageDescriptor

    Counter: TypeAlias = Callable[[Placed], None]

IN_FLIGHT_BYTES: Final = 4 * 1024 * 1024
"""The bytes that may be under way; each put counts a little more than its data."""

ASYNC_RESPONSE: Final = MQPMO.ASYNC_RESPONSE.value
_SYNC_RESPONSE: Final = MQPMO.SYNC_RESPONSE.value
_SYNCPOINT: Final = MQPMO.SYNCPOINT.value
_PERSISTENCE_AS_Q_DEF: Final = MQPER.PERSISTENCE_AS_Q_DEF.value
_PUT_BYTES: Final = 512
_AT_ONCE: Final = frozenset((MQRC.CONNECTION_BROKEN, MQRC.HCONN_ERROR, MQRC.Q_MGR_STOPPING, MQRC.DATA_LENGTH_ERROR))


@dataclass(frozen=True, slots=True)
class AsyncStatus:
    """MQSTS: what became of the asynchronous puts since the last time. `completion`, `reason` and `object_name` are
    those of the first that gave a warning or failed.
    """

    put_success_count: int = 0
    put_warning_count: int = 0
    put_failure_count: int = 0
    completion: MQCC = MQCC.OK
    reason: MQRC | int = MQRC.NONE
    object_name: str = ""


def asynchronous(options: int, md: MessageDescriptor | None, *, by_default: bool, persistent: bool) -> bool:
    """True if a put with these options is asynchronous; `by_default` and `persistent` are the defaults of its queue."""
    if options & _SYNC_RESPONSE or not (options & ASYNC_RESPONSE or by_default):
        return False
    if options & _SYNCPOINT:
        return True
    asked = _PERSISTENCE_AS_Q_DEF if md is None else md.persistence
    return not (persistent if asked == _PERSISTENCE_AS_Q_DEF else asked)


class AsyncPuts:
    """The asynchronous puts of one connection."""

    def __init__(self) -> None:
        self._calls: dict[asyncio.Future[Placed], tuple[str, int, Counter | None]] = {}  # under way: queue, its weight
        self._bytes = 0
        self._status = AsyncStatus()

    async def follow(self, call: Call[Placed], name: str, length: int, counter: Counter | None) -> None:
        """Count the outcome of this put when it is known; `counter` is notified of a success. Raises what keeps it from
        being made at all: CONNECTION_BROKEN (2009), HCONN_ERROR (2018), Q_MGR_STOPPING (2162), DATA_LENGTH_ERROR
        (2010).
        """
        if call.done():
            error = call.exception()
            if isinstance(error, MQError) and error.reason in _AT_ONCE:
                raise error
            self._count(call, name, counter)
            return
        self._calls[call] = name, length + _PUT_BYTES, counter
        self._bytes += length + _PUT_BYTES
        call.add_done_callback(self._over)
        while self._bytes > IN_FLIGHT_BYTES:
            await asyncio.wait([next(iter(self._calls))])

    async def status(self) -> AsyncStatus:
        """Return the outcome of the puts made before; the counts begin anew."""
        if self._calls:
            await asyncio.wait(list(self._calls))
        status, self._status = self._status, AsyncStatus()
        return status

    def _over(self, call: asyncio.Future[Placed]) -> None:
        name, weight, counter = self._calls.pop(call)
        self._bytes -= weight
        self._count(call, name, counter)

    def _count(self, call: asyncio.Future[Placed], name: str, counter: Counter | None) -> None:
        status = self._status
        error = MQError(MQRC.CONNECTION_BROKEN) if call.cancelled() else call.exception()
        if error is not None:
            reason = error.reason if isinstance(error, MQError) else MQRC.UNEXPECTED_ERROR
            status = replace(status, put_failure_count=status.put_failure_count + 1)
            self._status = _first(status, MQCC.FAILED, reason, name)
            return
        if counter is not None:
            counter(call.result())
        if call.result().reason:
            status = replace(status, put_warning_count=status.put_warning_count + 1)
            self._status = _first(status, MQCC.WARNING, call.result().reason, name)
        else:
            self._status = replace(status, put_success_count=status.put_success_count + 1)


def _first(status: AsyncStatus, completion: MQCC, reason: int, name: str) -> AsyncStatus:
    """The status with this problem in it, unless there was one before."""
    if status.completion != MQCC.OK:
        return status
    return replace(status, completion=completion, reason=MQError(reason).reason, object_name=name)
