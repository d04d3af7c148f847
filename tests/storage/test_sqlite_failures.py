"""What the SQLite store does when the disk is full, and when a write fails in a way that leaves the outcome open."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from broker.storage.sqlite import SqliteStore

from broker.storage import database
from broker.storage.store import Rows, StoreFailedError, StoreFullError

from .samples import ORDERS, Contents, contents, message, reopened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class SmallStore(SqliteStore):
    """A store on a database that can have so many pages and no more."""

    pages = 60

    def _prepare(self, db: sqlite3.Connection) -> None:
        super()._prepare(db)
        db.execute(f"PRAGMA max_page_count = {self.pages}")


class FaultyConnection(sqlite3.Connection):
    """A connection whose next transactions fail with the codes in `faults`, perhaps after a rollback by SQLite."""

    faults: ClassVar[list[int]] = []
    rolls_back: ClassVar[bool] = False

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if not self.faults or not self._commits(sql):
            return super().execute(sql, parameters)
        if self.rolls_back and self.in_transaction:
            super().execute("ROLLBACK")
        error = sqlite3.OperationalError("injected")
        error.sqlite_errorcode = self.faults.pop(0)
        raise error

    def _commits(self, sql: str) -> bool:
        """Whether it ends a transaction, or is one by itself."""
        return sql == "COMMIT" if self.in_transaction else re.search("^(INSERT|UPDATE|DELETE)", sql, re.M) is not None


# Full


@pytest.fixture
async def full_store(tmp_path: Path) -> AsyncIterator[SmallStore]:
    """A store of 100 messages that has just refused a batch for want of room."""
    store = SmallStore(tmp_path / "data", ballast_bytes=4096)
    await store.open()
    await store.write(Rows(inserts=[message(id, b"x" * 1000) for id in range(1, 101)]))
    with pytest.raises(StoreFullError) as refusal:
        await store.write(Rows(inserts=[message(id, b"x" * 1000) for id in range(1000, 2000)], removals=[1]))
    assert isinstance(refusal.value.__cause__, sqlite3.Error)
    yield store
    await store.close()


async def test_a_batch_that_finds_no_room_is_not_written_at_all(full_store: SmallStore) -> None:
    assert [row.id for row in (await reopened(full_store)).messages] == list(range(1, 101))


async def test_a_full_store_still_takes_what_does_not_grow(full_store: SmallStore) -> None:
    await full_store.write(Rows(removals=list(range(2, 101))))
    await full_store.write(Rows(hardened=[1]))
    await full_store.write(Rows(backouts=[(1, 1)]))
    assert (await reopened(full_store)).messages == [message(1, b"x" * 1000)._replace(backout_count=1)]


async def test_a_full_store_takes_messages_again_when_there_is_room(full_store: SmallStore) -> None:
    assert full_store.status()["full"]
    await full_store.write(Rows(removals=list(range(1, 101))))
    await full_store.write(Rows(inserts=[message(200, b"x" * 1000)]))
    assert not full_store.status()["full"]
    assert [row.id for row in (await reopened(full_store)).messages] == [200]


# Failed


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the next transactions fail with, in stores that open from now on."""
    monkeypatch.setattr(
        database, "connect", lambda path: sqlite3.connect(path, isolation_level=None, factory=FaultyConnection)
    )
    faults: list[int] = []
    monkeypatch.setattr(FaultyConnection, "faults", faults)
    return faults


@pytest.fixture
async def faulty_store(tmp_path: Path, faults: list[int]) -> AsyncIterator[SqliteStore]:
    """A store with one message whose transactions fail as `faults` says."""
    store = SqliteStore(tmp_path / "data", ballast_bytes=4096)
    await store.open()
    await store.write(Rows(inserts=[message(1)]))
    yield store
    await store.close()


ERRORS: dict[int, type[Exception]] = {
    sqlite3.SQLITE_FULL: StoreFullError,
    sqlite3.SQLITE_IOERR: StoreFailedError,
    sqlite3.SQLITE_IOERR_FSYNC: StoreFailedError,
    sqlite3.SQLITE_BUSY: StoreFailedError,
    sqlite3.SQLITE_CORRUPT: StoreFailedError,
}


@pytest.mark.parametrize("rolls_back", [False, True], ids=["still in a transaction", "rolled back by SQLite"])
@pytest.mark.parametrize(("code", "expected"), ERRORS.items())
async def test_errors_are_told_apart_by_code_and_leave_no_transaction(
    faulty_store: SqliteStore,
    faults: list[int],
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    expected: type[Exception],
    rolls_back: bool,
) -> None:
    monkeypatch.setattr(FaultyConnection, "rolls_back", rolls_back)
    faults.append(code)
    with pytest.raises(expected) as failure:
        await faulty_store.write(Rows(inserts=[message(2)], removals=[1]))
    assert isinstance(failure.value.__cause__, sqlite3.OperationalError)
    assert faulty_store._thread is not None
    assert not await faulty_store._thread.perform(lambda db: db.in_transaction)
    assert (await reopened(faulty_store)).messages == [message(1)]


