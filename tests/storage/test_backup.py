"""Backups: copies of a store that goes on with its work (log rule 8, log case 44)."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from broker.storage import log_store as log_stores
from broker.storage.disk.system_disk import SystemDisk
from broker.storage.memory import MemoryStore
from broker.storage.store import BackupFailedError, Rows, StoreFullError, StoreUnusableError
from broker.storage.tools import backup as backups
from broker.storage.tools.stopped import back_up
from broker.storage.tools.verify import verify
from tests.storage.history import History
from tests.storage.processes import environment
from tests.storage.ruins import change_data
from tests.storage.samples import ORDERS, contents, message
from tests.stores import log_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from broker.storage.log_store import LogStore
    from tests.storage.samples import Contents


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LogStore]:
    """An open store in `live`, with some batches in the log and some in the snapshot."""
    store = log_store(tmp_path / "live")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def history(store: LogStore) -> History:
    """Return the history of that store."""
    history = History(1)
    await history.write(store, 100)
    return history


async def contents_of(path: Path) -> Contents:
    """Return what a store that is started there has."""
    store = log_store(path)
    await store.open()
    try:
        return await contents(store)
    finally:
        await store.close()


def batches_of(path: Path) -> int:
    """Return the number of batches that a whole store holds."""
    found = verify(SystemDisk(path))
    assert found.findings == []
    return found.batches


async def test_a_copy_holds_all_that_was_acknowledged_before(store: LogStore, history: History, tmp_path: Path) -> None:
    await store.backup(tmp_path / "copy")
    await history.write(store, 20)
    assert batches_of(tmp_path / "copy") == 100
    assert await contents_of(tmp_path / "copy") == history.after(100)
    await store.close()
    assert await contents_of(tmp_path / "live") == history.after(120)


async def test_twenty_copies_under_load_are_each_the_state_after_one_batch(
    store: LogStore, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log case 44: carry-overs, turns of the log and reads go on between the runs of pages."""
    monkeypatch.setattr(backups, "RUN_PAGES", 4)
    over = False

    async def load() -> None:
        while not over:
            await history.write(store, 1)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(load())
        for number in range(20):
            before = len(history.batches)
            await store.backup(tmp_path / f"copy{number}")
            batches = batches_of(tmp_path / f"copy{number}")
            assert before <= batches
            assert await contents_of(tmp_path / f"copy{number}") == history.after(batches)
            shutil.rmtree(tmp_path / f"copy{number}")
        over = True


async def test_a_copy_of_a_copy_goes_on_with_the_next_numbers(
    store: LogStore, history: History, tmp_path: Path
) -> None:
    await store.backup(tmp_path / "copy")
    copy = log_store(tmp_path / "copy")
    await copy.open()
    await copy.write(Rows(inserts=[message(9999)]))
    await copy.backup(tmp_path / "second")
    await copy.close()
    assert batches_of(tmp_path / "second") == 101
    assert message(9999) in (await contents_of(tmp_path / "second")).messages


async def test_bodies_are_read_and_batches_written_between_two_runs_of_pages(
    store: LogStore, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "RUN_PAGES", 1)
    between = backups.StoreBackup._between
    copying, served = asyncio.Event(), False

    def until_served(
        self: backups.StoreBackup, db: sqlite3.Connection, status: int, remaining: int, total: int
    ) -> None:
        self._loop.call_soon_threadsafe(copying.set)
        while not served:
            self._source.database.let_others(wait=True)
        between(self, db, status, remaining, total)

    monkeypatch.setattr(backups.StoreBackup, "_between", until_served)
    copying_task = asyncio.create_task(store.backup(tmp_path / "copy"))
    await copying.wait()
    row = history.after(100).messages[0]
    assert await store.read_data([row.id]) == {row.id: row.data}
    await history.write(store, 300)  # more than the log holds: they are carried over meanwhile
    served = True
    await store.read_data([row.id])
    await copying_task
    batches = batches_of(tmp_path / "copy")
    assert batches > 100
    assert await contents_of(tmp_path / "copy") == history.after(batches)


@pytest.mark.parametrize("name", ["log.0", "log.1", "manifest", "evermq-1.db"])
async def test_a_file_of_a_copy_is_foreign_to_the_store_that_it_was_made_of(
    store: LogStore, history: History, tmp_path: Path, name: str
) -> None:
    await store.backup(tmp_path / "copy")
    await store.close()
    shutil.copy(tmp_path / "copy" / name, tmp_path / "live" / name)
    reported = "log.0" if name == "manifest" else name
    with pytest.raises(StoreUnusableError, match=rf"{reported} is (not the log file of|the database of another) "):
        await store.open()
    assert verify(SystemDisk(tmp_path / "live")).findings != []


