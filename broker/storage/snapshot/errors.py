"""SQLite's errors as those of the Store protocol, by `sqlite_errorcode` and never by message text."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from broker.storage.store import StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAMAGED: Final = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}  # Other errors of a start are those of its disk.
_FULL: Final = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMMAP,
}  # fmt: skip
_NOT_OURS: Final = (struct.error, TypeError, ValueError, AttributeError)  # what a value of another kind leads to
_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class StoreBusyError(Exception):
    """Another program has the database locked, or reads in it: nothing was written, and trying again may work."""


@contextmanager
def writing() -> Iterator[None]:
    """Translates the errors of what writes. A full disk is definite only when no transaction is left half way: SQLite
    has left it, or `roll_back` can.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code == sqlite3.SQLITE_FULL:
            raise StoreFullError(f"there is no room on the disk: {error}") from error
        if code & 0xFF in _BUSY:
            raise StoreBusyError(f"another program has the database locked: {error}") from error
        raise StoreFailedError(f"the database cannot be written: {error} ({_named(error)})") from error
    except _NOT_OURS as error:
        raise StoreFailedError(f"the database is damaged: a value is of another kind: {error}") from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Names the file, and what to do, when a start finds it unusable."""
    try:
        yield
    except sqlite3.Error as error:
        extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        code = extended & 0xFF
        if code in _BUSY:
            raise StoreBusyError(f"another program has {path} locked: {error}") from error
        if extended in _FULL:
            raise StoreFullError(f"there is no room on the disk of {path}: {error}") from error
        if code in DAMAGED:
            advice = f"restore the directory from a backup, or see `evermq recover {path.parent} --accept-loss`"
            raise StoreUnusableError(f"{path} is damaged ({error}); {advice}") from error
        advice = "look at the rights, the room and the health of its disk"
        raise StoreUnusableError(f"{path} cannot be read or set up ({error}); {advice}") from error
    except _NOT_OURS as error:
        advice = f"restore the directory from a backup, or see `evermq recover {path.parent} --accept-loss`"
        raise StoreUnusableError(f"{path} is damaged (a value is of another kind: {error}); {advice}") from error


def _named(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "no code")
