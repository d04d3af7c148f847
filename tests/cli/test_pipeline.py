"""Puts under way together: bounded, settled in order, stopped by the first failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import anyio

from broker.cli.lines import Line
from broker.cli.pipeline import OUTSTANDING_MAX, Pipeline, Room
from broker.mqi import MQRC, MessageDescriptor, MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from broker import Queue


class SlowQueue:
    """A queue whose puts end when the test lets them."""

    def __init__(self, refused: bytes = b"none") -> None:
        self.refused = refused
        self.begun: list[bytes] = []
        self.gate = anyio.Event()

    async def put(self, data: bytes, md: MessageDescriptor, options: int = 0) -> None:
        self.begun.append(data)
        await self.gate.wait()
        if data == self.refused:
            raise MQError(MQRC.Q_FULL)


async def numbered(count: int) -> AsyncIterator[Line]:
    for number in range(1, count + 1):
        yield Line(number, 1, b"%d" % number)


def pipeline(queue: SlowQueue, settled: list[tuple[int, bool]]) -> Pipeline:
    return Pipeline(
        cast("Queue", queue),
        lambda line: MessageDescriptor(),
        lambda line, error: settled.append((line.number, error is None)),
    )


async def test_only_so_many_puts_are_under_way_and_all_settle_in_order() -> None:
    queue, settled = SlowQueue(), list[tuple[int, bool]]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipeline(queue, settled).put, numbered(1000))
        await anyio.wait_all_tasks_blocked()
        assert len(queue.begun) == OUTSTANDING_MAX
        queue.gate.set()
    assert settled == [(number, True) for number in range(1, 1001)]
    assert queue.begun == [b"%d" % number for number in range(1, 1001)]


async def test_a_failure_ends_the_reading_and_what_is_under_way_still_settles() -> None:
    queue, settled = SlowQueue(refused=b"3"), list[tuple[int, bool]]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipeline(queue, settled).put, numbered(10_000))
        await anyio.wait_all_tasks_blocked()
        queue.gate.set()
    assert [number for number, _ in settled] == list(range(1, len(settled) + 1))
    assert [number for number, put in settled if not put] == [3]
    assert OUTSTANDING_MAX <= len(settled) < 10_000


async def test_a_line_too_long_to_keep_is_a_failure_of_that_line() -> None:
    queue, settled = SlowQueue(), list[tuple[int, bool]]()
    queue.gate.set()

    async def lines() -> AsyncIterator[Line]:
        yield Line(1, 1, b"a")
        yield Line(2, 1 << 40, None)

    await pipeline(queue, settled).put(lines())
    assert settled == [(1, True), (2, False)]


async def test_room_bounds_bytes_but_lets_one_large_thing_through_alone() -> None:
    room, taken = Room(10, 100), list[int]()

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
