"""DEPTH switches triggering off: when that is written, what a crash, a full store and other changes do to it (R-10)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from broker import QueueManager
from broker.mqi import MQIA, MQOO, MQPMO
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFailedError, StoreFullError
from broker.testing import FaultStore, VirtualClock
from tests.engine.bench import opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.engine.bench import Bench

ARMED = "DEFINE PROCESS(P)\nDEFINE QLOCAL(T) TRIGGER TRIGTYPE(DEPTH) TRIGDPTH(2) PROCESS(P) DEFPSIST(YES)"


@asynccontextmanager
async def armed(store: FaultStore | None = None) -> AsyncIterator[Bench]:
    """A queue manager whose T triggers with its second message."""
    async with opened(store) as bench:
        await bench.connection.mqsc(ARMED)
        bench.store.written.clear()
        yield bench


def is_on(bench: Bench) -> bool:
    return bench.manager.core.objects.queues["T"].trigger_on


async def test_it_is_written_with_the_put_that_fires() -> None:
    async with armed() as bench:
        await bench.connection.put1("T", b"A")
        before = bench.transactions
        await bench.connection.put1("T", b"B")
        assert bench.transactions == before + 1
        written = bench.store.written[-1]
        assert (len(written.inserts), [row.name for row in written.objects]) == (1, ["T"])


async def test_it_is_written_before_the_unit_of_work_that_fires_ends() -> None:
    async with armed() as bench:
        for data in (b"A", b"B"):
            await bench.connection.put1("T", data, options=MQPMO.SYNCPOINT)
        await bench.idle()
        assert [row.name for rows in bench.store.written for row in rows.objects] == ["T"]
        await bench.connection.backout()
        assert (is_on(bench), bench.manager.core.objects.queues["T"].pending_starts) == (False, 1)


@pytest.mark.parametrize("crash", [False, True])
async def test_it_outlives_the_queue_manager(*, crash: bool) -> None:
    store = FaultStore(MemoryStore())
    async with armed(store) as bench:
        await bench.connection.put1("T", b"A")
        await bench.connection.put1("T", b"B")
        if crash:
            bench.manager.fail(RuntimeError("the power"))
    async with opened(store) as bench, bench.connection.open("T", MQOO.INQUIRE) as handle:
        assert await handle.inquire(MQIA.TRIGGER_CONTROL) == {MQIA.TRIGGER_CONTROL: 0}
        queue = bench.manager.core.objects.queues["T"]
        assert (queue.depth, queue.pending_starts) == (2, 0)


async def test_a_full_store_is_asked_again() -> None:
    async with armed() as bench:
        clock = bench.manager.clock
        assert isinstance(clock, VirtualClock)
        await bench.connection.put1("T", b"A", persistence=0)
        full = StoreFullError("the disk is full")
        bench.store.fail_next(full)
        await bench.connection.put1("T", b"B", persistence=0)
        await bench.idle()
        queue = bench.manager.core.objects.queues["T"]
        assert (is_on(bench), queue.unwritten_switch_off, bench.transactions) == (False, True, 0)
        await clock.advance(1.0)
        await bench.idle()
        assert (is_on(bench), queue.unwritten_switch_off) == (False, False)
        assert [row.name for rows in bench.store.written for row in rows.objects] == ["T"]


@pytest.mark.parametrize(
    "command", ["ALTER QLOCAL(T) DESCR('x')", "DEFINE QLOCAL(OTHER)", "ALTER QLOCAL(T) TRIGDPTH(1)"]
)
async def test_it_comes_behind_a_change_that_is_being_made(command: str) -> None:
    async with armed() as bench:
        await bench.connection.put1("T", b"A", persistence=0)
        bench.store.hold()
        async with asyncio.TaskGroup() as tasks:
            altering = tasks.create_task(bench.connection.mqsc(command))
            await bench.store.wait_held()
            other = await tasks.create_task(_put(bench))
            assert (is_on(bench), other) == (False, 0)
            bench.store.release()
            (reply,) = await altering
        assert reply.ok
        await bench.idle()
        assert not is_on(bench)
        definition = bench.manager.core.objects.definitions["QUEUE", "T"].attributes
        assert (definition["TRIGGER"], definition["DESCR"]) == (0, "x" if "DESCR" in command else "")
        assert not bench.manager.core.objects.queues["T"].unwritten_switch_off


async def _put(bench: Bench) -> int:
    """A put by another program, which is answered at once."""
    async with bench.manager.connect() as connection:
        return (await connection.put1("T", b"B", persistence=0)).reason


async def test_triggering_that_is_switched_on_again_at_once_stays_on() -> None:
    async with armed() as bench:
        bench.store.hold()
        for data in (b"A", b"B"):
            await bench.connection.put1("T", data, options=MQPMO.SYNCPOINT)
        assert not is_on(bench)
        async with asyncio.TaskGroup() as tasks:
            await bench.store.wait_held()
            altering = tasks.create_task(bench.connection.mqsc("ALTER QLOCAL(T) TRIGGER TRIGDPTH(9)"))
            bench.store.release()
            await altering
        await bench.idle()
        assert (is_on(bench), bench.manager.core.objects.definitions["QUEUE", "T"].attributes["TRIGGER"]) == (True, 1)


async def test_a_queue_that_is_deleted_is_not_written() -> None:
    async with armed() as bench:
        queue = bench.manager.core.objects.queues["T"]
        bench.store.hold()
        async with bench.manager.connect() as connection:
            for data in (b"A", b"B"):
                await connection.put1("T", data, options=MQPMO.SYNCPOINT)
            queue.deleted = True
            bench.store.release()
            await bench.idle()
            queue.deleted = False
            await connection.backout()


async def test_depth_that_is_still_armed_at_the_start_fires_then() -> None:
    store = FaultStore(MemoryStore())
    async with opened(store) as bench:
        await bench.connection.mqsc(ARMED)
        server = await bench.connection.open("T", MQOO.INPUT_SHARED)
        await bench.connection.put1("T", b"A")
        await bench.connection.put1("T", b"B")
        assert is_on(bench)
        bench.store.fail_next(StoreFailedError("the disk is gone"))
        await server.close()  # which fires, and is the last thing that happens
        assert not is_on(bench)
        await bench.manager.stopped()
    async with opened(store) as bench:
        assert (is_on(bench), bench.manager.core.objects.queues["T"].pending_starts) == (False, 1)
        await bench.idle()
        assert not bench.manager.core.objects.queues["T"].unwritten_switch_off


async def test_what_the_start_of_the_queue_manager_fires_is_written_without_waiting_for_a_call() -> None:
    store = FaultStore(MemoryStore())
    async with armed(store) as bench:
        server = await bench.connection.open("T", MQOO.INPUT_SHARED)
        await bench.connection.put1("T", b"A")
        await bench.connection.put1("T", b"B")
        bench.store.fail_next(StoreFailedError("the disk is gone"))
        await server.close()
        await bench.manager.stopped()
    async with QueueManager.open(name="QM1", store=store, clock=VirtualClock()) as manager:
        queue = manager.core.objects.queues["T"]
        assert not queue.trigger_on
        while queue.unwritten_switch_off:  # noqa: ASYNC110  # nobody tells when it is written
            await asyncio.sleep(0)
