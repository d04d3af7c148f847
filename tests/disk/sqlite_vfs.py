"""SQLite on the simulated disk: a VFS over the files of a process, and a connection that looks like sqlite3's.

The SQLite is apsw's own, newer than Python's often is, and the same code otherwise. What this leaves out against the
real thing:

- There is no shared memory: connections work in `locking_mode = EXCLUSIVE`, and keep the index of the WAL in their
  own memory. So a second connection, of this process or another, finds the database busy, and nothing of `-shm` is
  tried.
- An error of a VFS call that SQLite swallows (that of an automatic checkpoint) is raised here. Only `close` is as
  silent about errors as it is in truth.
- Rows are fetched when a statement is executed; no statement is ever half done.
- A directory always has room for one more name. Files are read and written, never mapped.
- Errors that SQLite's own VFS ignores are ignored: that of a directory's sync after a WAL was made.
"""

from __future__ import annotations

import errno
import sqlite3
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakValueDictionary

import apsw

from tests.disk.faults import Crash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tests.disk.inode import Inode
    from tests.disk.simulated import SimulatedDisk

PROCESSES: WeakValueDictionary[int, SimulatedDisk] = WeakValueDictionary()
"""Every process, by the number in the path that it calls its directory by."""

_NAME = "simulated"
_BEFORE_2020 = 2458849.5  # a Julian day: it is always the same one here
_JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL


class _Vfs(apsw.VFS):
    """The files of all processes, which the path tells apart. What a dead process' connection asks for is not done."""

    def __init__(self) -> None:
        super().__init__(_NAME, None, makedefault=True, iVersion=2)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # type: ignore[override]
        flags[1] = flags[0]
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            raise apsw.exception_for(apsw.SQLITE_CANTOPEN)
        disk, base = _place(path)
        if disk is None or not disk.alive:
            raise apsw.exception_for(apsw.SQLITE_CANTOPEN)
        try:
            made = base not in disk.names()
            inode = disk.new_file(base) if flags[0] & apsw.SQLITE_OPEN_CREATE else disk.inode(base)
        except OSError as error:
            raise apsw.exception_for(apsw.SQLITE_CANTOPEN) from error
        return _File(disk, base, inode, sync_names=bool(made and flags[0] & _JOURNALS))

    def xDelete(self, filename: str, syncdir: bool) -> None:  # as apsw calls it
        disk, base = _place(filename)
        if disk is None or not disk.alive:
            return
        if base not in disk.names():
            raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE_NOENT)
        disk.remove(base)
        if syncdir:
            try:
                disk.sync_names()
            except OSError as error:
                raise apsw.exception_for(apsw.SQLITE_IOERR_DIR_FSYNC) from error

    def xAccess(self, pathname: str, flags: int) -> bool:
        disk, base = _place(pathname)
        return disk is not None and disk.alive and base in disk.names()

    def xFullPathname(self, name: str) -> str:
        return name

    def xRandomness(self, numbytes: int) -> bytes:
        return b"\x55" * numbytes

    def xCurrentTime(self) -> float:
        return _BEFORE_2020

    def xCurrentTimeInt64(self) -> int:
        return int(_BEFORE_2020 * 86_400_000)

    def xSleep(self, microseconds: int) -> int:
        return microseconds

    def xGetLastError(self) -> tuple[int, str | None]:
        return 0, None


