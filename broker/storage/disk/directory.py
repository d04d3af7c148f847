"""The directory of a queue manager's data: made when missing, and held by one manager at a time.

The lock is `flock` on a file that stays: it goes with the process that has it, however that ends, and removing the file
would let two managers lock two files of one name. The process id in it is for people only.

Messages are nobody else's business: a queue manager's files can be read and written by their owner alone, whatever the
umask says, and those that are there already are made so. Nor is a file of theirs ours: a name that is a link, or leads
to a file with another name too, to a file of another user, or to what is no file, is refused, for who may write to the
directory could have us write over any file of ours.
"""

from __future__ import annotations

import errno
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
        """True if `claim` has made the directory."""
        self._lock: int | None = None

    def claim(self) -> None:
        """Make the directory if it is missing, and take it; raises StoreUnusableError when another manager has it."""
        try:
            self.made = _make(self.path)
            lock = open_private(self.path / "lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise self._unusable(error) from error
        self._warn_of_others()
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

    def _warn_of_others(self) -> None:
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            logger.warning(
                "others may write to the data directory path=%s mode=%04o: they can put files of theirs in the place "
                "of the queue manager's; take that from them: chmod go-w %s", self.path, mode, self.path,
                extra={"event": "data_directory_writable"}
            )  # fmt: skip

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
    """Open a file and return its descriptor; one that is made is its owner's alone, whatever the umask says. It is cut
    (O_TRUNC) only when it was found to be ours. Raises OSError; PermissionError for a file that is not ours alone.
    """
    writes = flags & os.O_ACCMODE != os.O_RDONLY
    try:
        descriptor = os.open(path, flags & ~os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, _MODE)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _refused(path, "is a link") from error
    try:
        found = os.fstat(descriptor)
        _refuse_foreign(path, found, writes=writes)
        os.set_blocking(descriptor, True)
        if writes and stat.S_IMODE(found.st_mode) & _MODE != _MODE:
            os.fchmod(descriptor, _MODE)  # a umask took from the owner
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def restrict(path: Path) -> None:
    """Make a file its owner's alone, if it is there; where that cannot be done, a warning says so. Raises OSError;
    PermissionError for what is not ours alone.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    _refuse_foreign(path, found)
    if stat.S_IMODE(found.st_mode) == _MODE:
        return
    try:
        path.chmod(_MODE)
    except OSError as error:
        logger.warning(
            "others may read or write a file of the queue manager path=%s: %s",
            path,
            error,
            extra={"event": "file_accessible"},
        )


def _refuse_foreign(path: str | os.PathLike[str], found: os.stat_result, *, writes: bool = True) -> None:
    """Raise PermissionError for what nobody but another user, or a mistake, can have put in the place of a file. Who
    only reads, as an administrator who looks at another user's data, may read what is a file.
    """
    if stat.S_ISLNK(found.st_mode):
        what = "is a link"
    elif not stat.S_ISREG(found.st_mode):
        what = "is no file"
    elif writes and found.st_nlink > 1:
        what = "has another name too (a hard link)"
    elif writes and found.st_uid != os.geteuid():
        what = f"belongs to another user (uid {found.st_uid}, not {os.geteuid()})"
    else:
        return
    raise _refused(path, what)


def _refused(path: str | os.PathLike[str], what: str) -> PermissionError:
    return PermissionError(
        errno.EPERM, f"{what}, and is not touched; look who has put it there, and move it away", os.fspath(path)
    )


def _make(path: Path) -> bool:
    """Make a directory, and its parents, so that they survive a power failure. True if it was missing."""
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
