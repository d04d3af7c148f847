"""Stores that are stopped, in order or as a crash leaves them, and what is done to their files."""

from __future__ import annotations

import asyncio
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log.manifest import newest, read_slots
from broker.storage.snapshot_keeper import CHANGE_BYTES
from broker.storage.start import read_log
from tests.storage.history import History
from tests.storage.samples import contents
from tests.stores import log_store, settled

if TYPE_CHECKING:
    from pathlib import Path

    from broker.storage.log.record import LogPlace
    from tests.storage.samples import Contents


_BALLAST_BYTES: Final = (
    128 * CHANGE_BYTES
)  # for so many changes of the snapshot: it is carried over when a file is full


def stored(path: Path, seed: int = 1, batches: int = 250, *, crashed: bool = False) -> History:
    """Make a store at `path` that has been told so many batches; what it was told. Some are in the snapshot, more than
    once the log has turned, and after a crash some are in the log alone.
    """
    history = History(seed)

    async def write() -> None:
        store = log_store(path.with_name("written") if crashed else path, ballast_bytes=_BALLAST_BYTES)
        await store.open()
        await history.write(store, batches)
        if crashed:
            await settled(store)
            shutil.copytree(path.with_name("written"), path)
        await store.close()

    asyncio.run(write())
    return history


def started(path: Path) -> Contents:
    """Return what a start finds at `path`; raises StoreUnusableError."""

    async def start() -> Contents:
        store = log_store(path)
        await store.open()
        try:
            return await contents(store)
        finally:
            await store.close()

    return asyncio.run(start())


def content(path: Path) -> dict[str, str]:
    """All files at `path`, by what is in them."""
    return {
        str(each.relative_to(path)): sha256(each.read_bytes()).hexdigest() for each in path.rglob("*") if each.is_file()
    }


def place_of(number: int, path: Path) -> LogPlace:
    """Return the place of the record of a batch in the log."""
    disk = SystemDisk(path)
    kept = newest(read_slots(disk))
    assert kept is not None
    (place,) = {each.place for each in read_log(disk, kept) if each.number == number}
    return place


def change(path: Path, at: int, *, bit: int = 0) -> None:
    """Change a bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def change_data(path: Path, data: bytes) -> None:
    """Change a bit of the only place in a file where this data is."""
    assert path.read_bytes().count(data) == 1
    change(path, path.read_bytes().index(data))
