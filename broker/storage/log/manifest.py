"""The manifest: what the other files of a store must be.

It lies in two slots of one file, which are written in turn, in place, and never by rename: on a full disk a file cannot
be replaced, but a slot can be written over. The valid slot of the highest version counts. A slot is written over only
when this process has synced the other one (log rule 5): so one of them is good at every instant.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

import msgpack

from broker.storage.store import StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.storage.disk.disk import Disk, DiskFile

FILE: Final = "manifest"
SLOTS: Final = (0, 64 * 1024)
FILE_BYTES: Final = 128 * 1024

RUNNING: Final = "running"
ORDERLY: Final = "orderly"
FAILED: Final = "failed"

_MAGIC: Final = b"EVMQMANI"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The fields. `snap`: the database holds all batches up to that number. `durable`: the log reaches at least that
    one; `last`: at an orderly stop, exactly. `carrying`: the database may be half written.
    """

    name: str
    instance: bytes
    key: bytes
    files: int
    file_bytes: int
    block_bytes: int
    version: int = 0
    generation: int = 1
    state: str = ORDERLY
    cause: str = ""
    db: int = 1
    snap: int = 0
    carrying: bool = False
    durable: int = 0
    last: int = 0
    boot: str = ""

    @property
    def seed(self) -> int:
        """The first value of every check: the CRC-32 of the key."""
        return crc32(self.key)

    @property
    def database(self) -> str:
        """The name of the database that counts."""
        return database_name(self.db)

    @property
    def logs(self) -> list[str]:
        """The names of the log files, in turn."""
        return [log_name(number) for number in range(self.files)]


DATABASE: Final = re.compile(r"evermq-\d+\.db")
"""The names that `database_name` gives."""


def database_name(number: int) -> str:
    """The file of the snapshot with that number."""
    return f"evermq-{number}.db"


def log_name(number: int) -> str:
    """The log file with that number."""
    return f"log.{number}"


def encode(manifest: Manifest) -> bytes:
    """The block of a slot."""
    body = msgpack.packb((FORMAT, asdict(manifest)))
    slot: bytes = _MAGIC + len(body).to_bytes(4, "little") + body
    return (slot + crc32(slot).to_bytes(4, "little")).ljust(manifest.block_bytes, b"\0")


def decode(slot: bytes) -> Manifest | None:
    """Return the manifest in a slot; None when it is not valid. Raises StoreUnusableError for one of a newer format."""
    end = len(_MAGIC) + 4 + int.from_bytes(slot[8:12], "little")
    if (
        not slot.startswith(_MAGIC)
        or len(slot) < end + 4
        or crc32(slot[:end]) != int.from_bytes(slot[end : end + 4], "little")
    ):
        return None
    form, values = msgpack.unpackb(slot[12:end])
    if form > FORMAT:
        raise StoreUnusableError(f"the manifest has format {form}, and this program knows {FORMAT}; start a newer one")
    known = {each.name for each in fields(Manifest)}
    return Manifest(**{name: value for name, value in values.items() if name in known})


class Slot(NamedTuple):
    """One slot as it was read: all of its room, and the manifest in it, or None when that is not valid."""

    content: bytes
    manifest: Manifest | None

    @property
    def doubtful(self) -> bool:
        """True if it is neither valid nor empty: its last write was cut short, or it is damaged."""
        return self.manifest is None and any(self.content)


def read_slots(disk: Disk) -> list[Slot]:
    """Both slots, past the cache; raises StoreUnusableError for a newer format, OSError."""
    content = disk.read(FILE)
    slots = [bytes(content[start : start + 64 * 1024]) for start in SLOTS]
    return [Slot(slot, decode(slot)) for slot in slots]


def newest(slots: Sequence[Slot]) -> Manifest | None:
    """The manifest that counts: that of the highest version."""
    return max((each.manifest for each in slots if each.manifest), key=lambda each: each.version, default=None)


class ManifestFile:
    """The manifest of an open store. One thread writes it at a time."""

    def __init__(self, file: DiskFile) -> None:
        self._file = file
        self._block = b""
        self._good = 0  # the slot that is known to be good
        self.current: Manifest
        self.doubtful = False

    @classmethod
    def open(cls, disk: Disk) -> ManifestFile:
        """Read the manifest past the cache; raises StoreUnusableError when it is cut off or no slot is valid, OSError.

        `doubtful` says that a slot is neither valid nor empty: its last write was cut short, or it is damaged.
        """
        found = disk.identity(FILE)
        if found is not None and found.size != FILE_BYTES:
            raise StoreUnusableError(
                f"{disk.path / FILE} has {found.size} bytes in place of {FILE_BYTES}; restore the directory from a "
                f"backup, or see `evermq recover {disk.path} --accept-loss`"
            )
        slots = read_slots(disk)
        current = newest(slots)
        if current is None:
            raise StoreUnusableError(
                f"{disk.path / FILE} holds no valid manifest; restore the directory from a backup, or see "
                f"`evermq recover {disk.path} --accept-loss`"
            )
        self = cls(disk.open(FILE, current.block_bytes))
        self._good = [each.manifest for each in slots].index(current)
        self._block = slots[self._good].content[: current.block_bytes]
        self.current = current
        self.doubtful = any(each.doubtful for each in slots)
        return self

    def renew(self) -> None:
        """Write the slot that was read anew in its place: only then may the other be written over."""
        self._file.write(SLOTS[self._good], self._block)

    def write(self, **changes: Any) -> None:
        """Write the manifest with some fields changed; raises OSError, and then `current` is as it was.

        A write that failed may be repeated: it goes to the same slot.
        """
        changed = replace(self.current, version=self.current.version + 1, **changes)
        self._file.write(SLOTS[1 - self._good], encode(changed))
        self._good = 1 - self._good
        self.current = changed

    def close(self) -> None:
        """Let go of the file; harmless when already closed."""
        self._file.close()


def create(disk: Disk, manifest: Manifest) -> None:
    """Make the manifest, which makes the store exist: by a name of its own and a rename, all synced (log rule 3)."""
    disk.create(f"{FILE}.new", encode(manifest), FILE_BYTES)
    disk.rename(f"{FILE}.new", FILE)
    disk.sync_names()
