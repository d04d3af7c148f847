"""Watch that the names of a store still lead to the files that are open (log rule 9.2).

Who writes into a file that was removed, or replaced by a copy, keeps nothing; and no write tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.storage.log.manifest import FILE as MANIFEST
from broker.storage.store import StoreFailedError

if TYPE_CHECKING:
    from broker.storage.disk.disk import Disk, Identity
    from broker.storage.log.manifest import ManifestFile


class FileWatch:
    """The files that are open on `disk`, as the manifest names them."""

    def __init__(self, disk: Disk, manifest: ManifestFile) -> None:
        self._disk = disk
        self._manifest = manifest
        self._opened: dict[str, Identity | None] = {}
        self.renew()

    def renew(self) -> None:
        """Take what the names lead to now for what is open."""
        kept = self._manifest.current
        names = ("", MANIFEST, kept.database, *kept.logs)
        self._opened = {name: self._disk.identity(name) for name in names}

    def compare(self) -> None:
        """Look at all of them; raises StoreFailedError. It blocks for as long as the file system does."""
        held = self._disk.held_lock()
        if held is None or not _same(held, self._disk.identity("lock")):
            raise self._gone("lock")
        for name, opened in self._opened.items():
            found = self._disk.identity(name)
            if opened is None or found is None or not _same(opened, found):
                raise self._gone(name)
            if name.startswith(("log.", MANIFEST)) and found.size != opened.size:
                raise StoreFailedError(f"{self._disk.path / name} has {found.size} bytes in place of {opened.size}")

    def _gone(self, name: str) -> StoreFailedError:
        return StoreFailedError(f"{self._disk.path / name} was removed or replaced while the queue manager runs")


def _same(opened: Identity, found: Identity | None) -> bool:
    return found is not None and (opened.device, opened.inode) == (found.device, found.inode)
