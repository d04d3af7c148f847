"""A database of a stopped store, read without changing a byte, as far as it can be read.

SQLite writes to a database with a write-ahead log even to read it. So one whose log is not empty is read in a copy, in
the folder for temporary files; any other is opened as one that nobody changes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import struct
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from broker.storage.disk.directory import open_private
from broker.storage.disk.disk import NO_ROOM
from broker.storage.snapshot.database import FIRST_KEY, KEYS_SINCE, PAGE_BYTES, load_statement
from broker.storage.snapshot.scripts import version
from broker.storage.snapshot.statements import statement
from broker.storage.snapshot.steps import FIRST_STEP, STEPS_SINCE
from broker.storage.store import KeyRow, MessageRow, ObjectRow, StepRow, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker.storage.disk.disk import Disk
    from broker.storage.snapshot.checks import Checks, Tally

_PAGE_ROWS: Final = 256
_RUN_BYTES: Final = 8 * 1024 * 1024
_ID_MAX: Final = 2**63 - 1
_DAMAGED: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_ERROR}
_NOT_OURS: Final = (struct.error, TypeError, ValueError, AttributeError)  # what a value of another kind leads to
_ADDED: Final = """
SELECT (SELECT count(*) FROM pragma_table_info('message') WHERE name IN ('holder', 'handling'))
    + (SELECT count(*) FROM sqlite_master WHERE name = 'step')
