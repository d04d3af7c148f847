"""Asynchronous consumption (semantics 14): the callbacks of MQCB are `async for` and tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from broker.mqi import MQGMO, MQRC
from tests.conformance.expect import drained, reason_of

if TYPE_CHECKING:
    from broker import Queue
    from tests.conformance.system import System


async def test_t14_1_a_consumer_is_told_of_an_empty_queue_after_its_interval_and_gets_what_comes(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    async with asyncio.TaskGroup() as tasks:
        consuming = tasks.create_task(reason_of(queue.get(wait=0.1)))
        await system.waiting("Q", 1)
        await system.pass_time(0.1)
        assert await consuming == MQRC.NO_MSG_AVAILABLE
    async with asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(queue.get(wait=0.1))
        await system.waiting("Q", 1)
        await other_queue.put(b"A")
        assert (await getting).data == b"A"
    assert system.depth() == 0


async def test_an_iteration_with_an_interval_ends_when_nothing_has_come_in_it(
    system: System, queue: Queue, other_queue: Queue
) -> None:
    await other_queue.put(b"A")
    await other_queue.put(b"B")

    async def consume() -> list[bytes]:
        return [message.data async for message in queue.messages(wait=0.1)]

    async with asyncio.TaskGroup() as tasks:
        consuming = tasks.create_task(consume())
        await system.waiting("Q", 1)
        await system.pass_time(0.1)
        assert await consuming == [b"A", b"B"]


async def test_an_iteration_may_browse(queue: Queue, other_queue: Queue) -> None:
    await other_queue.put(b"A")
    await other_queue.put(b"B")
    assert [message.data async for message in queue.messages(options=MQGMO.BROWSE_NEXT)] == [b"A", b"B"]
    assert await drained(queue) == [b"A", b"B"]
