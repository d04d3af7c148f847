"""Measure the disk and SQLite by themselves: the rows of a message in plain sqlite3, and a sync of a file.

The database has the settings of the store (`broker/storage/database.py`) and a row as long as its rows are; it has no
index, no trigger and no second table.
"""

from __future__ import annotations

import os
import sqlite3
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

import aiosqlite

from broker.benchmarks.child import child
from broker.benchmarks.workload import Limit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from broker.benchmarks.child import Ready, Told

BATCH: Final = 256
_DESCRIPTOR: Final = os.urandom(160)
_PRAGMAS: Final = "page_size = 8192", "journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 2048"
_LOG_BYTES: Final = 2048 * 8192
_TABLE: Final = """\
CREATE TABLE message (id INTEGER PRIMARY KEY, queue INTEGER, rank INTEGER, persistent INTEGER, descriptor BLOB,
                      length INTEGER, data BLOB, backout_count INTEGER, got INTEGER)"""
_INSERT: Final = "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_REMOVE: Final = "DELETE FROM message WHERE id = ?"
_READ: Final = "SELECT id, queue, rank, persistent, descriptor, length, backout_count, got FROM message ORDER BY id"


def _database(folder: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{folder}/limit.db", isolation_level=None)
    for pragma in _PRAGMAS:
        db.execute(f"PRAGMA {pragma}")
    db.execute(_TABLE)
    _fill_log(db)
    return db


def _fill_log(db: sqlite3.Connection) -> None:
    """Let the write-ahead log have its full length, as that of a queue manager has: to overwrite a part of a file and
    sync it costs less than to let it grow.
    """
    db.execute("PRAGMA synchronous = OFF")
    db.execute("CREATE TABLE filling AS SELECT zeroblob(?)", (_LOG_BYTES,))
    db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    db.execute("PRAGMA synchronous = FULL")


def _insert(db: sqlite3.Connection, data: bytes, numbers: range) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.executemany(_INSERT, [(number, 1, 0, 1, _DESCRIPTOR, len(data), data, 0, 0) for number in numbers])
    db.execute("COMMIT")


def _insert_all(db: sqlite3.Connection, size: int, count: int) -> None:
    data = os.urandom(size)
    for numbers in _batches(count):
        _insert(db, data, numbers)


def _remove_all(db: sqlite3.Connection, count: int) -> None:
    for numbers in _batches(count):
        db.execute("BEGIN IMMEDIATE")
        db.executemany(_REMOVE, [(number,) for number in numbers])
        db.execute("COMMIT")


def _batches(count: int) -> Iterator[range]:
    return (range(first, min(first + BATCH, count)) for first in range(0, count, BATCH))


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _one_of(count: int, work: Callable[[], object]) -> Told:
    """The time of a thing, where `work` does `count` of them at once."""
    return {"seconds": _seconds(work) / count}


def _median(count: int, work: Callable[[int], object]) -> Told:
    """The median of doing `count` things, one at a time."""
    return {"seconds": median(_seconds(partial(work, number)) for number in range(count))}


async def insert(ready: Ready, folder: str, size: int, count: int) -> Told:
    db = _database(folder)
    await ready()
    return _one_of(count, lambda: _insert_all(db, size, count))


async def remove(ready: Ready, folder: str, size: int, count: int) -> Told:
    db = _database(folder)
    _insert_all(db, size, count)
    await ready()
    return _one_of(count, lambda: _remove_all(db, count))


async def read(ready: Ready, folder: str, size: int, count: int) -> Told:
    db = _database(folder)
    _insert_all(db, size, count)
    await ready()
    return _one_of(count, lambda: db.execute(_READ).fetchall())


async def commit(ready: Ready, folder: str, size: int, count: int) -> Told:
    db = _database(folder)
    data = os.urandom(size)
    await ready()
    return _median(count, lambda number: _insert(db, data, range(number, number + 1)))


async def hop(ready: Ready, folder: str, size: int, count: int) -> Told:
    async with aiosqlite.connect(":memory:") as db:
        await ready()
        begun = time.perf_counter()
        for _ in range(count):
            await db.execute("SELECT 1")
        return {"seconds": (time.perf_counter() - begun) / count}


async def sync(ready: Ready, folder: str, size: int, count: int) -> Told:
    data = os.urandom(size)
    with open(f"{folder}/limit.log", "wb", buffering=0) as file:  # noqa: ASYNC230  # nothing else runs here
        file.write(bytes(size * count))
        os.fsync(file.fileno())
        file.seek(0)

        def overwrite(number: int) -> None:
            file.write(data)
            getattr(os, "fdatasync", os.fsync)(file.fileno())  # macOS has no fdatasync

        await ready()
        return _median(count, overwrite)


def _limit(name: str, title: str, count: int, function: Callable[..., Awaitable[Told]], *sizes: int) -> Limit:
    async def run(folder: Path, size: int, count: int) -> float:
        async with child(function, folder=str(folder), size=size, count=count) as alone:
            return float((await alone.measured())["seconds"])

    return Limit(name=name, title=title, sizes=sizes or (0,), count=count, run=run)


INSERT: Final = _limit("insert", f"SQLite, a row inserted, {BATCH} a transaction", 30_000, insert, 256, 2048)
REMOVE: Final = _limit("remove", f"SQLite, a row removed, {BATCH} a transaction", 30_000, remove, 256, 2048)
COMMIT: Final = _limit("commit", "SQLite, a row inserted in a transaction of its own, p50", 500, commit, 256, 2048)
READ: Final = _limit("read", "SQLite, a row read without its data", 100_000, read, 2048)
HOP: Final = _limit("hop", "aiosqlite, a hop to its thread and back", 5_000, hop)
SYNC: Final = _limit("sync", "a file overwritten and synced with fdatasync, p50", 200, sync, 256, 2048)
