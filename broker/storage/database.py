"""What is done to the SQLite database itself: plain functions that block, each run on the thread that owns it.

They translate SQLite's errors into those of the Store protocol, by `sqlite_errorcode` and never by message text, and
know nothing of asyncio, of the lock on the directory, or of what happens to a batch that was refused.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.storage.scripts import migrations, statements
from broker.storage.store import MessageRow, ObjectRow, StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from broker.storage.store import Rows

INLINE_BYTES_MAX = 1024
"""Data up to this size lies in the row of its message, larger data in a table of its own."""

WAL_BYTES_MAX = 16 * 1024 * 1024
"""A commit that leaves the write-ahead log longer than this carries it over to the database."""

_PAGE_BYTES = 8192  # Three messages of 2 KiB in a page; pages of 4 KiB hold one, and half of each is wasted.
_CACHE_KIB = 16 * 1024

_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}  # Other errors of a start are those of its disk.

_APPLICATION_ID = 0x45764D51
_SQL = statements("statements.sql")


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, or make it. Transactions are ours alone to begin (`isolation_level`)."""
    return sqlite3.connect(path, isolation_level=None, cached_statements=64)


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Set the database up and bring its schema to our version; raises StoreUnusableError."""
    with _reading(path):
        db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # Before anything is in the file; without effect later.
        _check_owner(db, path)
        _check_version(db, path)
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreUnusableError(f"{path} cannot keep a write-ahead log; put it on a local disk")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves the data in the drive's own cache.
        db.execute(f"PRAGMA wal_autocheckpoint = {WAL_BYTES_MAX // _PAGE_BYTES}")
        db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        db.execute("PRAGMA temp_store = MEMORY")  # A file of its own might not find room when a removal needs it.
        db.execute("PRAGMA secure_delete = FAST")  # Some systems' default writes zeros over all that is removed.
        _upgrade(db)


def apply(db: sqlite3.Connection, rows: Rows) -> None:
    """Write a batch in one transaction; raises StoreFullError (nothing is written) or StoreFailedError (unknown)."""
    with _transaction(db):
        _write_messages(db, rows)
        if rows.dropped:
            # Before the objects, so that a queue may be deleted and defined anew in one batch.
            db.executemany(_SQL["remove_messages_of_queue"], rows.dropped)
            db.executemany(_SQL["drop_object"], rows.dropped)
        if rows.objects:
            db.executemany(_SQL["store_object"], rows.objects)
        if rows.high_water:
            db.execute(_SQL["raise_high_water"], (rows.high_water,))


def load_objects(db: sqlite3.Connection, path: Path) -> tuple[list[ObjectRow], int]:
    """All definitions and the high-water mark; raises StoreUnusableError."""
    with _reading(path):
        objects = [ObjectRow._make(row) for row in db.execute(_SQL["load_objects"])]
        high_water = db.execute(_SQL["load_high_water"]).fetchone()
    return objects, high_water[0] if high_water else 0


def load_messages(db: sqlite3.Connection, path: Path, after: int, limit: int) -> list[MessageRow]:
    """The next `limit` messages with an id above `after`, without their data; raises StoreUnusableError."""
    with _reading(path):
        return [MessageRow._make(row) for row in db.execute(_SQL["load_messages"], (after, limit))]


def forget_nonpersistent(db: sqlite3.Connection, last: int) -> None:
    """Remove the messages with persistent=0 and an id up to `last`; raises as `apply` does."""
    with _transaction(db):
        db.execute(_SQL["forget_nonpersistent"], (last,))


def read_data(db: sqlite3.Connection, ids: Iterable[int]) -> dict[int, bytes]:
    """The data of these messages; raises StoreFailedError when one is missing or cannot be read."""
    found: dict[int, bytes] = {}
    try:
        for id in ids:
            row = db.execute(_SQL["read_data"], (id,)).fetchone()
            if row is None or row[0] is None:
                raise StoreFailedError(f"message {id} is not in the store")
            found[id] = row[0]
    except sqlite3.Error as error:
        raise StoreFailedError(f"the data of messages cannot be read: {error}") from error
    return found


def free_bytes(db: sqlite3.Connection) -> int:
    """How much of the database can be written to without a larger file."""
    (pages,) = db.execute("PRAGMA freelist_count").fetchone()
    return int(pages) * _PAGE_BYTES


def checkpoint(db: sqlite3.Connection) -> None:
    """Carry the write-ahead log over to the database, without waiting for other programs that read it."""
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


def _write_messages(db: sqlite3.Connection, rows: Rows) -> None:
    """What happens to messages, in the order in which it can happen to one."""
    if rows.inserts:
        large = [(row.id, row.data) for row in rows.inserts if row.length > INLINE_BYTES_MAX]
        if large:
            db.executemany(_SQL["insert_body"], large)
            db.executemany(_SQL["insert_message"], map(_without_large_data, rows.inserts))
        else:
            db.executemany(_SQL["insert_message"], rows.inserts)
    if rows.marks:
        db.executemany(_SQL["mark_got"], zip(rows.marks))
    if rows.backouts:
        db.executemany(_SQL["raise_backout_count"], rows.backouts)
    if rows.removals:
        db.executemany(_SQL["remove_message"], zip(rows.removals))


def _without_large_data(row: MessageRow) -> tuple[object, ...]:
    # As row._replace(data=None) does it, at a third of the cost.
    return (*row[:6], None, *row[7:]) if row.length > INLINE_BYTES_MAX else row


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All that is done inside, or nothing of it; leaves no transaction open, whatever happens."""
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("COMMIT")
    except Exception as error:
        _roll_back(db)
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise StoreFullError("there is no room to write a batch") from error
        raise StoreFailedError(f"a batch may or may not be written: {error}") from error


def _roll_back(db: sqlite3.Connection) -> None:
    """Leave the transaction, unless SQLite has left it already, as it does for some errors."""
    try:
        if db.in_transaction:
            db.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise StoreFailedError(f"a batch may or may not be written, and cannot be rolled back: {error}") from error


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Names the file, and what to do, when a start finds it unusable."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _DAMAGED:
            advice = "restore its directory from a copy, or move it away to start without messages"
            raise StoreUnusableError(f"{path} is damaged ({error}); {advice}") from error
        advice = "look at the rights, the room and the health of its disk"
        raise StoreUnusableError(f"{path} cannot be read or set up ({error}); {advice}") from error


def _check_owner(db: sqlite3.Connection, path: Path) -> None:
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application_id != _APPLICATION_ID:
        raise StoreUnusableError(
            f"{path} is the database of another program; give the queue manager a directory of its own"
        )


def _check_version(db: sqlite3.Connection, path: Path) -> None:
    found, known = _version(db), max(migrations())
    if found > known:
        raise StoreUnusableError(
            f"{path} has version {found}, and this program knows versions up to {known}; start a newer program"
        )


def _upgrade(db: sqlite3.Connection) -> None:
    """Run the scripts that the database has not seen, each in a transaction with its number."""
    version = _version(db)
    for number, script in migrations().items():
        if number > version:
            db.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)
