"""The directory of a queue manager's data: made when missing, and held by one manager at a time.

The lock is `flock` on a file that stays: it goes with the process that has it, however that ends, and removing the file
would let two managers lock two files of one name. The process id in it is for people only.

Messages are nobody else's business: a queue manager's files can be read and written by their owner alone, whatever the
umask says, and those that are there already are made so.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from broker.storage.store import StoreUnusableError

if TYPE_CHECKING:
    from pathlib import Path

_MODE = 0o600
logger = logging.getLogger(__name__)


class DataDirectory:
    """The directory at `path`; nothing is touched before `claim`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made = False
        """Whether `claim` has made the directory."""
        self._lock: int | None = None

    def claim(self) -> None:
        """Make the directory if it is missing, and take it; raises StoreUnusableError when another manager has it."""
        try:
            self.made = _make(self.path)
            lock = open_private(self.path / "lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            unusable = self._in_use(lock) if isinstance(error, BlockingIOError) else self._unusable(error)
            os.close(lock)
            raise unusable from error
        with suppress(OSError):  # A full disk must not keep a manager from starting, and nothing relies on the id.
            restrict(self.path / "lock")
            os.ftruncate(lock, 0)
            os.write(lock, b"%d\n" % os.getpid())
        self._lock = lock

    @property
    def held(self) -> os.stat_result | None:
        """The file that the lock is held on, wherever its name leads now; None when it is not held."""
        return None if self._lock is None else os.fstat(self._lock)

    def sync(self) -> None:
        """Make the names of the files in the directory durable, which syncing the files does not."""
        _sync(self.path)

    def release(self) -> None:
        """Let another manager have it; harmless when it is not held."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _in_use(self, lock: int) -> StoreUnusableError:
        holder = os.read(lock, 20).decode("ascii", "replace").strip() or "unknown"
        return StoreUnusableError(
            f"the data directory {self.path} is in use by another queue manager (process {holder}); "
            "stop that one, or give this one a directory of its own"
        )

    def _unusable(self, error: OSError) -> StoreUnusableError:
        return StoreUnusableError(
            f"the data directory {self.path} cannot be used ({error}); give a directory that this user can write"
        )


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file and return its descriptor; one that is made is its owner's alone, whatever the umask says."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, _MODE)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) & _MODE != _MODE:
        os.fchmod(descriptor, _MODE)  # a umask took from the owner
    return descriptor


def restrict(path: Path) -> None:
    """Make a file its owner's alone, if it is there; where that cannot be done, a warning says so. Raises OSError."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return
    if mode == _MODE:
        return
    try:
        path.chmod(_MODE)
    except OSError as error:
        logger.warning("others may read or write a file of the queue manager path=%s: %s", path, error)


def _make(path: Path) -> bool:
    """Make a directory, and its parents, so that they survive a power failure; whether it was missing."""
    if path.is_dir():
        return False
    _make(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
    path.chmod(0o700)  # a umask may have taken from the owner
    _sync(path.parent)
    return True


def _sync(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
