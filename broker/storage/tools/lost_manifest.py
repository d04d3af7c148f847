"""A manifest that is gone, made up of what the other files of the store say of themselves.

The key of all checks is gone with it. But a check tells where it began, and that is all that the key is for
(`broker.storage.tools.seed`).
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from broker.storage.creation import LogSettings
from broker.storage.log import manifest as manifests
from broker.storage.log.manifest import Manifest
from broker.storage.log.record import read_file_header
from broker.storage.snapshot.checks import Checks
from broker.storage.start import databases
from broker.storage.store import StoreUnusableError
from broker.storage.tools import reading
from broker.storage.tools.seed import agreed, key_of, seed_of

if TYPE_CHECKING:
    from broker.storage.disk.disk import Disk
    from broker.storage.log.record import FileHeader


def rebuilt(disk: Disk) -> Manifest:
    """Return the manifest that the other files tell of: not how far the log reaches, and not the name. Raises
    StoreUnusableError when too little is left of them.
    """
    names = sorted(disk.names())
    headers = [found for name in names if name.startswith("log.") and (found := _header(disk, name)) is not None]
    values = {name: value for name in databases(set(names)) if (value := _state_value(disk, name))}
    covered = [(each.covered, each.check) for each in headers] + [Checks.sealed(value) for value in values.values()]
    seed = agreed(seed_of(*each) for each in covered)
    if seed is None:
        raise StoreUnusableError(
            f"{disk.path / manifests.FILE} is gone, and with it the key of all checks; too little of the log "
            "and the database is left to find it again: restore the directory from a backup"
        )
    headers = [each for each in headers if seed_of(each.covered, each.check) == seed]
    states = {name: state for name, value in values.items() if (state := Checks(seed).unseal(value)) is not None}
    database = max(states, key=lambda name: (states[name][1].number, number_of(name)), default=None)
    header = headers[0] if headers else None
    return Manifest(
        "",
        header.instance if header else states[str(database)][0],
        key_of(seed),
        files=max([2, *(each.file + 1 for each in headers)]),
        file_bytes=header.file_bytes if header else LogSettings().file_bytes,
        block_bytes=header.block_bytes if header else disk.block_bytes(),
        generation=0,
        state=manifests.FAILED,
        cause="the manifest is gone",
        db=number_of(database) if database else max(map(number_of, databases(set(names))), default=1),
    )


def _header(disk: Disk, name: str) -> FileHeader | None:
    try:
        return read_file_header(disk.read(name))
    except OSError:
        return None


def _state_value(disk: Disk, name: str) -> bytes | None:
    try:
        with reading.connected(disk, name) as db:
            return reading.DamagedDatabase(db, Checks(0)).state_value()
    except (OSError, sqlite3.Error):
        return None


def number_of(database: str) -> int:
    """The number in the name of a database."""
    return int(database.removeprefix("evermq-").removesuffix(".db"))
