"""The ways to write blocks so that the medium has them, best first, and to read what the medium has (log rule 4.2).

A way has the file open as it needs it, and no file is open in two ways at a time: pages that a cache holds and writes
beside it would contradict each other. Nothing is tried again, because the next write at the same place would be
believed by a later sync: a short write is an error like any other.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import mmap
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from broker.storage.disk.directory import open_private

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_KEPT_BYTES = 1024 * 1024  # A longer record gets a buffer of its own: few are, and the buffer stays.
_CHUNK_BYTES = 1024 * 1024

_F_NOCACHE = 48  # macOS, as the next: Python has names for them there alone.
_F_FULLFSYNC = 51
_NOT_KNOWN = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS}

logger = logging.getLogger(__name__)


class Way(Protocol):
    """An open file, and how it is written and read. All calls block and raise OSError."""

    name: str

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write whole blocks; when it returns, the medium has them."""

    def read(self, offset: int, size: int) -> memoryview:
        """Read whole blocks of what the medium has; short at the end of the file."""

    def size(self) -> int:
        """Return the length of the file."""

    def close(self) -> None:
        """Let go; harmless when already closed."""


class _Opened:
    """A file that a way has open."""

    def __init__(self, path: Path, flags: int) -> None:
        self._path = path
        self._fd = open_private(path, flags)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def leave_cache(self) -> None:
        """Have what is read next come from the medium."""
        try:
            sync(self._fd)  # What is not written yet would stay in the cache.
        except OSError as error:  # Then the medium has not what was written earlier, and is read all the same.
            logger.warning(
                "earlier writes to a file have failed and are not read path=%s: %s",
                self._path,
                error,
                extra={"event": "earlier_writes_failed"},
            )
        forget(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class DirectWay(_Opened):
    """Past the cache, from and to a buffer of whole pages that nobody touches meanwhile: one system call a record."""

    name = "pwritev with O_DIRECT and O_DSYNC"

    def __init__(self, path: Path, flags: int = os.O_RDWR) -> None:
        super().__init__(path, flags | os.O_DIRECT | os.O_DSYNC)
        self._buffer = memoryview(mmap.mmap(-1, 16 * mmap.PAGESIZE))
        self._looked = False

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        size = len(data)
        aligned = (self._buffer if size <= len(self._buffer) else self._larger(size))[:size]
        aligned[:] = data
        written = os.pwritev(self._fd, [aligned], offset)
        if written != size:
            raise _short(written, size)

    def read(self, offset: int, size: int) -> memoryview:
        if not self._looked:  # There are file systems that take from the cache what it has, all the same.
            self.leave_cache()
            self._looked = True
        return _in_parts(lambda at, part: os.preadv(self._fd, [part], at), offset, size, self.size())

    def _larger(self, size: int) -> memoryview:
        """A buffer of at least `size` bytes that begins at a page."""
        larger = memoryview(mmap.mmap(-1, 1 << (size - 1).bit_length()))
        if size <= _KEPT_BYTES:
            self._buffer = larger
        return larger


class BufferedWay(_Opened):
    """Into the cache, and the cache to the medium: two system calls a record."""

    name = "pwritev and fdatasync"

    def __init__(self, path: Path, flags: int = os.O_RDWR) -> None:
        super().__init__(path, flags)

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        written = os.pwritev(self._fd, [data], offset)
        if written != len(data):
            raise _short(written, len(data))
        os.fdatasync(self._fd)

    def read(self, offset: int, size: int) -> memoryview:
        self.leave_cache()
        return _in_parts(lambda at, part: os.preadv(self._fd, [part], at), offset, size, self.size())


class FullSyncWay(_Opened):
    """Of macOS: past the cache, and then past that of the drive, which plain fsync leaves alone there."""

    def __init__(self, path: Path, flags: int = os.O_RDWR) -> None:
        super().__init__(path, flags)
        self.name = "pwrite and F_FULLFSYNC"
        self.leave_cache()

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        written = os.pwrite(self._fd, data, offset)
        if written != len(data):
            raise _short(written, len(data))
        if not sync_fully(self._fd):
            self.name = "pwrite and fsync"

    def read(self, offset: int, size: int) -> memoryview:
        return _in_parts(self._fill, offset, size, self.size())

    def _fill(self, offset: int, part: memoryview) -> int:
        """As preadv(2), which not every macOS has."""
        found = os.pread(self._fd, len(part), offset)
        part[: len(found)] = found
        return len(found)


def ways() -> list[Callable[[Path, int], Way]]:
    """The ways of this system, best first; each opens the file, or raises OSError."""
    if sys.platform == "darwin":
        return [FullSyncWay]
    return [DirectWay, BufferedWay] if hasattr(os, "O_DIRECT") else [BufferedWay]


def sync_fully(fd: int) -> bool:
    """Have the medium hold what was written to a file of macOS; False where only fsync was to be had."""
    try:
        fcntl.fcntl(fd, _F_FULLFSYNC)
    except OSError as error:
        if error.errno not in _NOT_KNOWN:
            raise
        os.fsync(fd)
        return False
    return True


def sync(fd: int) -> None:
    """Have the medium hold what was written to a file."""
    if sys.platform == "darwin":
        sync_fully(fd)
    else:
        os.fsync(fd)


def forget(fd: int) -> None:
    """Let the pages of a file go from the cache; those that are not synced stay."""
    if sys.platform == "darwin":
        with suppress(OSError):  # Some file systems have no cache to leave out.
            fcntl.fcntl(fd, _F_NOCACHE, 1)
    else:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _short(written: int, size: int) -> OSError:
    return OSError(errno.EIO, f"only {written} of {size} bytes were written")


def _in_parts(fill: Callable[[int, memoryview], int], offset: int, size: int, end: int) -> memoryview:
    """Return the bytes that `fill` reads from `offset` on, some at a time: `size` bytes, or fewer at `end`.

    It lies in memory of its own, whole pages that go back to the system with the last view of them. In that of the
    allocator a file of the log, once read, would have raised the size from which pieces do so, for good.
    """
    if size <= 0 or offset >= end:
        return memoryview(b"")
    content = memoryview(mmap.mmap(-1, size))
    at = 0
    while at < size and offset + at < end:
        found = fill(offset + at, content[at : at + _CHUNK_BYTES])
        if not found:
            break
        at += found
    return content[:at].toreadonly()
