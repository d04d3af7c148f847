"""What is done to the SQLite database itself: plain functions that block, each run on the thread that owns it.

They translate SQLite's errors into those of the Store protocol, by `sqlite_errorcode` and never by message text, and
know nothing of asyncio, of the lock on the directory, or of what happens to a batch that was refused.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.storage.batch import STATEMENTS_MAX, readings_of, statements_for
from broker.storage.scripts import migrations, statements
from broker.storage.store import MessageRow, ObjectRow, StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from broker.storage.batch import Statement
    from broker.storage.store import Rows

WAL_BYTES_MAX = 16 * 1024 * 1024
"""A commit that leaves the write-ahead log longer than this carries it over to the database itself."""

PAGE_BYTES = 8192  # Three messages of 2 KiB in a page; pages of 4 KiB hold one, and half of each is wasted.
_CACHE_KIB = 16 * 1024

_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}  # Other errors of a start are those of its disk.

_APPLICATION_ID = 0x45764D51
_SQL = statements("statements.sql")

# As MessageRow._make, which counts the columns, at a third of the cost: a start may make a million.
_message_row: Callable[[tuple[object, ...]], MessageRow] = partial(tuple.__new__, MessageRow)


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, or make it. Transactions are ours alone to begin (`isolation_level`)."""
    return sqlite3.connect(path, isolation_level=None, cached_statements=STATEMENTS_MAX)


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Set the database up and bring its schema to our version; raises StoreUnusableError."""
    with _reading(path):
        db.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # Before anything is in the file; without effect later.
        _check_owner(db, path)
        _check_version(db, path)
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreUnusableError(f"{path} cannot keep a write-ahead log; put it on a local disk")
        sync_fully(db)
        db.execute(f"PRAGMA wal_autocheckpoint = {WAL_BYTES_MAX // PAGE_BYTES}")
        db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")  # A log that had to grow is cut when it begins anew.
        db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        db.execute("PRAGMA temp_store = MEMORY")  # A file of its own might not find room when a removal needs it.
        db.execute("PRAGMA secure_delete = FAST")  # Some systems' default writes zeros over all that is removed.
        _upgrade(db)


def sync_fully(db: sqlite3.Connection) -> None:
    """Let commits and checkpoints of this connection return when the disk has what they wrote."""
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves the data in the drive's own cache.


def apply(db: sqlite3.Connection, rows: Rows) -> None:
    """Write a batch in one transaction; raises StoreFullError (nothing is written) or StoreFailedError (unknown)."""
    _execute(db, list(statements_for(rows)))


def load_objects(db: sqlite3.Connection, path: Path) -> tuple[list[ObjectRow], int]:
    """All definitions and the high-water mark; raises StoreUnusableError."""
    with _reading(path):
        objects = [ObjectRow._make(row) for row in db.execute(_SQL["load_objects"])]
        high_water = db.execute(_SQL["load_high_water"]).fetchone()
    return objects, high_water[0] if high_water else 0


def load_messages(db: sqlite3.Connection, path: Path, after: int, limit: int) -> list[MessageRow]:
    """The next `limit` messages with an id above `after`, without their data; raises StoreUnusableError."""
    with _reading(path):
        return list(map(_message_row, db.execute(_SQL["load_messages"], (after, limit))))


def forget_nonpersistent(db: sqlite3.Connection, last: int) -> None:
    """Remove the messages with persistent=0 and an id up to `last`; raises as `apply` does."""
    _execute(db, [(_SQL["forget_nonpersistent"], (last,))])


def read_data(db: sqlite3.Connection, ids: Iterable[int]) -> dict[int, bytes]:
    """The data of these messages; raises StoreFailedError when one is missing or cannot be read."""
    wanted = list(ids)
    found: dict[int, bytes | None] = {}
    try:
        for statement, parameters in readings_of(wanted):
            found.update(db.execute(statement, parameters))
    except sqlite3.Error as error:
        raise StoreFailedError(f"the data of messages cannot be read: {error}") from error
    return {id: _present(id, found.get(id)) for id in wanted}


def _present(id: int, data: bytes | None) -> bytes:
    if data is None:
        raise StoreFailedError(f"message {id} is not in the store")
    return data


class Room(NamedTuple):
    """How large the database is, and how much of it can be written to without a larger file, in bytes."""

    total: int
    free: int


def room(db: sqlite3.Connection) -> Room:
    """The room in the database."""
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    return Room(pages * PAGE_BYTES, free * PAGE_BYTES)


def checkpoint(db: sqlite3.Connection) -> None:
    """Carry the write-ahead log over to the database, as far as no other program still reads what is there."""
    db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


def occupy_log(db: sqlite3.Connection, log: Path) -> None:
    """Give the log the length it may have, in zeros, so that commits write over what is there.

    To sync what was written over takes some two thirds of the time that it takes to sync a longer file. SQLite takes
    the zeros for the end of the log, as it takes what an earlier round left there. Raises OSError, sqlite3.Error.
    """
    db.execute("BEGIN IMMEDIATE")  # Nobody else may write to the log meanwhile, not even an administrator's shell.
    try:
        with log.open("ab") as file:
            file.write(bytes(max(0, WAL_BYTES_MAX - file.tell())))
            file.flush()
            os.fsync(file.fileno())
    finally:
        db.execute("ROLLBACK")


def shrink(db: sqlite3.Connection) -> None:
    """Write the database anew without its free room; raises sqlite3.Error."""
    db.execute("VACUUM")


def find_damage(db: sqlite3.Connection) -> str | None:
    """Look at every page of the database: what is wrong, or None. It takes long; raises sqlite3.Error."""
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    return None if found == "ok" else found.splitlines()[-1]  # Before it stands in which database it is.


def _execute(db: sqlite3.Connection, statements: Sequence[Statement]) -> None:
    """Do all of it, or nothing; leaves no transaction open, whatever happens."""
    try:
        if len(statements) > 1:  # A single one is a transaction by itself.
            db.execute("BEGIN IMMEDIATE")
        for statement in statements:
            db.execute(*statement)
        if len(statements) > 1:
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
