"""The operating system as the store needs it: one directory of files, and threads that may wait for the disk.

Everything that the log, the manifest and the start of a store do to files goes through here, and the snapshot's
database is opened through here. So the same code runs on a real disk and, in the tests, on a simulated one that cuts
the power, fails and forgets as a seed has it.

The calls of `Disk` and `DiskFile` block, and raise OSError. Names are those of files in the directory.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

    from broker.storage.store import Done

_T = TypeVar("_T")

Content: TypeAlias = bytes | memoryview
"""Bytes read from a file: not to be written to, and to be let go, for they may be long."""

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""The errors that say the disk is full, or as much of it as one may have."""


class DiskFile(Protocol):
    """An open file that keeps its size. Its data is written and read in whole blocks of the size it was opened with."""

    name: str
    size: int

    @property
    def way(self) -> str:
        """The name of the system calls that write it, for people."""

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write whole blocks. When it returns the medium has them; when it raises OSError, nobody knows what it has."""

    def read(self, offset: int, size: int) -> Content:
        """Read whole blocks of what is on the medium, not what a cache shows. Short at the end of the file."""

    def close(self) -> None:
        """Let go; harmless when already closed."""


class DiskThread(Protocol):
    """A thread that does one piece of work after the other, in the order in which they come."""

    def submit(self, work: Callable[[], None], done: Done) -> None:
        """Have `work` done, then call `done` on the event loop: with None, or with what it raised."""

    async def perform(self, work: Callable[[], _T]) -> _T:
        """The result of `work`, or what it raised; it is done even if the task that waits is cancelled."""

    async def close(self) -> None:
        """End when all that was submitted is done."""


class DatabaseWorker(Protocol):
    """A thread with a connection to a database, which does one piece of work after the other."""

    def submit(self, work: Callable[[sqlite3.Connection], None], done: Done) -> None:
        """Have `work` done, then call `done` on the event loop: with None, or with what it raised."""

    async def perform(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """The result of `work`, or what it raised; it is done even if the task that waits is cancelled."""

    def let_others(self, *, wait: bool = False) -> None:
        """Within a long piece of work, on its thread: do what was submitted meanwhile; with `wait`, wait until there is
        something. Raises sqlite3.ProgrammingError when the worker is to end, and so must the piece of work.
        """

    async def close(self) -> None:
        """Close the connection, which may write to the database, and end."""

    async def abandon(self) -> None:
        """End, and leave the connection open for as long as the process lives: not a byte is written any more."""


class DiskSpace(NamedTuple):
    """The bytes of a file system: those that a program without privileges may still write, and all."""

    free: int
    size: int


class Identity(NamedTuple):
    """The identity of the file that a name leads to, to be compared later: `links` is 0 when it leads nowhere."""

    device: int
    inode: int
    links: int
    size: int


class Disk(Protocol):
    """One directory. What `create`, `rename` and `remove` do to names is durable only after `sync_names`."""

    path: Path

    def claim(self) -> None:
        """Make the directory when it is missing, and take its lock; raises StoreUnusableError."""

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""

    @property
    def made(self) -> bool:
        """True if `claim` has made the directory."""

    def names(self) -> set[str]:
        """The names of all that is in the directory."""

    def identity(self, name: str) -> Identity | None:
        """Return the identity of the file that a name leads to, or None; "" is the directory itself."""

    def held_lock(self) -> Identity | None:
        """The file that the lock is held on, or None."""

    def create(self, name: str, first: bytes, size: int) -> None:
        """A new file, or the one of that name anew: `first`, then zeros up to `size`, all of it written and synced."""

    def open(self, name: str, block_bytes: int) -> DiskFile:
        """Open a file that is there, to write and read whole blocks."""

    def block_bytes(self) -> int:
        """The size of a block that this disk can write by itself: 4 KiB, or more where it must be."""

    def read(self, name: str) -> Content:
        """The whole content of a file, of what is on the medium. As with `drop_cache`, not while a database connection
        has it open.
        """

    def remove(self, name: str) -> None:
        """Remove a name; harmless when it is not there."""

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in place of what has it."""

    def make_folder(self, name: str) -> None:
        """A folder within the directory, whose files are called by `name/...`; durable when it returns."""

    def sync(self, name: str) -> None:
        """Have the medium hold what was written to a file, by whomever. As with `drop_cache`, not while a database
        connection has it open.
        """

    def sync_names(self) -> None:
        """Have the medium hold the names in the directory as they are."""

    def space(self) -> DiskSpace:
        """The room of the file system."""

    def drop_cache(self, name: str) -> None:
        """Sync a file and let its pages go from the cache, so that what is read next comes from the medium. Not while
        a database connection has it open: closing any descriptor of a file would give up the locks on it. Harmless
        when there is none.
        """

    def is_on_medium(self, name: str) -> bool:
        """True if the medium has all that the cache shows of a file; False also where the disk cannot tell. Not while a
        database connection is to go on: as `drop_cache`.
        """

    def occupy(self, name: str, size: int) -> None:
        """Have a file that occupies `size` bytes of the disk; raises OSError when there is no room, and leaves none."""

    def boot(self) -> str:
        """Return the identifier of this start of the system: "" when nobody can tell."""

    def warnings(self) -> list[str]:
        """Return the reasons why the file system of the directory cannot be trusted, in words; none when it can."""

    def connect(self, name: str) -> sqlite3.Connection:
        """A connection to the database of that name, on which every statement is a transaction unless one is begun."""

    def start_worker(self) -> DiskThread:
        """A thread."""

    async def start_database(self, name: str) -> DatabaseWorker:
        """A thread with a connection made by `connect`; raises what that raises."""
