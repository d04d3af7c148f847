"""File systems that cannot be trusted with a queue manager's data, and why (log rule 10)."""

from __future__ import annotations

import ctypes
import os
import sqlite3
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NETWORK = {
    0x00006969: "NFS",
    0x0000517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB",
    0x65735546: "FUSE",
    0x01021997: "9p",
    0x00C36400: "Ceph",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x786F4256: "vboxsf",
}
_LAYERED = {0x794C7630: "overlay", 0x61756673: "aufs"}
_IN_MEMORY = {0x01021994: "tmpfs", 0x858458F6: "ramfs"}
_COPYING = {0x9123683E: "btrfs", 0x2FC12FC1: "ZFS", 0xCA451A4E: "bcachefs"}

_SQLITE_SOUND = (3, 51, 3)
_STATFS_BYTES = 4096  # The structure has some 120; what matters is its first field.


def warnings(path: Path) -> list[str]:
    """Return the reasons why a directory's file system cannot be trusted, a sentence each; none if it can, or if
    unknown.
    """
    return _sentences(path, _type(path))


def refuses_full_sync(path: Path) -> str:
    """Return the warning about a file system of macOS that does not pass a sync on to the drive."""
    return (
        f"{path} is on a file system that refuses F_FULLFSYNC, so what was acknowledged may still be in the drive's "
        "own cache when the power fails; move it to a disk of format APFS"
    )


def copies(path: Path) -> bool:
    """True if the file system of a directory writes a changed block to a new place."""
    return _type(path) in _COPYING


def sqlite_note(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str | None:
    """Return the warning about SQLite's version, or None."""
    if version >= _SQLITE_SOUND:
        return None
    text, sound = (".".join(map(str, each)) for each in (version, _SQLITE_SOUND))
    return (
        f"SQLite {text} is older than {sound}, which mended a rare loss when two programs carry a write-ahead log over "
        "at once; while the queue manager runs, let no other program write to its database"
    )


def _sentences(path: Path, type: int) -> list[str]:
    if name := _NETWORK.get(type):
        return [
            f"{path} is on {name}, whose locks and syncs are not those of a local disk: two queue managers may open it "
            "at once, and what was acknowledged may be lost; move it to a local disk"
        ]
    if name := _LAYERED.get(type):
        return [
            f"{path} is on {name}, the file system of a container, and is gone when the container is removed; "
            "mount a volume there"
        ]
    if name := _IN_MEMORY.get(type):
        return [f"{path} is on {name}, in memory, and is gone when the machine stops; move it to a disk"]
    if name := _COPYING.get(type):
        return [
            f"{path} is on {name}, which writes changed blocks to new places: a write to the log may find no room on a "
            "full disk although the log was made at its full size, and the queue manager then stops; keep room free "
            "there, or move it to ext4 or XFS"
        ]
    return []


def _type(path: Path) -> int:
    """The number by which Linux knows the kind of file system that a directory is on; 0 when it cannot be told."""
    if not sys.platform.startswith("linux"):
        return 0
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if ctypes.CDLL(None).statfs(os.fsencode(path), found):
        return 0
    return ctypes.c_ulong.from_buffer(found).value & 0xFFFFFFFF
