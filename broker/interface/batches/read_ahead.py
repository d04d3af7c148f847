"""`async for message in queue`, and what it reads ahead (semantics 14.1).

A message is removed from its queue when it is given to the loop. Outside a unit of work that is what a get is, one a
step: the removal of each message must be durable before the loop has it, so there is nothing to gain by reading ahead.

Inside `unit_of_work()` a message is removed by the commit, so several may be got in one call, the more the longer the
loop goes on. What the loop has not been given yet is not its own. It goes back, in order and with its backout count as
it was, before anything that would make it so, or that would look for it: a commit, a backout, the end of the
connection, the close of the handle, another get of the connection from that queue. It also goes back when the loop is
left.

Messages are read ahead for a loop

1. never, where the queue has DEFREADA(DISABLED) or was opened with NO_READ_AHEAD or SAVE_ALL_CONTEXT;
2. never, while another loop of the connection is over the same queue: neither may starve for what the other holds;
3. where the queue has DEFREADA(YES) or was opened with READ_AHEAD;
4. otherwise, while it is the only loop of its connection.

When a second loop takes its first step, what others have read ahead and may not any more goes back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from broker.interface.message import Message
from broker.interface.portal import running_loop
from broker.mqi.constants.options import MQGMO, MQOO, MQWI
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.structures import GetMessageOptions

if TYPE_CHECKING:
    from broker.interface.answers import GetAnswer
    from broker.interface.connection import Connection
    from broker.interface.port import Call
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
                self._ahead.leave()
                raise StopAsyncIteration from None
            raise

    def __del__(self) -> None:
        """The loop is left. Python may notice that late, and in another thread."""
        if not self._ahead.begun:
            return
        if running_loop() is self._loop:
            self._ahead.leave()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ahead.leave)


class ReadAhead:
    """One loop over a queue, and the messages that it has got in a unit of work and not been given yet."""

    def __init__(self, queue: Queue, connection: Connection) -> None:
        self.queue = queue
        self._connection = connection
        self._messages: deque[Message] = deque()
        self._call: Call[list[GetAnswer]] | None = None  # that gets more
        self._window = 1
        self._last = b""  # token of the message given last

    @property
    def begun(self) -> bool:
        """True if the loop has taken a step, and has not been left."""
        return self in self._connection.loops

    @property
    def allowed(self) -> bool:
        """True if more than the next message may be got now."""
        queue, loops = self.queue, self._connection.loops
        if queue.reads_singly:
            return False
        if len(loops) == 1:
            return True
        if not queue.asks_to_read_ahead:
            return False
        return all(each is self or each.queue.resolved_q_name != queue.resolved_q_name for each in loops)

    async def next(self) -> Message:
        """The next message."""
        connection = self._connection
        if not self.begun:
            self._begin()
        while True:
            while not self._messages:
                if not connection.in_unit_of_work:
                    return await self.queue.get(options=_NEXT)
                await self._fetch()
            message = self._messages.popleft()
            self._last = message.token
            if connection.guard is None or await connection.guard.admits(connection, message):
                break
        if connection.unit is not None:
            connection.unit.gets += 1
        return message

    def leave(self) -> None:
        """The loop is over."""
        self._connection.loops.discard(self)
        self.give_back()

    def _begin(self) -> None:
        """The loop takes its first step."""
        connection = self._connection
        connection.loops.add(self)
        for ahead in [each for each in connection.reading if not each.allowed]:
            ahead.give_back()

    def give_back(self) -> None:
        """Give back to the queue the messages that the loop has not had yet; the next one is got by itself."""
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
        window = self._window if self.allowed else 1
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
        opened = self.queue.opened
        self._messages.extend(Message(each, opened) for each in call.result())
        call.take()
        self._window = min(2 * window, WINDOW_MAX) if len(self._messages) == window else window
