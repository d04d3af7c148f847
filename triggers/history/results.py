"""`app.result` and `app.status`: what has become of a message (transactions rule 6.7).

A result is waited for, a status is that of the moment. Both browse the history of the message's queue for the record
whose CorrelId is its MsgId. All that an app waits for shares one connection, made at the first, with a handle a
history; a line that is lost is made again.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from broker import PutResult, job_status
from broker.mqi import (
    MQGMO,
    MQMO,
    MQOO,
    MQRC,
    MQWI,
    GetMessageOptions,
    MessageDescriptor,
    MQError,
    history_q_name,
    read_record,
)
from triggers.app.verdicts import RequestError
from triggers.bodies.bodies import value_reader
from triggers.monitor.connections import ENDED
from triggers.serving.serving import within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from broker import Clock, Connection, JobStatus, Queue
    from broker.mqi import HistoryRecord
    from triggers.app.app import App
    from triggers.app.putting import AppPuts
    from triggers.app.source import AppSource

T = TypeVar("T")

_ID_BYTES: Final = 24
_BY_CORREL_ID: Final = MQMO.MATCH_CORREL_ID.value
_LOOK: Final = GetMessageOptions(options=MQGMO.BROWSE_FIRST.value, match_options=_BY_CORREL_ID)
_NEXT: Final = GetMessageOptions(options=MQGMO.BROWSE_NEXT.value, match_options=_BY_CORREL_ID)
_WAIT: Final = GetMessageOptions(
    options=(MQGMO.BROWSE_FIRST | MQGMO.WAIT).value, wait_interval=MQWI.UNLIMITED, match_options=_BY_CORREL_ID
)
_STALE: Final = (MQRC.HOBJ_ERROR, MQRC.OBJECT_CHANGED, MQRC.Q_DELETED)
"""The reasons of a handle that has to be opened again."""

LOOKS_AT_ONCE: Final = 16
"""So many looks for later records of dead letters, each of which has a handle of its own."""

_NO_HISTORY: Final = (MQRC.UNKNOWN_OBJECT_NAME, MQRC.UNKNOWN_REMOTE_Q_MGR, MQRC.OPTION_NOT_VALID_FOR_TYPE)


class MessageResult(Generic[T]):
    """The end of a message.

    `outcome` is "succeeded", "rejected", "unreadable", "dead_lettered" or "expired"; `attempts` how many there were;
    `ended` when it did, in seconds since 1970; `error` what its handler raised, in words, None for what has succeeded.
    `record` has all that is known.
    """

    __slots__ = ("_read", "record")

    def __init__(self, record: HistoryRecord, read: Callable[[Any], T]) -> None:
        self.record = record
        self._read = read

    @property
    def outcome(self) -> str:
        return self.record.outcome

    @property
    def attempts(self) -> int:
        return self.record.attempts

    @property
    def ended(self) -> float:
        return self.record.ended

    @property
    def error(self) -> str | None:
        return None if self.record.outcome == "succeeded" else self.record.failure

    @property
    def value(self) -> T:
        """The value that the handler has returned, or None. Raises RequestError for a message that has not
        succeeded; ValueError for a value that was not kept, UnreadableError for one that is not of the type.
        """
        record = self.record
        if record.outcome != "succeeded":
            raise RequestError(
                record.reason, f"the message has {_WORDS.get(record.outcome, record.outcome)}: {self.error}"
            )
        if record.value_type:
            raise ValueError(
                f"what the handler of {record.queue} returned is not kept: a {record.value_type} of length "
                f"{record.value_length}, which has no JSON or is longer than history_value"
            )
        return self._read(record.value)

    def __repr__(self) -> str:
        return f"<MessageResult {self.outcome} of {self.record.queue}, attempts={self.attempts}>"


_WORDS: Final = {
    "rejected": "been rejected",
    "unreadable": "not been readable",
    "dead_lettered": "become a dead letter",
    "expired": "expired",
}


class AskingSession(Protocol):
    """The session of an app, as results need it."""

    app: App
    source: AppSource
    clock: Clock
    puts: AppPuts

    async def reached(self, connect: Callable[[], Awaitable[T]]) -> T: ...


class Results:
    """Looks for the results of the messages of an app."""

    def __init__(self, owner: AskingSession) -> None:
        self._owner = owner
        self._line: tuple[Connection, AsyncExitStack] | None = None
        self._queues: dict[str, Queue] = {}  # histories that are open
        self._opening = asyncio.Lock()
        self._looking = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def result(
        self, put: PutResult | bytes, timeout: float | None, type: Any, q_name: str | None
    ) -> MessageResult[Any]:
        """The result of a message, as `App.result`."""
        if timeout is not None and not 0 <= timeout < math.inf:
            raise ValueError(f"timeout={timeout}: seconds, 0 or more, or None for ever")
        read = value_reader(type)
        self._owner.puts.joined(syncpoint=False)
        msg_id, histories = self._asked(put, q_name)
        if timeout == 0:
            found = [each for name in histories if (each := await self._find(name, msg_id, _LOOK)) is not None]
            if not found:
                raise TimeoutError(f"message {msg_id.hex()} has not ended")
            return MessageResult(found[0], read)
        seen: list[HistoryRecord] = []

        async def wait() -> None:
            seen.append(await self._first(histories, msg_id))

        if timeout is None:
            await wait()
        elif not await within(self._owner.clock, timeout, wait()):
            raise TimeoutError(f"message {msg_id.hex()} has not ended within {timeout:g} s")
        return MessageResult(seen[0], read)

    async def status(self, put: PutResult | bytes, q_name: str | None) -> JobStatus:
        """The status of a message, as `App.status`."""
        self._owner.puts.joined(syncpoint=False)
        msg_id, q_name = _message(put, q_name, "app.status")
        if not q_name:
            raise LookupError("neither this put nor anything else tells the queue: say queue=")
        handler = self._owner.app.handlers.get(q_name)
        dead_letter = handler.options.dead_letter if handler is not None else ""
        while True:
            try:
                connection = await self._connected()
                return await job_status(connection, q_name, msg_id, dead_letter=dead_letter)
            except MQError as error:
                if error.reason not in ENDED or self._owner.source.embedded:
                    raise

    async def close(self) -> None:
        """Close the connection; who waits gets HCONN_ERROR (2018)."""
        line, self._line = self._line, None
        self._queues.clear()
        if line is not None:
            await line[1].aclose()

    def _asked(self, put: PutResult | bytes, q_name: str | None) -> tuple[bytes, Sequence[str]]:
        """The MsgId that is asked for, and the queues that may have its record. Raises TypeError, LookupError."""
        msg_id, q_name = _message(put, q_name, "app.result")
        if isinstance(put, PutResult) and not q_name:
            raise LookupError("this put does not tell its queue, and with it no history: say queue=")
        if q_name:
            return msg_id, [history_q_name(q_name)]
        histories = [each.options.history for each in self._owner.app.handlers.values() if each.options.history]
        if not histories:
            raise LookupError(f"no handler of the app {self._owner.app.name} has a history: say queue=")
        return msg_id, sorted(histories)

    async def _first(self, histories: Sequence[str], msg_id: bytes) -> HistoryRecord:
        """Wait for the record of a message on the first of these queues that has it."""
        if len(histories) == 1:
            return await self._found(histories[0], msg_id)
        looks = [asyncio.ensure_future(self._found(name, msg_id)) for name in histories]
        try:
            done, _ = await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for look in looks:
                look.cancel()
            await asyncio.gather(*looks, return_exceptions=True)

    async def _found(self, history: str, msg_id: bytes) -> HistoryRecord:
        found = await self._find(history, msg_id, _WAIT)
        assert found is not None
        return found

    async def _find(self, history: str, msg_id: bytes, options: GetMessageOptions) -> HistoryRecord | None:
        """The record of a message; None where there is none yet, unless the options wait for it."""
        while True:
            try:
                queue = await self._opened(history)
                message = await queue.get(MessageDescriptor(correl_id=msg_id), options)
                record = read_record(message.data)
                return record if record.outcome == "succeeded" else await self._latest(history, msg_id, record)
            except MQError as error:
                if error.reason == MQRC.NO_MSG_AVAILABLE:
                    return None
                if error.reason in _NO_HISTORY:
                    raise LookupError(f"{history} is not there, so its queue has no history: {error}") from error
                if error.reason in _STALE:
                    self._queues.pop(history, None)
                elif error.reason not in ENDED or self._owner.source.embedded:
                    raise

    async def _latest(self, history: str, msg_id: bytes, record: HistoryRecord) -> HistoryRecord:
        """The last record of a message: a dead letter that was put back has one more."""
        assert self._line is not None
        async with self._looking, self._line[0].open(history, MQOO.BROWSE) as queue:
            try:
                while True:
                    message = await queue.get(MessageDescriptor(correl_id=msg_id), _NEXT)
                    record = read_record(message.data)
            except MQError as error:
                if error.reason != MQRC.NO_MSG_AVAILABLE:
                    raise
        return record

    async def _opened(self, history: str) -> Queue:
        """A history, to be browsed, over a connection that is there."""
        async with self._opening:
            connection = await self._reached()
            queue = self._queues.get(history)
            if queue is None:
                queue = self._queues[history] = await connection.open(history, MQOO.BROWSE)
            return queue

    async def _connected(self) -> Connection:
        """The connection for all looks, made if it is not there."""
        async with self._opening:
            return await self._reached()

    async def _reached(self) -> Connection:
        if self._line is None or self._line[0].port.broken:
            await self.close()
            exit = AsyncExitStack()
            connect = self._owner.source.connect
            name = self._owner.app.name
            self._line = await self._owner.reached(lambda: exit.enter_async_context(connect(name))), exit
        return self._line[0]


def _message(put: PutResult | bytes, q_name: str | None, asker: str) -> tuple[bytes, str | None]:
    """The MsgId that is asked for, and its queue as far as that is known. Raises TypeError, LookupError."""
    if isinstance(put, PutResult):
        msg_id, q_name = put.md.msg_id, q_name or put.resolved_q_name
    elif isinstance(put, bytes) and len(put) == _ID_BYTES:
        msg_id = put
    else:
        raise TypeError(f"{asker} takes the result of a put, or a MsgId of 24 bytes, not {put!r}")
    if not any(msg_id):
        raise LookupError("a MsgId of zeros is that of no message: an asynchronous put does not tell its own")
    return msg_id, q_name
