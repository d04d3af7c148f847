"""Answers that nobody takes, at the moments that matter (journal rules 11 and 12)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQGMO, MQOO, MQPMO, GetMessageOptions, ObjectDescriptor, PutMessageOptions
from tests.engine.bench import ALL, Bench, opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker.engine.conversation import Conversation
    from broker.interface import Call

SYNCPOINT = GetMessageOptions(options=MQGMO.SYNCPOINT)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as bench:
        yield bench


@pytest.fixture
async def port(bench: Bench) -> AsyncIterator[Conversation]:
    """A connection without the interface around it: who makes a call here says himself when the answer is taken."""
    port = bench.manager.converse("port")
    hobj = (await port.open(ObjectDescriptor(object_name="Q"), ALL)).hobj
    assert hobj == 1
    yield port
    port.break_()


def put(port: Conversation, data: bytes, options: int = 0) -> None:
    port.put(1, None, PutMessageOptions(options=options), data)


@pytest.mark.parametrize("persistence", [0, 1])
async def test_a_get_outside_syncpoint_is_put_again(bench: Bench, port: Conversation, persistence: int) -> None:
    for data in (b"A", b"B"):
        await bench.queue.put(data, persistence=persistence)
    call = port.get(1, None, GetMessageOptions(), None)
    await asyncio.wait([call])
    call.abandon()
    await bench.idle()
    found = [await bench.queue.get() for _ in range(2)]
    assert [(each.data, each.md.backout_count) for each in found] == [(b"A", 1), (b"B", 0)]


@pytest.mark.parametrize("persistence", [0, 1])
async def test_a_get_under_syncpoint_leaves_its_unit_of_work(
    bench: Bench, port: Conversation, persistence: int
) -> None:
    await bench.queue.put(b"A", persistence=persistence)
    call = port.get(1, None, SYNCPOINT, None)
    await asyncio.wait([call])
    put(port, b"B", MQPMO.SYNCPOINT)
    call.abandon()
    await port.commit()
    await bench.idle()
    found = [await bench.queue.get() for _ in range(2)]
    assert [each.data for each in found] == [b"A", b"B"]
    assert await bench.stored() == []


@pytest.mark.parametrize("persistence", [0, 1])
async def test_a_get_that_a_commit_has_overtaken_is_put_again(
    bench: Bench, port: Conversation, persistence: int
) -> None:
    await bench.queue.put(b"A", persistence=persistence)
    call = port.get(1, None, SYNCPOINT, None)
    await asyncio.wait([call])
    commit = port.commit()
    call.abandon()
    await commit
    await bench.idle()
    assert (await bench.queue.get()).data == b"A"


async def test_a_get_that_a_backout_has_overtaken_takes_nothing_from_others(bench: Bench, port: Conversation) -> None:
    await bench.queue.put(b"A", persistence=0)
    call = port.get(1, None, SYNCPOINT, None)
    assert call.done()
    getting = asyncio.ensure_future(bench.queue.get(options=MQGMO.SYNCPOINT, wait=5))
    await bench.until(lambda: bench.manager.core.objects.queues["Q"].waiters.count == 1)
    port.backout()  # and the message is in another unit of work
    call.abandon()
    assert (await getting).data == b"A"
    await bench.connection.commit()
    assert bench.depth == 0


async def test_a_mark_is_cleared_with_the_get_that_was_given_up(bench: Bench, port: Conversation) -> None:
    await bench.queue.put(b"A")
    call = port.get(1, None, SYNCPOINT, None)
    await asyncio.wait([call])
    assert await bench.stored() == [(b"A", 0, 1)]
    call.abandon()
    await bench.idle()
    assert await bench.stored() == [(b"A", 0, 0)]
    message = await bench.queue.get(options=MQGMO.SYNCPOINT)
    assert (message.md.backout_count, await bench.stored()) == (0, [(b"A", 0, 1)])
    await bench.connection.commit()


async def test_the_next_get_of_the_connection_sees_what_was_given_up(bench: Bench, port: Conversation) -> None:
    await bench.queue.put(b"A")
    call = port.get(1, None, GetMessageOptions(), None)
    await asyncio.wait([call])
    call.abandon()
    assert (await port.get(1, None, GetMessageOptions(), None)).data == b"A"


async def test_an_open_that_nobody_takes_is_closed(bench: Bench) -> None:
    port = bench.manager.converse()
    port.open(ObjectDescriptor(object_name="Q"), MQOO.OUTPUT).abandon()
    assert bench.manager.core.objects.queues["Q"].output_count == 1  # that of the bench
    port.break_()


async def test_starts_that_nobody_takes_are_pending_again(bench: Bench, port: Conversation) -> None:
    await bench.connection.mqsc("DEFINE PROCESS(P)\nALTER QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P)")
    await bench.queue.put(b"A")
    call = port.trigger_take("Q", 1)
    assert bench.manager.core.objects.queues["Q"].pending_starts == 0
    call.abandon()
    assert bench.manager.core.objects.queues["Q"].pending_starts == 1


async def test_a_connection_that_nobody_takes_ends(bench: Bench, port: Conversation) -> None:
    before = bench.manager.status()["connections"]
    port.connect("").abandon()
    assert bench.manager.status()["connections"] == before


async def test_cancelled_calls_that_wait_their_turn_are_still_made(bench: Bench, port: Conversation) -> None:
    """Who is cancelled decides nothing: only a call that would give him something is left out."""
    put(port, b"A", MQPMO.SYNCPOINT)
    bench.store.hold()
    first = port.put(1, None, PutMessageOptions(), b"B")
    getting = port.get(1, None, SYNCPOINT, None)  # waits its turn behind the put
    later: list[Call[Any]] = [
        port.put(1, None, PutMessageOptions(options=MQPMO.SYNCPOINT), b"C"),
        port.commit(),
        port.close(99, 0),
        port.open(ObjectDescriptor(object_name="Q"), MQOO.INPUT_EXCLUSIVE),
        port.disconnect(commit=False),
    ]
    for call in (getting, *later):
        assert call.cancel()
        call.abandon()
    await bench.store.wait_held()
    bench.store.release()
    await first
    await bench.idle()
    assert port.broken
    assert [(await bench.queue.get()).data for _ in range(3)] == [b"A", b"B", b"C"]


async def test_a_cancelled_disconnection_disconnects(bench: Bench) -> None:
    async def program() -> None:
        async with bench.manager.connect() as connection, asyncio.TaskGroup() as tasks:
            tasks.create_task(connection.put1("Q", b"A"))
            tasks.create_task(connection.open("Q", ALL)._open())

    bench.store.hold()
    task = asyncio.ensure_future(program())
    await bench.store.wait_held()
    while not task.done():  # first what it does, then the disconnection, which waits its turn behind the put
        task.cancel()
        await asyncio.sleep(0)
    bench.store.release()
    await bench.until(lambda: bench.manager.status()["connections"] == 1)
    assert bench.manager.core.objects.queues["Q"].input_count == 1
