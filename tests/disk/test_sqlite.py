"""SQLite on the simulated disk: what it says of errors, what it keeps, and that a dead process writes nothing."""

from __future__ import annotations

import gc
import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.disk import damage
from tests.disk.faults import Countdown, Crash
from tests.disk.machine import Machine

if TYPE_CHECKING:
    from tests.disk.simulated import SimulatedDisk

SEEDS = range(60)
DATABASE, WAL = "evermq-1.db", "evermq-1.db-wal"


def opened(disk: SimulatedDisk) -> sqlite3.Connection:
    """A connection as the store sets it up."""
    db = disk.connect(DATABASE)
    assert db.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    return db


def machine_with(seed: int, rows: int = 3) -> Machine:
    """A computer with a database of so many rows, all of them in the database file."""
    machine = Machine(seed)
    disk = machine.start()
    disk.claim()
    db = opened(disk)
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB)")
    for id in range(rows):
        db.execute("INSERT INTO t VALUES (?, ?)", (id, bytes([id]) * 3000))
    db.close()
    disk.sync_names()
    machine.kill()
    return machine


def insert(id: int) -> str:
    """The statement for that row."""
    return f"INSERT INTO t VALUES ({id}, x'{bytes([id]).hex() * 3000}');"


def rows_of(machine: Machine) -> list[int]:
    """The rows that a new process finds, each checked."""
    db = opened(machine.start())
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    rows = db.execute("SELECT id, data FROM t ORDER BY id").fetchall()
    assert all(data == bytes([id]) * 3000 for id, data in rows)
    machine.kill()
    return [id for id, _ in rows]


def test_a_connection_is_used_as_that_of_sqlite3() -> None:
    machine = machine_with(1)
    db = opened(machine.start())
    before = db.in_transaction
    db.execute("BEGIN IMMEDIATE")
    assert (before, db.in_transaction) == (False, True)
    assert db.execute("UPDATE t SET data = ? WHERE id < ?", (b"x", 2)).rowcount == 2
    assert db.execute("SELECT changes()").fetchone() == (2,)
    db.execute("COMMIT")
    assert [row[0] for row in db.execute("SELECT id FROM t")] == [0, 1, 2]
    cursor = db.execute("SELECT id FROM t ORDER BY id")
    assert cursor.fetchone() == (0,)
    assert cursor.fetchall() == [(1,), (2,)]
    assert cursor.fetchone() is None
    db.executescript("BEGIN; CREATE TABLE u (a); INSERT INTO u VALUES (7); COMMIT")
    db.executemany("INSERT INTO u VALUES (?)", [(8,), (9,)])
    assert db.execute("SELECT a FROM u").fetchall() == [(7,), (8,), (9,)]
    with pytest.raises(sqlite3.OperationalError) as raised:
        db.execute("SELECT nothing FROM t")
    assert raised.value.sqlite_errorcode == sqlite3.SQLITE_ERROR
    with pytest.raises(sqlite3.IntegrityError) as broken:
        db.execute("INSERT INTO t VALUES (0, NULL)")
    assert broken.value.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
    assert broken.value.sqlite_errorname == "SQLITE_CONSTRAINT_PRIMARYKEY"
    db.close()
    db.close()


def test_a_copy_of_a_database_is_made_in_parts() -> None:
    machine = machine_with(1, rows=10)
    disk = machine.start()
    db, copy, parts = opened(disk), disk.connect("copy.db"), []
    db.backup(copy, pages=3, progress=lambda *part: parts.append(part))
    assert len(parts) > 2
    assert copy.execute("SELECT count(*) FROM t").fetchone() == (10,)
    db.execute(f"VACUUM INTO '{disk.path / 'evermq-2.db'}'")
    assert "evermq-2.db" in disk.names()


def test_a_second_connection_finds_the_database_busy() -> None:
    machine = machine_with(1)
    first = opened(machine.start())
    first.execute("SELECT count(*) FROM t")
    second = machine.start().connect(DATABASE)
    with pytest.raises(sqlite3.OperationalError) as raised:
        second.execute("SELECT count(*) FROM t")
    assert raised.value.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    first.close()
    assert second.execute("SELECT count(*) FROM t").fetchone() == (3,)


def test_a_committed_transaction_survives_a_cut_and_no_other_is_there_in_part() -> None:
    found = set()
    for seed in SEEDS:
        machine = machine_with(seed)
        db = opened(machine.start())
        db.execute("INSERT INTO t VALUES (3, ?)", (bytes([3]) * 3000,))
        machine.faults.crash_in = machine.random.randrange(1, 60)
        try:
            db.executescript(
                "BEGIN;"
                + "".join(f"INSERT INTO t VALUES ({id}, x'{bytes([id]).hex() * 3000}');" for id in range(4, 9))
                + "COMMIT"
            )
            done = True
        except Crash:
            done = False
        machine.faults.clear()
        machine.cut()
        rows = rows_of(machine)
        assert rows == list(range(9)) if done else rows in (list(range(4)), list(range(9)))
        found.add((done, len(rows)))
    assert {(True, 9), (False, 4)} <= found


