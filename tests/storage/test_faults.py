"""The store that fails and stalls on purpose."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from broker.storage.memory import MemoryStore
from broker.storage.store import DataDamagedError, Rows, StoreFailedError, StoreFullError
from broker.testing.faults import FaultStore

from .samples import ORDERS, Contents, contents, message, reopened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.storage.store import Done


@pytest.fixture
def store() -> FaultStore:
    return FaultStore(MemoryStore())


async def test_without_faults_it_is_the_store_inside(store: FaultStore) -> None:
    rows = Rows(inserts=[message(1)], objects=[ORDERS], high_water=3)
    await store.open()
    await store.write(rows)
    assert await reopened(store) == await contents(store.inner) == Contents([message(1)], [ORDERS], 3)
    assert (store.writes, store.written) == (1, [rows])
    await store.close()


async def test_the_next_write_fails_and_is_not_written(store: FaultStore) -> None:
    store.fail_next(StoreFullError("full"))
    with pytest.raises(StoreFullError, match="full"):
        await store.write(Rows(inserts=[message(1)]))
    await store.write(Rows(inserts=[message(2)]))
    assert (await contents(store)).messages == [message(2)]
    assert (store.writes, store.written) == (2, [Rows(inserts=[message(2)])])


async def test_a_write_can_fail_although_it_is_written(store: FaultStore) -> None:
    store.fail_next(StoreFailedError("no answer"), lose=False)
    with pytest.raises(StoreFailedError):
        await store.write(Rows(inserts=[message(1)]))
    assert (await contents(store)).messages == [message(1)]
    assert len(store.written) == 1


async def test_failures_are_counted_from_the_next_write(store: FaultStore) -> None:
    await store.write(Rows(inserts=[message(1)]))
    store.fail_next(StoreFullError("third"), after=2)
    store.fail_next(StoreFailedError("fourth"), after=3)
    outcomes = []
    for id in (2, 3, 4, 5):
        try:
            await store.write(Rows(inserts=[message(id)]))
            outcomes.append("written")
        except (StoreFullError, StoreFailedError) as error:
            outcomes.append(str(error))
    assert outcomes == ["written", "third", "fourth", "written"]


async def test_plans_that_make_no_sense_are_refused(store: FaultStore) -> None:
    with pytest.raises(ValueError, match="the next write is 1"):
        store.fail_next(StoreFullError(), after=0)
    with pytest.raises(ValueError, match="nothing is written"):
        store.fail_next(StoreFullError(), lose=False)


async def test_a_held_write_waits_until_it_is_released(store: FaultStore) -> None:
    store.hold()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store.write(Rows(inserts=[message(1)])), name="writing")
        await store.wait_held()
        assert (store.held, store.writes, store.written) == (1, 1, [])
        assert (await contents(store)).messages == []
        store.release()
    assert store.held == 0
    assert (await contents(store)).messages == [message(1)]


async def test_a_held_write_can_fail_too(store: FaultStore) -> None:
    async def refused() -> None:
        with pytest.raises(StoreFullError):
            await store.write(Rows(inserts=[message(1)]))

    store.hold()
    store.fail_next(StoreFullError("full"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(refused(), name="refused")
        await store.wait_held()
        store.release()
    assert store.written == []


async def test_a_held_write_may_be_there_already(store: FaultStore) -> None:
    store.hold(after=2, written=True)
    await store.write(Rows(inserts=[message(1)]))
    async with asyncio.TaskGroup() as tasks:
        writing = [tasks.create_task(store.write(Rows(inserts=[message(id)])), name=f"writing {id}") for id in (2, 3)]
        await store.wait_held()
        await asyncio.sleep(0)
        assert (await contents(store)).messages == [message(1), message(2)]
        assert not any(task.done() for task in writing)
        store.release()
    assert (await contents(store)).messages == [message(1), message(2), message(3)]


async def test_a_full_store_takes_what_only_removes(store: FaultStore) -> None:
    await store.write(Rows(inserts=[message(1)]))
    store.fill(after=2)
    await store.write(Rows(inserts=[message(2)]))
    for rows in (Rows(inserts=[message(3)]), Rows(objects=[ORDERS], removals=[2])):
        with pytest.raises(StoreFullError):
            await store.write(rows)
    await store.write(Rows(removals=[1]))
    assert (await contents(store), store.refused) == (Contents([message(2)], [], 0), 2)
    store.make_room()
    await store.write(Rows(inserts=[message(3)]))
    assert (await contents(store)).messages == [message(2), message(3)]


@pytest.mark.parametrize("written", [False, True])
async def test_a_killed_process_writes_nothing_more_until_the_next_life(store: FaultStore, written: bool) -> None:
    async def killed(id: int) -> None:
        with pytest.raises(StoreFailedError):
            await store.write(Rows(inserts=[message(id)]))

    store.hold(written=written)
    async with asyncio.TaskGroup() as tasks:
        for id in (1, 2):
            tasks.create_task(killed(id), name=f"killed {id}")
        await store.wait_held()
        store.kill()
    await killed(3)
    await store.open()
    await store.write(Rows(inserts=[message(4)]))
    assert (await contents(store)).messages == [*([message(1)] if written else []), message(4)]


async def test_damaged_data_is_told_with_the_others_and_good_again_when_it_is_repaired() -> None:
    store = FaultStore(MemoryStore())
    await store.write(Rows(inserts=[message(1, data=b"A"), message(2, data=b"B")]))
    store.damage(b"B", b"C")
    found: list[tuple[dict[int, bytes], Exception | None]] = []
    store.read([1, 2], lambda *answer: found.append(answer))
    await asyncio.sleep(0)
    ((good, error),) = found
    assert good == {1: b"A"}
    assert isinstance(error, DataDamagedError)
    assert error.ids == {2}
    assert await store.read_data([1]) == {1: b"A"}
    store.repair()
    assert await store.read_data([1, 2]) == {1: b"A", 2: b"B"}


async def test_what_the_store_inside_finds_damaged_is_damaged_too() -> None:
    class Failing(MemoryStore):
        def read(self, ids: Iterable[int], done: Callable[[dict[int, bytes], Exception | None], None]) -> None:
            super().read(ids, lambda found, _: done(found, DataDamagedError([3], "file 7")))

    store = FaultStore(Failing())
    await store.write(Rows(inserts=[message(1, data=b"A"), message(2, data=b"B")]))
    store.damage(b"B")
    with pytest.raises(DataDamagedError, match="file 7") as caught:
        await store.read_data([1, 2])
    assert caught.value.ids == {2, 3}


class Late(MemoryStore):
    """A store that answers in a later turn of the event loop."""

    def submit(self, rows: Rows, done: Done) -> bool:
        at_once = super().submit(rows, done)
        assert at_once
        asyncio.get_running_loop().call_soon(done, None)
        return False


@pytest.mark.parametrize("inner", [MemoryStore, Late])
@pytest.mark.parametrize("plan", ["nothing", "failed", "lost", "full", "held", "held answer", "killed"])
async def test_a_write_is_answered_once_and_in_a_later_turn_unless_it_is_durable_at_once(
    inner: type[MemoryStore], plan: str
) -> None:
    store = FaultStore(inner())
    reported: list[Exception | None] = []
    match plan:
        case "failed" | "lost":
            store.fail_next(StoreFailedError("no answer"), lose=plan == "lost")
        case "full":
            store.fill()
        case "held" | "held answer":
            store.hold(written=plan == "held answer")
        case "killed":
            store.kill()
    at_once = store.submit(Rows(inserts=[message(1)]), reported.append)
    assert not reported
    assert at_once == (inner is MemoryStore and plan == "nothing")
    store.release()
    for _ in range(4):
        await asyncio.sleep(0)
    assert len(reported) == (not at_once)
    assert store.written == ([] if plan in ("lost", "full", "killed") else [Rows(inserts=[message(1)])])


async def test_no_write_is_durable_at_once_while_an_earlier_one_is_not_answered(store: FaultStore) -> None:
    answered: list[int] = []
    store.fail_next(StoreFailedError("no answer"))
    assert not store.submit(Rows(inserts=[message(1)]), lambda error: answered.append(1))
    assert not store.submit(Rows(inserts=[message(2)]), lambda error: answered.append(2))
    for _ in range(4):
        await asyncio.sleep(0)
    assert answered == [1, 2]
    assert store.submit(Rows(inserts=[message(3)]), lambda error: answered.append(3))


async def test_that_the_inner_store_fails_by_itself_is_told() -> None:
    class Failing(MemoryStore):
        def watch(self, failed: Callable[[StoreFailedError], None]) -> None:
            failed(error)

    reported: list[StoreFailedError] = []
    error = StoreFailedError("the directory is gone")
    FaultStore(Failing()).watch(reported.append)
    assert reported == [error]
