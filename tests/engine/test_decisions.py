"""RESOLVE and RESET beside what is on its way, and where the store has no room (claims rules 1.2, 2.4, 3.10)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from broker import QueueManager
from broker.core.message.rows import Rows
from broker.core.prepared.branches import PreparedBranch
from broker.core.queues.unit import Unit
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFullError
from tests.engine.bench import opened
from tests.engine.reader import Reader
from tests.engine.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.engine.bench import Bench

BACKOUT = "RESOLVE CONSUMER(ARCHIVE) ACTION(BACKOUT) PINNED(YES)"
RESOLVED = "EMQ0004I: EverMQ consumer ARCHIVE resolved: "


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as found:
        yield found


async def run(bench: Bench, text: str) -> str:
    (reply,) = await bench.connection.mqsc(text)
    return reply.text


async def read_by(bench: Bench, messages: int) -> Reader:
    """A reader that has read so many messages, and not acknowledged them."""
    await bench.queue.put_many([b"x"] * messages)
    reader = Reader(bench.manager)
    await reader.register()
    await reader.batch(messages)
    return reader


async def test_a_unit_whose_batch_is_being_published_is_not_there_any_more(bench: Bench) -> None:
    writer = Writer(bench.manager.converse("driver"))
    winner = await writer.stage(7, ["a"])
    bench.store.hold()
    publishing = asyncio.create_task(writer.publish(7, winner))
    await bench.store.wait_held()
    resolving = asyncio.create_task(run(bench, f"RESOLVE INDOUBT(S/7/0/{'0' * 32}) ACTION(BACKOUT)"))
    await asyncio.sleep(0)
    assert not resolving.done()
    bench.store.release()
    assert ((await publishing).messages, (await resolving)[:8]) == (1, "AMQ8147E")
    assert (await bench.queue.get()).data == b"a"


async def test_a_full_disk_does_not_keep_claims(bench: Bench) -> None:
    await read_by(bench, 3)
    bench.store.fill()
    assert await run(bench, BACKOUT) == f"{RESOLVED}0 messages removed, 3 messages back on their queues."
    bench.store.make_room()


@pytest.mark.parametrize("after", [1, 2, 3])
async def test_a_decision_that_breaks_off_can_be_made_again(bench: Bench, after: int) -> None:
    await read_by(bench, 2500)
    bench.store.fail_next(StoreFullError("no room"), after=after)
    assert (await run(bench, BACKOUT)).startswith("AMQ8101S: IBM MQ error: the store is full")
    back = 1000 * max(after - 2, 0)
    assert bench.manager.core.objects.queues["Q"].claimed == 2500 - back
    assert await run(bench, BACKOUT) == f"{RESOLVED}0 messages removed, {2500 - back} messages back on their queues."
    assert (bench.depth, len(bench.manager.core.objects.queues["Q"].shelf.available)) == (2500, 2500)


@pytest.mark.parametrize("commit", [True, False])
async def test_a_half_from_before_a_start_returns_its_message_with_a_start(commit: bool) -> None:
    """R-12 counted at the start what was available then; whoever was started for the message has ended with the queue
    manager (queue-sharing rule 10.3.6).
    """
    store, id = MemoryStore(), UUID(int=7)
    async with QueueManager.open(name="QM1", store=store) as manager, manager.connect() as connection:
        await connection.mqsc(
            "DEFINE PROCESS(P)\nDEFINE QLOCAL(Q) TRIGGER TRIGTYPE(EVERY) PROCESS(P) DEFPSIST(YES)", check=True
        )
        await connection.put1("Q", b"got by the half")
        await connection.put1("Q", b"not")
        first, _ = manager.core.objects.queues["Q"].shelf.entries.values()
        half = PreparedBranch(id, manager.core.ids.next(), 0.0, Unit())
        half.gets = [first.id]
    await store.open()
    await store.write(half.prepared_rows(Rows()))
    await store.close()
    async with QueueManager.open(name="QM1", store=store) as manager, manager.connect() as connection:
        queue = manager.core.objects.queues["Q"]
        assert (queue.pending_starts, len(queue.shelf.available)) == (1, 1)
        await connection.mqsc(f"RESOLVE INDOUBT('{id}') ACTION({'COMMIT' if commit else 'BACKOUT'})", check=True)
        assert queue.pending_starts == len(queue.shelf.available) == (1 if commit else 2)
