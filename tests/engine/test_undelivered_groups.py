"""Answers of gets in logical order that nobody takes: the handle goes back with the message (journal rule 11)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQGMO, MQMF, MQPMO, GetMessageOptions, MessageDescriptor, ObjectDescriptor
from tests.engine.bench import ALL, Bench, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.engine.conversation import Conversation

UNDER_SYNCPOINT = MQGMO.LOGICAL_ORDER | MQGMO.SYNCPOINT


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as bench:
        for number in (1, 2, 3):
            flags = MQMF.LAST_MSG_IN_GROUP if number == 3 else MQMF.MSG_IN_GROUP
            await bench.queue.put(b"%d" % number, MessageDescriptor(msg_flags=flags), MQPMO.LOGICAL_ORDER)
        yield bench


@pytest.fixture
async def port(bench: Bench) -> AsyncIterator[Conversation]:
    """A connection without the interface around it: who makes a call here says himself when the answer is taken."""
    port = bench.manager.converse("port")
    hobj = (await port.open(ObjectDescriptor(object_name="Q"), ALL)).hobj
    assert hobj == 1
    yield port
    port.break_()


async def take(port: Conversation, options: int) -> bytes:
    call = port.get(1, None, GetMessageOptions(options=options), None)
    data = (await call).data
    call.take()
    return data


@pytest.mark.parametrize("options", [MQGMO.LOGICAL_ORDER, UNDER_SYNCPOINT])
async def test_the_next_get_brings_the_same_message(bench: Bench, port: Conversation, options: int) -> None:
    assert await take(port, options) == b"1"
    call = port.get(1, None, GetMessageOptions(options=options), None)
    await asyncio.wait([call])
    call.abandon()
    await bench.idle()
    assert [await take(port, options) for _ in range(2)] == [b"2", b"3"]


async def test_a_handle_that_has_moved_on_stays_where_it_is(bench: Bench, port: Conversation) -> None:
    calls = [port.get(1, None, GetMessageOptions(options=UNDER_SYNCPOINT), None) for _ in range(2)]
    await asyncio.wait(calls)
    calls[0].abandon()
    calls[1].take()
    await bench.idle()
    assert await take(port, UNDER_SYNCPOINT) == b"3"