class _File:
    """A file that a connection has open. Once its process is dead, calls do nothing, and say that all is well."""

    def __init__(self, disk: SimulatedDisk, name: str, inode: Inode, *, sync_names: bool) -> None:
        self._disk = disk
        self._name = name
        self._inode = inode
        self._sync_names = sync_names

    def xRead(self, amount: int, offset: int) -> bytes:
        if not self._disk.alive:
            return bytes(amount)
        try:
            return self._disk.read_cached(self._name, self._inode, offset, amount)
        except OSError as error:
            raise apsw.exception_for(apsw.SQLITE_IOERR_READ) from error

    def xWrite(self, data: bytes, offset: int) -> None:
        if not self._disk.alive:
            return
        try:
            self._disk.write(self._name, self._inode, offset, data)
        except OSError as error:
            full = error.errno == errno.ENOSPC
            raise apsw.exception_for(apsw.SQLITE_FULL if full else apsw.SQLITE_IOERR_WRITE) from error

    def xTruncate(self, newsize: int) -> None:
        if not self._disk.alive:
            return
        try:
            self._disk.resize(self._name, self._inode, newsize)
        except OSError as error:
            raise apsw.exception_for(apsw.SQLITE_IOERR_TRUNCATE) from error

    def xSync(self, flags: int) -> None:
        if not self._disk.alive:
            return
        try:
            self._disk.sync_inode(self._name, self._inode)
        except OSError as error:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC) from error
        if self._sync_names:
            self._sync_names = False
            with suppress(OSError):
                self._disk.sync_names()

    def xFileSize(self) -> int:
        return len(self._inode.view)

    def xLock(self, level: int) -> None:
        others = max((held for holder, held in self._inode.locks.items() if holder is not self), default=0)
        if level == apsw.SQLITE_LOCK_SHARED:
            refused = others >= apsw.SQLITE_LOCK_PENDING
        elif level == apsw.SQLITE_LOCK_RESERVED:
            refused = others >= apsw.SQLITE_LOCK_RESERVED
        else:
            refused = others >= apsw.SQLITE_LOCK_SHARED
        if refused and self._disk.alive:
            raise apsw.exception_for(apsw.SQLITE_BUSY)
        self._inode.locks[self] = level

    def xUnlock(self, level: int) -> None:
        if level == apsw.SQLITE_LOCK_NONE:
            self._inode.locks.pop(self, None)
        else:
            self._inode.locks[self] = level

    def xCheckReservedLock(self) -> bool:
        return any(held >= apsw.SQLITE_LOCK_RESERVED for held in self._inode.locks.values())

    def xClose(self) -> None:
        self._inode.locks.pop(self, None)

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return int(apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE)

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False


def _place(path: str) -> tuple[SimulatedDisk | None, str]:
    """The process that calls a file by this path, and the file's name."""
    pure = PurePosixPath(path)
    number = pure.parent.name
    return PROCESSES.get(int(number)) if number.isdigit() else None, pure.name


_VFS = _Vfs()


def same_randomness() -> None:
    """Have SQLite draw the same random numbers again: with what was drawn before, it goes on."""
    apsw.randomness(0)


class Cursor:
    """A cursor, as sqlite3 gives one for a statement."""

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows = iter(rows)
        self.rowcount = rowcount

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def fetchone(self) -> Any:
        """The next row, or None."""
        return next(self._rows, None)

    def fetchmany(self, size: int = 1) -> list[Any]:
        """The next rows, at most so many."""
        return [row for _, row in zip(range(size), self._rows, strict=False)]

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        return list(self._rows)

    def close(self) -> None:
        """Nothing is open."""


