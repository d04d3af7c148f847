"""The exchange of the demonstration: lines go out as requests, and come back as replies and dead letters."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import anyio

from broker import Clock
from broker.cli.demo.account import STEADY_RATE
from broker.cli.demo.handlers import DEAD_LETTER_QUEUE, REPLY_QUEUE, REQUEST_QUEUE
from broker.cli.demo.reservation import LINE_BYTES_MAX, Refusal
from broker.cli.demo.stamp import Stamp, microseconds
from broker.cli.messages.bulk_put import BulkPut
from broker.cli.messages.get import gathered
from broker.cli.terminal.progress import show
from broker.mqi import MQDLH, MQOO, MQPER, MQPMO, MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from broker import Connection, Message
    from broker.cli.demo.account import Account
    from broker.cli.messages.lines import InputLine, Lines
    from broker.mqi import MQError

UNIT_MESSAGES_MAX: Final = 256
TICK_SECONDS: Final = 0.05
SHOW_SECONDS: Final = 0.25
STALL_SECONDS_MAX: Final = 60.0
"""The time in which nothing comes back before the lines still out are called missing."""

STEADY_MESSAGES: Final = STEADY_RATE
"""The number of lines that are put once more at a steady rate: for a second."""
_AGAIN: Final = 0  # in place of a line's number: the message is none of the file's lines


KEPT: Final = {name: f"{name}.KEPT" for name in (REPLY_QUEUE, DEAD_LETTER_QUEUE)}
"""The queues for collected messages that are kept: as they came, in the same unit of work, with their time of put."""
_KEEP: Final = MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT
_AS_IT_CAME: Final = MQPMO.SYNCPOINT | MQPMO.SET_ALL_CONTEXT


class Exchange:
    """One exchange over one connection; what happens is written into the account."""

    def __init__(self, connection: Connection, account: Account, *, keep: bool = False) -> None:
        self._connection = connection
        self._account = account
        self._keep = keep  # what comes back, on the queues KEPT
        self._clock = Clock()
        self._begun = self._clock.monotonic()
        self._all_put = False
        self._first: list[bytes] = []  # lines, to be put again at a steady rate

    async def run(self, lines: Lines) -> None:
        """Put every line, collect what comes back, and return when everything is back or nothing comes any more."""
        self._begun = self._clock.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._collect, REPLY_QUEUE, self._reply, name="replies")
            tasks.start_soon(self._collect, DEAD_LETTER_QUEUE, self._dead_letter, name="dead letters")
            tasks.start_soon(self._put, lines, name="requests")
            await self._watch()
            await self._put_steadily()
            tasks.cancel_scope.cancel()

    async def _put(self, lines: Lines) -> None:
        async with self._connection.open(REQUEST_QUEUE, MQOO.OUTPUT) as queue:
            await BulkPut(queue, lambda line: self._request(line.number), self._settled).put(self._short_enough(lines))
        self._all_put = True

    async def _short_enough(self, lines: Lines) -> AsyncIterator[InputLine]:
        async for line in lines:
            if line.data is None:
                self._account.too_long.append(line.number)
            else:
                if len(self._first) < STEADY_MESSAGES and len(line.data) <= LINE_BYTES_MAX:
                    self._first.append(line.data)
                yield line

    async def _put_steadily(self) -> None:
        """Put the first lines again, one at a time and each when it is due, and wait until they have come back."""
        if self._account.missing or not self._first:
            return
        begun = self._clock.monotonic()
        async with self._connection.open(REQUEST_QUEUE, MQOO.OUTPUT) as queue:
            for number, data in enumerate(self._first):
                await self._clock.sleep(max(begun + number / STEADY_RATE - self._clock.monotonic(), 0))
                await queue.put(data, self._request(_AGAIN))
        until = self._clock.monotonic() + STALL_SECONDS_MAX
        while len(self._account.steady) < len(self._first) and self._clock.monotonic() < until:
            await self._clock.sleep(TICK_SECONDS)

    def _request(self, number: int) -> MessageDescriptor:
        stamp = Stamp(number, microseconds(self._clock.monotonic()))
        return MessageDescriptor(persistence=MQPER.PERSISTENT, correl_id=bytes(stamp), reply_to_q=REPLY_QUEUE)

    def _settled(self, line: InputLine, error: MQError | None) -> None:
        if error is not None:
            self._account.refused[line.number] = str(error)
            return
        self._account.put += 1
        self._account.put_seconds = self._clock.monotonic() - self._begun

    async def _collect(self, name: str, take: Callable[[Message], None]) -> None:
        """Get from a queue whatever comes, many messages in a unit of work when many are there."""
        connection = await self._connection.connect("evermq demo")
        async with connection, connection.open(name, MQOO.INPUT_SHARED) as queue, AsyncExitStack() as stack:
            kept = await stack.enter_async_context(connection.open(KEPT[name], _KEEP)) if self._keep else None
            while True:
                messages = await gathered(queue, UNIT_MESSAGES_MAX, wait=float("inf"))
                if kept is not None:
                    await kept.put_many(((each.data, each.md) for each in messages), options=_AS_IT_CAME)
                for message in messages:
                    take(message)
                await connection.commit()

    def _reply(self, message: Message) -> None:
        self._came_back(Stamp.of(message.md.correl_id), None)

    def _dead_letter(self, message: Message) -> None:
        self._came_back(Stamp.of(message.md.correl_id), Refusal(MQDLH.from_bytes(message.data).reason))

    def _came_back(self, stamp: Stamp, refusal: Refusal | None) -> None:
        if stamp.line == _AGAIN:
            self._account.steady.append(stamp.microseconds)
            return
        self._account.back(stamp.line, refusal)
        self._account.total_seconds = self._clock.monotonic() - self._begun

    async def _watch(self) -> None:
        """Show the progress until every line is back, or until nothing has moved for too long."""
        seen, moved, shown = (0, 0), self._begun, self._begun
        while not self._all_put or self._account.missing:
            await self._clock.sleep(TICK_SECONDS)
            now = self._clock.monotonic()
            current = (self._account.put, self._account.handled)
            if current != seen or not self._all_put:
                seen, moved = current, now
            elif now - moved > STALL_SECONDS_MAX:
                break
            if now - shown >= SHOW_SECONDS:
                shown = now
                show(f"put {seen[0]:,}   handled {seen[1]:,}   {now - self._begun:.1f} s")
        show("")
