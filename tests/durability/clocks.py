"""A wall clock that is set forward and back, while a queue manager runs and between its runs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from broker import MQError, QueueManager
from broker.mqi import MQGMO, MQPER, MQRC, GetMessageOptions, MessageDescriptor
from broker.testing import VirtualClock
from tests.durability.outcome import Outcome
from tests.durability.program import ALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from broker import Queue

DAY: Final = 86_400.0
_STEPS: Final = (0.0, -DAY, 2 * DAY, -3 * DAY, DAY)
_EACH: Final = 20


class SteppingClock(VirtualClock):
    """A virtual clock whose wall clock can be set, as an operator or NTP sets it; monotonic time goes on."""

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back by a negative number."""
        self._start += seconds


async def stepped(folder: Path) -> Outcome:
    """Messages are put before and after each of several steps; some steps are across a restart."""
    clock = SteppingClock()
    ids: list[bytes] = []
    for step in _STEPS:
        clock.step(step)
        async with _opened(folder, clock) as (_, queue):
            ids += [(await queue.put(b"")).md.msg_id for _ in range(_EACH)]
            clock.step(-step / 2)
            ids += [(await queue.put(b"")).md.msg_id for _ in range(_EACH)]
            assert await _ids_on(queue) == ids, "messages are in the order of their puts"
    assert len(set(ids)) == len(ids)
    async with _opened(folder, clock) as (manager, queue):
        assert await _ids_on(queue) == ids
        await _expect_expiry(queue, clock)
        await _expect_wait(manager, queue, clock)
    return Outcome(
        f"wall clock set forward and back by up to 3 days, {2 * len(_STEPS)} times, half of them across a restart",
        f"{len(ids)} messages had {len(set(ids))} MsgIds and kept their order; waits took their time; a message with "
        "an expiry was kept until the wall clock had reached its time, and no longer (embedded, on a virtual clock)",
    )


@asynccontextmanager
async def _opened(folder: Path, clock: SteppingClock) -> AsyncIterator[tuple[QueueManager, Queue]]:
    """A queue manager on the data in `folder`, and its queue."""
    async with (
        QueueManager.open(name="QM1", data=folder / "data", clock=clock) as manager,
        manager.connect() as connection,
    ):
        await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)")
        async with connection.open("Q", ALL) as queue:
            yield manager, queue


async def _ids_on(queue: Queue) -> list[bytes]:
    """The MsgIds of the messages on a queue, in their order."""
    return [message.md.msg_id async for message in queue.messages(options=MQGMO.BROWSE_NEXT)]


async def _expect_expiry(queue: Queue, clock: SteppingClock) -> None:
    """A message is discarded when the wall clock says so: a clock set back keeps it longer, never shorter."""
    md = MessageDescriptor(expiry=600, persistence=MQPER.PERSISTENT, correl_id=b"expires".ljust(24, b"\0"))
    wanted = GetMessageOptions(options=MQGMO.BROWSE_FIRST)
    put = await queue.put(b"", md)
    assert (await queue.get(put.md, wanted)).md.expiry == 600
    clock.step(-DAY)
    await clock.advance(61)
    await queue.get(put.md, wanted)
    clock.step(DAY)
    try:
        await queue.get(put.md, wanted)
    except MQError as error:
        assert error.reason == MQRC.NO_MSG_AVAILABLE
    else:
        raise AssertionError("a message outlived its expiry")


async def _expect_wait(manager: QueueManager, queue: Queue, clock: SteppingClock) -> None:
    """A wait is as long as it was to be, wherever the wall clock is set."""
    nothing = MessageDescriptor(correl_id=b"nothing".ljust(24, b"\0"))
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(_wait(queue, nothing))
        await _until_it_waits(manager)
        clock.step(DAY)
        await clock.advance(4.9)
        assert not waiting.done()
        clock.step(-2 * DAY)
        await clock.advance(0.2)
        assert waiting.done()


async def _until_it_waits(manager: QueueManager) -> None:
    """Return when a get waits: what is being written may keep it from being made at once."""
    while not any(status["getters"] for status in manager.status()["queues"]):  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0)


async def _wait(queue: Queue, md: MessageDescriptor) -> None:
    """Wait for 5 seconds for a message that does not come."""
    try:
        await queue.get(md, wait=5)
    except MQError as error:
        assert error.reason == MQRC.NO_MSG_AVAILABLE
    else:
        raise AssertionError("a message came that nobody put")
