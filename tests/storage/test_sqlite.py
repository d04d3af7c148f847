"""What the SQLite store does beside what every store does: its directory, its file, its thread."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from broker.storage.scripts import migrations
from broker.storage.sqlite import SqliteStore

from broker.storage.disk.database_thread import DatabaseThread
from broker.storage.store import Rows, StoreUnusableError

from .processes import HOLDS_THE_DIRECTORY, WRITES_A_MESSAGE, run_until_killed, running
from .samples import ORDERS, contents, message, reopened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Ask the database in the directory `path` as another program would."""
    with closing(sqlite3.connect(path / "evermq.db")) as db:
        return db.execute(sql).fetchall()


# The directory and its lock


async def test_open_makes_missing_directories(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a" / "b", ballast_bytes=0)
    await store.open()
    await store.close()
    assert (tmp_path / "a" / "b" / "evermq.db").is_file()


async def test_a_second_manager_is_told_who_has_the_directory(sqlite_store: SqliteStore, tmp_path: Path) -> None:
    second = SqliteStore(tmp_path / "data")
    with pytest.raises(StoreUnusableError, match=r"data is in use by another queue manager \(process \d+\); stop that"):
        await second.open()
    await sqlite_store.close()
    await second.open()
    await second.close()


async def test_another_process_that_has_the_directory_is_named_until_it_is_killed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data", ballast_bytes=0)
    with running(HOLDS_THE_DIRECTORY, tmp_path / "data") as holder:
        with pytest.raises(StoreUnusableError, match=rf"is in use by another queue manager \(process {holder.pid}\)"):
            await store.open()
        holder.kill()
        holder.wait()
        await store.open()
    await store.close()


async def test_what_was_written_survives_the_end_of_the_process(tmp_path: Path) -> None:
    run_until_killed(WRITES_A_MESSAGE, tmp_path / "data")
    store = SqliteStore(tmp_path / "data", ballast_bytes=0)
    await store.open()
    assert (await contents(store)).messages == [message(1)]
    await store.close()


async def test_a_path_that_is_no_directory_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusableError, match="file/data cannot be used"):
        await SqliteStore(tmp_path / "file" / "data").open()


async def test_a_store_that_could_not_be_opened_lets_go_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "evermq.db").write_bytes(b"garbage" * 1000)
    store = SqliteStore(tmp_path, ballast_bytes=0)
    with pytest.raises(StoreUnusableError):
        await store.open()
    (tmp_path / "evermq.db").unlink()
    await store.open()
    await store.close()


async def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="is not open"):
        await SqliteStore(tmp_path).write(Rows())


# Versions and damage


async def test_a_newer_version_is_refused_with_both_versions(sqlite_store: SqliteStore, tmp_path: Path) -> None:
    await sqlite_store.close()
    query(tmp_path / "data", "PRAGMA user_version = 99")
    known = max(migrations())
    with pytest.raises(
        StoreUnusableError, match=rf"evermq.db has version 99, .* versions up to {known}; start a newer"
    ):
        await sqlite_store.open()
    assert query(tmp_path / "data", "PRAGMA user_version") == [(99,)]


async def test_the_version_is_the_number_of_the_last_script(sqlite_store: SqliteStore, tmp_path: Path) -> None:
    assert query(tmp_path / "data", "PRAGMA user_version") == [(max(migrations()),)]


def test_scripts_are_numbered_without_gaps() -> None:
    assert list(migrations()) == list(range(1, len(migrations()) + 1))


async def test_garbage_is_refused_with_the_path_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "evermq.db").write_bytes(b"This is not a database. " * 1000)
    with pytest.raises(
        StoreUnusableError, match=r"evermq.db is damaged \(.*\); restore its directory from a copy, or move"
    ):
        await SqliteStore(tmp_path).open()


async def test_damage_that_a_load_comes_upon_is_refused_too(sqlite_store: SqliteStore, tmp_path: Path) -> None:
    await sqlite_store.write(Rows(inserts=[message(id, b"x" * 1000) for id in range(1, 200)]))
    await sqlite_store.close()
    file = tmp_path / "data" / "evermq.db"
    content = file.read_bytes()
    file.write_bytes(content[:8192] + b"\xa5" * (len(content) - 8192))
    await sqlite_store.open()
    with pytest.raises(StoreUnusableError, match=r"evermq.db is damaged \(.*\); restore"):
        await contents(sqlite_store)


async def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    query(tmp_path, "CREATE TABLE theirs (id INTEGER)")
    before = (tmp_path / "evermq.db").read_bytes()
    with pytest.raises(StoreUnusableError, match="the database of another program"):
        await SqliteStore(tmp_path).open()
    assert (tmp_path / "evermq.db").read_bytes() == before


