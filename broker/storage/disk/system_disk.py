"""The disk of an operating system: Linux, macOS, and what is like them."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from broker.storage.disk import ballast, database_thread, file_system, ways
from broker.storage.disk.directory import DataDirectory, open_private, restrict
from broker.storage.disk.disk import DiskSpace, Identity
from broker.storage.disk.system_file import SystemFile
from broker.storage.disk.worker import SystemWorker

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from broker.storage.disk.disk import DatabaseWorker, DiskFile, DiskThread

BLOCK_BYTES_MAX = 64 * 1024
"""The largest block that is tried."""

_PIECE = 1024 * 1024
_ZEROS = bytes(_PIECE)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_FS_IOC_GETFLAGS = 0x80006601 | struct.calcsize("l") << 16
_FS_IOC_SETFLAGS = 0x40006602 | struct.calcsize("l") << 16
_FS_NOCOW_FL = 0x00800000


class SystemDisk:
    """The directory at `path`; nothing is touched before `claim`. Its files are their owner's alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._directory = DataDirectory(path)

    # The directory

    def claim(self) -> None:
        """Make the directory when it is missing, and take its lock; raises StoreUnusableError."""
        self._directory.claim()

    def release(self) -> None:
        """Give the lock back; harmless when it is not held."""
        self._directory.release()

    @property
    def made(self) -> bool:
        """True if `claim` has made the directory."""
        return self._directory.made

    def names(self) -> set[str]:
        """The names of all that is in the directory."""
        return set(os.listdir(self.path))

    def identity(self, name: str) -> Identity | None:
        """Return the identity of the file that a name leads to, or None; "" is the directory itself."""
        try:
            return _identity(os.stat(self.path / name))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def held_lock(self) -> Identity | None:
        """The file that the lock is held on, or None."""
        held = self._directory.held
        return None if held is None else _identity(held)

    def warnings(self) -> list[str]:
        """Return the reasons why the file system of the directory cannot be trusted, in words; none when it can."""
        found = file_system.warnings(self.path)
        if sys.platform == "darwin":
            with _opened(self.path / "lock", os.O_RDONLY) as fd:
                if not ways.sync_fully(fd):
                    found.append(file_system.refuses_full_sync(self.path))
        return found

    def boot(self) -> str:
        """Return the identifier of this start of the system: "" when nobody can tell."""
        with suppress(OSError, subprocess.SubprocessError):
            if sys.platform == "darwin":
                command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
                return subprocess.run(command, capture_output=True, check=True, timeout=5).stdout.decode().strip()
            return _BOOT_ID.read_text("ascii").strip()
        return ""

    # Files

    def create(self, name: str, first: bytes, size: int) -> None:
        """A new file, or the one of that name anew: `first`, then zeros up to `size`, all of it written and synced.

        The zeros are written: a file of extents that were merely set aside would cost a commit of the file system's
        own journal at its first writes, and one of holes would need room. A file that cannot be made is removed.
        """
        path = self.path / name
        with _opened(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as fd:  # what is not ours is refused, and not removed
            try:
                if file_system.copies(self.path):
                    _write_in_place(fd)
                _write_all(fd, first)
                for at in range(len(first), size, len(_ZEROS)):
                    _write_all(fd, _ZEROS[: size - at])
                ways.sync(fd)
                ways.forget(fd)
            except OSError:
                with suppress(OSError):
                    path.unlink()
                raise

    def open(self, name: str, block_bytes: int) -> DiskFile:
        """Open a file that is there, to write and read whole blocks."""
        restrict(self.path / name)
        return SystemFile(self.path / name, block_bytes)

    def block_bytes(self) -> int:
        """The size of a block that this disk can write by itself: 4 KiB, or more where it must be."""
        least = max(4096, mmap.PAGESIZE)
        if not hasattr(os, "O_DIRECT"):
            return least
        with tempfile.TemporaryFile(dir=self.path, buffering=0) as file:
            try:
                fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_DIRECT)
            except OSError:
                return least
            size = least
            while size <= BLOCK_BYTES_MAX:
                if _takes(file.fileno(), size):
                    return size
                size *= 2
        return least

    def read(self, name: str) -> memoryview:
        """The whole content of a file, of what is on the medium."""
        block_bytes = max(4096, mmap.PAGESIZE)
        file = SystemFile(self.path / name, block_bytes, os.O_RDONLY)
        try:
            return file.read(0, -(-file.size // block_bytes) * block_bytes)
        finally:
            file.close()

    def remove(self, name: str) -> None:
        """Remove a name; harmless when it is not there."""
        (self.path / name).unlink(missing_ok=True)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in place of what has it."""
        os.replace(self.path / name, self.path / to)

    def make_folder(self, name: str) -> None:
        """A folder within the directory, whose files are called by `name/...`; durable when it returns."""
        (self.path / name).mkdir(mode=0o700, exist_ok=True)
        self.sync_names()

    def sync(self, name: str) -> None:
        """Have the medium hold what was written to a file, by whomever. Not while a database connection has it open."""
        with _opened(self.path / name, os.O_RDONLY) as fd:
            ways.sync(fd)

    def sync_names(self) -> None:
        """Have the medium hold the names in the directory as they are."""
        self._directory.sync()

    def space(self) -> DiskSpace:
        """The room of the file system."""
        found = os.statvfs(self.path)
        return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)

    def drop_cache(self, name: str) -> None:
        """Sync a file and let its pages go from the cache, so that what is read next comes from the medium. Not while
        a database connection has it open: closing any descriptor of a file would give up the locks on it. Harmless
        when there is none.
        """
        with suppress(FileNotFoundError), _opened(self.path / name, os.O_RDONLY) as fd:
            ways.sync(fd)
            ways.forget(fd)

    def is_on_medium(self, name: str) -> bool:
        """True if the medium has all that the cache shows of a file; False also where the disk cannot tell. Not while a
        database connection is to go on: as `drop_cache`.
        """
        block_bytes = max(4096, mmap.PAGESIZE)
        file = SystemFile(self.path / name, block_bytes, os.O_RDONLY)
        try:
            if file.way != ways.DirectWay.name:
                return False
            with open(self.path / name, "rb") as shown:
                return all(shown.read(_PIECE) == file.read(at, _PIECE) for at in range(0, file.size, _PIECE))
        finally:
            file.close()

    def occupy(self, name: str, size: int) -> None:
        """Have a file that occupies `size` bytes of the disk; raises OSError when there is no room, and leaves none."""
        ballast.occupy(self.path / name, size)

    # Threads and databases

    def connect(self, name: str) -> sqlite3.Connection:
        """A connection to the database of that name, on which every statement is a transaction unless one is begun.

        SQLite gives the files that it makes beside a database the mode of the database.
        """
        path = self.path / name
        with suppress(FileExistsError):
            os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        for each in ("", "-wal", "-shm"):
            restrict(self.path / f"{name}{each}")
        return database_thread.connect(path)

    def start_worker(self) -> DiskThread:
        """A thread, for the event loop that runs."""
        return SystemWorker("evermq-log")

    async def start_database(self, name: str) -> DatabaseWorker:
        """A thread with a connection made by `connect`; raises what that raises."""
        return await database_thread.start(partial(self.connect, name), "evermq-snapshot")


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    fd = open_private(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def _identity(found: os.stat_result) -> Identity:
    return Identity(found.st_dev, found.st_ino, found.st_nlink, found.st_size)


def _write_all(fd: int, data: bytes) -> None:
    """Write at the end of a new file; a disk that takes a part says at the next call why not the rest."""
    while data:
        data = data[os.write(fd, data) :]


def _write_in_place(fd: int) -> None:
    """Have an empty file written in place, where the file system would write each block to a new one."""
    with suppress(OSError):  # Not every file system that copies can be told, and `warnings` speaks of all of them.
        flags = bytearray(struct.calcsize("l"))
        fcntl.ioctl(fd, _FS_IOC_GETFLAGS, flags)
        (known,) = struct.unpack_from("i", flags)
        struct.pack_into("i", flags, 0, known | _FS_NOCOW_FL)
        fcntl.ioctl(fd, _FS_IOC_SETFLAGS, flags)


def _takes(fd: int, size: int) -> bool:
    """True if a file open with O_DIRECT takes a block of `size` behind its first."""
    try:
        return os.pwritev(fd, [mmap.mmap(-1, size)], size) == size
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
