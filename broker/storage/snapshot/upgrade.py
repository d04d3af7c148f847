"""Read the stores of older releases (log rule 7.9).

A store of version 1, whose one database was journal and snapshot at once: its rows are copied. A snapshot of version 2
to 4: it gets the columns and the tables that it lacks, in their place.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from broker.storage.snapshot.database import check_owner
from broker.storage.snapshot.errors import reading, writing
from broker.storage.snapshot.scripts import additions, version
from broker.storage.snapshot.statements import runs
from broker.storage.store import MessageRow, ObjectRow, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from broker.storage.disk.disk import Disk
    from broker.storage.snapshot.database import Snapshot

VERSION: Final = 1

_COLUMNS: Final = (
    ("holder", 3, "INTEGER NOT NULL DEFAULT 0"),
    ("sequence", 3, "INTEGER NOT NULL DEFAULT 0"),
    ("place", 3, "INTEGER NOT NULL DEFAULT 0"),
    ("handling", 4, "BLOB NOT NULL DEFAULT x''"),
)
"""Of messages: since which version they are there, and as what."""
_MESSAGES: Final = """
SELECT message.id, queue, rank, persistent, descriptor, length, coalesce(message.data, body.data), backout_count, got
FROM message LEFT JOIN body ON body.id = message.id ORDER BY message.id
"""
_OBJECTS: Final = "SELECT space, name, number, kind, attributes FROM object ORDER BY space, name"
_HIGH_WATER: Final = "SELECT coalesce(max(value), 0) FROM meta WHERE name = 'high_water'"


def is_old(disk: Disk, name: str) -> bool:
    """True if a database is a whole store of version 1; raises StoreUnusableError when it is none of ours."""
    path = disk.path / name
    found = disk.identity(name)
    if found is not None and not found.size:
        raise StoreUnusableError(
            f"{path} is empty (0 bytes); restore the directory from a backup, or remove the file if there was no store"
        )
    db = disk.connect(name)
    try:
        with reading(path):
            return check_owner(db, path) == VERSION
    finally:
        db.close()


def add_columns(db: sqlite3.Connection, snapshot: Snapshot) -> None:
    """Make a snapshot of version 2 to 4 one of this version, in one transaction that takes a few pages, whatever is in
    it: messages that have nothing in the new columns have the checks that they had, and the new tables are empty.
    Raises StoreFullError, after which everything is as it was, StoreBusyError, StoreFailedError.
    """
    try:
        with writing():
            db.execute("BEGIN IMMEDIATE")
            for column, since, kind in _COLUMNS:
                if since > snapshot.version:
                    db.execute(f"ALTER TABLE message ADD COLUMN {column} {kind}")
            for sql in additions(snapshot.version):
                db.execute(sql)
            db.execute(f"PRAGMA user_version = {version()}")
            db.execute("COMMIT")
    except StoreFullError:
        snapshot.roll_back(db)
        raise
    snapshot.version = version()


def copy_rows(disk: Disk, name: str, into: sqlite3.Connection, snapshot: Snapshot) -> None:
    """Copy all rows of the old store `name`, with checks, and compare what came of it. Raises StoreUnusableError when
    the old store is damaged, StoreFullError, StoreFailedError.
    """
    path = disk.path / name
    old = disk.connect(name)
    try:
        with reading(path):
            (found,) = old.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            objects = [ObjectRow._make(row) for row in old.execute(_OBJECTS)]
            (high_water,) = old.execute(_HIGH_WATER).fetchone()
        snapshot.begin(into)
        snapshot.define(into, [((each.space, each.name), each) for each in objects])
        snapshot.raise_high_water(high_water)
        for rows in _messages(old, path):
            snapshot.insert(into, rows)
        snapshot.commit(into, 0, 1)
        _compare(old, path, into, snapshot)
    finally:
        old.close()


def _messages(old: sqlite3.Connection, path: Path) -> Iterator[list[MessageRow]]:
    """All messages with their data, not too many at a time."""
    with reading(path):
        found = old.execute(_MESSAGES)
    yield from runs(_rows(found, path))


def _rows(found: sqlite3.Cursor, path: Path) -> Iterator[MessageRow]:
    while True:
        with reading(path):
            row = found.fetchone()
        if row is None:
            return
        yield MessageRow(*row)


def _compare(old: sqlite3.Connection, path: Path, into: sqlite3.Connection, snapshot: Snapshot) -> None:
    """See that every body is there as it was, and all else by its checks; raises StoreUnusableError."""
    for rows in _messages(old, path):
        found, _ = snapshot.read_data(into, [row.id for row in rows])
        if any(found.get(row.id) != row.data for row in rows):
            raise StoreUnusableError(f"{path} could not be copied: messages around number {rows[-1].id} differ")
    if snapshot.verify(into):
        raise StoreUnusableError(f"{path} could not be copied: data differs")
