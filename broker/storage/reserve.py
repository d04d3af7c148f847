"""The room that carry-overs have on a full disk, so that messages can still be got (log rule 9.4).

A ballast keeps room of the disk back, to be given up for them. A database that has been drained has free pages, and a
write-ahead log of SQLite's that has grown keeps its length: where they have the room, the ballast may be smaller, or
none.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.storage.start import BALLAST

if TYPE_CHECKING:
    from broker.storage.disk.disk import Disk

logger = logging.getLogger(__name__)


class Reserve:
    """A ballast of `ballast_bytes` for a log with files of `file_bytes`. Its calls block.

    `held` says whether there is a ballast, `whole` that it is no smaller one, `enough` that what grows may be written.
    """

    def __init__(self, disk: Disk, ballast_bytes: int, file_bytes: int) -> None:
        self._disk = disk
        self._ballast_bytes = ballast_bytes
        self._carried_bytes = file_bytes * 3 // 2  # at most, of a log file: pages are larger than records
        self.held = self.whole = self.enough = False

    def occupy(self, free_pages_bytes: int, log_bytes: int) -> None:
        """Take the whole ballast; where free pages of the database would do for a log file, no more than
        SQLite's log is too short for that.
        """
        self.enough = self.whole = self.held = self._take(self._ballast_bytes)
        if not self.whole and free_pages_bytes >= self._carried_bytes:
            missing = min(max(0, self._carried_bytes - log_bytes), self._ballast_bytes)
            self.held = missing > 0 and self._take(missing)
            self.enough = self.held or not missing

    def give_up(self) -> None:
        """Give the room to whoever needs it now; raises OSError."""
        self.held = self.whole = self.enough = False
        self._disk.remove(BALLAST)

    def _take(self, size: int) -> bool:
        try:
            self._disk.occupy(BALLAST, size)
        except OSError as error:
            logger.debug("no room for a ballast path=%s bytes=%d: %s", self._disk.path, size, error)
            return False
        return True
