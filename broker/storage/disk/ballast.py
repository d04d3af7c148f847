"""Room kept back for the day the disk is full (journal rule 6).

Removing messages needs room too, in the write-ahead log and where that is carried over to. The ballast is a file that
is there only to be given up, so that messages can be got from a store on a full disk. What may be written meanwhile is
not decided here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.storage.disk.directory import open_private

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO


class Ballast:
    """A file at `path` that occupies `size_bytes` of the disk. Its calls block: use it in a thread that may."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._held = False

    @property
    def held(self) -> bool:
        """Whether the room is occupied."""
        return self._held

    def hold(self) -> bool:
        """Occupy the room, unless it is occupied already; False when there is not enough of it."""
        return self._held or self.occupy()

    def occupy(self) -> bool:
        """Occupy the room, whatever was so before; False when there is not enough of it."""
        try:
            occupy(self._path, self._size_bytes)
        except OSError:  # Whatever the reason, the room is not there.
            self._held = False
            return False
        self._held = True
        return True

    def release(self) -> bool:
        """Give the room up; whether there was any to give."""
        held, self._held = self._held, False
        with suppress(OSError):  # Then there is no room, and whoever needed it is told so by what it tries next.
            self._path.unlink(missing_ok=True)
        return held


def occupy(path: Path, size_bytes: int) -> None:
    """Have a file that occupies so much of the disk; raises OSError when there is no room, and then leaves no file."""
    try:
        with open(path, "ab", opener=open_private) as file:
            _allocate(file, size_bytes)
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def _allocate(file: BinaryIO, size_bytes: int) -> None:
    """Have blocks for the whole file, not a hole of that size. What an earlier run allocated counts."""
    missing = size_bytes - os.fstat(file.fileno()).st_size
    if missing <= 0:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size_bytes)
    else:  # macOS lacks it.
        file.write(bytes(missing))
        file.flush()
