"""The snapshot: an SQLite database, and what is done to it.

Its methods block; each is run on the thread that owns the connection. They raise the errors of
the Store protocol (`broker.storage.snapshot.errors`), and know nothing of asyncio, of the log, or of what happens to a
carry-over that was refused.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.storage.snapshot.checks import TALLY_MAX, Tally
from broker.storage.snapshot.errors import DAMAGED, StoreBusyError, reading, writing
from broker.storage.snapshot.scripts import schema, version
from broker.storage.snapshot.statements import flat, in_chunks, inserts_of, runs, statement
from broker.storage.snapshot.steps import SnapshotSteps, others_than_written
from broker.storage.store import KeyRow, MessageRow, ObjectRow, StoreFailedError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from broker.storage.snapshot.checks import Checks
    from broker.storage.snapshot.delta import Counters

PAGE_BYTES: Final = 8192  # Three messages of 2 KiB in a page; pages of 4 KiB hold one, and half of each is wasted.
_CACHE_KIB: Final = 16 * 1024
_APPLICATION_ID: Final = 0x45764D51

KEYS_SINCE: Final = 4
"""The first version of the schema that has keys of puts."""

FIRST_KEY: Final = (-1, b"")
"""Before all keys."""

_COLUMNS_SINCE: Final = 4
"""The first version in which messages have the columns that they have."""

_UNREADABLE: Final = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ}

# As MessageRow._make, which counts the columns, at a third of the cost: a start may make a million.
_message_row: Callable[[tuple[object, ...]], MessageRow] = partial(tuple.__new__, MessageRow)


class DatabaseRoom(NamedTuple):
    """The size of a database, and how much of it can be written to without a larger file, in bytes."""

    total: int
    free: int


class Snapshot(SnapshotSteps):
    """The snapshot at `path`, of the store `instance`. `tally` is what it holds, as of the last transaction; `version`
    that of its schema, which is 2 to 4 until `broker.storage.snapshot.upgrade` has added what is new.
    """

    def __init__(self, path: Path, instance: bytes, checks: Checks) -> None:
        self.path = path
        self._instance = instance
        self._checks = checks
        self.version = version()
        self.tally = Tally()
        self._pending = Tally()
        self._has_steps = False

    def at(self, path: Path) -> Snapshot:
        """The same at another path, not opened yet."""
        return Snapshot(path, self._instance, self._checks)

    # Opening

    def create(self, db: sqlite3.Connection) -> None:
        """Make an empty database a snapshot; raises StoreFullError, StoreFailedError."""
        with writing():
            db.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # Before anything is in the file; without effect later.
            _prepare(db)
            db.executescript(f"BEGIN IMMEDIATE;\n{schema()}\nCOMMIT;")
        self.begin(db)
        self.commit(db, 0, 1)

    def open(self, db: sqlite3.Connection, *, alone: bool = False) -> None:
        """Set the connection up and read the state row; raises StoreUnusableError, StoreBusyError, and StoreFullError
        where SQLite has no room for the index of its write-ahead log. It needs none on a connection that is `alone`:
        the database is locked for all others then.
        """
        with reading(self.path):
            if alone:
                db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self.version = check_owner(db, self.path)
            _prepare(db)
            row = db.execute(statement("load_state")).fetchone()
            self._look_for_steps(db)
        state = (
            self._checks.unseal(row[0]) if row and isinstance(row[0], bytes) else None
        )  # a changed byte may be a NULL
        if state is None:
            raise self._damaged("its state row is not what was written")
        instance, self.tally = state
        if instance != self._instance:
            raise StoreUnusableError(
                f"{self.path} is the database of another store; put back the one that belongs here, or restore the "
                "directory from a backup"
            )

    # Reading

    def load_objects(self, db: sqlite3.Connection) -> list[ObjectRow]:
        """All definitions by space and name; raises StoreUnusableError, as when one is not what was written."""
        with reading(self.path):
            rows = db.execute(statement("load_objects")).fetchall()
            objects = [ObjectRow._make(row[:5]) for row in rows]
            total = 0
            for each, row in zip(objects, rows, strict=True):
                if self._checks.object(each) != row[5]:
                    raise self._damaged(f"the definition of {each.name} is not what was written")
                total += row[5]
            keys = key_sum = 0
            if self.version >= KEYS_SINCE:
                keys, key_sum = db.execute(statement("sum_keys")).fetchone()
            steps, step_sum = self._sum_steps(db)
        found = len(objects) + keys + steps, (total + key_sum + step_sum) % TALLY_MAX
        if found != (self.tally.objects, self.tally.object_sum):
            raise self._damaged(others_than_written(len(objects), keys, steps, self.tally.objects))
        return objects

    def load_keys(self, db: sqlite3.Connection, after: tuple[int, bytes], limit: int) -> list[KeyRow]:
        """The next `limit` keys of puts behind one; raises StoreUnusableError, as when one is not what was written."""
        if self.version < KEYS_SINCE:
            return []
        with reading(self.path):
            rows = db.execute(statement("load_keys"), (*after, limit)).fetchall()
            found = [KeyRow._make(row[:-1]) for row in rows]
            for each, row in zip(found, rows, strict=True):
                if self._checks.key(each) != row[-1]:
                    raise self._damaged(f"the key of the put of message {each.id} is not what was written")
        return found

    def load_messages(self, db: sqlite3.Connection, after: int, limit: int) -> tuple[list[MessageRow], int]:
        """The next `limit` messages with an id above `after`, without their data, and the sum of their checks; raises
        StoreUnusableError, as when one is not what was written.
        """
        with reading(self.path):
            found = db.execute(statement(load_statement(self.version)), (after, limit)).fetchall()
            head, counters = self._checks.head, self._checks.counters
            total = 0
            for (
                id, queue, rank, persistent, descriptor, length, _, backout, got, holder, sequence, place, handling,
                head_check, counters_check,
            ) in found:  # fmt: skip
                if head(id, queue, rank, persistent, length, descriptor) != head_check:
                    raise self._damaged(f"the descriptor of message {id} is not what was written")
                if counters(id, backout, got, holder, sequence, place, handling) != counters_check:
                    raise self._damaged(f"the backout count or the holder of message {id} is not what was written")
                total += head_check + counters_check
        return [_message_row(row[:-2]) for row in found], total

    def check_tally(self, messages: int, total: int) -> None:
        """Compare what all pages of a load came to with the tally; raises StoreUnusableError."""
        if (messages, total % TALLY_MAX) != (self.tally.messages, self.tally.message_sum):
            raise self._damaged(f"it has {messages} messages, and they are not the {self.tally.messages} written")

    def read_data(self, db: sqlite3.Connection, ids: Sequence[int]) -> tuple[dict[int, bytes], list[int]]:
        """The data of these messages, and the ids of those whose data is missing or not what was put; raises
        StoreFailedError.
        """
        found: dict[int, bytes] = {}
        for sql, chunk in in_chunks("read_data", ids):
            found |= self._read_some(db, sql, chunk)
        return found, [id for id in ids if id not in found]

    def _read_some(self, db: sqlite3.Connection, sql: str, ids: Sequence[int]) -> dict[int, bytes]:
        """Return the data of these messages. Where a page cannot be read, read them one by one: it may be the fault of
        one.
        """
        try:
            rows = db.execute(sql, ids)
            return {id: data for id, data, check in rows if self._is_whole(id, data, check)}
        except UnicodeDecodeError:  # data that has become text, as some bindings say it
            pass
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # none: it was read, and is no value
            if code not in _UNREADABLE and code & 0xFF not in DAMAGED:
                raise StoreFailedError(f"{self.path}: the data of messages cannot be read: {error}") from error
        if len(ids) == 1:
            return {}
        one = statement("read_data")
        return {id: data for each in ids for id, data in self._read_some(db, one, [each]).items()}

    def _is_whole(self, id: int, data: bytes | None, check: int | None) -> bool:
        return isinstance(data, bytes) and self._checks.data(id, data) == check

    def room(self, db: sqlite3.Connection) -> DatabaseRoom:
        """The room in the database."""
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        (free,) = db.execute("PRAGMA freelist_count").fetchone()
        return DatabaseRoom(pages * PAGE_BYTES, free * PAGE_BYTES)

    def verify(self, db: sqlite3.Connection) -> list[int]:
        """Look at every page, every check and the tally: the ids of the messages whose data is missing or not what was
        put. It takes long; raises StoreUnusableError for all else, StoreFailedError.
        """
        with reading(self.path):
            (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise self._damaged(found.splitlines()[-1])  # Before it stands in which database it is.
        self.load_objects(db)
        after = FIRST_KEY
        while keys := self.load_keys(db, after, 1000):
            after = keys[-1][:2]
        self._look_at_steps(db)
        damaged: list[int] = []
        last, count, total = -1, 0, 0
        while True:
            rows, checks = self.load_messages(db, last, 1000)
            if not rows:
                break
            last, count, total = rows[-1].id, count + len(rows), total + checks
            for run in runs(rows):
                damaged += self.read_data(db, [row.id for row in run])[1]
        self.check_tally(count, total)
        return damaged

    # Writing: between `begin` and `commit`, on one connection. Each raises StoreFullError, after which `roll_back`
    # leaves everything as it was, or StoreFailedError.

    def begin(self, db: sqlite3.Connection) -> None:
        """Begin a transaction; raises StoreBusyError when another program writes."""
        with writing():
            db.execute("BEGIN IMMEDIATE")
        self._pending = self.tally

    def insert(self, db: sqlite3.Connection, rows: Sequence[MessageRow]) -> None:
        """Add messages."""
        written, total = inserts_of(rows, self._checks)
        with writing():
            for sql, parameters in written:
                db.execute(sql, parameters)
        self._count_messages(len(rows), total)

    def remove(self, db: sqlite3.Connection, ids: Sequence[int]) -> None:
        """Remove messages that are there, with their steps."""
        with writing():
            for sql, chunk in in_chunks("sum_messages", ids):
                count, total = db.execute(sql, chunk).fetchone()
                if count != len(chunk):
                    raise StoreFailedError(f"{self.path} is damaged: {len(chunk) - count} messages are not in it")
                self._count_messages(-count, -total)
            for sql, chunk in in_chunks("remove_message", ids):
                db.execute(sql, chunk)
            self._drop_steps(db, ids)

    def change(self, db: sqlite3.Connection, ids: Sequence[int], left: Callable[[int, Counters], Counters]) -> None:
        """Change what may change of messages that are there: `left` says what is left of it."""
        with writing():
            for sql, chunk in in_chunks("read_counters", ids):
                found = db.execute(sql, chunk).fetchall()
                if len(found) != len(chunk):
                    raise StoreFailedError(f"{self.path} is damaged: {len(chunk) - len(found)} messages are not in it")
                changed: list[tuple[object, ...]] = []
                for id, *before, check in found:
                    if self._checks.counters(id, *before) != check:
                        raise StoreFailedError(f"{self.path} is damaged: the counters of message {id}")
                    counters = left(id, tuple(before))
                    new = self._checks.counters(id, *counters)
                    changed.append((id, *counters, new))
                    self._count_messages(0, new - check)
                for written, parameters in flat("write_counters", changed):
                    db.execute(written, parameters)

    def define(self, db: sqlite3.Connection, objects: Collection[tuple[tuple[str, str], ObjectRow | None]]) -> None:
        """Store definitions, or drop them (None), by space and name."""
        with writing():
            for key, _ in objects:  # All old ones first: a number may have moved to another name.
                for (check,) in db.execute(statement("read_object_check"), key).fetchall():
                    db.execute(statement("drop_object"), key)
                    self._count_objects(-1, -check)
            for _, row in objects:
                if row is not None:
                    check = self._checks.object(row)
                    db.execute(statement("store_object"), (*row, check))
                    self._count_objects(1, check)

    def drop_keys(self, db: sqlite3.Connection, keys: Sequence[tuple[int, bytes]]) -> None:
        """Drop keys of puts, those that are there."""
        with writing():
            for (sql, parameters), (drop, _) in zip(flat("sum_some_keys", keys), flat("drop_keys", keys), strict=True):
                count, total = db.execute(sql, parameters).fetchone()
                if count:
                    db.execute(drop, parameters)
                    self._count_objects(-count, -total)

    def store_keys(self, db: sqlite3.Connection, rows: Iterable[KeyRow]) -> None:
        """Add keys of puts, of which none is there."""
        checked = [(*row, self._checks.key(row)) for row in rows]
        with writing():
            for sql, parameters in flat("store_keys", checked):
                db.execute(sql, parameters)
        self._count_objects(len(checked), sum(row[-1] for row in checked))

    def drop_old_keys(self, db: sqlite3.Connection, now: float, limit: int) -> int:
        """Drop keys whose time is over at `now`, the oldest first: how many, at most `limit`."""
        with writing():
            keys = db.execute(statement("old_keys"), (now, limit)).fetchall()
        self.drop_keys(db, keys)
        return len(keys)

    def raise_high_water(self, mark: int) -> None:
        """Keep the high-water mark of the manager's counter, with the next `commit`."""
        self._pending = self._pending._replace(high_water=max(self._pending.high_water, mark))

    def become(self, db: sqlite3.Connection, instance: bytes) -> None:
        """Make it the snapshot of another store with the same key, as a transaction of its own."""
        self._instance = instance
        self.begin(db)
        self.commit(db, self.tally.number, self.tally.generation)

    def commit(self, db: sqlite3.Connection, number: int, generation: int) -> None:
        """Make all since `begin` durable: the snapshot then holds all up to the record `number`."""
        self._pending = self._pending._replace(number=number, generation=generation)
        with writing():
            db.execute(statement("store_state"), (self._checks.seal(self._instance, self._pending),))
            db.execute("COMMIT")
        self.tally = self._pending

    def roll_back(self, db: sqlite3.Connection) -> None:
        """Leave the transaction, unless SQLite has left it already, as it does for some errors."""
        with writing():
            if db.in_transaction:
                db.execute("ROLLBACK")

    def checkpoint(self, db: sqlite3.Connection) -> None:
        """Carry the write-ahead log over to the database, all of it; raises StoreBusyError when another program still
        reads what is there, StoreFullError, StoreFailedError.
        """
        with writing():
            busy, frames, carried = db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        if busy:
            raise StoreBusyError(f"another program reads {self.path}")
        if frames != carried:
            raise StoreFailedError(f"{self.path}: a checkpoint carried over {carried} of {frames} pages")

    def _count_messages(self, count: int, total: int) -> None:
        pending = self._pending
        self._pending = pending._replace(
            messages=pending.messages + count, message_sum=(pending.message_sum + total) % TALLY_MAX
        )

    def _count_objects(self, count: int, total: int) -> None:
        pending = self._pending
        self._pending = pending._replace(
            objects=pending.objects + count, object_sum=(pending.object_sum + total) % TALLY_MAX
        )

    def _damaged(self, what: str) -> StoreUnusableError:
        return StoreUnusableError(
            f"{self.path} is damaged ({what}); restore the directory from a backup, or see "
            f"`evermq recover {self.path.parent} --accept-loss`"
        )


