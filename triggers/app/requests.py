"""Requests and their replies (handlers section 10).

All requests of an app share one temporary queue for their replies, made at the first of them, and one reader. A reply
is found in a table by its CorrelId, which is the MsgId of its request.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any, Final

from broker.mqi import (
    MQCO,
    MQGMO,
    MQMT,
    MQOO,
    MQPER,
    MQPMO,
    MQRC,
    MQRO,
    MQWI,
    GetMessageOptions,
    MessageDescriptor,
    MQError,
    ObjectDescriptor,
)
from triggers.app.definitions import is_refused, not_definable
from triggers.app.verdicts import RequestError
from triggers.bodies.bodies import written
from triggers.serving.serving import within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from broker import Connection, Message, Queue
    from triggers.app.source import AppSource

    Reached = Callable[[Callable[[], Awaitable["_RequestLine"]]], Awaitable["_RequestLine"]]
    """Has a line opened by the queue manager, which is waited for where it is away."""

logger = logging.getLogger(__name__)

MODEL_Q_NAME: Final = "EVERMQ.REPLIES"
"""The model of the queues for replies, defined when it is missing: the system's own has too little room."""

REPLIES: Final = "EVERMQ.REPLIES.*"
_DEFINE_MODEL: Final = (
    f"DEFINE QMODEL({MODEL_Q_NAME}) DEFTYPE(TEMPDYN) DEFPSIST(NO) NOSHARE MAXDEPTH(999999999) MAXMSGL(104857600) "
    "DESCR('Queues for the replies to requests of apps')"
)
READ_MANY: Final = 256

_NO_SYNCPOINT: Final = MQPMO.NO_SYNCPOINT.value
_ID_PREFIX: Final = b"ERQ1"
_ID_BYTES: Final = 24
_READ: Final = GetMessageOptions(
    options=(MQGMO.WAIT | MQGMO.NO_SYNCPOINT).value, wait_interval=MQWI.UNLIMITED, match_options=0
)


class Requests:
    """The requests of an app that are under way. `late` counts replies that nobody waited for any more."""

    def __init__(self, source: AppSource, appl_name: str, reached: Reached) -> None:
        self.late = 0
        self._source = source
        self._reached = reached
        self._appl_name = appl_name
        self._open: dict[bytes, asyncio.Future[Message]] = {}
        self._prefix = _ID_PREFIX + source.random.randbytes(12)
        self._number = 0
        self._line: _RequestLine | None = None
        self._starting = asyncio.Lock()

    def __len__(self) -> int:
        """Return the number of requests that wait for their replies."""
        return len(self._open)

    async def request(
        self, q_name: str, body: object, timeout: float, properties: Mapping[str, Any] | None = None
    ) -> Message:
        """Put a request outside any unit of work, and wait for its reply.

        Raises TimeoutError after `timeout` seconds; RequestError when the request has become a dead letter; MQError:
        what a put raises, and CONNECTION_BROKEN (2009) when the connection is lost while the request is open.
        """
        if not 0 < timeout < math.inf:
            raise ValueError(f"timeout={timeout}: seconds, above 0")
        form = written(body)
        clock = self._source.clock
        deadline = clock.monotonic() + timeout
        if not await within(clock, timeout, self._started()) or (left := deadline - clock.monotonic()) <= 0:
            raise TimeoutError(f"the queue manager could not be reached within {timeout:g} s")
        line = self._line
        assert line is not None
        self._number += 1
        id = self._prefix + self._number.to_bytes(_ID_BYTES - len(self._prefix), "big")
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._open[id] = reply
        timer = clock.call_later(left, lambda: _time_out(reply, q_name, timeout))
        md = MessageDescriptor(
            msg_type=MQMT.REQUEST,
            report=MQRO.EXCEPTION,
            format=form.format,
            coded_char_set_id=form.ccsid,
            persistence=MQPER.NOT_PERSISTENT,
            expiry=max(1, math.ceil(left * 10)),
            msg_id=id,
            reply_to_q=line.queue.name,
        )
        try:
            given = {**(form.properties or {}), **(properties or {})}
            await line.connection.put1(q_name, form.data, md, _NO_SYNCPOINT, properties=given or None)
            return _checked(await reply)
        finally:
            timer.cancel()
            self._open.pop(id, None)

    async def close(self) -> None:
        """End the reader; requests that wait are CONNECTION_BROKEN (2009)."""
        line, self._line = self._line, None
        if line is not None:
            await line.close()
        self._lose()

    async def _started(self) -> None:
        async with self._starting:
            if self._line is None or self._line.lost:
                self._line = await self._reached(self._opened)

    async def _opened(self) -> _RequestLine:
        return await _RequestLine.opened(self._source, self._appl_name, self._got, self._lose)

    def _got(self, message: Message) -> None:
        reply = self._open.pop(message.md.correl_id, None)
        if reply is None or reply.done():
            self.late += 1
        else:
            reply.set_result(message)

    def _lose(self) -> None:
        """The connection is lost: nothing is sent again."""
        lost, self._open = self._open, {}
        for reply in lost.values():
            if not reply.done():
                reply.set_exception(
                    MQError(
                        MQRC.CONNECTION_BROKEN, "the reply to this request cannot come any more; it was not sent again"
                    )
                )


