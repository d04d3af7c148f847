"""The budget of message bodies in memory (journal rule 10)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from broker.engine.journal.bodies import AHEAD_DIVISOR, RUN_LENGTH
from broker.interface.port import answer
from broker.mqi import MQGMO, MQOO, MQPMO, MessageDescriptor
from broker.storage.memory import MemoryStore
from broker.testing import FaultStore
from tests.engine.bench import ALL, opened
from tests.engine.reader import Reader, bodies_of
from tests.engine.trial import after_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

    from broker.core.message.entry import Entry
    from tests.engine.bench import Bench


class CountingStore(MemoryStore):
    """Counts what it is asked to read, and takes some turns for it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
        wanted = list(ids)
        self.reads.append(len(wanted))
        super().read(wanted, partial(after_turns, 3, done))


def body(number: int) -> bytes:
    return b"%04d" % number * 25  # 100 bytes


async def put_all(bench: Bench, count: int) -> None:
    await asyncio.gather(*(bench.queue.put(body(number)) for number in range(count)))


def in_memory(bench: Bench) -> list[int]:
    entries = sorted(bench.manager.core.objects.queues["Q"].shelf.entries.values(), key=lambda entry: entry.key)
    return [number for number, entry in enumerate(entries) if entry.data is not None]


async def test_bodies_beyond_the_budget_are_on_disk_only() -> None:
    async with opened(body_bytes=1000) as bench:
        await put_all(bench, 50)
        assert in_memory(bench) == list(range(10))
        assert bench.manager.bodies.bytes == 1000


async def test_all_bodies_are_delivered_whatever_the_budget() -> None:
    for budget in (0, 99, 1000, 1_000_000):
        async with opened(body_bytes=budget) as bench:
            await put_all(bench, 50)
            assert [(await bench.queue.get()).data for _ in range(50)] == [body(number) for number in range(50)]
            assert bench.manager.bodies.bytes == 0


async def test_bodies_are_read_back_in_runs() -> None:
    store = CountingStore()
    async with opened(FaultStore(store), body_bytes=1_000_000) as bench:
        await put_all(bench, 200)
    async with opened(FaultStore(store), body_bytes=1_000_000) as bench:
        assert (in_memory(bench), store.reads) == ([], [])
        for number in range(200):
            assert (await bench.queue.get()).data == body(number)
        assert store.reads == [128, 72]


async def test_gets_on_their_way_together_read_no_body_twice() -> None:
    store = CountingStore()
    async with opened(FaultStore(store), body_bytes=0) as bench:
        await put_all(bench, 200)
    async with opened(FaultStore(store), body_bytes=1_000_000) as bench:
        messages = await asyncio.gather(*(bench.queue.get(options=MQGMO.SYNCPOINT) for _ in range(200)))
        assert [message.data for message in messages] == [body(number) for number in range(200)]
        assert sum(store.reads) == 200