def _prepare(db: sqlite3.Connection) -> None:
    """Set a connection up that writes."""
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreUnusableError("the database cannot keep a write-ahead log; put it on a local disk")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone leaves the data in the drive's own cache.
    db.execute("PRAGMA checkpoint_fullfsync = ON")
    db.execute("PRAGMA wal_autocheckpoint = 0")  # Its errors would be swallowed.
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    db.execute("PRAGMA temp_store = MEMORY")  # A file of its own might not find room when a removal needs it.
    db.execute("PRAGMA secure_delete = FAST")  # Some systems' default writes zeros over all that is removed.


def load_statement(found: int) -> str:
    """The name of the statement that loads messages from a snapshot of this version."""
    return "load_messages" if found >= _COLUMNS_SINCE else f"load_messages_of_version_{found}"


def check_owner(db: sqlite3.Connection, path: Path) -> int:
    """The version of a database of ours; raises StoreUnusableError for one of another program, an empty one, and one
    of a newer version than this program knows.
    """
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if application_id != _APPLICATION_ID:
        raise StoreUnusableError(
            f"{path} is empty, or the database of another program; give the queue manager a directory of its own, or "
            "restore this one from a backup"
        )
    if found > version():
        raise StoreUnusableError(
            f"{path} has version {found}, and this program knows versions up to {version()}; start a newer program"
        )
    return int(found)
