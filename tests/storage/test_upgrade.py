"""A store of version 2 or 3 at its first start, and under the tools (log rule 7.9, log case 53)."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log_store import LogStore
from broker.storage.snapshot import database, upgrade
from broker.storage.snapshot.checks import Checks
from broker.storage.store import Numbering, Rows, StoreFullError, StoreUnusableError
from broker.storage.tools.recover import recover
from broker.storage.tools.verify import verify
from tests.stores import log_store

from .old_stores import to_older
from .ruins import change, content, started
from .samples import ORDERS, Contents, contents, key, message, reopened, step

DATABASE = "evermq-1.db"
OLD = Contents([message(1), message(2, b"x" * 5000)._replace(backout_count=3), message(3, persistent=0)], [ORDERS], 99)


@pytest.fixture(params=[2, 3, 4], ids=["version 2", "version 3", "version 4"])
def old(request: pytest.FixtureRequest) -> int:
    """A version that is upgraded in its place."""
    return int(request.param)


@pytest.fixture
async def data(tmp_path: Path, old: int) -> Path:
    """The directory of a store of that version that was stopped in order."""
    store = log_store(tmp_path / "data")
    await store.open()
    await store.write(Rows(inserts=OLD.messages, objects=OLD.objects, high_water=OLD.high_water))
    await store.close()
    to_older(tmp_path / "data" / DATABASE, old, killed=False)
    return tmp_path / "data"


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path / DATABASE)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
    db.close()
    return int(version)


async def found(store: LogStore) -> Contents:
    """Return what a start finds."""
    await store.open()
    return await contents(store)


async def test_it_is_upgraded_at_its_first_start_and_says_so(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Log case 53: not a row is written anew, and what an orderly stop has kept is given."""
    store = log_store(data)
    assert await found(store) == OLD
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warnings == [f"store upgraded path={data / DATABASE}: an older release cannot use it any more"]
    await store.write(
        Rows(held=[Numbering(20, 1, [2])], placed=[Numbering(0, 50, [1])], handled=[(1, 2, b"failed")], keys=[key(1)])
    )
    await store.write(Rows(steps=[step(1)]))
    changed = [
        OLD.messages[0]._replace(place=50, backout_count=2, handling=b"failed"),
        OLD.messages[1]._replace(holder=20, sequence=1),
    ]
    left = await reopened(store)
    assert (left.messages, left.keys, left.steps) == (changed, (key(1),), (step(1),))
    await store.close()
    assert version_of(data) == 5
    assert sum("store upgraded" in each.getMessage() for each in caplog.records) == 1


async def test_an_older_release_refuses_it_by_name(data: Path, old: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log case 53."""
    store = log_store(data)
    await store.open()
    await store.close()
    monkeypatch.setattr(database, "version", lambda: old)  # all that an older release looks at before it writes
    before = content(data)
    with pytest.raises(
        StoreUnusableError, match=rf"evermq-1.db has version 5, and this program knows versions up to {old}"
    ):
        await log_store(data).open()
    after = content(data)
    assert [name for name in before if after[name] != before[name]] in ([], ["lock"])


async def test_what_it_finds_no_room_for_takes_that_of_the_ballast(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """log rule 9.5."""
    add_columns, ballast = upgrade.add_columns, []

    def full(db: sqlite3.Connection, snapshot: database.Snapshot) -> None:
        ballast.append((data / "ballast").exists())
        if ballast[-1]:
            raise StoreFullError("there is no room on the disk: injected")
        add_columns(db, snapshot)

    monkeypatch.setattr("broker.storage.start.add_columns", full)
    store = log_store(data)
    assert await found(store) == OLD
    assert ballast == [True, False]
    await store.close()


class FullAt:
    """A connection on which one statement finds no room, as SQLite says it without leaving the transaction."""

    def __init__(self, db: sqlite3.Connection, statement: str) -> None:
        self._db = db
        self._statement = statement

    def execute(self, sql: str) -> sqlite3.Cursor:
        if sql.startswith(self._statement):
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        return self._db.execute(sql)

    @property
    def in_transaction(self) -> bool:
        return self._db.in_transaction


@pytest.mark.parametrize(
    ("old", "statement"),
    [
        (2, "BEGIN"),
        (2, "ALTER TABLE message ADD COLUMN holder"),
        (3, "ALTER TABLE message ADD COLUMN handling"),
        (3, "-- One row a key"),
        (3, "CREATE INDEX"),
        (3, "-- One row a step"),
        (4, "-- One row a step"),
        (4, "PRAGMA user"),
        (4, "COMMIT"),
    ],
)
async def test_columns_that_find_no_room_leave_nothing_and_can_be_added_again(
    data: Path, old: int, statement: str
) -> None:
    """Log case 53."""
    snapshot = database.Snapshot(data / DATABASE, b"", Checks(0))
    snapshot.version = old
    with closing(sqlite3.connect(data / DATABASE, isolation_level=None)) as db:
        with pytest.raises(StoreFullError):
            upgrade.add_columns(cast("sqlite3.Connection", FullAt(db, statement)), snapshot)
        assert (db.in_transaction, version_of(data)) == (False, old)
        upgrade.add_columns(db, snapshot)
    db.close()
    assert await asyncio.to_thread(started, data) == OLD


@pytest.mark.parametrize("upgraded", [False, True])
async def test_the_tools_read_it_before_and_after(data: Path, old: int, upgraded: bool) -> None:
    """Verify finds it whole; recovered, it is one of this version."""
    if upgraded:
        store = log_store(data)
        await store.open()
        await store.close()
    whole = await asyncio.to_thread(verify, SystemDisk(data))
    assert (whole.findings, whole.messages) == ([], 3)
    assert version_of(data) == (5 if upgraded else old)
    change(data / "log.0", 30)
    done = await asyncio.to_thread(recover, SystemDisk(data), 1.8e9, b"", accept_loss=True)
    assert (done.messages, done.definitions, done.lost) == (3, 1, [])
    assert await asyncio.to_thread(started, data) == OLD
