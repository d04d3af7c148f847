"""`async for message in queue`, and what it reads ahead.

A message is removed from its queue when it is given to the loop. Outside a unit of work that is what a get is, one a
step: the removal of each message must be durable before the loop has it, so there is nothing to gain by reading ahead.

Inside `unit_of_work()` a message is removed by the commit, so several are got in one call, the more the longer the loop
goes on. What the loop has not been given yet is not its own. It goes back, in order and with its backout count as it
was, before anything that would make it so, or that would meet it: a commit, a backout, the end of the connection, the
close of the handle or another get with it. It also goes back when the loop is left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from broker.interface.message import Message
from broker.mqi.errors import MQError
from broker.mqi.options import MQGMO, MQOO, MQWI
from broker.mqi.reasons import MQRC
from broker.mqi.structures import GetMessageOptions

if TYPE_CHECKING:
    from broker.interface.connection import Connection
    from broker.interface.port import Call, Delivery
    from broker.interface.queue import Queue

WINDOW_MAX: Final = 64
"""The most messages got in one call."""

SINGLY: Final = (MQOO.SAVE_ALL_CONTEXT | MQOO.NO_READ_AHEAD).value
"""A handle opened with one of these reads nothing ahead: the context to pass on is that of the message got last."""

_NEXT: Final = GetMessageOptions(
    options=(MQGMO.WAIT | MQGMO.FAIL_IF_QUIESCING).value, wait_interval=MQWI.UNLIMITED.value
)
_NEXT_IN_UNIT: Final = replace(_NEXT, options=_NEXT.options | MQGMO.SYNCPOINT.value)


class Loop:
    """The iterator of one `async for`: the next message each time, waiting for it without limit."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._ahead = ReadAhead(queue, queue._connection)
        self._loop = asyncio.get_running_loop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message. Ends when the handle is closed."""
        try:
            return await self._ahead.next()
        except MQError as error:
            if self._queue._closed and error.reason == MQRC.HOBJ_ERROR:
                raise StopAsyncIteration from None
            raise

    def __del__(self) -> None:
        """The loop is left. Python may notice that late, and in another thread."""
        if not self._ahead.begun:
            return
        if _running_loop() is self._loop:
            self._ahead.give_back()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ahead.give_back)


class ReadAhead:
    """The messages that one loop over a queue has got in a unit of work and not been given yet."""

    def __init__(self, queue: Queue, connection: Connection) -> None:
        self.queue = queue
        self._connection = connection
        self._messages: deque[Message] = deque()
        self._call: Call[list[Delivery]] | None = None  # that gets more
        self._window = 1
        self._last = b""  # token of the message given last

    @property
    def begun(self) -> bool:
        """Whether it has got anything since the last time that it gave back."""
        return self in self._connection.reading

    async def next(self) -> Message:
        """The next message."""
        while not self._messages:
            if not self._connection.in_unit_of_work or self.queue.reads_singly:
                return await self.queue.get(options=_NEXT)
            await self._fetch()
        message = self._messages.popleft()
        self._last = message.token
        return message

    def give_back(self) -> None:
        """What has not been given to the loop goes back to the queue; the next message is got by itself."""
        self._connection.reading.discard(self)
        self._window = 1
        call, self._call = self._call, None
        if call is not None:
            call.withdraw()
        if not self._messages:
            return
        tokens = [message.token for message in self._messages]
        self._messages.clear()
        if not self._connection.port.broken:
            self._connection.port.give_back(self.queue.hobj, tokens, self._last)

    async def _fetch(self) -> None:
        """Get messages, unless they are given back meanwhile."""
        window = self._window
        call = self._call = self._connection.port.get_many(self.queue.hobj, None, _NEXT_IN_UNIT, window)
        self._connection.reading.add(self)
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            self.give_back()
            raise
        if self._call is not call:
            return
        self._call = None
        self._messages.extend(map(Message, call.result()))
        call.take()
        if len(self._messages) == window:
            self._window = min(2 * window, WINDOW_MAX)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