async def test_after_an_unknown_outcome_nothing_is_written_until_the_store_is_opened_again(
    faulty_store: SqliteStore, faults: list[int]
) -> None:
    faults.append(sqlite3.SQLITE_IOERR_FSYNC)
    with pytest.raises(StoreFailedError, match="may or may not"):
        await faulty_store.write(Rows(inserts=[message(2)]))
    with pytest.raises(StoreFailedError, match="nothing is written any more: a batch may or may not"):
        await faulty_store.write(Rows(removals=[1]))
    assert (await reopened(faulty_store)).messages == [message(1)]
    await faulty_store.write(Rows(removals=[1]))
    assert (await reopened(faulty_store)).messages == []


async def test_rows_of_wrong_types_fail_without_a_trace(sqlite_store: SqliteStore) -> None:
    wrong = message(2)._replace(queue=2**70)
    with pytest.raises(StoreFailedError):
        await sqlite_store.write(Rows(inserts=[message(1), wrong]))
    assert (await reopened(sqlite_store)).messages == []


# The ballast


async def test_a_batch_that_grows_does_not_get_the_ballast(
    faulty_store: SqliteStore, faults: list[int], tmp_path: Path
) -> None:
    faults.append(sqlite3.SQLITE_FULL)
    with pytest.raises(StoreFullError):
        await faulty_store.write(Rows(inserts=[message(2)], removals=[1]))
    assert (tmp_path / "data" / "ballast").stat().st_size == 4096


async def test_a_removal_that_finds_no_room_gets_that_of_the_ballast(
    faulty_store: SqliteStore, faults: list[int], tmp_path: Path
) -> None:
    faults.append(sqlite3.SQLITE_FULL)
    await faulty_store.write(Rows(removals=[1]))
    assert not (tmp_path / "data" / "ballast").exists()
    assert (await contents(faulty_store)).messages == []


async def test_a_removal_that_finds_no_room_even_so_is_refused(faulty_store: SqliteStore, faults: list[int]) -> None:
    faults += [sqlite3.SQLITE_FULL, sqlite3.SQLITE_FULL]
    with pytest.raises(StoreFullError):
        await faulty_store.write(Rows(removals=[1]))
    await faulty_store.write(Rows(removals=[1]))
    assert (await contents(faulty_store)).messages == []


async def test_messages_are_forgotten_on_a_full_disk(faulty_store: SqliteStore, faults: list[int]) -> None:
    await faulty_store.write(Rows(inserts=[message(2, persistent=0)]))
    faults.append(sqlite3.SQLITE_FULL)
    assert (await contents(faulty_store)).messages == [message(1), message(2, persistent=0)]
    assert (await contents(faulty_store)).messages == [message(1)]


async def test_the_ballast_is_taken_back_before_anything_grows(
    faulty_store: SqliteStore, faults: list[int], tmp_path: Path
) -> None:
    faults.append(sqlite3.SQLITE_FULL)
    await faulty_store.write(Rows(removals=[1]))
    assert not faulty_store.status()["ballast_held"]
    await faulty_store.write(Rows(inserts=[message(2)]))
    assert faulty_store.status()["ballast_held"]
    assert (tmp_path / "data" / "ballast").stat().st_size == 4096


@pytest.fixture
async def store_without_ballast(sqlite_store: SqliteStore, tmp_path: Path) -> SqliteStore:
    """A store with a small and a large message that was opened while there was no room for its ballast."""
    await sqlite_store.write(Rows(inserts=[message(1), message(2, b"x" * 100_000)]))
    await sqlite_store.close()
    ballast = tmp_path / "data" / "ballast"
    ballast.unlink()
    ballast.mkdir()  # As good as a full disk: no file can be made there.
    await sqlite_store.open()
    return sqlite_store


@pytest.mark.parametrize("grows", [Rows(inserts=[message(3)]), Rows(objects=[ORDERS])], ids=["a put", "a definition"])
async def test_without_ballast_nothing_grows_and_messages_can_be_got(
    store_without_ballast: SqliteStore, grows: Rows
) -> None:
    with pytest.raises(StoreFullError, match="no room on the disk of"):
        await store_without_ballast.write(grows)
    await store_without_ballast.write(Rows(removals=[2]))
    assert await contents(store_without_ballast) == Contents([message(1)], [], 0)


async def test_without_ballast_free_room_inside_the_database_is_used(
    store_without_ballast: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAL_BYTES_MAX", 64 * 1024)
    with pytest.raises(StoreFullError):
        await store_without_ballast.write(Rows(inserts=[message(3)]))
    await store_without_ballast.write(Rows(removals=[2]))
    await store_without_ballast.write(Rows(inserts=[message(3)]))
    assert (await contents(store_without_ballast)).messages == [message(1), message(3)]