def test_a_checkpoint_that_is_cut_is_made_again_from_the_log() -> None:
    torn = 0
    for seed in SEEDS:
        machine = machine_with(seed)
        disk = machine.start()
        db = opened(disk)
        for id in range(3, 9):
            db.execute("INSERT INTO t VALUES (?, ?)", (id, bytes([id]) * 3000))
        before = damage.copy_of(machine)[DATABASE]
        machine.faults.crash_in = machine.random.randrange(10, 40)
        try:
            assert db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0
        except Crash:
            machine.cut()
            torn += damage.copy_of(machine)[DATABASE] != before
        machine.faults.clear()
        machine.cut()
        assert rows_of(machine) == list(range(9))
    assert torn > 3


def test_without_a_sync_of_the_log_a_cut_loses_what_was_committed() -> None:
    lost = 0
    for seed in SEEDS:
        machine = machine_with(seed)
        db = opened(machine.start())
        db.execute("PRAGMA synchronous = OFF")
        db.execute("INSERT INTO t VALUES (3, ?)", (bytes([3]) * 3000,))
        machine.cut()
        lost += rows_of(machine) == [0, 1, 2]
    assert lost > 5


def test_a_restart_after_a_failed_sync_that_trusts_the_cache_loses_what_is_committed_behind_the_hole() -> None:
    """Journal rule 7: what SQLite by itself would do, and what the log is there for."""
    lost = 0
    for seed in SEEDS:
        machine = machine_with(seed)
        db = opened(machine.start())
        db.execute(insert(3))
        machine.faults.syncs = Countdown(1, name=WAL)
        with pytest.raises(sqlite3.OperationalError) as raised:
            db.execute(insert(4))
        assert raised.value.sqlite_errorcode == sqlite3.SQLITE_IOERR_FSYNC
        machine.kill()
        try:
            db = opened(machine.start())
            db.execute(insert(5))
        except sqlite3.DatabaseError:  # a part of what the cache showed has left it meanwhile
            continue
        machine.cut()
        lost += 5 not in rows_of(machine)
    assert lost > 10


@pytest.mark.parametrize(
    ("fault", "code"),
    [("sync", sqlite3.SQLITE_IOERR_FSYNC), ("read", sqlite3.SQLITE_IOERR_READ), ("full", sqlite3.SQLITE_FULL)],
)
def test_errors_of_the_disk_have_the_codes_that_sqlite_gives_them(fault: str, code: int) -> None:
    machine = machine_with(1, rows=40)
    db = opened(machine.start())
    db.execute("PRAGMA cache_size = 1")
    if fault == "sync":
        machine.faults.syncs = Countdown(1, name=WAL)
    elif fault == "read":
        machine.faults.reads = Countdown(1, times=None, name=DATABASE)
    else:
        machine.free = 0
    with pytest.raises(sqlite3.OperationalError) as raised:
        db.execute("INSERT INTO t SELECT id + 100, data FROM t")
    assert raised.value.sqlite_errorcode == code
    assert not db.in_transaction


def test_a_log_that_has_grown_needs_no_room() -> None:
    machine = machine_with(1)
    db = opened(machine.start())
    for id in range(3, 9):
        db.execute("INSERT INTO t VALUES (?, ?)", (id, bytes([id]) * 3000))
    assert db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0
    machine.free = 0
    db.execute("DELETE FROM t WHERE id > 4")
    assert db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0
    machine.cut()
    machine.give_room()
    assert rows_of(machine) == [0, 1, 2, 3, 4]


def test_closing_carries_the_log_over_and_a_failure_of_it_is_silent() -> None:
    machine = machine_with(1)
    db = opened(machine.start())
    db.execute("INSERT INTO t VALUES (3, ?)", (bytes([3]) * 3000,))
    assert WAL in machine.start().names()
    machine.faults.syncs = Countdown(1, name=DATABASE)
    db.close()
    assert machine.faults.struck == 1


@pytest.mark.parametrize("way", ["crash", "kill", "cut"])
def test_a_connection_of_a_process_that_has_ended_writes_nothing_more_also_not_at_its_end(way: str) -> None:
    for seed in range(20):
        machine = machine_with(seed)
        db = opened(machine.start())
        db.execute("INSERT INTO t VALUES (3, ?)", (bytes([3]) * 3000,))
        if way == "crash":
            machine.faults.crash_in = machine.random.randrange(1, 8)
            with pytest.raises(Crash):
                db.execute("INSERT INTO t VALUES (4, ?)", (bytes([4]) * 3000,))
        elif way == "kill":
            machine.kill()
        else:
            machine.cut()
        before, steps = damage.copy_of(machine), machine.steps
        with pytest.raises(Crash):
            db.execute("SELECT 1")
        db_names = set(machine.names or {})
        try:
            db.close()
        except Crash:
            pass
        machine.kill()
        del db
        gc.collect()
        assert machine.steps == steps
        assert set(machine.names or {}) == db_names
        assert {**damage.copy_of(machine), WAL: b""} == {**before, WAL: b""}
        assert rows_of(machine) in ([0, 1, 2, 3], [0, 1, 2, 3, 4])


def test_a_new_log_has_a_durable_name_when_its_first_commit_has() -> None:
    for seed in SEEDS:
        machine = machine_with(seed)
        db = opened(machine.start())
        db.execute("INSERT INTO t VALUES (3, ?)", (bytes([3]) * 3000,))
        machine.cut()
        assert rows_of(machine) == [0, 1, 2, 3]


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert damage.copy_of(machine_with(3)) == damage.copy_of(machine_with(3))
