"""Workers without threads: order, turns, and the end of a process in the middle of its work."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.disk.faults import Crash
from tests.disk.loop import run
from tests.disk.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable


def machine_with_directory(seed: int = 1) -> Machine:
    """A computer with an empty directory."""
    machine = Machine(seed)
    machine.start().claim()
    return machine


def test_work_is_done_and_told_one_by_one_in_order_in_later_turns() -> None:
    async def story(seed: int) -> list[str]:
        worker = machine_with_directory(seed).start().start_worker()
        events: list[str] = []

        def work(number: int) -> Callable[[], None]:
            return lambda: events.append(f"did {number}")

        for number in range(5):
            worker.submit(work(number), lambda _, number=number: events.append(f"told {number}"))  # type: ignore[misc]
        events.append("submitted")
        await worker.close()
        return events

    orders = set()
    for seed in range(30):
        with asyncio.Runner() as runner:
            events = runner.run(story(seed))
        assert events[0] == "submitted"
        for kind in ("did", "told"):
            assert [event for event in events if event.startswith(kind)] == [f"{kind} {number}" for number in range(5)]
        assert all(events.index(f"did {number}") < events.index(f"told {number}") for number in range(5))
        orders.add(tuple(events))
    assert len(orders) > 5


def test_results_and_errors_reach_who_waits_even_if_another_was_cancelled() -> None:
    async def story() -> None:
        worker = machine_with_directory().start().start_worker()
        done: list[str] = []
        cancelled = asyncio.ensure_future(worker.perform(lambda: done.append("done")))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await worker.perform(lambda: 7) == 7
        assert done == ["done"]
        errors: list[Exception | None] = []
        worker.submit(lambda: 1 / 0, errors.append)  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError):
            await worker.perform(lambda: 1 / 0)
        assert [type(error) for error in errors] == [ZeroDivisionError]
        await worker.close()
        await worker.close()
        with pytest.raises(RuntimeError):
            worker.submit(lambda: None, errors.append)

    run(story())


def test_a_crash_ends_the_process_and_nothing_of_it_goes_on() -> None:
    async def story() -> None:
        machine = machine_with_directory()
        disk = machine.start()
        worker, other = disk.start_worker(), disk.start_worker()
        ended = disk.ended()
        after: list[object] = []
        machine.faults.crash_in = 2
        worker.submit(lambda: disk.create("f", b"", 4096), after.append)
        worker.submit(lambda: after.append("done"), after.append)
        waiting = asyncio.ensure_future(worker.perform(lambda: after.append("done")))
        elsewhere = asyncio.ensure_future(other.perform(lambda: disk.names()))
        await ended
        for _ in range(20):
            await asyncio.sleep(0)
        assert after == []
        for task in (waiting, elsewhere):
            if task.exception() is not None:
                assert isinstance(task.exception(), Crash)
        assert isinstance(waiting.exception(), Crash)
        with pytest.raises(Crash):
            await worker.perform(lambda: None)

    run(story())


def test_a_database_worker_closes_its_connection_or_leaves_it_open() -> None:
    async def story(orderly: bool) -> set[str]:
        machine = machine_with_directory()
        disk = machine.start()
        worker = await disk.start_database("evermq-1.db")
        await worker.perform(lambda db: db.execute("PRAGMA journal_mode = WAL").fetchone())
        await worker.perform(lambda db: db.execute("CREATE TABLE t (a)").fetchone())
        with pytest.raises(sqlite3.OperationalError):
            await worker.perform(lambda db: db.execute("nonsense"))
        await (worker.close() if orderly else worker.abandon())
        machine.kill()
        return set(machine.names or {})

    for orderly in (True, False):
        with asyncio.Runner() as runner:
            names = runner.run(story(orderly))
        assert ("evermq-1.db-wal" in names) is not orderly


def test_time_goes_on_only_when_there_is_nothing_to_do() -> None:
    async def story() -> None:
        machine = machine_with_directory()
        loop = asyncio.get_running_loop()
        worker = machine.start().start_worker()
        started = loop.time()
        await worker.perform(lambda: None)
        assert loop.time() == started
        machine.work_seconds = 5.0
        ticks: list[float] = []
        loop.call_later(1.0, lambda: ticks.append(loop.time()))
        await worker.perform(lambda: None)
        assert loop.time() - started == pytest.approx(5.0)
        assert ticks == [pytest.approx(started + 1.0)]

    run(story())
