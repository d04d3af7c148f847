"""The file `evermq.db`: the whole store up to version 1, and since then an empty database in its place."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from broker.storage.creation import OLD_FILE
from broker.storage.log import manifest as manifests
from broker.storage.snapshot.database import check_owner
from broker.storage.snapshot.upgrade import VERSION
from broker.storage.start import databases
from broker.storage.store import StoreUnusableError
from broker.storage.tools.reading import connected

if TYPE_CHECKING:
    from broker.storage.disk.disk import Disk


class OldStore(NamedTuple):
    """A store of version 1: what is wrong with it, and how much a start would find in it."""

    findings: list[str]
    messages: int
    definitions: int


def old_store(disk: Disk) -> OldStore | None:
    """Look at the store of version 1 that a directory has, and nothing newer; None where it has none. Raises
    StoreUnusableError where a copy that is needed finds no room.
    """
    names = disk.names()
    newer = manifests.FILE in names or manifests.log_name(0) in names or databases(names)
    found = disk.identity(OLD_FILE)
    if newer or found is None or not found.size:
        return None
    path = disk.path / OLD_FILE
    try:
        with connected(disk, OLD_FILE) as db:
            if check_owner(db, path) != VERSION:
                return None
            faults = [f"{path}: {line}" for (line,) in db.execute("PRAGMA integrity_check(10)") if line != "ok"]
            (messages,) = db.execute("SELECT count(*) FROM message").fetchone()
            (definitions,) = db.execute("SELECT count(*) FROM object").fetchone()
            lacking = "SELECT count(*) FROM message WHERE data IS NULL AND id NOT IN (SELECT id FROM body)"
            (lost,) = db.execute(lacking).fetchone()
    except (OSError, sqlite3.Error) as error:
        return OldStore([f"{path} cannot be read: {error}"], 0, 0)
    if lost:
        faults.append(f"{path}: {lost} messages have no data")
    return OldStore(faults, messages, definitions)


def placeholder_note(disk: Disk) -> str:
    """Return what is odd about the file beside a newer store; "" where it is as it should be, or not there: a start
    makes it. It holds nothing, so no oddity of it is damage.
    """
    found = disk.identity(OLD_FILE)
    if found is None:
        return ""
    path = disk.path / OLD_FILE
    try:
        with connected(disk, OLD_FILE) as db:
            if check_owner(db, path) != VERSION:
                return ""
    except (OSError, sqlite3.Error, StoreUnusableError) as error:
        return f"an older release would not see that this store is newer: {path}: {error}"
    return f"{path} is the store of version 1 that this one was made of: a start sets it aside"
