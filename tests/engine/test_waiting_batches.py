"""A batch of gets that has waited: what else it takes when its first message comes, and from when on nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.interface.port import answer
from broker.mqi import MQGMO, MQOO, MQRC, GetMessageOptions, MQError, ObjectDescriptor, PutMessageOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.core.queues.queue import LocalQueue
    from broker.engine.conversation import Conversation
    from broker.interface.answers import GetAnswer
    from broker.interface.port import Call

OPEN = MQOO.INPUT_SHARED | MQOO.OUTPUT
WAITING = GetMessageOptions(options=MQGMO.WAIT | MQGMO.SYNCPOINT, wait_interval=-1)


@pytest.fixture
async def getter() -> AsyncIterator[Conversation]:
    """A conversation that has QLOCAL(Q), a queue for nonpersistent messages, open as its handle 1."""
    async with QueueManager.open(name="QM1", defaults="mq") as manager:
        async with manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(Q)")
        getter = manager.converse()
        await answer(getter.open(ObjectDescriptor(object_name="Q"), OPEN))
        yield getter


@pytest.fixture
async def putter(getter: Conversation) -> Conversation:
    """Another one."""
    putter = getter.manager.converse()
    await answer(putter.open(ObjectDescriptor(object_name="Q"), OPEN))
    return putter


@pytest.fixture
def queue(getter: Conversation) -> LocalQueue:
    return getter.core.objects.queues["Q"]


@pytest.fixture
def call(getter: Conversation) -> Call[list[GetAnswer]]:
    """The batch that waits."""
    return getter.get_many(1, None, WAITING, 5)


def put(putter: Conversation, data: bytes) -> None:
    putter.put(1, None, PutMessageOptions(), data)


async def test_what_comes_in_the_same_turn_belongs_to_the_answer(
    putter: Conversation, queue: LocalQueue, call: Call[list[GetAnswer]]
) -> None:
    put(putter, b"A")
    put(putter, b"B")
    assert not call.done()
    assert [delivery.data for delivery in await answer(call)] == [b"A", b"B"]
    assert queue.uncommitted == 2


async def test_a_commit_after_the_first_message_covers_all_of_the_answer(
    getter: Conversation, putter: Conversation, queue: LocalQueue, call: Call[list[GetAnswer]]
) -> None:
    put(putter, b"A")
    getter.commit()
    put(putter, b"B")
    assert [delivery.data for delivery in await answer(call)] == [b"A"]
    assert (queue.uncommitted, queue.depth) == (0, 1)


async def test_nothing_more_is_got_through_a_handle_that_has_been_closed(
    getter: Conversation, putter: Conversation, queue: LocalQueue, call: Call[list[GetAnswer]]
) -> None:
    put(putter, b"A")
    getter.close(1, 0)
    put(putter, b"B")
    assert [delivery.data for delivery in await answer(call)] == [b"A"]
    assert (queue.uncommitted, queue.depth) == (1, 1)


async def test_a_connection_that_breaks_after_the_first_message_has_got_nothing(
    getter: Conversation, putter: Conversation, queue: LocalQueue, call: Call[list[GetAnswer]]
) -> None:
    put(putter, b"A")
    getter.break_()
    with pytest.raises(MQError) as caught:
        await answer(call)
    assert caught.value.reason == MQRC.CONNECTION_BROKEN
    assert (queue.uncommitted, queue.depth) == (0, 1)


async def test_a_batch_withdrawn_after_the_first_message_gives_it_back_at_once(
    getter: Conversation, putter: Conversation, queue: LocalQueue, call: Call[list[GetAnswer]]
) -> None:
    put(putter, b"A")
    call.withdraw()
    getter.commit()
    assert (queue.uncommitted, queue.depth) == (0, 1)
