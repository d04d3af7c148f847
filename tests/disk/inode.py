"""One file: what the medium has, what the page cache shows, and in which sectors the two may differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

_EVICTED_AT_READ = 0.02
_EVICTED_AT_DROP = 0.9
_MAPPED = 0.15
_PAGE_BYTES = 4096


class Inode:
    """A file, whatever its names.

    `view` is what a read through the cache gives. It differs from `medium` only in `dirty` sectors, which are yet to be
    written, and in `stale` ones, whose write failed: the system takes those for clean, so they may leave the cache at
    any moment, and the medium's older content shows. `unreadable` sectors give EIO until they are written again.
    """

    __slots__ = ("dirty", "error", "locks", "mapped", "medium", "number", "sector_bytes", "stale", "unreadable", "view")

    def __init__(self, number: int, sector_bytes: int) -> None:
        self.number = number
        self.sector_bytes = sector_bytes
        self.medium = bytearray()
        self.view = bytearray()
        self.dirty: set[int] = set()
        self.stale: set[int] = set()
        self.unreadable: set[int] = set()
        self.mapped = False  # by another program: nothing of it leaves the cache
        self.error = False  # a write in the background failed, and the next sync is to hear of it
        self.locks: dict[object, int] = {}  # SQLite's, by who holds them

    def sectors(self, offset: int, size: int) -> range:
        """The sectors that these bytes touch."""
        if size <= 0:
            return range(0)
        return range(offset // self.sector_bytes, (offset + size - 1) // self.sector_bytes + 1)

    @property
    def settled(self) -> bool:
        """True if there is nothing to write back."""
        return not self.dirty and len(self.medium) == len(self.view)

    # Through the cache

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Change what the cache shows; a file that is too short grows."""
        size = len(data)
        if offset > len(self.view):
            self.resize(offset)
        self.view[offset : offset + size] = data
        touched = self.sectors(offset, size)
        self.dirty.update(touched)
        self.stale.difference_update(touched)

    def resize(self, size: int) -> None:
        """Cut what the cache shows, or add zeros."""
        old = len(self.view)
        if size < old:
            del self.view[size:]
            kept = -(-size // self.sector_bytes)
            self.dirty = {sector for sector in self.dirty if sector < kept}
            self.stale = {sector for sector in self.stale if sector < kept}
            self.dirty.update(self.sectors(size - 1, 1) if size % self.sector_bytes else ())
        elif size > old:
            self.view.extend(bytes(size - old))
            self.dirty.update(self.sectors(old, size - old))

    def read(self, offset: int, size: int, random: Random) -> bytes | None:
        """Return what a read through the cache gives, short at the end; None when a sector cannot be read."""
        size = max(0, min(size, len(self.view) - offset))
        if self.stale:
            seen = [sector for sector in self.sectors(offset, size) if sector in self.stale]
            self.evict(seen, _EVICTED_AT_READ, random)
        if self.unreadable and not self.unreadable.isdisjoint(self.sectors(offset, size)):
            return None
        return bytes(self.view[offset : offset + size])

    def evict(self, sectors: Iterable[int], chance: float, random: Random) -> None:
        """Let these stale sectors leave the cache, or not, a page at a time."""
        if self.mapped:
            return
        leaves: dict[int, bool] = {}
        for sector in sectors:
            page = sector * self.sector_bytes // _PAGE_BYTES
            if page not in leaves:
                leaves[page] = random.random() < chance
            if leaves[page]:
                self.stale.discard(sector)
                start = sector * self.sector_bytes
                end = min(start + self.sector_bytes, len(self.view))
                self.view[start:end] = self.medium[start:end].ljust(max(0, end - start), b"\0")

    def drop(self, random: Random) -> None:
        """Let nearly all that is clean leave the cache; none of it while another program has the file mapped."""
        if self.stale:
            self.mapped = random.random() < _MAPPED
            self.evict(sorted(self.stale), _EVICTED_AT_DROP, random)

    # From the cache to the medium

    def sync(self) -> None:
        """Have all that is dirty on the medium."""
        if self.stale:
            self.persist(self.dirty)
        elif self.dirty:
            self.medium = self.view[:]
            self.unreadable -= self.dirty
        self.dirty.clear()
        self._settle_size()

    def fail_sync(self, random: Random) -> None:
        """Have any part of what is dirty on the medium, and take all of it for clean."""
        reached = some(sorted(self.dirty), random)
        self.persist(reached)
        self.stale |= self.dirty.difference(reached)
        self.dirty.clear()
        if random.random() < 0.5:
            self._settle_size()

    def write_back(self, random: Random) -> None:
        """Have any part of what is dirty on the medium; the rest stays dirty."""
        reached = some(sorted(self.dirty), random)
        self.persist(reached)
        self.dirty.difference_update(reached)

    def cut(self, random: Random) -> None:
        """The power goes: any part of what is dirty has reached the medium, and the cache is gone."""
        self.persist(some(sorted(self.dirty), random))
        if random.random() < 0.5:
            self._settle_size()
        self.forget()

    def forget(self) -> None:
        """Let the cache show what the medium has."""
        self.view = self.medium[:]
        self.dirty.clear()
        self.stale.clear()
        self.error = self.mapped = False

    def persist(self, sectors: Iterable[int]) -> None:
        """Copy these sectors from the cache to the medium."""
        size = self.sector_bytes
        for sector in sectors:
            start = sector * size
            chunk = self.view[start : start + size]
            if len(self.medium) < start:
                self.medium.extend(bytes(start - len(self.medium)))
            self.medium[start : start + len(chunk)] = chunk
            self.unreadable.discard(sector)

    def _settle_size(self) -> None:
        """Let the medium have the length that the cache shows."""
        missing = len(self.view) - len(self.medium)
        if missing > 0:
            self.medium.extend(bytes(missing))
        elif missing < 0:
            del self.medium[missing:]
            end = -(-len(self.view) // self.sector_bytes)
            self.unreadable = {sector for sector in self.unreadable if sector < end}

    # Past the cache

    def write_through(self, offset: int, data: bytes | bytearray | memoryview, sectors: Iterable[int]) -> None:
        """Have these sectors of `data`, which lies at `offset`, on the medium. All others of it keep what they have
        there; the cache forgets them all.
        """
        size = self.sector_bytes
        touched = self.sectors(offset, len(data))
        sectors = list(sectors)
        if len(self.medium) < offset:
            self.medium.extend(bytes(offset - len(self.medium)))
        if len(sectors) == len(touched):
            self.medium[offset : offset + len(data)] = data
        else:
            for sector in sectors:
                start = sector * size - offset
                self.medium[sector * size : (sector + 1) * size] = data[start : start + size]
        self.dirty.difference_update(touched)
        self.stale.difference_update(touched)
        self.unreadable.difference_update(sectors)
        self.view[offset : offset + len(data)] = self.medium[offset : offset + len(data)]

    def read_through(self, offset: int, size: int) -> bytes | None:
        """Return what the medium has, short at the end; None when a sector cannot be read."""
        if self.unreadable and not self.unreadable.isdisjoint(self.sectors(offset, size)):
            return None
        return bytes(self.medium[offset : offset + size])


def some(sectors: list[int], random: Random) -> list[int]:
    """Any subset: often none, all, or the first few, so that each of them is met in few tries."""
    kind = random.random()
    if kind < 0.15 or not sectors:
        return []
    if kind < 0.3:
        return sectors
    if kind < 0.45:
        return sectors[: random.randrange(len(sectors) + 1)]
    bits = random.getrandbits(len(sectors))
    return [sector for index, sector in enumerate(sectors) if bits >> index & 1]
