"""The database written anew, under the next number (log rule 6.6).

So it is after a failure, when a cache may show what the medium has not, and when a database is nearly all free room. A
database never takes over a name that had a write-ahead log: SQLite would apply a stale log of that name to it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from anyio import CancelScope

from broker.storage.log.manifest import database_name
from broker.storage.snapshot.errors import writing
from broker.storage.store import StoreFailedError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from broker.storage.disk.disk import DatabaseWorker, Disk, DiskThread
    from broker.storage.snapshot.database import Snapshot


async def rewritten(
    disk: Disk, worker: DiskThread, old: DatabaseWorker, snapshot: Snapshot, number: int
) -> tuple[DatabaseWorker, Snapshot]:
    """A copy of the database that `old` has open, synced, and read back past the cache: its thread, and its snapshot.

    `old` stays as it is: it counts until the manifest names the other. Raises StoreFullError, StoreFailedError,
    StoreUnusableError, OSError.
    """
    name = database_name(number)
    new = snapshot.at(disk.path / name)
    await worker.perform(partial(remove_database, disk, name))
    await worker.perform(partial(disk.create, name, b"", 0))  # for its mode: SQLite would ask the umask
    await old.perform(partial(_copy, path=str(disk.path / name)))
    await worker.perform(partial(settle, disk, name, new))
    database = await disk.start_database(name)
    try:
        await database.perform(new.open)
        damaged = await database.perform(new.verify)
        whole = await old.perform(partial(_readable, snapshot=snapshot, ids=damaged))
        if whole:
            raise StoreFailedError(f"{new.path} is not what was written: the data of {len(whole)} messages differs")
    except BaseException:
        with CancelScope(shield=True):
            await database.abandon()
        raise
    return database, new


def remove_database(disk: Disk, name: str) -> None:
    """Remove a database that does not count, and what SQLite has beside it: a new one must not find an old log."""
    for each in (f"{name}-wal", f"{name}-shm", f"{name}-journal", name):
        disk.remove(each)


def _copy(db: sqlite3.Connection, path: str) -> None:
    with writing():
        db.execute("VACUUM INTO ?", (path,))


def settle(disk: Disk, name: str, snapshot: Snapshot) -> None:
    """Let the copy be what a start finds: in the mode with a write-ahead log, whole on the medium, out of the cache."""
    db = disk.connect(name)
    try:
        snapshot.open(db)
    finally:
        db.close()
    disk.sync(name)
    disk.sync_names()
    disk.drop_cache(name)


def _readable(db: sqlite3.Connection, snapshot: Snapshot, ids: Sequence[int]) -> dict[int, bytes]:
    return snapshot.read_data(db, ids)[0]
