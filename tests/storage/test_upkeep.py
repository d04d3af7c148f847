"""The files of the SQLite store stay in order: the log short, the room used, the damage found. With small limits."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from broker.storage.sqlite import SqliteStore

from broker import QueueManager
from broker.storage import database, upkeep
from broker.storage.store import Rows, StoreFailedError

from .processes import WRITES_A_MESSAGE, run_until_killed
from .samples import contents, message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KIB = 1024
LOG_BYTES = 512 * KIB
BATCH = 32  # messages of 2 KiB: some 100 KiB in the log


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    """An open and empty store with a log of 512 KiB, to which a second's idleness is an eternity."""
    monkeypatch.setattr(database, "WAL_BYTES_MAX", LOG_BYTES)
    monkeypatch.setattr(upkeep, "CARRY_BYTES", LOG_BYTES // 2)
    monkeypatch.setattr(upkeep, "_IDLE_SECONDS", 60)
    store = SqliteStore(tmp_path, ballast_bytes=4096)
    await store.open()
    yield store
    await store.close()


def size(directory: Path, name: str) -> int:
    path = directory / name
    return path.stat().st_size if path.exists() else 0


def batch(number: int, count: int = BATCH) -> Rows:
    return Rows(inserts=[message(id, b"x" * 2048) for id in range(number * count, (number + 1) * count)])


async def settled(store: SqliteStore) -> None:
    """Return when both threads have done what they had to do, and what followed from that."""
    for _ in range(3):
        for thread in (store._upkeep._thread, store._thread):
            assert thread is not None
            await thread.perform(lambda db: None)


async def rested(store: SqliteStore) -> None:
    """Let the store believe that no batch came for a while, until it has nothing more to do."""
    for _ in range(4):
        store._upkeep._look()
        await settled(store)


# The log


async def test_the_log_stays_short_however_much_is_written(store: SqliteStore, tmp_path: Path) -> None:
    longest = 0
    for number in range(100):
        await store.write(batch(number))
        longest = max(longest, size(tmp_path, "evermq.db-wal"))
    assert size(tmp_path, "evermq.db") > 10 * LOG_BYTES
    assert longest < 2 * LOG_BYTES


async def test_the_log_is_carried_over_beside_the_writing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    carriers: list[object] = []
    checkpoint = database.checkpoint

    def noted(db: sqlite3.Connection) -> None:
        carriers.append(db)
        checkpoint(db)

    monkeypatch.setattr(database, "checkpoint", noted)
    for number in range(3):
        await store.write(batch(number))
    await settled(store)
    assert store._upkeep._thread is not None
    assert store._thread is not None
    assert carriers == [store._upkeep._thread._conn, store._thread._conn]
    assert store.status()["last_checkpoint"] is not None


async def test_a_reader_lets_the_log_grow_for_as_long_as_it_reads(store: SqliteStore, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "evermq.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM message").fetchone() == (0,)
        for number in range(20):
            await store.write(batch(number))
        assert size(tmp_path, "evermq.db-wal") > 2 * LOG_BYTES
        assert reader.execute("SELECT count(*) FROM message").fetchone() == (0,)
        reader.execute("COMMIT")
    for number in range(20, 30):
        await store.write(batch(number))
    await settled(store)
    await store.write(batch(30))
    assert size(tmp_path, "evermq.db-wal") < 2 * LOG_BYTES


async def test_a_log_that_is_worth_it_is_carried_over_when_no_batch_comes(store: SqliteStore, tmp_path: Path) -> None:
    await store.write(batch(0, 1))
    await rested(store)
    assert store.status()["last_checkpoint"] is None
    before = size(tmp_path, "evermq.db")
    await store.write(batch(1, 90))
    await rested(store)
    assert size(tmp_path, "evermq.db") > before + 90 * 2 * KIB


async def test_idleness_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = asyncio.Event()
    monkeypatch.setattr(upkeep, "_IDLE_SECONDS", 0)
    monkeypatch.setattr(upkeep.Upkeep, "_rest_ended", lambda self, error: done.set())
    store = SqliteStore(tmp_path, ballast_bytes=4096)
    await store.open()
    await done.wait()
    done.clear()
    await store.write(batch(0))
    await done.wait()
    await store.close()


async def test_the_log_gets_its_room_when_no_batch_comes(store: SqliteStore, tmp_path: Path) -> None:
    await store.write(batch(0, 2))
    await rested(store)
    assert size(tmp_path, "evermq.db-wal") == store.status()["log_bytes"] == LOG_BYTES
    await store.write(batch(1, 2))
    await store.close()
    await store.open()
    assert len((await contents(store)).messages) == 4


async def test_a_log_with_room_is_read_after_a_kill(tmp_path: Path) -> None:
    run_until_killed(WRITES_A_MESSAGE, tmp_path)
    with (tmp_path / "evermq.db-wal").open("ab") as log:
        log.write(bytes(100 * KIB))
    store = SqliteStore(tmp_path, ballast_bytes=0)
    await store.open()
    assert (await contents(store)).messages == [message(1)]
    await store.close()


async def test_on_a_disk_with_little_room_the_log_takes_only_what_it_needs(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_ROOMY_BYTES", 2**80)
    await store.write(batch(0, 2))
    await rested(store)
    assert size(tmp_path, "evermq.db-wal") < LOG_BYTES


# Free room


async def test_the_room_of_messages_that_are_gone_is_used_again(store: SqliteStore, tmp_path: Path) -> None:
    for _ in range(3):
        for number in range(10):
            await store.write(batch(number))
        await store.write(Rows(removals=list(range(10 * BATCH))))
        await settled(store)
    assert size(tmp_path, "evermq.db") < 2 * 10 * BATCH * 2048
    assert store.status()["free_bytes"] > 0.8 * size(tmp_path, "evermq.db")


async def filled_and_drained(store: SqliteStore, left: int) -> None:
    """Have most of the database free, and so many batches in it."""
    for number in range(20):
        await store.write(batch(number))
    await store.write(Rows(removals=list(range((20 - left) * BATCH))))
    await rested(store)


async def test_a_database_that_is_nearly_all_free_room_is_shrunk_when_no_batch_comes(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SHRINK_FREE_BYTES", 1024 * KIB)
    monkeypatch.setattr(upkeep, "SHRINK_USED_BYTES", 256 * KIB)
    await filled_and_drained(store, left=1)
    assert size(tmp_path, "evermq.db") < 256 * KIB
    assert store.status()["free_bytes"] < 64 * KIB
    assert len((await contents(store)).messages) == BATCH


@pytest.mark.parametrize(("free_min", "used_max"), [(1024, 0), (2048 * KIB, 256)], ids=["much is used", "little free"])
async def test_a_database_is_not_shrunk_otherwise(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_min: int, used_max: int
) -> None:
    monkeypatch.setattr(upkeep, "SHRINK_FREE_BYTES", free_min * KIB)
    monkeypatch.setattr(upkeep, "SHRINK_USED_BYTES", used_max * KIB)
    await filled_and_drained(store, left=1)
    assert size(tmp_path, "evermq.db") > 1024 * KIB


# The check


async def test_after_an_orderly_stop_nothing_is_checked(store: SqliteStore) -> None:
    await store.write(batch(0))
    await store.close()
    await store.open()
    await contents(store)
    assert store.status()["last_check"] == "not needed"


async def test_after_another_stop_the_database_is_checked_while_the_store_works(tmp_path: Path) -> None:
    run_until_killed(WRITES_A_MESSAGE, tmp_path)
    store = SqliteStore(tmp_path, ballast_bytes=0)
    await store.open()
    assert (tmp_path / "unchecked").exists()
    assert (await contents(store)).messages == [message(1)]
    assert store.status()["last_check"] in ("running", "passed")
    await settled(store)
    assert store.status()["last_check"] == "passed"
    assert not (tmp_path / "unchecked").exists()
    await store.close()


async def test_damage_that_a_check_finds_stops_the_store(store: SqliteStore, tmp_path: Path) -> None:
    for number in range(4):
        await store.write(batch(number))
    await store.close()
    damage_a_body(tmp_path)
    (tmp_path / "unchecked").touch()
    await store.open()
    assert len([row async for rows in store.load_messages() for row in rows]) == 4 * BATCH
    await settled(store)
    assert store.status()["last_check"].startswith("failed: ")
    assert (tmp_path / "unchecked").exists()
    with pytest.raises(
        StoreFailedError, match=r"evermq.db is damaged \(.+\); restore its directory from a copy, or move"
    ):
        await store.write(Rows(removals=[1]))


def damage_a_body(directory: Path) -> None:
    """Spoil a page that a start does not read: the last one with large data."""
    with (directory / "evermq.db").open("r+b") as file:
        page = file.read().rindex(b"x" * 2048) // database.PAGE_BYTES
        file.seek(page * database.PAGE_BYTES)
        file.write(b"\xa5" * database.PAGE_BYTES)


async def test_a_check_that_was_broken_off_is_made_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checking = asyncio.Event()
    loop = asyncio.get_running_loop()

    def announce() -> int:
        loop.call_soon_threadsafe(checking.set)
        return 0

    def endless(db: sqlite3.Connection) -> str | None:
        db.set_progress_handler(announce, 10_000)  # Not sooner: what does not run yet cannot be broken off.
        db.execute("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT 1 FROM n) SELECT max(i) FROM n").fetchone()
        raise AssertionError("it has ended")

    run_until_killed(WRITES_A_MESSAGE, tmp_path)
    store = SqliteStore(tmp_path, ballast_bytes=0)
    with monkeypatch.context() as patch:
        patch.setattr(database, "find_damage", endless)
        await store.open()
        await contents(store)
        await checking.wait()
        await store.close()
        assert store.status()["last_check"] == "broken off"
    await store.open()
    await contents(store)
    await settled(store)
    assert store.status()["last_check"] == "passed"
    await store.close()


# Figures


async def test_the_status_of_a_store(store: SqliteStore, tmp_path: Path) -> None:
    await store.write(batch(0))
    assert store.status() == {
        "file": str(tmp_path / "evermq.db"),
        "bytes": size(tmp_path, "evermq.db"),
        "free_bytes": 0,
        "log_bytes": size(tmp_path, "evermq.db-wal"),
        "log_bytes_max": LOG_BYTES,
        "last_checkpoint": None,
        "last_check": "not needed",
        "full": False,
        "ballast_held": True,
    }


async def test_the_status_of_a_queue_manager_has_that_of_its_store(tmp_path: Path) -> None:
    async with QueueManager.open(data=tmp_path) as manager, manager.connect() as connection:
        store = (await connection.status())["store"]
    assert store["file"] == str(tmp_path / "evermq.db")
    assert store["bytes"] >= database.PAGE_BYTES
