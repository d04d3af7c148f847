"""A store that does not start goes on with what is left of it, for who accepts that the rest is lost.

The new database, with all that can be read, is written first, beside the files that there are, and read back. Then the
manifest that names it is put in the place of the old one: from there on the recovery is done, whatever is cut short.
Last the log files and the old database are put aside, into a folder of the directory. The numbers of batches go on
above every number that was seen, so nothing that is put aside can come back.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.storage.creation import create_logs
from broker.storage.disk.disk import NO_ROOM
from broker.storage.log import manifest as manifests
from broker.storage.snapshot.checks import Checks
from broker.storage.snapshot.database import Snapshot
from broker.storage.snapshot.errors import StoreBusyError
from broker.storage.snapshot.rewriting import remove_database, settle
from broker.storage.snapshot.statements import runs
from broker.storage.start import BALLAST, databases
from broker.storage.store import StoreFailedError, StoreFullError, StoreUnusableError
from broker.storage.tools.inspection import Inspection
from broker.storage.tools.lost_manifest import number_of
from broker.storage.tools.reading import stopped
from broker.storage.tools.remains import Remains

if TYPE_CHECKING:
    from broker.storage.disk.disk import Disk
    from broker.storage.log.manifest import Manifest

_NEW: Final = ".new"


class Recovery(NamedTuple):
    """The outcome of a recovery, made or only tried. Without `findings` there was nothing to recover, and nothing was
    done.

    `missing` are the numbers of batches that are lost, as ranges; `lost` tells messages and definitions that are;
    `snapshot_lost`: the whole database is, and with it whatever the log does not have. `folder` has what was replaced.
    """

    findings: list[str]
    notes: list[str]
    messages: int
    definitions: int
    missing: list[tuple[int, int]]
    lost: list[str]
    snapshot_lost: bool
    folder: str | None


def recover(disk: Disk, now: float, queue_attributes: bytes, *, accept_loss: bool) -> Recovery:
    """Make a store that starts of what is left in a directory that nobody has open; without `accept_loss` only tell
    what that would be. `now` (wall-clock seconds) names the folder for what is replaced; `queue_attributes` are those
    of a new local queue, packed, for queues whose definitions are lost.

    It blocks; raises StoreUnusableError when there is no store, when it is in use or of a newer format, when too
    little is left of it, and when there is no room.
    """
    with stopped(disk.path, alone=accept_loss), Inspection(disk) as inspection:
        inspection.look()
        inspection.look_at_messages()
        remains = Remains(inspection, queue_attributes)
        folder = None
        if inspection.findings and accept_loss:
            folder = f"damaged-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"
            _Recovery(disk, inspection, remains).perform(folder)
        else:
            for _ in remains.each_message():
                pass
            for _ in remains.each_object():
                pass
        return Recovery(
            inspection.findings, inspection.notes, remains.messages, remains.definitions, remains.missing,
            remains.lost, inspection.database is None, folder,
        )  # fmt: skip


class _Recovery:
    """One recovery, in steps that may be cut short and begun again."""

    def __init__(self, disk: Disk, inspection: Inspection, remains: Remains) -> None:
        self._disk = disk
        self._inspection = inspection
        self._remains = remains
        names = disk.names()
        kept = inspection.kept
        self._number = max([kept.db, *map(number_of, databases(names))] if inspection.rebuilt else [kept.db]) + 1
        self._made = replace(
            kept, name=remains.name, version=kept.version + 1, generation=remains.generation + 1,
            state=manifests.ORDERLY, cause="", db=self._number, snap=remains.last, carrying=False,
            durable=remains.last, last=remains.last, boot="",
        )  # fmt: skip

    def perform(self, folder: str) -> None:
        """Do all of it."""
        try:
            self._write()
        except (OSError, sqlite3.Error, StoreFullError, StoreFailedError, StoreBusyError) as error:
            self._clean()
            raise StoreUnusableError(self._failure(error)) from error
        try:
            self._put_in_place(folder)
        except OSError as error:
            raise StoreUnusableError(self._failure(error)) from error

    def _write(self) -> None:
        """The new files, all that need room, under names that do not count yet."""
        self._clean()
        create_logs(self._disk, self._made, _NEW)
        try:
            self._write_database(self._made)
        except StoreFullError:
            self._disk.remove(BALLAST)
            self._write_database(self._made)

    def _write_database(self, made: Manifest) -> None:
        name = made.database
        snapshot = Snapshot(self._disk.path / name, made.instance, Checks(made.seed))
        remove_database(self._disk, name)
        remains = self._remains
        remains.begin()
        db = self._disk.connect(name)
        try:
            snapshot.create(db)
            for rows in runs(remains.each_message()):
                snapshot.begin(db)
                snapshot.insert(db, rows)
                snapshot.commit(db, 0, 1)
                snapshot.checkpoint(db)
            snapshot.begin(db)
            snapshot.define(db, [((each.space, each.name), each) for each in remains.each_object()])
            snapshot.store_keys(db, remains.each_key())
            for steps in runs(remains.each_step()):
                snapshot.store_steps(db, steps)
            snapshot.raise_high_water(remains.high_water)
            snapshot.commit(db, made.snap, made.generation)
            snapshot.checkpoint(db)
        finally:
            db.close()
        settle(self._disk, name, snapshot)
        db = self._disk.connect(name)
        try:
            snapshot.open(db)
            if snapshot.verify(db):
                raise StoreFailedError(f"{snapshot.path} is not what was written")
        finally:
            db.close()

    def _put_in_place(self, folder: str) -> None:
        """The manifest names the new database; then what it does not name any more goes into the folder."""
        disk = self._disk
        disk.make_folder(folder)
        content = self._old_manifest()
        if content:
            disk.create(f"{folder}/{manifests.FILE}", content, len(content))
        manifests.create(disk, self._made)
        for name in self._made.logs:
            if disk.identity(name) is not None:
                disk.rename(name, f"{folder}/{name}")
            disk.rename(f"{name}{_NEW}", name)
        for name in sorted(disk.names()):
            if manifests.DATABASE.match(name) and not name.startswith(self._made.database):
                disk.rename(name, f"{folder}/{name}")
        disk.sync_names()

    def _old_manifest(self) -> bytes:
        """As far as it can be read; it is replaced in its place."""
        try:
            return bytes(self._disk.read(manifests.FILE))
        except OSError:
            return b""

    def _clean(self) -> None:
        """Remove what a recovery that was cut short has left."""
        for name in self._made.logs:
            self._disk.remove(f"{name}{_NEW}")
        remove_database(self._disk, self._made.database)

    def _failure(self, error: Exception) -> str:
        no_room = isinstance(error, StoreFullError) or getattr(error, "errno", None) in NO_ROOM
        hint = "; make room for a second copy of it" if no_room else ""
        return f"the store in {self._disk.path} cannot be recovered: {error}{hint}"
