"""Room kept back for the day the disk is full (journal rule 6).

Carrying the log over to the snapshot needs room, also when it removes messages. The ballast is a file that is there
only to be given up for that. When it is, and what may be written meanwhile, is not decided here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.storage.disk.directory import open_private, restrict

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO


def occupy(path: Path, size_bytes: int) -> None:
    """Have a file that occupies so much of the disk; raises OSError when there is no room, and then leaves no file."""
    with open(path, "ab", opener=open_private) as file:  # what is not ours is refused, and not removed
        try:
            restrict(path)
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
