"""Alive and ready: each check with its fault, and what does not fail beside it. That of a group is in tests/sharing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker import MQError, QueueManager
from broker.mqi import MQRC
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log_store import LogStore
from broker.storage.memory import MemoryStore
from broker.storage.store import StoreFailedError
from broker.testing import FaultStore, VirtualClock
from tests.engine.bench import Bench, opened, reason_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

JUST_THIRTY_SECONDS = 30
A_MOMENT = 0.5


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as bench:
        yield bench


async def advance(bench: Bench, seconds: float) -> None:
    assert isinstance(bench.manager.clock, VirtualClock)
    await bench.manager.clock.advance(seconds)


async def test_a_queue_manager_that_works_fails_no_check(bench: Bench) -> None:
    await bench.queue.put(b"A")
    assert bench.manager.failing_checks() == bench.manager.failing_checks(ready=True) == {}


async def test_o2_1_a_batch_that_hangs_for_more_than_30_seconds_is_no_life(bench: Bench) -> None:
    manager = bench.manager
    bench.store.hold()
    putting = asyncio.ensure_future(bench.queue.put(b"A"))
    await bench.store.wait_held()
    await advance(bench, JUST_THIRTY_SECONDS)
    assert manager.failing_checks() == {}
    await advance(bench, A_MOMENT)
    assert manager.failing_checks() == {"journal": "a batch has been under way for 30 s, more than 30"}
    assert manager.failing_checks(ready=True) == manager.failing_checks()
    bench.store.release()
    await putting
    assert manager.failing_checks(ready=True) == {}


async def test_o2_1_batches_one_after_the_other_are_life_however_long_they_go_on(bench: Bench) -> None:
    for _ in range(3):
        bench.store.hold()
        putting = asyncio.ensure_future(bench.queue.put(b"A"))
        await bench.store.wait_held()
        await advance(bench, JUST_THIRTY_SECONDS)
        assert bench.manager.failing_checks() == {}
        bench.store.release()
        await putting
    await advance(bench, 3600)
    assert bench.manager.failing_checks() == {}


async def test_o2_1_a_batch_that_is_written_again_without_its_puts_is_watched_as_well(bench: Bench) -> None:
    await bench.queue.put(b"A")
    bench.store.fill()
    bench.store.hold(after=2)
    getting = asyncio.gather(bench.queue.get(), reason_of(bench.queue.put(b"B")))
    await bench.store.wait_held()
    await advance(bench, JUST_THIRTY_SECONDS + A_MOMENT)
    assert list(bench.manager.failing_checks()) == ["journal"]
    bench.store.release()
    assert (await getting)[1] == MQRC.STORAGE_MEDIUM_FULL
    assert bench.manager.failing_checks() == {}


async def test_o2_2_a_queue_manager_that_is_being_opened_is_alive_and_not_ready() -> None:
    manager = QueueManager.open(name="QM1")
    assert manager.failing_checks() == {}
    assert manager.failing_checks(ready=True) == {"starting": "QM1 is being opened"}
    async with manager:
        assert manager.failing_checks(ready=True) == {}


async def test_o2_2_and_o2_3_what_is_still_to_be_begun_is_told(bench: Bench) -> None:
    bench.manager.missing["starting"] = "the startup commands run"
    bench.manager.missing["listener"] = "nothing listens yet"
    assert bench.manager.failing_checks() == {}
    assert bench.manager.failing_checks(ready=True) == {
        "starting": "the startup commands run", "listener": "nothing listens yet",
    }  # fmt: skip


async def test_o2_4_a_full_store_is_not_ready_and_alive(bench: Bench) -> None:
    await bench.queue.put(b"A")
    bench.store.fill()
    assert await reason_of(bench.queue.put(b"B")) == MQRC.STORAGE_MEDIUM_FULL
    assert bench.manager.failing_checks() == {}
    assert bench.manager.failing_checks(ready=True) == {
        "store_full": "there is no room: what grows is refused, what removes goes through"
    }
    bench.store.make_room()
    assert bench.manager.failing_checks(ready=True) == {}


class Crowded(SystemDisk):
    """A disk on which nothing can be kept back while it is `full`."""

    full = False

    def occupy(self, name: str, size: int) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        super().occupy(name, size)


async def test_o2_4_the_store_on_a_disk_tells_that_it_is_full_and_that_it_has_room_again(tmp_path: Path) -> None:
    clock, disk = VirtualClock(), Crowded(tmp_path)
    store = LogStore(tmp_path, clock=clock, disk=disk)
    async with QueueManager.open(store=store, clock=clock) as manager:
        assert manager.failing_checks(ready=True) == {}
    disk.full = True
    async with QueueManager.open(store=store, clock=clock) as manager:
        assert list(manager.failing_checks(ready=True)) == ["store_full"]
        disk.full = False
        await clock.advance(2)  # it is looked at once a second
        while store.full:  # noqa: ASYNC110  # by the thread of the database, in real time
            await asyncio.sleep(0)
        assert manager.failing_checks(ready=True) == {}


async def test_o2_4_a_store_that_has_failed_is_not_ready() -> None:
    store = FaultStore(MemoryStore())
    async with QueueManager.open(name="QM1", store=store) as manager:
        async with manager.connect() as connection:
            await connection.mqsc("DEFINE QLOCAL(Q) DEFPSIST(YES)")
            store.fail_next(StoreFailedError("no answer"))
            with pytest.raises(MQError, match="CONNECTION_BROKEN"):
                await connection.put1("Q", b"A")
        assert manager.failing_checks(ready=True) == {
            "store_full": "the store has failed: no answer", "quiescing": "QM1 is stopping",
        }  # fmt: skip
        assert manager.failing_checks() == {}


async def test_o2_5_a_queue_manager_that_quiesces_is_not_ready_and_alive() -> None:
    async with QueueManager.open(name="QM1") as manager:
        await manager.quiesce(0)
        assert manager.failing_checks(ready=True) == {"quiescing": "QM1 is quiescing"}
        assert manager.failing_checks() == {}
    assert manager.failing_checks(ready=True) == {"quiescing": "QM1 is stopping"}
