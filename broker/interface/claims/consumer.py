"""`connection.consumer()`: claims for programs. What a program has claimed is its own until it says that it is done.

The queue manager keeps the position. Who enters the consumer goes on there, and what was not acknowledged comes again,
in the same order with the same sequences: a program that keeps the sequence with its results does each once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

from broker.interface.batches.column_messages import ColumnMessage, messages
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

    from broker.interface.batches.columns import Columns
    from broker.interface.claims.claim_calls import Claims, Frames

BATCH_MESSAGES: Final = 1000
BATCH_BYTES: Final = 256 * 1024 * 1024

GROUPS: Final = ("each", "whole")
_FIRST_LOOK_SECONDS: Final = 0.01
_LOOK_SECONDS: Final = 1.0
"""The time after which a claim that waits looks again, at first and at the latest."""


class Consumer:
    """A consumer of some queues, and this program as the one reader of it:
    `async with connection.consumer("ARCHIVE", "ORDERS") as consumer:`.

    To enter it makes the consumer, if there is none of that name, and takes it over from whoever has it: a reader that
    was there before hears OBJECT_CHANGED (2041). To leave it changes nothing: what is claimed and not acknowledged is
    for whoever enters it next.
    """

    def __init__(self, claims: Claims, name: str, q_names: tuple[str, ...], groups: str) -> None:
        if groups not in GROUPS:
            raise ValueError(f"groups={groups!r}: each, to take messages singly, or whole, to take whole groups only")
        self._claims = claims
        self._name = name
        self._q_names = q_names
        self._whole = groups == "whole"
        self._uuid = ""
        self._generation = 0
        self._lineage = ""
        self._batch: ClaimedBatch | None = None
        self.position = 0
        """The sequence of the last message that is acknowledged."""

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    async def claim(
        self, count: int = BATCH_MESSAGES, *, size: int = BATCH_BYTES, wait: float | None = None
    ) -> ClaimedBatch:
        """Claim up to `count` messages with up to `size` bytes of data together, of those that are there now and that
        a get would be given; one whole group or logical message may be more. With `wait` it looks for so many seconds
        until there are some; a batch without messages is false.

        What was claimed before and is not acknowledged comes first, alone, however much it is. Raises
        OPERATION_NOT_ALLOWED (2534) while a batch is not acknowledged, OBJECT_CHANGED (2041) when another reader has
        taken over, GET_INHIBITED (2016), OBJECT_IN_USE (2042), STORAGE_MEDIUM_FULL (2192).
        """
        if self._batch is not None:
            raise MQError(MQRC.OPERATION_NOT_ALLOWED, f"{self._batch!r} is claimed, and to be acknowledged first")
        loop = asyncio.get_running_loop()
        until = loop.time() + (wait or 0)
        pause = _FIRST_LOOK_SECONDS
        while (end := await self._claim(count, size)) == self.position and (left := until - loop.time()) > 0:
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _LOOK_SECONDS)
        batch = ClaimedBatch(self, self.position, end)
        if batch:
            await self._claims.pin(self._uuid, self._generation, self._lineage, self.position, end)
            self._batch = batch
        return batch

    async def release(self) -> int:
        """Give all that is claimed back to its queue, as a backout does, with BackoutCount one higher. Return how many
        messages that were. The next claim may get them again, with other sequences.
        """
        self._batch = None
        released = await self._claims.release(self._uuid, self._generation)
        await self._register()
        return released

    async def _claim(self, count: int, size: int) -> int:
        return await self._claims.claim(self._uuid, self._generation, self.position, count, size, whole=self._whole)

    async def _register(self) -> None:
        registration = await self._claims.register(self._uuid, resume=True)
        self._generation, self._lineage, self.position = registration

    def _frames(self, after: int, last: int) -> Frames:
        return self._claims.frames(self._uuid, self._generation, after, last)

    async def _acknowledge(self, batch: ClaimedBatch, to: int) -> None:
        await self._claims.acknowledge(self._uuid, self._generation, to)
        self.position = to
        if to == batch.last and self._batch is batch:
            self._batch = None

    async def __aenter__(self) -> Self:
        self._uuid = (await self._claims.consumer(self._name, self._q_names)).uuid
        await self._register()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batch = None

    def __repr__(self) -> str:
        return f"<Consumer {self._name} at {self.position}>"


class ClaimedBatch:
    """Messages that a consumer has claimed, read as they are wanted: `async for message in batch`, as often as one
    likes. `len` is how many they are, `last` the sequence of the last of them.
    """

    def __init__(self, consumer: Consumer, after: int, last: int) -> None:
        self._consumer = consumer
        self._after = after
        self.last = last

    def __len__(self) -> int:
        return self.last - self._after

    def columns(self) -> AsyncIterator[Columns]:
        """Yield the messages that are not acknowledged as columns, for programs that want many at once."""
        return self._consumer._frames(self._after, self.last)

    async def acknowledge(self, to: int | None = None) -> None:
        """End these claims, or those up to the sequence `to`: the messages are gone from their queues. Return when that
        is durable; harmless when it was so before. Raises STORAGE_MEDIUM_FULL (2192), OBJECT_CHANGED (2041): they are
        still claimed.
        """
        to = self.last if to is None else to
        if not self._after <= to <= self.last:
            raise MQError(MQRC.NO_DATA_AVAILABLE, f"sequence {to} is not in {self!r}")
        if self:
            await self._consumer._acknowledge(self, to)
            self._after = to

    def __aiter__(self) -> BatchLoop:
        return BatchLoop(self._consumer._frames(self._after, self.last), self._after, self.last)

    def __repr__(self) -> str:
        return f"<Batch {self._after + 1} to {self.last} of {self._consumer.name}>"


class BatchLoop:
    """The iterator of one `async for` over a batch.

    Raises OBJECT_DAMAGED (2101) where the data of a message is damaged; behind the last message NO_DATA_AVAILABLE
    (2379) where some were lost, which names them.
    """

    def __init__(self, frames: Frames, after: int, last: int) -> None:
        self._frames = aiter(frames)
        self._messages: Iterator[ColumnMessage] = iter(())
        self._next = after + 1
        self._last = last
        self._lost: list[int] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ColumnMessage:
        """The next message."""
        while (message := next(self._messages, None)) is None:
            try:
                columns = await anext(self._frames)
            except StopAsyncIteration:
                self._lost += range(self._next, self._last + 1)
                self._next = self._last + 1
                self._tell_lost()
                raise
            self._lost += range(self._next, columns.first)
            self._next = columns.first + columns.messages
            self._messages = messages(columns)
        return message

    def _tell_lost(self) -> None:
        lost, self._lost = self._lost, []
        if lost:
            some = ", ".join(map(str, lost[:10])) + (", ..." if len(lost) > 10 else "")
            raise MQError(MQRC.NO_DATA_AVAILABLE, f"{len(lost)} of the claimed messages are lost: sequences {some}")
