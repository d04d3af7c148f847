"""The backup of a store whose queue manager is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.storage.disk.system_disk import SystemDisk
from broker.storage.log import manifest as manifests
from broker.storage.log_store import LogStore
from broker.storage.store import StoreUnusableError

if TYPE_CHECKING:
    from pathlib import Path


async def back_up(data: Path, to: Path, name: str | None = None) -> None:
    """Start the store in the directory `data`, make a copy of it in the directory `to`, and stop it in order. `name` is
    that of its queue manager, None for whatever the store says.

    Raises StoreUnusableError when there is no store, when it is in use or does not start; StoreFullError,
    BackupFailedError, StoreFailedError.
    """
    owner = owner_of(data)
    store = LogStore(data, name=owner if name is None else name)
    await store.open()
    try:
        if not store.was_orderly:  # What a stop has kept over one start only is past, as for any start after a crash.
            async for _ in store.load_messages():
                pass
        await store.backup(to)
    finally:
        await store.close()


def owner_of(data: Path) -> str:
    """Return the name of the queue manager whose data it is; "" when the manifest is damaged, which its start will say.
    Raises StoreUnusableError where there is no store.
    """
    if not (data / manifests.FILE).exists():
        raise StoreUnusableError(f"there is no store in {data}, or one of an older release, which a start upgrades")
    kept = manifests.newest(manifests.read_slots(SystemDisk(data)))
    return "" if kept is None else kept.name
