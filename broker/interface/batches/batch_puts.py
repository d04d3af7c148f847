"""A batch of puts: many messages, cut into calls of a bounded size, two of them under way at a time.

While the queue manager puts the messages of one call, those of the next are on their way to it; no more wait on either
side, however many there are. The calls name each other, so that nothing is put after a message that could not be.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from broker.interface.answers import PlacedMany
from broker.interface.message import PutResult
from broker.interface.port import PUT_MANY_MAX, answer
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.interface.answers import Opened
    from broker.interface.connection import Connection
    from broker.interface.port import Call
    from broker.interface.units import UnitOfWork
    from broker.mqi.structures import MessageDescriptor, PutMessageOptions

    Prepared: TypeAlias = tuple[MessageDescriptor | None, bytes]

CALL_BYTES: Final = 256 * 1024
"""The most data of one call, unless a single message is longer."""

CALLS_MAX: Final = 2
"""The most calls of one batch under way."""


class _Sent(NamedTuple):
    """One call: its messages, its options, and the unit of work that was open when it was made."""

    call: Call[PlacedMany]
    part: list[Prepared]
    options: int
    unit: UnitOfWork | None


class BatchPuts:
    """One batch on its way to the queue that is open. Each call is in the unit of work that is open when it is made."""

    def __init__(self, connection: Connection, opened: Opened, options: PutMessageOptions | int) -> None:
        self._connection = connection
        self._opened = opened
        self._options = options
        self._under_way: deque[_Sent] = deque()
        self._results: list[PutResult] = []

    async def put(self, messages: Iterable[Prepared]) -> list[PutResult]:
        """Put them all. Raises the error of the first that fails, with the results of those before it."""
        try:
            for part in cut(messages):
                if len(self._under_way) == CALLS_MAX:
                    await self._settle()
                self._send(part)
            while self._under_way:
                await self._settle()
        finally:
            for sent in self._under_way:
                sent.call.withdraw()
        return self._results

    def _send(self, part: list[Prepared]) -> None:
        before = self._under_way[-1].call if self._under_way else None
        connection = self._connection
        options = connection.put_options(self._options)
        call = connection.port.put_many(self._opened.hobj, part, options, before)
        self._under_way.append(_Sent(call, part, int(options.options), connection.unit))

    async def _settle(self) -> None:
        """Wait for the call made first of those under way."""
        call, part, options, unit = self._under_way.popleft()
        try:
            answered: PlacedMany = await answer(call)
        except MQError as failed:
            answered = PlacedMany([], failed)
        opened = self._opened
        self._results += [PutResult(md, each, opened) for (md, _), each in zip(part, answered.placed, strict=False)]
        if unit is not None:
            for each in answered.placed:
                unit.count_put(options, each)
        if answered.error is not None:
            while self._under_way:  # these put nothing, but are not over before they say so
                with suppress(MQError):
                    await answer(self._under_way.popleft().call)
            raise stopped(answered.error, self._results) from answered.error


def stopped(error: MQError, results: Sequence[PutResult]) -> MQError:
    """The error of a batch whose next message, after those with these results, could not be put."""
    failure = MQError(
        error.reason, f"messages[{len(results)}]: {error.detail}", error.completion, records=error.records
    )
    failure.results = tuple(results)
    return failure


def cut(messages: Iterable[Prepared]) -> Iterator[list[Prepared]]:
    """The messages in parts that make one call each."""
    part: list[Prepared] = []
    room = CALL_BYTES
    for message in messages:
        if part and (len(part) == PUT_MANY_MAX or len(message[1]) > room):
            yield part
            part, room = [], CALL_BYTES
        part.append(message)
        room -= len(message[1])
    if part:
        yield part
