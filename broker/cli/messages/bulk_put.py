"""Many puts on their way at once, bounded in number and bytes, their outcomes told in order.

One put at a time would wait for the disk each time. So while lines are being put, the next ones are read; what has
gathered by then is put as one batch. The bound keeps the memory of both sides bounded, whatever the input.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import anyio

from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable

    from broker import Queue
    from broker.cli.messages.lines import InputLine
    from broker.interface.data import Item
    from broker.mqi import MessageDescriptor

OUTSTANDING_MAX: Final = 1024
OUTSTANDING_BYTES_MAX: Final = 16 * 1024 * 1024


class BulkPut:
    """Puts lines on a queue. `describe` makes the descriptor of a line; `settled` is told each outcome, in order.

    The first failure ends the reading and the putting. The lines read by then that were not put have the same outcome,
    so that every line read has one.
    """

    def __init__(
        self,
        queue: Queue,
        describe: Callable[[InputLine], MessageDescriptor],
        settled: Callable[[InputLine, MQError | None], None],
        options: int = 0,
    ) -> None:
        self._queue = queue
        self._describe = describe
        self._settled = settled
        self._options = options
        self._room = PutRoom(OUTSTANDING_MAX, OUTSTANDING_BYTES_MAX)
        self._reading = anyio.CancelScope()
        self._lines: deque[InputLine] = deque()
        self._news = anyio.Event()
        self._ended = False

    async def put(self, lines: AsyncIterable[InputLine]) -> None:
        """Put every line, until the input ends or a put fails; return when all of them have settled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, lines, name="lines")
            error = None
            while batch := await self._gathered():
                put = 0
                if error is None:
                    put, error = await self._put(batch)
                if error is not None:
                    self._reading.cancel()
                for index, line in enumerate(batch):
                    self._room.give(line.length)
                    self._settled(line, None if index < put else error)

    async def _read(self, lines: AsyncIterable[InputLine]) -> None:
        with self._reading:
            async for line in lines:
                await self._room.take(line.length)
                self._lines.append(line)
                self._news.set()
        self._ended = True
        self._news.set()

    async def _gathered(self) -> list[InputLine]:
        """Return the lines read meanwhile, at least one; none when the input has ended."""
        while not (self._lines or self._ended):
            self._news = anyio.Event()
            await self._news.wait()
        batch = list(self._lines)
        self._lines.clear()
        return batch

    async def _put(self, batch: list[InputLine]) -> tuple[int, MQError | None]:
        """Put the lines of a batch; return how many were put, and the error of the next."""
        messages: list[Item] = []
        for line in batch:
            if line.data is None:
                break
            messages.append((line.data, self._describe(line)))
        try:
            await self._queue.put_many(messages, options=self._options)
        except MQError as error:
            return len(error.results), error.__cause__ if isinstance(error.__cause__, MQError) else error
        if len(messages) < len(batch):
            length = batch[len(messages)].length
            return len(messages), MQError(MQRC.MSG_TOO_BIG_FOR_Q_MGR, f"the line has {length} bytes")
        return len(messages), None


class PutRoom:
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
