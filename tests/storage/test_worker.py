"""The threads that wait for the disk: in order, one piece of work at a time, while the event loop goes on."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import subprocess
import sys
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING

import pytest

from broker.storage.disk.system_disk import SystemDisk

from .processes import environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from broker.storage.disk.disk import DatabaseWorker, DiskThread


@pytest.fixture
def disk(tmp_path: Path) -> SystemDisk:
    return SystemDisk(tmp_path)


@pytest.fixture
async def worker(disk: SystemDisk) -> AsyncIterator[DiskThread]:
    worker = disk.start_worker()
    yield worker
    await worker.close()


@pytest.fixture
async def database(disk: SystemDisk) -> AsyncIterator[DatabaseWorker]:
    """A thread with a database in which there is a table."""
    database = await disk.start_database("evermq-1.db")
    await database.perform(lambda db: db.execute("CREATE TABLE message (id)").fetchall())
    yield database
    await database.close()


def raising(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def nothing() -> None:
    """Do nothing: work that only takes its turn."""


def told_nothing(error: Exception | None) -> None:
    """End work that nobody waits for."""


def wait_for(event: threading.Event) -> None:
    assert event.wait(60), "it never came"


async def test_work_is_done_in_order_elsewhere_and_each_end_is_told_on_the_loop(worker: DiskThread) -> None:
    done: list[tuple[int, Exception | None, threading.Thread]] = []
    worked: list[tuple[int, threading.Thread]] = []
    failure = OSError("no")

    def note(number: int) -> None:
        worked.append((number, threading.current_thread()))

    def noted(number: int, error: Exception | None) -> None:
        done.append((number, error, threading.current_thread()))

    for number in range(100):
        work = raising(failure) if number == 50 else partial(note, number)
        worker.submit(work, partial(noted, number))
    assert done == []
    await worker.perform(lambda: None)
    here = threading.current_thread()
    assert done == [(number, failure if number == 50 else None, here) for number in range(100)]
    assert [number for number, _ in worked] == [number for number in range(100) if number != 50]
    ((name, thread),) = {(thread.name, thread) for _, thread in worked}
    assert (name, thread is here) == ("evermq-log", False)


async def test_the_result_or_the_error_of_a_work_is_that_of_the_wait(worker: DiskThread) -> None:
    assert await worker.perform(lambda: 7) == 7
    with pytest.raises(OSError, match="no room"):
        await worker.perform(raising(OSError("no room")))


async def test_a_work_that_hangs_leaves_the_timers_of_the_loop_alone(worker: DiskThread) -> None:
    """log case 47: it ends only because a timer fires."""
    loop, fired = asyncio.get_running_loop(), threading.Event()
    hanging = loop.create_future()
    worker.submit(partial(wait_for, fired), hanging.set_result)
    loop.call_later(0.001, fired.set)
    assert await hanging is None


async def test_a_work_is_done_although_the_task_that_waits_is_cancelled(worker: DiskThread) -> None:
    begun, may_end, worked = asyncio.Event(), threading.Event(), list[int]()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(60)
        worked.append(1)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(worker.perform(work))
        await begun.wait()
        task.cancel()
    assert (task.cancelled(), worked) == (True, [])
    may_end.set()
    await worker.perform(lambda: None)
    assert worked == [1]


async def test_a_thread_ends_when_all_that_was_submitted_is_done_and_takes_no_more(disk: SystemDisk) -> None:
    worker, reported = disk.start_worker(), list[int]()

    def note(number: int, error: Exception | None) -> None:
        assert error is None
        reported.append(number)

    for number in range(10):
        worker.submit(nothing, partial(note, number))
    await worker.close()
    assert reported == list(range(10))
    await worker.close()
    with pytest.raises(RuntimeError, match="evermq-log has ended"):
        worker.submit(nothing, told_nothing)


async def test_a_thread_that_waits_keeps_no_work_in_memory(worker: DiskThread) -> None:
    class Record(bytearray):
        """Something that can be seen to go."""

    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    record = Record(4096)
    weakref.finalize(record, loop.call_soon_threadsafe, gone.set)
    worker.submit(partial(Record.clear, record), told_nothing)
    del record
    await asyncio.wait_for(gone.wait(), 60)


def test_a_thread_whose_loop_has_ended_ends_without_a_word(disk: SystemDisk) -> None:
    may_end, worked = threading.Event(), threading.Event()

    async def leave() -> None:
        worker = disk.start_worker()
        worker.submit(partial(wait_for, may_end), told_nothing)
        worker.submit(worked.set, told_nothing)

    asyncio.run(leave())
    (thread,) = [each for each in threading.enumerate() if each.name == "evermq-log"]
    may_end.set()
    thread.join(60)
    assert (thread.is_alive(), worked.is_set()) == (False, False)


# With a database


async def test_the_thread_of_a_database_has_a_name(database: DatabaseWorker) -> None:
    assert await database.perform(lambda db: threading.current_thread().name) == "evermq-snapshot"


async def test_an_orderly_end_carries_the_log_over(disk: SystemDisk, database: DatabaseWorker) -> None:
    await database.perform(lambda db: db.execute("PRAGMA journal_mode = WAL").fetchall())
    await database.perform(lambda db: db.execute("INSERT INTO message VALUES (1)").fetchall())
    assert disk.names() == {"evermq-1.db", "evermq-1.db-wal", "evermq-1.db-shm"}
    await database.close()
    assert disk.names() == {"evermq-1.db"}


async def test_what_was_not_begun_when_a_connection_is_abandoned_fails_and_writes_nothing(
    disk: SystemDisk, database: DatabaseWorker
) -> None:
    begun, may_end, reported = asyncio.Event(), threading.Event(), list[Exception | None]()
    loop = asyncio.get_running_loop()

    def hang(db: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(60)

    def insert(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO message VALUES (1)")

    database.submit(hang, reported.append)
    database.submit(insert, reported.append)
    await begun.wait()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(database.abandon())
        loop.call_soon(may_end.set)
    assert reported[0] is None
    assert isinstance(reported[1], sqlite3.ProgrammingError)
    with pytest.raises(ValueError, match="no active connection"):
        await database.perform(insert)
    with sqlite3.connect(disk.path / "evermq-1.db") as other:
        assert other.execute("SELECT * FROM message").fetchall() == []
    other.close()
    await database.abandon()


async def test_within_a_long_piece_of_work_others_are_done_in_order_and_their_ends_told(
    database: DatabaseWorker,
) -> None:
    order: list[str] = []
    begun, submitted = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def long(_: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        submitted.wait(30)
        order.append("before")
        database.let_others()
        database.let_others()  # there is nothing more
        order.append("after")

    task = asyncio.create_task(database.perform(long))
    await begun.wait()
    first = asyncio.create_task(database.perform(lambda _: order.append("first")))
    wrong = asyncio.create_task(database.perform(lambda db: db.execute("nonsense").fetchall()))
    cancelled = asyncio.create_task(database.perform(lambda _: order.append("cancelled")))
    await asyncio.sleep(0)
    cancelled.cancel()
    submitted.set()
    await task
    await first
    with pytest.raises(sqlite3.OperationalError):
        await wrong
    assert order == ["before", "first", "cancelled", "after"]


@pytest.mark.parametrize("end", ["close", "abandon"])
async def test_a_connection_is_not_closed_within_a_piece_of_work(disk: SystemDisk, end: str) -> None:
    database = await disk.start_database("evermq-1.db")
    begun, ending = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    rows: list[tuple[int]] = []

    def long(db: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        ending.wait(30)
        try:
            database.let_others(wait=True)
        finally:
            rows.extend(db.execute("SELECT 1").fetchall())

    task = asyncio.create_task(database.perform(long))
    await begun.wait()
    closing = asyncio.create_task(getattr(database, end)())
    await asyncio.sleep(0)
    ending.set()
    with pytest.raises(sqlite3.ProgrammingError, match="about to be closed"):
        await task
    await closing
    assert rows == [(1,)]


async def test_a_start_in_the_same_process_does_not_meet_the_locks_of_a_connection_that_was_abandoned(
    disk: SystemDisk, database: DatabaseWorker
) -> None:
    def write(db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("INSERT INTO message VALUES (1)")
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO message VALUES (2)")

    def write_more(db: sqlite3.Connection) -> list[int]:
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("INSERT INTO message VALUES (3)")
        return [id for (id,) in db.execute("SELECT id FROM message")]

    await database.perform(write)
    log = digest(disk.path / "evermq-1.db-wal")
    await database.abandon()
    assert digest(disk.path / "evermq-1.db-wal") == log
    again = await disk.start_database("evermq-1.db")
    assert await again.perform(write_more) == [1, 3]
    await again.close()


ENDS = """
import asyncio, gc, hashlib, sys
from pathlib import Path
from broker.storage.disk.system_disk import SystemDisk