"""
_OBJECTS: Final = "SELECT space, name, number, kind, attributes, object_check FROM object WHERE number > ?"
_OBJECTS_ORDERED: Final = f"{_OBJECTS} ORDER BY number LIMIT ?"


@contextmanager
def stopped(path: Path, *, alone: bool = False) -> Iterator[None]:
    """No queue manager runs in the directory `path`, and none starts meanwhile; with `alone`, nobody else looks at it
    either. Raises StoreUnusableError when one has it, or when there is no directory.
    """
    if not path.is_dir():
        raise StoreUnusableError(f"there is no directory {path}")
    try:
        lock = open_private(path / "lock", os.O_RDWR | os.O_CREAT) if alone else os.open(path / "lock", os.O_RDONLY)
    except FileNotFoundError:  # A copy may have none.
        yield
        return
    try:
        try:
            fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(lock, 20).decode("ascii", "replace").strip() or "unknown"
            raise StoreUnusableError(
                f"the queue manager in {path} runs (process {holder}); stop it, or make a backup and look at that"
            ) from error
        yield
    finally:
        os.close(lock)


@contextmanager
def connected(disk: Disk, name: str) -> Iterator[sqlite3.Connection]:
    """A connection to a database, to read what is on the medium. Raises StoreUnusableError where a copy that is needed
    finds no room, sqlite3.Error, OSError.
    """
    log = f"{name}-wal"
    found = disk.identity(log)
    for each in (name, log):
        disk.drop_cache(each)
    if found is None or not found.size:
        with closing(sqlite3.connect(f"file:{quote(str(disk.path / name))}?immutable=1", uri=True)) as db:
            yield db
        return
    with tempfile.TemporaryDirectory(prefix="evermq-") as folder:
        for each in (name, log):
            _copy(disk.path / each, Path(folder) / each)
        with closing(sqlite3.connect(Path(folder) / name)) as db:
            db.execute("PRAGMA wal_autocheckpoint = 0")
            yield db


def _copy(path: Path, to: Path) -> None:
    try:
        shutil.copyfile(path, to)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise StoreUnusableError(
            f"{path} has {path.stat().st_size} bytes and is read in a copy, for which {to.parent} has no room; set "
            "TMPDIR to a folder that has"
        ) from error


class FoundMessage(NamedTuple):
    """The row of a message, without its data. `head` and `counters`: whether their checks hold; `check` is what the two
    add to the tally.
    """

    row: MessageRow
    head: bool
    counters: bool
    check: int


class FoundObject(NamedTuple):
    """A definition, and whether its check holds; `check` is what it adds to the tally."""

    row: ObjectRow
    whole: bool
    check: int


class FoundKey(NamedTuple):
    """The key of a put, and whether its check holds; `check` is what it adds to the tally."""

    row: KeyRow
    whole: bool
    check: int


class FoundStep(NamedTuple):
    """A step, and whether its check holds; `check` is what it adds to the tally."""

    row: StepRow
    whole: bool
    check: int


class DamagedDatabase:
    """A database, however damaged: what can be read of it. `unreadable` counts the places where something could not."""

    def __init__(self, db: sqlite3.Connection, checks: Checks) -> None:
        self._db = db
        self._checks = checks
        self._error = ""
        self.unreadable = 0

    def state(self) -> tuple[bytes, Tally] | None:
        """The instance and the tally; None when they are not there or not what was written."""
        value = self.state_value()
        return None if value is None else self._checks.unseal(value)

    def state_value(self) -> bytes | None:
        """The state row as it lies there."""
        rows = self._rows(statement("load_state"), ())
        return rows[0][0] if rows and isinstance(rows[0][0], bytes) else None

    def faults(self) -> list[str]:
        """Return the faults that SQLite finds in the pages, a line each."""
        rows = self._rows("PRAGMA integrity_check", ())
        if rows is None:
            return [f"SQLite cannot read all of it: {self._error}"]
        lines = [line for (found,) in rows for line in str(found).splitlines()]
        return [line for line in lines if line != "ok" and not line.startswith("***")]

    def size(self) -> int:
        """Return the number of bytes of all pages, those in the write-ahead log too; 0 when nobody can tell."""
        rows = self._rows("PRAGMA page_count", ())
        return rows[0][0] * PAGE_BYTES if rows else 0

    def objects(self) -> Iterator[FoundObject]:
        """The definitions that can be read."""
        for row in self._paged(_OBJECTS_ORDERED, key=2):
            found = ObjectRow._make(row[:5])
            try:
                whole = self._checks.object(found) == row[5]
            except _NOT_OURS:
                whole = False
            yield FoundObject(found, whole, _number(row[5]))

    def put_keys(self) -> Iterator[FoundKey]:
        """The keys of puts that can be read; none in a database of an older version."""
        if self._version() < KEYS_SINCE:
            return
        for row in self._by_pairs("load_keys", FIRST_KEY):
            found = KeyRow(*row[:-1])
            try:
                whole = self._checks.key(found) == row[-1]
            except _NOT_OURS:
                whole = False
            yield FoundKey(found, whole, _number(row[-1]))

    def steps(self) -> Iterator[FoundStep]:
        """The steps that can be read; none in a database of an older version."""
        if self._version() < STEPS_SINCE:
            return
        for row in self._by_pairs("load_steps", FIRST_STEP):
            found = StepRow(*row[:-1])
            try:
                whole = self._checks.step(found) == row[-1]
            except _NOT_OURS:
                whole = False
            yield FoundStep(found, whole, _number(row[-1]))

    def _by_pairs(self, name: str, first: tuple[Any, ...]) -> Iterator[Any]:
        """The rows that the statement `name` finds behind a pair of keys, as far as they can be read."""
        after, limit = first, _PAGE_ROWS
        while True:
            rows = self._rows(statement(name), (*after, limit))
            if rows is None and limit > 1:
                limit = 1  # up to the place where it is; behind it nothing can be looked up
                continue
            if rows is None:
                self.unreadable += 1
            if not rows:
                return
            yield from rows
            last = rows[-1][:2]
            if list(map(type, last)) != list(map(type, first)) or last <= after:
                self.unreadable += 1
                return
            after = last

    def messages(self) -> Iterator[FoundMessage]:
        """The messages that can be read, in order of id, without their data."""
        for row in self._paged(statement(load_statement(self._version())), key=0):
            found = MessageRow(*row[:-2])
            (
                id, queue, rank, persistent, descriptor, length, _, backouts, hardened, holder, sequence, place,
                handling,
            ) = found  # fmt: skip
            head_check, counters_check = row[-2:]
            try:
                head = self._checks.head(id, queue, rank, persistent, length, descriptor) == head_check
            except _NOT_OURS:
                head = False
            try:
                counters = (
                    self._checks.counters(id, backouts, hardened, holder, sequence, place, handling) == counters_check
                )
            except _NOT_OURS:
                counters = False
            yield FoundMessage(found, head, counters, _number(head_check) + _number(counters_check))

    def _version(self) -> int:
        """The version of the schema, by the columns and tables that there are."""
        rows = self._rows(_ADDED, ())
        return version() if rows is None else 2 + rows[0][0]  # with each version one of them has come

    def data(self, rows: Sequence[MessageRow]) -> dict[int, bytes]:
        """The data of these messages, of those where it is what was put. `length` of each is to be relied on."""
        found: dict[int, bytes] = {}
        for run in _runs(rows):
            got = self._data(run)
            if got is None:
                got = [each for row in run for each in self._data([row]) or ()]
            found |= {
                id: data for id, data, check in got if isinstance(data, bytes) and self._checks.data(id, data) == check
            }
        return found

    def _data(self, rows: Sequence[MessageRow]) -> list[tuple[int, object, object]] | None:
        sql = statement("read_data", len(rows))
        return self._rows(sql, [row.id for row in rows])

    def _paged(self, sql: str, key: int) -> Iterator[Any]:
        """The rows that `sql` finds behind a key, so many at a time; what cannot be read is passed over."""
        last, limit = -1, _PAGE_ROWS
        while True:
            rows = self._page(sql, key, last, limit)
            if rows is None and limit > 1:
                limit = 1  # up to the place where it is
            elif rows is None:
                self.unreadable += 1
                behind = self._behind(sql, key, last)
                if behind is None:
                    return
                last, limit = behind, _PAGE_ROWS
            elif rows:
                yield from rows
                last = rows[-1][key]
            else:
                return

    def _behind(self, sql: str, key: int, last: int) -> int | None:
        """The first key behind which something can be read again; None when there is none."""
        step = 1
        while self._page(sql, key, last + step, 1) is None:
            step *= 2
            if last + step > _ID_MAX:
                return None
        low, high = last + step // 2, last + step
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (middle, high) if self._page(sql, key, middle, 1) is None else (low, middle)
        return high

    def _page(self, sql: str, key: int, last: int, limit: int) -> list[Any] | None:
        """The next rows; None where the database is damaged, as when their keys do not rise."""
        rows = self._rows(sql, (last, limit))
        for row in rows or ():
            if not isinstance(row[key], int) or row[key] <= last:
                return None
            last = row[key]
        return rows

    def _rows(self, sql: str, parameters: Sequence[object]) -> list[Any] | None:
        """Return the rows of a statement; None where the database is damaged."""
        try:
            return self._db.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # None: a text that is none
            if code & 0xFF not in _DAMAGED:
                raise
            self._error = str(error)
            return None


def _runs(rows: Sequence[MessageRow]) -> Iterator[list[MessageRow]]:
    run: list[MessageRow] = []
    size = 0
    for row in rows:
        run.append(row)
        size += row.length + PAGE_BYTES // 8
        if len(run) == _PAGE_ROWS // 4 or size >= _RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
