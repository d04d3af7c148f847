"""Many puts on their way at once, bounded in number and bytes, their outcomes told in order.

One put at a time would wait for the disk each time; the queue manager writes together what arrives together. The bound
keeps the memory of both sides bounded, whatever the input.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import anyio

from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable

    from anyio.streams.memory import MemoryObjectReceiveStream

    from broker import Queue
    from broker.cli.lines import Line
    from broker.mqi import MessageDescriptor

OUTSTANDING_MAX: Final = 256
OUTSTANDING_BYTES_MAX: Final = 16 * 1024 * 1024

Sent = tuple["Line", "asyncio.Task[MQError | None]"]


class Pipeline:
    """Puts lines on a queue. `describe` makes the descriptor of a line; `settled` is told each outcome, in order.

    The first failure ends the reading; what is under way by then still settles, so that every line read has an outcome.
    """

    def __init__(
        self,
        queue: Queue,
        describe: Callable[[Line], MessageDescriptor],
        settled: Callable[[Line, MQError | None], None],
        options: int = 0,
    ) -> None:
        self._queue = queue
        self._describe = describe
        self._settled = settled
        self._options = options
        self._room = Room(OUTSTANDING_MAX, OUTSTANDING_BYTES_MAX)
        self._reading = anyio.CancelScope()

    async def put(self, lines: AsyncIterable[Line]) -> None:
        """Put every line, until the input ends or a put fails; return when all of them have settled."""
        send, receive = anyio.create_memory_object_stream[Sent](OUTSTANDING_MAX)
        async with asyncio.TaskGroup() as tasks, send:
            tasks.create_task(self._settle(receive), name="acknowledgements")
            with self._reading:
                async for line in lines:
                    await self._room.take(line.length)
                    send.send_nowait((line, tasks.create_task(self._put(line), name=f"line {line.number}")))

    async def _put(self, line: Line) -> MQError | None:
        if line.data is None:
            return MQError(MQRC.MSG_TOO_BIG_FOR_Q_MGR, f"the line has {line.length} bytes")
        try:
            await self._queue.put(line.data, self._describe(line), self._options)
        except MQError as error:
            return error
        return None

    async def _settle(self, receive: MemoryObjectReceiveStream[Sent]) -> None:
        async with receive:
            async for line, task in receive:
                error = await task
                self._room.give(line.length)
                if error is not None:
                    self._reading.cancel()
                self._settled(line, error)


class Room:
    """A bound on how much is under way: so many things, and so many bytes unless it is one thing alone.

    Only one task takes.
    """

    def __init__(self, things: int, size: int) -> None:
        self._things_max = things
        self._size_max = size
        self._things = 0
        self._size = 0
        self._freed = anyio.Event()

    async def take(self, size: int) -> None:
        """Wait until there is room for one more thing of this size, and take it."""
        while self._things == self._things_max or (self._things and self._size + size > self._size_max):
            self._freed = anyio.Event()
            await self._freed.wait()
        self._things += 1
        self._size += size

    def give(self, size: int) -> None:
        """Give back the room of a thing."""
        self._things -= 1
        self._size -= size
        self._freed.set()
