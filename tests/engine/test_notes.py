"""Notes: what is to be durable though nobody awaits it begins no write of its own (journal rule 8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.engine.journal.journal import NOTE_WITHIN
from broker.mqi import MQGMO, MQRC
from broker.storage.memory import MemoryStore
from broker.storage.store import Rows, StoreFailedError, StoreFullError
from broker.testing import FaultStore, VirtualClock
from tests.engine.bench import Bench, opened, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as bench:
        yield bench


async def put(bench: Bench, *bodies: bytes) -> list[int]:
    """Put messages; their arrival numbers."""
    for body in bodies:
        await bench.queue.put(body)
    bench.store.written.clear()
    return [entry.id for entry in bench.manager.core.objects.queues["Q"].shelf.entries.values()]


def note(bench: Bench, *ids: int) -> None:
    bench.manager.journal.note(Rows(hardened=list(ids)))


async def pass_time(bench: Bench, seconds: float) -> None:
    clock = bench.manager.clock
    assert isinstance(clock, VirtualClock)
    await clock.advance(seconds)


async def test_rule_8_a_note_goes_with_what_is_submitted_next(bench: Bench) -> None:
    (a,) = await put(bench, b"A")
    note(bench, a)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (bench.transactions, bench.manager.journal.idle) == (0, True)
    await bench.queue.put(b"B")
    assert bench.transactions == 1
    assert await bench.stored() == [(b"A", 0, 1), (b"B", 0, 0)]
    await pass_time(bench, 1)
    assert bench.transactions == 1


async def test_rule_8_a_note_is_written_in_time_though_nothing_else_is(bench: Bench) -> None:
    a, b, c = await put(bench, b"A", b"B", b"C")
    for _ in range(2):  # the second time as the first
        note(bench, a)
        await pass_time(bench, NOTE_WITHIN / 2)
        note(bench, b, c)
        assert bench.transactions == 0
        await pass_time(bench, NOTE_WITHIN / 2)
        assert bench.transactions == 1
        assert await bench.stored() == [(b"A", 0, 1), (b"B", 0, 1), (b"C", 0, 1)]
        bench.store.written.clear()


async def test_rule_8_a_note_waits_as_long_as_any_behind_one_that_went_with_something_else(bench: Bench) -> None:
    a, b = await put(bench, b"A", b"B")
    note(bench, a)
    await bench.queue.put(b"C")
    await pass_time(bench, NOTE_WITHIN * 3 / 4)
    note(bench, b)
    await pass_time(bench, NOTE_WITHIN / 2)  # the time of the first is over
    assert (bench.transactions, bench.manager.journal.idle) == (1, True)
    await pass_time(bench, NOTE_WITHIN / 2)
    assert bench.transactions == 2
    assert await bench.stored() == [(b"A", 0, 1), (b"B", 0, 1), (b"C", 0, 0)]
    await pass_time(bench, 1)
    assert bench.transactions == 2


@pytest.mark.parametrize("goes", ["removed", "backed out"])
async def test_rule_8_a_note_leaves_nothing_behind_of_a_message_that_has_gone(bench: Bench, goes: str) -> None:
    (a,) = await put(bench, b"A")
    note(bench, a)
    if goes == "removed":
        await bench.queue.get()
    else:
        await bench.queue.get(options=MQGMO.SYNCPOINT)
        await bench.connection.backout()
    after = await bench.stored()
    await pass_time(bench, 1)
    assert await bench.stored() == after == ([] if goes == "removed" else [(b"A", 1, 0)])


async def test_rule_8_a_note_that_comes_while_a_batch_is_written_begins_none_behind_it(bench: Bench) -> None:
    (a,) = await put(bench, b"A")
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        tasks.create_task(bench.queue.put(b"B"))
        await bench.store.wait_held()
        note(bench, a)
        bench.store.release()
    await bench.idle()
    assert bench.transactions == 1
    async with asyncio.TaskGroup() as tasks:
        bench.store.hold()
        tasks.create_task(bench.queue.put(b"C"))
        await bench.store.wait_held()
        note(bench, a)
        await pass_time(bench, NOTE_WITHIN)  # it is due, and waits for the batch
        assert bench.transactions == 1
        bench.store.release()
    await bench.idle()
    assert [rows.hardened for rows in bench.store.written] == [[], [a], [a]]


async def test_rule_8_a_stop_writes_the_notes() -> None:
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        (a,) = await put(bench, b"A")
        note(bench, a)
        assert bench.transactions == 0
    async with opened(store) as bench:
        assert (await bench.queue.get()).md.backout_count == 1


async def test_rule_8_a_crash_loses_a_note_that_is_not_due() -> None:
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        a, _ = await put(bench, b"A", b"B")
        note(bench, a)
        await pass_time(bench, NOTE_WITHIN)
        note(bench, a + 1)
        store.kill()
    async with opened(FaultStore(store.inner)) as bench:
        assert [(await bench.queue.get()).md.backout_count for _ in range(2)] == [1, 0]


async def test_rule_6_a_note_is_written_where_a_put_finds_no_room(bench: Bench) -> None:
    (a,) = await put(bench, b"A")
    note(bench, a)
    bench.store.fail_next(StoreFullError("full"))
    assert await reason_of(bench.queue.put(b"B")) == MQRC.STORAGE_MEDIUM_FULL
    assert await bench.stored() == [(b"A", 0, 1)]


async def test_rule_7_no_note_is_written_after_a_failure(bench: Bench) -> None:
    a, b = await put(bench, b"A", b"B")
    note(bench, a)
    bench.store.fail_next(StoreFailedError("no answer"))
    assert await reason_of(bench.queue.put(b"C")) == MQRC.CONNECTION_BROKEN
    writes = bench.store.writes
    note(bench, b)
    await pass_time(bench, 1)
    assert bench.store.writes == writes
