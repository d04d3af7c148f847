"""An open file of the log or of the manifest, on the disk of an operating system."""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING

from broker.storage.disk.ways import ways

if TYPE_CHECKING:
    from pathlib import Path

    from broker.storage.disk.ways import Way

logger = logging.getLogger(__name__)


class SystemFile:
    """The file at `path`, which is there, opened in the best way that it takes; raises OSError.

    `name` and `size` are those at the time. Not for two threads at once.
    """

    def __init__(self, path: Path, block_bytes: int, flags: int = os.O_RDWR) -> None:
        self.name = path.name
        self._path = path
        self._block_bytes = block_bytes
        self._flags = flags
        self._others = ways()
        self._proven = False
        self._way = self._open()
        self.size = self._way.size()

    @property
    def way(self) -> str:
        """The name of the system calls that write it, for people."""
        return self._way.name

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Write whole blocks; when it returns the medium has them.

        The first call of all finds out whether the file takes this way. If it does not, nothing was written, and the
        next way is taken (log rule 4.2). Any other error, and this one later, means that nobody knows what is there.
        """
        if offset % self._block_bytes or len(data) % self._block_bytes:
            raise self._misplaced(offset, len(data))
        try:
            self._way.write(offset, data)
        except OSError as error:
            if not self._falls(error):
                raise
            self.write(offset, data)
        self._proven = True

    def read(self, offset: int, size: int) -> memoryview:
        """Read whole blocks of what is on the medium, not what a cache shows. Short at the end of the file."""
        if offset % self._block_bytes or size % self._block_bytes:
            raise self._misplaced(offset, size)
        try:
            return self._way.read(offset, size)
        except OSError as error:
            if not self._falls(error):
                raise
            return self.read(offset, size)

    def close(self) -> None:
        """Let go; harmless when already closed."""
        self._way.close()

    def _open(self) -> Way:
        """Open the file in the first of the ways that are left."""
        open_in = self._others.pop(0)
        try:
            return open_in(self._path, self._flags)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP) or not self._others:
                raise
            return self._open()

    def _falls(self, error: OSError) -> bool:
        """Take the next way, if the file refuses this one and was never written in it."""
        if self._proven or error.errno != errno.EINVAL or not self._others:
            return False
        refused = self._way
        refused.close()
        self._way = self._open()
        logger.info("file refuses a way path=%s way=%s next=%s", self._path, refused.name, self._way.name)
        return True

    def _misplaced(self, offset: int, size: int) -> ValueError:
        return ValueError(f"{size} bytes at {offset} are not whole blocks of {self._block_bytes}")