async def test_a_directory_that_is_not_empty_is_left_alone(store: LogStore, history: History, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").write_bytes(b"mine")
    with pytest.raises(BackupFailedError, match="copy is not empty; a backup needs a directory that is new or empty"):
        await store.backup(tmp_path / "copy")
    assert [each.name for each in (tmp_path / "copy").iterdir()] == ["mine"]


async def test_the_database_stays_the_one_that_it_is_while_it_is_copied(store: LogStore, history: History) -> None:
    keeper = store._keeper
    for lent in (True, False):
        await keeper.carry_over()
        keeper.lent, keeper._may_have_shrunk = lent, True
        keeper.shrink()
        assert keeper.shrinking.running != lent


async def test_there_is_one_backup_at_a_time(store: LogStore, history: History, tmp_path: Path) -> None:
    first = asyncio.create_task(store.backup(tmp_path / "first"))
    await asyncio.sleep(0)
    with pytest.raises(BackupFailedError, match="another backup is being made"):
        await store.backup(tmp_path / "second")
    await first
    await store.backup(tmp_path / "second")


async def test_a_store_in_memory_has_nothing_to_copy(tmp_path: Path) -> None:
    with pytest.raises(BackupFailedError, match="without a data directory"):
        await MemoryStore().backup(tmp_path / "copy")


# What ends a backup before its end

STEPS = 24
"""More calls than a backup makes on the disk that it is made on."""


class TroubledDisk(SystemDisk):
    """A disk on which the n-th of the calls that write does something else first."""

    def __init__(self, path: Path, number: int, trouble: Callable[[], None]) -> None:
        super().__init__(path)
        self._left = number
        self._trouble = trouble

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._trouble()

    def create(self, name: str, first: bytes, size: int) -> None:
        self._step()
        super().create(name, first, size)

    def connect(self, name: str) -> sqlite3.Connection:
        self._step()
        return super().connect(name)

    def remove(self, name: str) -> None:
        self._step()
        super().remove(name)

    def rename(self, name: str, to: str) -> None:
        self._step()
        super().rename(name, to)

    def sync(self, name: str) -> None:
        self._step()
        super().sync(name)


def full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_disk_without_room_is_left_as_it_was(
    store: LogStore, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log case 36, of the disk that a backup is made on."""
    number = made = 0
    while not made:
        number += 1
        monkeypatch.setattr(log_stores, "SystemDisk", partial(TroubledDisk, number=number, trouble=full))
        try:
            await store.backup(tmp_path / "copy")
        except StoreFullError:
            assert not (tmp_path / "copy").exists()
        else:
            made = number
    assert made > 8
    assert batches_of(tmp_path / "copy") == 100
    await history.write(store, 10)


async def test_a_copy_that_outgrows_the_disk_ends_the_backup_and_nothing_else(
    store: LogStore, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SmallDisk(SystemDisk):
        def connect(self, name: str) -> sqlite3.Connection:
            db = super().connect(name)
            db.execute("PRAGMA page_size = 8192")
            db.execute("PRAGMA max_page_count = 5")
            return db

    monkeypatch.setattr(log_stores, "SystemDisk", SmallDisk)
    with pytest.raises(StoreFullError, match="copy: database or disk is full"):
        await store.backup(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    await history.write(store, 300)
    await store.close()
    assert await contents_of(tmp_path / "live") == history.after(400)


async def test_a_store_that_has_no_room_to_carry_over_cannot_be_copied(
    store: LogStore, history: History, tmp_path: Path
) -> None:
    await store._keeper.database.perform(lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())
    with pytest.raises(StoreFullError, match=r"no backup in .*copy: there is no room"):
        await store.backup(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    await store._keeper.database.perform(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchall())
    await store.backup(tmp_path / "copy")
    assert await contents_of(tmp_path / "copy") == history.after(100)


@pytest.mark.parametrize("turns", [0, 1, 5, 20, 60, 100])
async def test_a_backup_that_is_cancelled_leaves_nothing(
    store: LogStore, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(backups, "RUN_PAGES", 1)
    copying = asyncio.create_task(store.backup(tmp_path / "copy"))
    for _ in range(turns):
        await store._keeper.database.perform(lambda _: None)
    copying.cancel()
    with suppress(asyncio.CancelledError):
        await copying
    if copying.cancelled():
        assert not (tmp_path / "copy").exists()
    await store.backup(tmp_path / "another")
    assert batches_of(tmp_path / "another") == 100


async def test_a_backup_that_is_cancelled_twice_ends_with_its_copy(
    store: LogStore, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "RUN_PAGES", 1)
    between, copying, go_on = backups.StoreBackup._between, asyncio.Event(), threading.Event()

    def held(self: backups.StoreBackup, db: sqlite3.Connection, status: int, remaining: int, total: int) -> None:
        self._loop.call_soon_threadsafe(copying.set)
        go_on.wait(30)
        between(self, db, status, remaining, total)

    monkeypatch.setattr(backups.StoreBackup, "_between", held)
    task = asyncio.create_task(store.backup(tmp_path / "copy"))
    await copying.wait()
    for _ in range(2):
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (tmp_path / "copy").exists()


async def test_a_store_with_damaged_data_is_not_copied_as_if_it_were_whole(
    store: LogStore, history: History, tmp_path: Path
) -> None:
    await store.close()
    row = history.after(100).messages[0]
    assert row.data
    change_data(tmp_path / "live" / "evermq-1.db", row.data[:20])
    await store.open()
    with pytest.raises(BackupFailedError, match=rf"data of a message is missing or not .* \(message {row.id}\)"):
        await store.backup(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("turns", [0, 1, 5, 20, 60])
async def test_a_store_that_is_closed_breaks_its_backup_off(
    store: LogStore, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(backups, "RUN_PAGES", 1)
    copying = asyncio.create_task(store.backup(tmp_path / "copy"))
    await asyncio.sleep(0)
    for _ in range(turns):
        await store._keeper.database.perform(lambda _: None)
    await store.close()
    try:
        await copying
    except BackupFailedError:
        assert not (tmp_path / "copy").exists()
    else:
        assert batches_of(tmp_path / "copy") == 100
    assert await contents_of(tmp_path / "live") == history.after(100)


async def test_a_store_that_fails_ends_its_backup(store: LogStore, history: History, tmp_path: Path) -> None:
    copying = asyncio.create_task(store.backup(tmp_path / "copy"))
    await asyncio.sleep(0)
    (tmp_path / "live" / "lock").unlink()
    store._upkeep._tick()
    with pytest.raises(BackupFailedError):
        await copying
    assert not (tmp_path / "copy").exists()
    with pytest.raises(BackupFailedError, match="lock was removed"):
        await store.backup(tmp_path / "copy")


KILLED = """
import asyncio, os, signal, sys
from functools import partial
from pathlib import Path
from broker.storage import log_store as log_stores
from tests.storage.history import History
from tests.storage.test_backup import TroubledDisk
from tests.stores import log_store

async def main(folder, number):
    store = log_store(folder / "live")
    await store.open()
    await History(number).write(store, 30)
    kill = partial(os.kill, os.getpid(), signal.SIGKILL)
    log_stores.SystemDisk = partial(TroubledDisk, number=number, trouble=kill)
    await store.backup(folder / "copy")
    await store.close()

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def ends_of(folders: list[Path]) -> list[int]:
    """The exit codes of backups in these folders, each killed at the step that the folder is named for."""
    processes = [
        subprocess.Popen([sys.executable, "-c", KILLED, str(folder), folder.name], env=environment())
        for folder in folders
    ]
    return [process.wait(60) for process in processes]


async def test_a_backup_that_is_killed_at_any_step_is_refused_or_whole(tmp_path: Path) -> None:
    """Log case 44: the manifest comes last, and a backup without one is no new store either."""
    folders = [tmp_path / str(number) for number in range(1, STEPS + 1)]
    for folder in folders:
        folder.mkdir()
    ends = ends_of(folders)
    assert ends.index(0) > 12  # so many steps there are, at least, each of which was the last
    assert set(ends) == {0, -signal.SIGKILL}
    for folder, end in zip(folders, ends, strict=True):
        history = History(int(folder.name))
        scratch = log_store(folder / "scratch")
        await scratch.open()
        await history.write(scratch, 30)
        await scratch.close()
        copy = folder / "copy"
        if (copy / "manifest").exists():
            assert await contents_of(copy) == history.after(30)
        elif set(os.listdir(copy)) > {"lock"}:
            assert end != 0
            with pytest.raises(StoreUnusableError, match=r"backup that was cut short|manifest is missing"):
                await contents_of(copy)
        assert await contents_of(folder / "live") == history.after(30)


# Of a queue manager that is stopped

KEPT = message(5000, persistent=0)


async def test_a_store_that_is_stopped_is_copied(store: LogStore, history: History, tmp_path: Path) -> None:
    await store.write(Rows(inserts=[KEPT]))
    await store.close()
    await back_up(tmp_path / "live", tmp_path / "copy")
    for each in ("copy", "live"):
        assert KEPT in (await contents_of(tmp_path / each)).messages


async def test_after_a_crash_what_a_stop_would_have_kept_is_in_neither(
    store: LogStore, history: History, tmp_path: Path
) -> None:
    await store.write(Rows(inserts=[KEPT]))
    shutil.copytree(tmp_path / "live", tmp_path / "crashed")
    await back_up(tmp_path / "crashed", tmp_path / "copy", "QM1")
    for each in ("copy", "crashed"):
        assert await contents_of(tmp_path / each) == history.after(100)


async def test_a_directory_without_a_store_is_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusableError, match="there is no store in"):
        await back_up(tmp_path / "data", tmp_path / "copy")
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "copy").exists()


async def test_a_store_that_runs_is_not_copied_behind_its_back(
    store: LogStore, history: History, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnusableError, match="in use by another queue manager"):
        await back_up(tmp_path / "live", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


async def test_an_empty_store_can_be_copied(store: LogStore, tmp_path: Path) -> None:
    await store.write(Rows(objects=[ORDERS]))
    await store.backup(tmp_path / "copy")
    assert (await contents_of(tmp_path / "copy")).objects == [ORDERS]