async def test_the_next_run_is_read_when_half_of_one_has_been_got() -> None:
    store = CountingStore()
    async with opened(FaultStore(store), body_bytes=0) as bench:
        await put_all(bench, 300)
    async with opened(FaultStore(store), body_bytes=1_000_000) as bench:
        for _ in range(RUN_LENGTH // 2):
            await bench.queue.get()
        assert (in_memory(bench)[-1], store.reads) == (RUN_LENGTH // 2 - 1, [RUN_LENGTH])
        await bench.queue.get()
        await bench.idle()
        assert (in_memory(bench)[-1], store.reads) == (2 * RUN_LENGTH - RUN_LENGTH // 2 - 2, [RUN_LENGTH] * 2)


async def test_nothing_is_read_ahead_on_a_queue_that_is_deleted() -> None:
    store = CountingStore()
    async with opened(FaultStore(store), body_bytes=0) as bench:
        await bench.connection.mqsc("DEFINE QLOCAL(R) DEFPSIST(YES)")
        await asyncio.gather(*(bench.connection.put1("R", body(number)) for number in range(300)))
    async with opened(FaultStore(store), body_bytes=1_000_000) as bench:
        async with bench.connection.open("R", MQOO.INPUT_SHARED) as queue:
            await queue.get()
        await bench.connection.mqsc("DELETE QLOCAL(R) PURGE")
        await bench.idle()
        assert (store.reads, bench.manager.bodies.bytes, bench.manager.journal.error) == ([RUN_LENGTH], 0, None)


async def test_messages_browsed_together_are_read_again_together_when_some_lost_their_bodies_meanwhile() -> None:
    """Two runs, and no room for one: the body of the first has gone again when the second comes."""
    async with opened(FaultStore(CountingStore()), body_bytes=99) as bench:
        await put_all(bench, 3)
        entries = list(bench.manager.core.objects.queues["Q"].shelf.entries.values())
        fetched: list[tuple[list[bool], Exception | None]] = []

        def seen(wanted: list[Entry], error: Exception | None) -> None:
            fetched.append(([entry.data is not None for entry in wanted], error))

        bench.manager.bodies.fetch(entries[1:2], partial(seen, entries[1:2]))
        bench.manager.bodies.fetch(entries[1:3], partial(seen, entries[1:3]))
        await bench.until(lambda: len(fetched) == 2)
        assert fetched == [([True], None), ([True, True], None)]
        assert bench.manager.bodies.bytes <= 99


async def test_a_batch_of_browses_has_all_its_bodies_though_others_take_their_room_meanwhile() -> None:
    async with opened(FaultStore(CountingStore()), body_bytes=350) as bench, bench.manager.connect() as other:
        await put_all(bench, 8)
        second = await other.open("Q", ALL)
        for _ in range(2):
            await second.get(options=MQGMO.BROWSE_NEXT)
        batches = await asyncio.gather(
            bench.queue.get_many(5, options=MQGMO.BROWSE_NEXT),
            second.get_many(5, options=MQGMO.BROWSE_NEXT),
        )
        for first, messages in zip((0, 2), batches, strict=True):
            assert [message.data for message in messages] == [body(number) for number in range(first, first + 5)]


async def test_a_run_is_no_longer_than_the_budget() -> None:
    store = CountingStore()
    async with opened(FaultStore(store), body_bytes=500) as bench:
        await put_all(bench, 20)
        while bench.depth:
            await bench.queue.get()
            assert bench.manager.bodies.bytes <= 500
        assert max(store.reads) == 5


async def test_a_browse_does_not_bring_the_whole_queue_into_memory() -> None:
    async with opened(FaultStore(CountingStore()), body_bytes=1000) as bench:
        await put_all(bench, 300)
        for number in range(300):
            assert (await bench.queue.get(options=MQGMO.BROWSE_NEXT)).data == body(number)
            assert bench.manager.bodies.bytes <= 1000
            assert len(in_memory(bench)) <= 10
        for number in range(300):
            assert (await bench.queue.get()).data == body(number)
        assert bench.manager.bodies.bytes == 0


async def test_a_get_backed_out_keeps_to_the_budget() -> None:
    async with opened(FaultStore(CountingStore()), body_bytes=1000) as bench:
        await put_all(bench, 50)
        for _ in range(50):
            await bench.queue.get(options=MQGMO.SYNCPOINT)
        await bench.connection.backout()
        assert bench.manager.bodies.bytes <= 1000
        for number in range(50):
            message = await bench.queue.get()
            assert (message.data, message.md.backout_count) == (body(number), 1)
        assert bench.manager.bodies.bytes == 0


async def test_a_message_got_at_once_by_a_waiting_getter_needs_no_reading() -> None:
    store = CountingStore()
    async with opened(FaultStore(store), body_bytes=0) as bench, asyncio.TaskGroup() as tasks:
        getting = tasks.create_task(bench.queue.get(wait=5))
        await bench.until(lambda: bench.manager.core.objects.queues["Q"].waiters.count == 1)
        await bench.connection.put1("Q", b"A" * 100)
        assert (await getting).data == b"A" * 100
        assert (store.reads, bench.manager.bodies.bytes) == ([], 0)


async def test_a_message_that_expires_while_it_is_read_for_a_browse_is_shown_and_forgotten() -> None:
    async with opened(FaultStore(CountingStore()), body_bytes=0) as bench, asyncio.TaskGroup() as tasks:
        await bench.queue.put(b"A", MessageDescriptor(expiry=10))
        await bench.queue.put(b"B")
        browsing = tasks.create_task(bench.queue.get(options=MQGMO.BROWSE_FIRST))
        await asyncio.sleep(0)  # it is to be read
        bench.manager.clock._now += 2  # type: ignore[attr-defined]
        assert (await bench.queue.get()).data == b"B"  # and discards A
        assert (await browsing).data == b"A"
        assert (bench.manager.bodies.bytes, bench.depth) == (0, 0)


async def test_what_expires_while_it_waits_to_be_read_disturbs_nobody() -> None:
    """A reading asked for while another runs must not come after the removal of what it reads."""
    async with opened(FaultStore(CountingStore()), body_bytes=0) as bench:
        await bench.connection.mqsc("DEFINE QLOCAL(R) DEFPSIST(YES)")
        await bench.queue.put(b"A", MessageDescriptor(expiry=10))
        await bench.queue.put(b"B")
        await bench.connection.put1("R", b"C")
        async with bench.manager.connect() as other, asyncio.TaskGroup() as tasks:
            queue = await other.open("R", ALL)
            first = tasks.create_task(queue.get(options=MQGMO.BROWSE_FIRST))
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # it is being read
            second = tasks.create_task(bench.queue.get(options=MQGMO.BROWSE_FIRST))
            await asyncio.sleep(0)  # to be read next: A, and B with it
            bench.manager.clock._now += 2  # type: ignore[attr-defined]
            third = tasks.create_task(other.put1("R", b"D"))
            got = await bench.queue.get()  # discards A, which has expired, and takes B
            assert [(await first).data, (await second).data, got.data] == [b"C", b"A", b"B"]
            await third
        assert not bench.manager.journal.error


async def test_bodies_of_units_of_work_leave_memory_when_they_are_settled() -> None:
    async with opened(body_bytes=0) as bench:
        async with bench.connection.unit_of_work():
            await bench.queue.put(b"A" * 100)
            assert in_memory(bench) == [0]
        assert in_memory(bench) == []
        await bench.queue.put(b"B", options=MQPMO.SYNCPOINT)
        await bench.connection.backout()
        assert (await bench.queue.get()).data == b"A" * 100
        assert bench.manager.bodies.bytes == 0


async def test_the_bodies_that_a_reader_of_claims_wants_next_are_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims rule 2.12."""
    monkeypatch.setattr("broker.interface.batches.columns.MESSAGES_MAX", 10)
    monkeypatch.setattr("broker.interface.batches.columns.SHORT_BYTES", 1)
    store = CountingStore()
    async with opened(FaultStore(store)) as bench:
        await put_all(bench, 30)
    async with opened(FaultStore(store), body_bytes=AHEAD_DIVISOR * 1000) as bench:
        archive = Reader(bench.manager)
        await archive.register()
        await archive.claim(30)
        await archive.pin()
        for after in (0, 10, 20):
            frame = await answer(archive.port.read_claimed(archive.uuid, archive.generation, after, 30))
            assert bodies_of(frame) == [body(number) for number in range(after, after + 10)]
            await bench.idle()
            assert in_memory(bench) == list(range(min(after + 20, 30)))
    assert store.reads == [10, 10, 10]


async def test_nothing_is_read_ahead_that_is_much_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.interface.batches.columns.MESSAGES_MAX", 10)
    monkeypatch.setattr("broker.interface.batches.columns.SHORT_BYTES", 1)
    store = CountingStore()
    async with opened(FaultStore(store)) as bench:
        await put_all(bench, 30)
    async with opened(FaultStore(store), body_bytes=AHEAD_DIVISOR * 1000 - AHEAD_DIVISOR) as bench:
        archive = Reader(bench.manager)
        await archive.register()
        await archive.claim(30)
        await archive.pin()
        await answer(archive.port.read_claimed(archive.uuid, archive.generation, 0, 30))
        await bench.idle()
    assert store.reads == [10]