async def main() -> None:
    disk = SystemDisk(Path(sys.argv[1]))
    database = await disk.start_database("evermq-1.db")
    def write(db):
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("CREATE TABLE message (id)")
        if sys.argv[3] == "in a transaction":
            db.execute("BEGIN")
        db.execute("INSERT INTO message VALUES (1)")
    await database.perform(write)
    print(*(hashlib.sha256((disk.path / name).read_bytes()).hexdigest() for name in ("evermq-1.db", "evermq-1.db-wal")))
    await getattr(database, sys.argv[2])()
    del database
    gc.collect()

asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["at rest", "in a transaction"])
def test_a_connection_that_was_abandoned_is_not_closed_when_the_process_ends_either(
    disk: SystemDisk, state: str
) -> None:
    """log case 13: the log that a failed checkpoint has left is the only good copy of what it holds."""
    database, log = ended(disk.path, "abandon", state)
    assert disk.names() == {"evermq-1.db", "evermq-1.db-wal", "evermq-1.db-shm"}
    assert (digest(disk.path / "evermq-1.db"), digest(disk.path / "evermq-1.db-wal")) == (database, log)


def test_a_connection_that_is_closed_changes_the_database_and_removes_its_log(disk: SystemDisk) -> None:
    """The control of the test above."""
    database, _ = ended(disk.path, "close", "at rest")
    assert disk.names() == {"evermq-1.db"}
    assert digest(disk.path / "evermq-1.db") != database


def ended(path: Path, end: str, state: str) -> list[str]:
    """Let a process write to a database and end; the digests of database and log before that."""
    command = [sys.executable, "-c", ENDS, str(path), end, state]
    run = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.split()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
