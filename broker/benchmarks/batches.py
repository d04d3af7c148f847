"""Getting as fast as the interface allows, and what is checked of what was got."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from broker.benchmarks.body import Body
from broker.benchmarks.child import MeasurementError
from broker.mqi import MQGMO, MQIA, GetMessageOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from broker import Connection, Message, Queue

OUTSTANDING: Final = 256
"""Messages on their way at a time, where many are."""

_UNIT_MESSAGES: Final = 128
"""Most messages got in one unit of work."""

_COMMITS: Final = 2
"""Commits on their way at a time."""

WAITING: Final = GetMessageOptions(options=MQGMO.WAIT | MQGMO.SYNCPOINT, wait_interval=-1)


async def batches(connection: Connection, queue: Queue, count: int) -> AsyncIterator[list[Message]]:
    """Get `count` messages under syncpoint, waiting for them, in batches; each is committed when the next is asked for.

    The next batch does not wait for the commit before it, but for the one before that. Raises MeasurementError when the
    messages are not those numbered from 0, in their order.
    """
    commits: deque[asyncio.Future[object]] = deque()
    got = 0
    while got < count:
        batch = asyncio.ensure_future(queue.get_many(min(count - got, _UNIT_MESSAGES), None, WAITING))
        if len(commits) == _COMMITS:
            await commits.popleft()
        messages = await batch
        check_numbers([message.data for message in messages], got)
        yield messages
        got += len(messages)
        commits.append(asyncio.ensure_future(connection.commit()))
    await asyncio.gather(*commits)


def check_numbers(data: Sequence[bytes], first: int) -> None:
    """Raises MeasurementError unless bodies are numbered from `first` on, in their order."""
    numbers = [Body.of(each).number for each in data]
    if numbers != list(range(first, first + len(data))):
        raise MeasurementError(f"message {first} and the next came as {numbers[:5]}")


async def check_depth(queue: Queue, expected: int) -> None:
    """Raises MeasurementError unless so many messages are on the queue, which is open to inquire."""
    depth = (await queue.inquire(MQIA.CURRENT_Q_DEPTH))[MQIA.CURRENT_Q_DEPTH]
    if depth != expected:
        raise MeasurementError(f"{depth} messages are on {queue.name} instead of {expected}")
