"""Trigger monitors that wait for a post, and what it costs to end their waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import MQError, QueueManager
from broker.mqi import MQRC
from broker.testing import VirtualClock
from tests.steps import Steps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.interface import Call


@pytest.fixture
async def manager() -> AsyncIterator[QueueManager]:
    async with QueueManager.open(name="QM1", clock=VirtualClock()) as manager:
        yield manager


def waits(manager: QueueManager, conversations: int, each: int) -> list[list[Call[int]]]:
    """So many waits for a post, by conversation."""
    manager.monitors.wake()  # for what was posted at the start
    posts = manager.core.triggers.posts
    ports = [manager.connect().port for _ in range(conversations)]
    return [[port.trigger_wait(posts) for _ in range(each)] for port in ports]


@pytest.mark.parametrize("others", [1, 500])
async def test_a_connection_that_is_cut_ends_its_own_waits_and_looks_at_no_others(
    manager: QueueManager, others: int
) -> None:
    kept = waits(manager, others, 20)
    port = manager.connect().port
    cut = [port.trigger_wait(manager.core.triggers.posts) for _ in range(3)]
    conversation = next(each for each in manager.conversations if each is port)
    with Steps() as steps:
        manager.monitors.leave(conversation, MQRC.CONNECTION_BROKEN)
    assert steps.count < 2000
    for call in cut:
        with pytest.raises(MQError, match="2009"):
            await call
    others_calls = [call for calls in kept for call in calls]
    assert not any(call.done() for call in others_calls)
    for call in others_calls:
        call.withdraw()


async def test_a_post_answers_everybody_who_waits(manager: QueueManager) -> None:
    waiting = [call for calls in waits(manager, 3, 2) for call in calls]
    waiting.pop().cancel()
    manager.core.triggers.post()
    manager.monitors.wake()
    assert [await call for call in waiting] == [manager.core.triggers.posts] * 5
    await asyncio.sleep(0)
    assert manager.monitors._waiting == {}  # an answered wait leaves nothing behind


@pytest.mark.parametrize("end", ["return", "break", "abandon"])
async def test_starts_that_are_given_back_answer_who_waits_for_a_post(manager: QueueManager, end: str) -> None:
    async with manager.connect() as connection:
        await connection.mqsc("DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
        await connection.put1("Q", b"")
        taker = manager.converse()
        taking = taker.trigger_take("Q", 1)
        waiting = connection.port.trigger_wait(manager.core.triggers.posts)
        assert not waiting.done()
        if end == "return":
            taker.trigger_return([lease.id for lease in taking.result()])
        elif end == "break":
            taker.break_()
        else:
            taking.abandon()
        assert waiting.result() == manager.core.triggers.posts
        taker.break_()
