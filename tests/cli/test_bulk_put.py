"""Puts under way together: bounded, settled in order, stopped by the first failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import anyio

from broker.cli.messages.bulk_put import OUTSTANDING_MAX, BulkPut, PutRoom
from broker.cli.messages.lines import InputLine
from broker.mqi import MQRC, MessageDescriptor, MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Queue


class SlowQueue:
    """A queue whose batches end when the test lets them."""

    def __init__(self, refused: bytes = b"none") -> None:
        self.refused = refused
        self.batches: list[list[bytes]] = []
        self.gate = anyio.Event()

    async def put_many(self, messages: list[tuple[bytes, MessageDescriptor]], options: int = 0) -> None:
        batch = [data for data, _ in messages]
        self.batches.append(batch)
        await self.gate.wait()
        if self.refused in batch:
            error = MQError(MQRC.Q_FULL, f"messages[{batch.index(self.refused)}]: full")
            error.results = tuple(batch[: batch.index(self.refused)])
            raise error from MQError(MQRC.Q_FULL, "full")


async def numbered(count: int) -> AsyncIterator[InputLine]:
    for number in range(1, count + 1):
        yield InputLine(number, 1, b"%d" % number)


def bulk_put(queue: SlowQueue, settled: list[tuple[int, str]]) -> BulkPut:
    return BulkPut(
        cast("Queue", queue),
        lambda line: MessageDescriptor(),
        lambda line, error: settled.append((line.number, "" if error is None else error.detail)),
    )


async def test_what_is_read_while_lines_are_put_is_put_next_and_all_settle_in_order() -> None:
    queue, settled = SlowQueue(), list[tuple[int, str]]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bulk_put(queue, settled).put, numbered(3000))
        await anyio.wait_all_tasks_blocked()
        assert sum(map(len, queue.batches)) <= OUTSTANDING_MAX
        queue.gate.set()
    assert settled == [(number, "") for number in range(1, 3001)]
    assert [data for batch in queue.batches for data in batch] == [b"%d" % number for number in range(1, 3001)]
    assert max(map(len, queue.batches)) <= OUTSTANDING_MAX


async def test_a_line_is_put_without_waiting_for_more() -> None:
    queue, settled = SlowQueue(), list[tuple[int, str]]()
    queue.gate.set()
    send, receive = anyio.create_memory_object_stream[InputLine](1)
    async with receive, anyio.create_task_group() as tasks:
        tasks.start_soon(bulk_put(queue, settled).put, receive)
        async with send:
            for number in (1, 2):
                await send.send(InputLine(number, 1, b"x"))
                await anyio.wait_all_tasks_blocked()
                assert settled[-1] == (number, "")


async def test_a_failure_ends_the_reading_and_no_line_after_it_is_put() -> None:
    queue, settled = SlowQueue(refused=b"3"), list[tuple[int, str]]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bulk_put(queue, settled).put, numbered(10_000))
        await anyio.wait_all_tasks_blocked()
        queue.gate.set()
    assert [number for number, _ in settled] == list(range(1, len(settled) + 1))
    assert [number for number, error in settled if not error] == [1, 2]
    assert {error for _, error in settled[2:]} == {"full"}
    assert len(settled) <= 2 * OUTSTANDING_MAX
    assert b"4" not in [data for batch in queue.batches[1:] for data in batch]


async def test_a_line_too_long_to_keep_is_a_failure_of_that_line() -> None:
    queue, settled = SlowQueue(), list[tuple[int, str]]()
    queue.gate.set()

    async def lines() -> AsyncIterator[InputLine]:
        yield InputLine(1, 1, b"a")
        yield InputLine(2, 1 << 40, None)

    await bulk_put(queue, settled).put(lines())
    assert settled == [(1, ""), (2, "the line has 1099511627776 bytes")]


async def test_room_bounds_bytes_but_lets_one_large_thing_through_alone() -> None:
    room, taken = PutRoom(10, 100), list[int]()

    async def take_all() -> None:
        for size in (1000, 60, 40, 50):
            await room.take(size)
            taken.append(size)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_all)
        await anyio.wait_all_tasks_blocked()
        assert taken == [1000]
        room.give(1000)
        await anyio.wait_all_tasks_blocked()
        assert taken == [1000, 60, 40]
        room.give(60)
    assert taken == [1000, 60, 40, 50]