# Where data lies


async def test_small_data_lies_with_its_message_and_large_data_apart(sqlite_store: SqliteStore, tmp_path: Path) -> None:
    await sqlite_store.write(Rows(inserts=[message(1, b""), message(2, b"s" * 1024), message(3, b"l" * 1025)]))
    assert query(tmp_path / "data", "SELECT id, length(data) FROM message") == [(1, 0), (2, 1024), (3, None)]
    assert query(tmp_path / "data", "SELECT id, length(data) FROM body") == [(3, 1025)]


async def test_a_body_goes_with_its_message(sqlite_store: SqliteStore, tmp_path: Path) -> None:
    await sqlite_store.write(Rows(inserts=[message(1, b"x" * 5000), message(2), message(3, b"x" * 5000)]))
    await sqlite_store.write(Rows(removals=[2, 3]))
    assert query(tmp_path / "data", "SELECT id FROM body") == [(1,)]


async def test_the_body_of_a_forgotten_message_goes_too(sqlite_store: SqliteStore, tmp_path: Path) -> None:
    await sqlite_store.write(Rows(inserts=[message(1, b"x" * 5000, persistent=0)]))
    await contents(sqlite_store)
    assert query(tmp_path / "data", "SELECT count(*) FROM body") == [(0,)]


async def test_a_start_reads_no_bodies(sqlite_store: SqliteStore, tmp_path: Path) -> None:
    await sqlite_store.write(Rows(inserts=[message(1, b"x" * 5000)]))
    await sqlite_store.close()
    query(tmp_path / "data", "ALTER TABLE body RENAME TO hidden")
    await sqlite_store.open()
    assert [row.id async for chunk in sqlite_store.load_messages() for row in chunk] == [1]


async def test_the_settings_that_durability_rests_on(sqlite_store: SqliteStore) -> None:
    def settings(db: sqlite3.Connection) -> list[object]:
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "page_size")]

    assert sqlite_store._thread is not None
    assert await sqlite_store._thread.perform(settings) == ["wal", 2, 8192]


# One hop, whole


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was given to the thread of the database."""
    given: list[object] = []
    put = DatabaseThread._put

    def count(
        self: DatabaseThread, future: asyncio.Future[object], work: Callable[[sqlite3.Connection], object]
    ) -> None:
        given.append(work)
        put(self, future, work)

    monkeypatch.setattr(DatabaseThread, "_put", count)
    return given


async def test_a_batch_of_everything_is_one_hop_and_one_transaction(
    sqlite_store: SqliteStore, hops: list[object]
) -> None:
    seen: list[str] = []
    assert sqlite_store._thread is not None
    await sqlite_store._thread.perform(lambda db: db.set_trace_callback(seen.append))
    hops.clear()
    await sqlite_store.write(
        Rows([message(1), message(2, b"x" * 5000)], [3], [(4, 1)], [5], [ORDERS], [("QUEUE", "GONE")], 17)
    )
    assert len(hops) == 1
    assert [sql for sql in seen if sql.startswith(("BEGIN", "COMMIT"))] == ["BEGIN IMMEDIATE", "COMMIT"]
    assert (seen[0], seen[-1]) == ("BEGIN IMMEDIATE", "COMMIT")


async def test_data_of_many_messages_is_read_in_one_hop(sqlite_store: SqliteStore, hops: list[object]) -> None:
    await sqlite_store.write(Rows(inserts=[message(id) for id in range(1, 50)]))
    hops.clear()
    await sqlite_store.read_data(range(1, 50))
    assert len(hops) == 1


async def test_a_cancelled_write_is_whole_and_leaves_no_transaction(sqlite_store: SqliteStore) -> None:
    batches = [Rows(inserts=[message(10 * n + i, b"x" * 3000) for i in range(10)]) for n in range(1, 21)]
    async with asyncio.TaskGroup() as tasks:
        for rows in batches:
            writing = tasks.create_task(sqlite_store.write(rows), name="writing")
            await asyncio.sleep(0)
            writing.cancel()
    await sqlite_store.write(Rows(inserts=[message(1)]))
    assert len((await reopened(sqlite_store)).messages) == 1 + 200


async def test_data_is_not_logged(sqlite_store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await sqlite_store.write(Rows(inserts=[message(1, b"confidential")]))
    assert caplog.records
    assert "confidential" not in caplog.text


async def test_closing_leaves_one_whole_file(sqlite_store: SqliteStore, tmp_path: Path) -> None:
    await sqlite_store.write(Rows(inserts=[message(id) for id in range(1, 1001)]))
    await sqlite_store.close()
    assert sorted(entry.name for entry in (tmp_path / "data").iterdir()) == ["ballast", "evermq.db", "lock"]