class SimulatedConnection:
    """A connection of a process to a database, with as much of `sqlite3.Connection` as the store uses."""

    def __init__(self, disk: SimulatedDisk, connection: apsw.Connection) -> None:
        self._disk = disk
        self._connection = connection
        self._closed = False

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Cursor:
        """Execute one statement; raises as sqlite3 does."""
        rows = self._call(lambda: self._connection.execute(sql, parameters or None).fetchall())
        changed = sql.lstrip()[:6].upper() in ("INSERT", "UPDATE", "DELETE")
        return Cursor(rows, self._connection.changes() if changed else -1)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]]) -> Cursor:
        """Execute one statement with each of the parameters."""

        def changed() -> int:
            before = self.total_changes
            self._connection.executemany(sql, parameters).fetchall()
            return self.total_changes - before

        return Cursor([], self._call(changed))

    def executescript(self, script: str) -> Cursor:
        """Execute statements, after the transaction that is open, if one is."""
        if self.in_transaction:
            self.execute("COMMIT")
        self._call(lambda: self._connection.execute(script).fetchall())
        return Cursor([], -1)

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open."""
        return self._connection.in_transaction

    @property
    def total_changes(self) -> int:
        """The number of rows that were changed since the connection was opened."""
        return self._connection.total_changes()

    def setconfig(self, op: int, enable: bool = True) -> None:  # as sqlite3 has it
        """Set one of SQLite's switches of a connection."""
        self._connection.config(op, int(enable))

    def interrupt(self) -> None:
        """Nothing runs that could be."""

    def backup(
        self,
        target: SimulatedConnection,
        *,
        pages: int = -1,
        progress: Callable[[int, int, int], object] | None = None,
        name: str = "main",
        sleep: float = 0.25,
    ) -> None:
        """Copy the database to another connection's."""

        def copy() -> None:
            with target._connection.backup("main", self._connection, name) as run:
                while not run.done:
                    run.step(pages)
                    if progress is not None:
                        progress(apsw.SQLITE_DONE if run.done else apsw.SQLITE_OK, run.remaining, run.page_count)

        self._call(copy)

    def close(self) -> None:
        """Close, silently if that fails; the last connection carries the WAL over and removes it."""
        if self._closed:
            return
        self._closed = True
        with suppress(sqlite3.Error):
            self._call(self._connection.close)

    def forget(self) -> None:
        """Let go of SQLite's memory, after the process has ended."""
        with suppress(apsw.Error, Crash):
            self._connection.close(force=True)

    def _call(self, call: Callable[[], Any]) -> Any:
        if not self._disk.alive:
            raise Crash("the process has ended")
        try:
            result = call()
        except apsw.Error as error:
            if not self._disk.alive:
                raise Crash("the process has ended") from None
            _raise(error)
        if not self._disk.alive:
            raise Crash("the process has ended")
        return result


def open_connection(disk: SimulatedDisk, name: str) -> SimulatedConnection:
    """Open a database, or make it; raises as sqlite3 does."""
    if not disk.machine.connected:
        same_randomness()
        disk.machine.connected = True
    try:
        connection = apsw.Connection(str(disk.path / name), vfs=_NAME)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    except apsw.Error as error:
        _raise(error)
    return SimulatedConnection(disk, connection)


_PLAIN = {
    apsw.SQLITE_INTERNAL: sqlite3.InternalError,
    apsw.SQLITE_NOTFOUND: sqlite3.InternalError,
    apsw.SQLITE_CORRUPT: sqlite3.DatabaseError,
    apsw.SQLITE_TOOBIG: sqlite3.DataError,
    apsw.SQLITE_CONSTRAINT: sqlite3.IntegrityError,
    apsw.SQLITE_MISMATCH: sqlite3.IntegrityError,
    apsw.SQLITE_MISUSE: sqlite3.InterfaceError,
    apsw.SQLITE_RANGE: sqlite3.InterfaceError,
    apsw.SQLITE_AUTH: sqlite3.DatabaseError,
    apsw.SQLITE_FORMAT: sqlite3.DatabaseError,
    apsw.SQLITE_NOTADB: sqlite3.DatabaseError,
}


def _raise(error: apsw.Error) -> NoReturn:
    """Raise what sqlite3 raises for an error of apsw."""
    code = getattr(error, "extendedresult", None)
    if code is None or code < 0:
        code = next((known for known, kind in _BY_CLASS.items() if type(error) is kind), apsw.SQLITE_ERROR)
    raised = _PLAIN.get(code & 0xFF, sqlite3.OperationalError)(str(error) or _TEXTS.get(code & 0xFF, "error"))
    raised.sqlite_errorcode = code
    raised.sqlite_errorname = apsw.mapping_extended_result_codes.get(
        code, apsw.mapping_result_codes.get(code & 0xFF, "SQLITE_ERROR")
    )  # type: ignore[assignment]  # both directions are in one mapping
    raise raised from error


_TEXTS = {
    apsw.SQLITE_IOERR: "disk I/O error",
    apsw.SQLITE_FULL: "database or disk is full",
    apsw.SQLITE_CANTOPEN: "unable to open database file",
    apsw.SQLITE_BUSY: "database is locked",
}
_BY_CLASS = {code: type(apsw.exception_for(code)) for code in range(1, 27)}