class _RequestLine:
    """The connection of requests, their queue for replies, and its reader."""

    def __init__(self, entered: AbstractAsyncContextManager[Connection], connection: Connection, queue: Queue) -> None:
        self.connection = connection
        self.queue = queue
        self.lost = False
        self._entered = entered
        self._reader: asyncio.Task[None]

    @classmethod
    async def opened(
        cls, source: AppSource, appl_name: str, got: Callable[[Message], None], lose: Callable[[], None]
    ) -> _RequestLine:
        entered = source.connect(appl_name)
        connection = await entered.__aenter__()
        try:
            model = ObjectDescriptor(object_name=MODEL_Q_NAME, dynamic_q_name=REPLIES)
            queue = await _opened(connection, model, appl_name)
        except BaseException as error:
            await entered.__aexit__(type(error), error, error.__traceback__)
            raise
        line = cls(entered, connection, queue)
        line._reader = asyncio.get_running_loop().create_task(line._read(got, lose), name="read replies")
        return line

    async def _read(self, got: Callable[[Message], None], lose: Callable[[], None]) -> None:
        try:
            while True:
                for message in await self.queue.get_many(READ_MANY, None, _READ):
                    got(message)
        except MQError as error:
            logger.info(
                "replies cannot be read any more, requests that are open fail: %s",
                error,
                extra={"event": "replies_not_read"},
            )
        finally:
            self.lost = True
            lose()

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.wait((self._reader,))
        try:
            if not self.connection.port.broken:
                await self.queue.close(MQCO.DELETE_PURGE)
        except MQError:
            pass  # it goes with its connection
        await self._entered.__aexit__(None, None, None)


async def _opened(connection: Connection, model: ObjectDescriptor, appl_name: str) -> Queue:
    """A new queue for replies; its model is defined when it is missing. Raises NOT_AUTHORIZED (2035) where the app may
    not define it.
    """
    try:
        return await connection.open(model, MQOO.INPUT_EXCLUSIVE)
    except MQError as error:
        if error.reason != MQRC.UNKNOWN_OBJECT_NAME:
            raise
    try:
        refused = any(map(is_refused, await connection.mqsc(_DEFINE_MODEL)))  # else another app may have been faster
    except MQError as error:
        if error.reason != MQRC.NOT_AUTHORIZED:
            raise
        refused = True
    try:
        return await connection.open(model, MQOO.INPUT_EXCLUSIVE)
    except MQError as error:
        if refused and error.reason == MQRC.UNKNOWN_OBJECT_NAME:
            raise not_definable(appl_name, [_DEFINE_MODEL]) from None
        raise


def _time_out(reply: asyncio.Future[Message], q_name: str, timeout: float) -> None:
    if not reply.done():
        reply.set_exception(TimeoutError(f"no reply from {q_name} within {timeout:g} s"))


def _checked(reply: Message) -> Message:
    """A reply, unless it is a report: then the request is a dead letter."""
    md = reply.md
    if md.msg_type != MQMT.REPORT:
        return reply
    reported = reply.properties.get("evermq.error") or reply.properties.get("evermq.exception")
    raise RequestError(
        md.feedback, str(reported) if reported else f"the request could not be handled: {_reason(md.feedback)}"
    )


def _reason(feedback: int) -> str:
    try:
        return MQRC(feedback).name
    except ValueError:
        return f"feedback {feedback}"


def report_ids(request: MessageDescriptor) -> tuple[bytes, bytes]:
    """The MsgId (zeros: a new one) and the CorrelId of a reply, as the report options of its request say."""
    passes_correl_id = request.report & MQRO.PASS_CORREL_ID
    msg_id = request.msg_id if request.report & MQRO.PASS_MSG_ID else bytes(_ID_BYTES)
    return msg_id, request.correl_id if passes_correl_id else request.msg_id
