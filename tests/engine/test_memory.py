"""What a queued message costs in memory beyond its body, and what a start with many of them costs."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.config import Config
from broker.mqi import MQMF, MessageDescriptor
from broker.mqi.structures import NO_ID
from broker.storage.memory import MemoryStore
from broker.storage.store import Rows
from tests.core.fake_store import FakeStore
from tests.core.world import World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MESSAGES = 5_000
BYTES_MAX = 700
"""What a queued message may cost beyond the budget of bodies."""

BODY = bytes(2048)


def plain(_number: int) -> MessageDescriptor:
    return MessageDescriptor(persistence=1)


def with_correl_id(number: int) -> MessageDescriptor:
    return MessageDescriptor(persistence=1, correl_id=number_id(number))


def with_both_ids(number: int) -> MessageDescriptor:
    return MessageDescriptor(persistence=1, msg_id=number_id(number), correl_id=number_id(number))


def in_group(number: int) -> MessageDescriptor:
    """Groups of ten."""
    group, place = divmod(number, 10)
    flags = MQMF.MSG_IN_GROUP if place < 9 else MQMF.LAST_MSG_IN_GROUP
    return MessageDescriptor(persistence=1, group_id=number_id(group), msg_seq_number=place + 1, msg_flags=flags)


def number_id(number: int) -> bytes:
    return (number + 1).to_bytes(len(NO_ID), "big")


KINDS = [plain, with_correl_id, with_both_ids, in_group]


def fill(world: World, kind: Callable[[int], MessageDescriptor]) -> None:
    """Put messages to Q, 100 a second, so that no two have the same time."""
    world.define(MAXDEPTH=MESSAGES)
    access = world.open()
    for number in range(MESSAGES):
        access.put(BODY, 0, kind(number))
        world.pass_time(0.01)


async def traced_by_a_start(store: MemoryStore) -> int:
    """The bytes that a queue manager holds when it has loaded what is in the store."""
    tracemalloc.start()
    try:
        async with QueueManager.open(store=store):
            return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_loaded_costs_little_beyond_its_body(kind: Callable[[int], MessageDescriptor]) -> None:
    world = World()
    fill(world, kind)
    store = MemoryStore()
    objects = list(world.store.objects.values())
    await store.write(Rows(objects=objects))
    empty = await traced_by_a_start(store)
    await store.write(Rows(inserts=list(world.store.messages.values())))
    assert (await traced_by_a_start(store) - empty) / MESSAGES <= BYTES_MAX


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_put_costs_little_beyond_its_body(
    monkeypatch: pytest.MonkeyPatch, kind: Callable[[int], MessageDescriptor]
) -> None:
    monkeypatch.setattr(FakeStore, "write", lambda *_: None)  # what is on disk is not in memory
    world = World()
    tracemalloc.start()
    try:
        fill(world, kind)
        assert tracemalloc.get_traced_memory()[0] / MESSAGES <= BYTES_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_million_messages_start_within_ten_seconds_and_a_gibibyte(tmp_path: Path) -> None:
    """Some gigabytes on the disk, which go again."""
    try:
        assert await run("fill", tmp_path, 1_000_000) == [1_000_000]
        depth, seconds, resident = await run("start", tmp_path)
        assert (depth, seconds <= 10, resident <= 2**30) == (1_000_000, True, True), (seconds, resident)
    finally:
        shutil.rmtree(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_hundred_thousand_messages_put_cost_little_memory_beyond_the_budget(tmp_path: Path) -> None:
    depth, resident = await run("put", tmp_path, 100_000)
    allowed = Config().limits.body_bytes + depth * BYTES_MAX
    assert (depth, resident <= allowed) == (100_000, True), resident / depth


async def run(task: str, data: Path, *arguments: int) -> list[float]:
    """The figures that `queued.py` prints, from a process of its own."""
    command = [sys.executable, "-m", "tests.engine.queued", task, str(data), *map(str, arguments)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    return [float(figure) for figure in output.split()]
