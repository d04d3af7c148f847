"""`connection.claims`: the calls about claims one by one, for programs that keep their positions themselves, and what
reads many messages in the form of columns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from broker.interface.batches.columns import Columns, integers, unpack
from broker.interface.claims.claims import BrowseSelection
from broker.interface.port import answer, dropped
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.interface.claims.claims import ConsumerState, Cut, QueueRange, Registration
    from broker.interface.port import Call, Port

FRAMES_AHEAD: Final = 2
"""The number of frames that a reader has, or has asked for, that nobody has taken yet."""

ANY: Final = BrowseSelection()


class Claims:
    """The calls about consumers and what they have claimed (`docs/rules/claims.md`), and those that browse a queue by
    arrival number. Each returns when what it does is durable, and may be made again when its answer was lost. `uuid`
    and `generation` are those of the consumer and of the reader that has registered; sequences count from 1.

    Every one of them may raise NO_SUBSCRIPTION (2428) for no such consumer, and those that name a generation
    OBJECT_CHANGED (2041) for an older one.
    """

    def __init__(self, port: Port) -> None:
        self._port = port

    async def consumer(self, name: str, q_names: Sequence[str] = ()) -> ConsumerState:
        """The consumer of that name (48 characters), made at its first use. `q_names` are names of queues, or generic
        ones (`A.*`), and replace those that it had, unless there are none.

        Raises OBJECT_NAME_ERROR (2152), UNKNOWN_OBJECT_NAME (2085), OPTION_NOT_VALID_FOR_TYPE (2045) for a temporary
        dynamic queue, SYNCPOINT_LIMIT_REACHED (2024) for one consumer too many.
        """
        return await answer(self._port.consumer(name, q_names))

    async def register(
        self,
        uuid: str,
        lineage: str | None = None,
        start: int | None = None,
        end: int | None = None,
        *,
        resume: bool = False,
    ) -> Registration:
        """Become the one reader of a consumer: at the position `start` of the checkpoint `lineage`, with a batch that
        is logged already up to `end`; or with `resume` at the position that is stored, with a new lineage.

        Refused without effect: SUBSCRIPTION_IN_USE (2429) for another lineage, UOW_COMMITTED (2408) where more is
        acknowledged or pinned, NO_DATA_AVAILABLE (2379) for claims that are not there.
        """
        return await answer(self._port.register(uuid, lineage, start, end, resume=resume))

    async def claim(
        self,
        uuid: str,
        generation: int,
        start: int,
        messages: int,
        size: int,
        *,
        before: int | None = None,
        whole: bool = False,
    ) -> int:
        """Acknowledge up to `start`, then claim up to so many messages of `size` bytes together. Return the sequence of
        the last. Where claims beyond `start` exist these are answered, and nothing more is claimed. `before`: only what
        arrived up to this number; `whole`: only whole logical messages and groups.

        Raises UOW_COMMITTED (2408) where more is pinned, NO_DATA_AVAILABLE (2379) for a start that was never claimed,
        GET_INHIBITED (2016), OBJECT_IN_USE (2042), STORAGE_MEDIUM_FULL (2192).
        """
        return await answer(self._port.claim(uuid, generation, start, messages, size, before=before, whole=whole))

    async def pin(self, uuid: str, generation: int, lineage: str, start: int, end: int) -> list[Cut]:
        """Announce that a batch behind `start` up to `end` is going to be read. Return where it may be cut.

        Raises SUBSCRIPTION_IN_USE (2429), UOW_COMMITTED (2408), NO_DATA_AVAILABLE (2379).
        """
        return await answer(self._port.pin(uuid, generation, lineage, start, end))

    async def read(self, uuid: str, generation: int, after: int, last: int) -> Columns:
        """Pinned messages behind the sequence `after` up to `last`, as many of the first of them as go into a frame.
        `first` of it is above `after + 1` where messages are lost; there are none where all are.

        Raises NO_DATA_AVAILABLE (2379) for what is not pinned, UOW_COMMITTED (2408) for what is acknowledged,
        OBJECT_DAMAGED (2101) where the data of the first is damaged.
        """
        return unpack(await answer(self._port.read_claimed(uuid, generation, after, last)))

    def frames(self, uuid: str, generation: int, after: int, last: int) -> Frames:
        """All that `read` reads behind `after` up to `last`: `async for columns in claims.frames(...)`."""
        return Frames(partial(self._port.read_claimed, uuid, generation), _last_sequence, after, last)

    async def acknowledge(self, uuid: str, generation: int, to: int) -> None:
        """End the claims up to the sequence `to`: the messages are gone.

        Raises NO_DATA_AVAILABLE (2379) for what is not pinned, STORAGE_MEDIUM_FULL (2192): they are still claimed.
        """
        await answer(self._port.acknowledge(uuid, generation, to))

    async def release(self, uuid: str, generation: int) -> int:
        """Give all claims back to their queues, with BackoutCount one higher, and end the lineage. Return their
        number.
        """
        return await answer(self._port.release(uuid, generation))

    async def queue_ranges(self, q_names: Sequence[str]) -> list[QueueRange]:
        """Return the ranges that a browse by arrival number finds now on these queues (names, or generic ones), by
        name.

        Raises UNKNOWN_OBJECT_NAME (2085).
        """
        return await answer(self._port.queue_ranges(q_names))

    async def browse_cuts(self, q_name: str, after: int, last: int, messages: int, size: int) -> list[Cut]:
        """Return the cuts of a queue's messages with arrival numbers behind `after` up to `last`, as far as so many of
        them, of `size` bytes together, go. Raises UNKNOWN_OBJECT_NAME (2085).
        """
        return await answer(self._port.browse_cuts(q_name, after, last, messages, size))

    async def browse(self, q_name: str, after: int, last: int, selection: BrowseSelection = ANY) -> Columns:
        """The messages of a queue with arrival numbers behind `after` up to `last`, as many of the first of them as go
        into a frame; it is empty when there are no more. Raises UNKNOWN_OBJECT_NAME (2085), OBJECT_DAMAGED (2101).
        """
        return unpack(await answer(self._port.browse_range(q_name, after, last, selection)))

    def browse_frames(self, q_name: str, after: int, last: int, selection: BrowseSelection = ANY) -> Frames:
        """All that `browse` reads behind `after` up to `last`: `async for columns in claims.browse_frames(...)`."""

        def browse(after: int, last: int) -> Call[bytes]:
            return self._port.browse_range(q_name, after, last, selection)

        return Frames(browse, _last_number, after, last)


class Frames:
    """The frames of a range, read ahead while those before them are worked on. Leave it by `close`, or at its end."""

    def __init__(
        self, read: Callable[[int, int], Call[bytes]], last_of: Callable[[Columns], int], after: int, last: int
    ) -> None:
        self._read = read
        self._last_of = last_of
        self._after = after
        self._last = last
        self._call: Call[bytes] | None = None
        self._frames: deque[Columns] = deque()
        self._error: Exception | None = None
        self._arrived = asyncio.Event()

    def __aiter__(self) -> Self:
        self._go_on()
        return self

    async def __anext__(self) -> Columns:
        while not self._frames:
            if self._error is not None:
                raise self._error
            if self._call is None:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        columns = self._frames.popleft()
        self._go_on()
        return columns

    def close(self) -> None:
        """Read no further."""
        self._after = self._last
        self._frames.clear()
        call, self._call = self._call, None
        if call is not None:
            call.withdraw()

    def _go_on(self) -> None:
        """Ask for the next frame, if there is one to come and room for it."""
        if self._call is None and self._error is None and self._after < self._last and len(self._frames) < FRAMES_AHEAD:
            self._call = self._read(self._after, self._last)
            self._call.add_done_callback(self._take)

    def _take(self, call: asyncio.Future[bytes]) -> None:
        """An answer is there: take it apart, and ask for the next while somebody works on it."""
        if call is not self._call:
            return  # nobody wants it any more
        answered, self._call = self._call, None
        self._arrived.set()
        try:
            columns = unpack(_outcome(answered))
        except MQError as error:
            self._error = error
            return
        answered.take()
        self._after = self._last_of(columns) if columns.messages else self._last
        if columns.messages:
            self._frames.append(columns)
        self._go_on()


def _outcome(call: Call[bytes]) -> bytes:
    if call.cancelled():
        raise dropped()
    return call.result()


def _last_sequence(columns: Columns) -> int:
    return columns.first + columns.messages - 1


def _last_number(columns: Columns) -> int:
    assert columns.keys is not None  # a frame of a browse has them
    return integers(columns.keys, "q")[-1]
