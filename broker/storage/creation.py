"""Create a store: empty, or with the rows of a store of version 1, which had no log (log rules 3, 7).

The manifest comes last, under a name of its own and a rename. Until then there is no store, and whatever ends the
creation leaves only what the next start makes anew.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.storage.log import manifest, record
from broker.storage.snapshot.checks import Checks
from broker.storage.snapshot.database import Snapshot
from broker.storage.snapshot.rewriting import remove_database
from broker.storage.snapshot.scripts import version
from broker.storage.snapshot.upgrade import copy_rows, is_old
from broker.storage.store import StoreFailedError, StoreFullError, StoreUnusableError

if TYPE_CHECKING:
    from broker.storage.disk.disk import Content, Disk

OLD_FILE: Final = "evermq.db"
"""The whole store up to version 1. In its place lies an empty database of a newer version: so an older release that is
started here refuses, instead of beginning an empty store.
"""

UNFINISHED: Final = "backup-unfinished"
"""There until a backup in this directory is whole."""

KEPT_FILE: Final = "evermq.db.before-2"
"""The file that an upgrade has read, kept until the administrator removes it."""

logger = logging.getLogger(__name__)


class LogSettings(NamedTuple):
    """The settings of a new store; an existing one keeps its own `files` and `file_bytes`."""

    files: int = 2
    file_bytes: int = 16 * 1024 * 1024
    inline: str = "adaptive"


def create(disk: Disk, name: str, settings: LogSettings) -> None:
    """Make a store in a directory without a manifest. It blocks; raises StoreUnusableError, and leaves nothing then
    that a later start would take for a whole store.
    """
    try:
        upgrade = _expect_nothing(disk)
        _create(disk, name, settings, upgrade=upgrade)
    except (OSError, StoreFullError, StoreFailedError, sqlite3.Error) as error:
        raise StoreUnusableError(f"the store in {disk.path} cannot be made: {error}") from error
    if upgrade:
        logger.warning("store upgraded path=%s: %s is kept until you remove it", disk.path, disk.path / KEPT_FILE)
    elif disk.made:
        logger.info("new store path=%s: the directory was not there and was made", disk.path)


def finish_upgrade(disk: Disk) -> None:
    """Put the empty database in the place of the old store's, if it is not there. What keeps it from that is a warning:
    it is for older releases alone.
    """
    try:
        found = disk.identity(OLD_FILE)
        if found is not None and is_old(disk, OLD_FILE):
            disk.rename(OLD_FILE, KEPT_FILE)
            found = None
        if found is None:
            _keep_log(disk)
            place_placeholder(disk)
    except (OSError, sqlite3.Error, StoreUnusableError) as error:
        logger.warning(
            "an older release would not see that this store is newer path=%s: %s",
            disk.path,
            error,
            extra={"event": "old_store_not_marked"},
        )


def _create(disk: Disk, name: str, settings: LogSettings, *, upgrade: bool) -> None:
    block_bytes = disk.block_bytes()
    made = manifest.Manifest(
        name, secrets.token_bytes(16), secrets.token_bytes(16), settings.files,
        max(settings.file_bytes // block_bytes, 4) * block_bytes, block_bytes,
    )  # fmt: skip
    create_logs(disk, made)
    new = f"{made.database}.new"  # Cut short, it may be no database at all; nobody is to take that for a store.
    for each in (made.database, new):
        remove_database(disk, each)
    snapshot = Snapshot(disk.path / new, made.instance, Checks(made.seed))
    db = disk.connect(new)
    try:
        snapshot.create(db)
        if upgrade:
            copy_rows(disk, OLD_FILE, db, snapshot)
        snapshot.checkpoint(db)
    finally:
        db.close()
    disk.sync(new)
    disk.rename(new, made.database)
    if not upgrade:
        place_placeholder(disk)
    disk.sync_names()
    manifest.create(disk, made)
    if upgrade:
        finish_upgrade(disk)


def create_logs(disk: Disk, made: manifest.Manifest, suffix: str = "") -> None:
    """Make the files of an empty log; raises OSError."""
    for number, log in enumerate(made.logs):
        header = record.file_header(
            made.instance, number, block_bytes=made.block_bytes, file_bytes=made.file_bytes, seed=made.seed
        )
        disk.create(f"{log}{suffix}", header, made.file_bytes)


def _keep_log(disk: Disk) -> None:
    """Have the old store keep its write-ahead log, if it could not be carried over: it is half of it, and SQLite would
    apply it to what takes the place.
    """
    for each in ("-wal", "-shm"):
        if disk.identity(f"{OLD_FILE}{each}") is not None:
            disk.rename(f"{OLD_FILE}{each}", f"{KEPT_FILE}{each}")


def place_placeholder(disk: Disk) -> None:
    """Put the empty database in its place, by which an older release sees that it must not start here. Raises OSError,
    sqlite3.Error.
    """
    new = f"{OLD_FILE}.new"
    remove_database(disk, new)
    db = disk.connect(new)
    try:
        db.execute("PRAGMA application_id = 0x45764d51")
        db.execute(f"PRAGMA user_version = {version()}")
    finally:
        db.close()
    disk.sync(new)
    disk.rename(new, OLD_FILE)
    disk.sync_names()


def _expect_nothing(disk: Disk) -> bool:
    """Check that a directory without a manifest may become a store: it is empty, or a creation in it was cut short, or
    it has the store of an older version (then True). Raises StoreUnusableError where a manifest is missing.
    """
    names = disk.names()
    if UNFINISHED in names:
        raise StoreUnusableError(f"{disk.path} is a backup that was cut short; make another, in another directory")
    if OLD_FILE in names and is_old(disk, OLD_FILE):
        return True
    found = [name for name in sorted(names) if _holds_rows(disk, name)]
    if found:
        raise StoreUnusableError(
            f"{disk.path / manifest.FILE} is missing, and {found[0]} is that of a store; put it back, restore the "
            f"directory from a backup, or see `evermq recover {disk.path} --accept-loss`"
        )
    return False


def _holds_rows(disk: Disk, name: str) -> bool:
    """True if a file holds anything that somebody has put."""
    if name.startswith("log."):
        return _holds_a_magic(disk.read(name))
    if name.startswith("evermq-") and name.endswith(".db"):
        db = disk.connect(name)
        try:
            (tables,) = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'message'").fetchone()
            if not tables:
                return False
            (rows,) = db.execute("SELECT (SELECT count(*) FROM message) + (SELECT count(*) FROM object)").fetchone()
            return bool(rows)
        except sqlite3.Error:
            return True  # Whatever it is, it is not what a creation leaves.
        finally:
            db.close()
    return False


def _holds_a_magic(content: Content) -> bool:
    """True if a log file has anything that looks like a record: without the manifest there is no key to check it."""
    size = len(record.MAGIC)
    return any(content[at : at + size] == record.MAGIC for at in range(4096, len(content), 4096))
