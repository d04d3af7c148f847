"""The files of the log, written in turn, one record at a time (log rule 4).

One owner: whoever writes, on the loop or on a thread, waits until the record before has returned. With two on their way
a crash could keep the second without the first, and no start could tell that from damage. A file whose turn has come
is written over from its first block, and only when the snapshot holds every record in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.storage.log.record import HEADER_BYTES, blocks_of, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.storage.disk.disk import Disk, DiskFile
    from broker.storage.log.manifest import Manifest
    from broker.storage.log.scan import Chain


class Log:
    """An open log. `number` is that of its last record, `snap` the last that the snapshot holds. `room` is the longest
    payload that fits the file which is being written: no turn is needed.
    """

    def __init__(self, files: Sequence[DiskFile], manifest: Manifest, chain: Chain) -> None:
        self._files = files
        self._seed = manifest.seed
        self._generation = manifest.generation
        self._block_bytes = manifest.block_bytes
        self._blocks = manifest.file_bytes // manifest.block_bytes
        self._file, self._block = chain.next_place
        self._highest = [0] * len(files)  # the number of the last record in each file that may still be needed
        for record in chain.records:
            self._highest[record.place.file] = record.number
        self.number = chain.end
        self.snap = manifest.snap
        self.room = self._room()

    @classmethod
    def open(cls, disk: Disk, manifest: Manifest, chain: Chain) -> Log:
        """Open the files, to go on behind the last record of `chain`."""
        return cls([disk.open(name, manifest.block_bytes) for name in manifest.logs], manifest, chain)

    @property
    def way(self) -> str:
        """The name of the system calls that write the files, for people."""
        return self._files[self._file].way

    @property
    def capacity_bytes(self) -> int:
        """The length of all files together."""
        return len(self._files) * self._blocks * self._block_bytes

    @property
    def fill(self) -> float:
        """The share of the file that is being written which is written, from 0 to 1."""
        return self._block / self._blocks

    def rewrite(self, chain: Chain) -> None:
        """Write what was read as the chain anew, in its places: the cache may have shown what the medium has not."""
        for record in chain.records:
            data = encode(
                record.payload, record.number, record.generation, record.place,
                seed=self._seed, block_bytes=self._block_bytes,
            )  # fmt: skip
            self._files[record.place.file].write(record.place.block * self._block_bytes, data)

    def clear(self) -> None:
        """Write zeros where the next record may begin: behind the last, and in the next file if that is free.

        A record that was cut off there must not become whole by what the next one has in common with it, zeros or a
        body, should that be cut off too: then it would come back after its outcome was settled.
        """
        places = [(self._file, self._block)] if self._block < self._blocks else []
        following = (self._file + 1) % len(self._files)
        if self._highest[following] <= self.snap:
            places.append((following, 1))
        for file, block in places:
            self._files[file].write(block * self._block_bytes, bytes(self._block_bytes))

    def fits(self, payload_length: int) -> bool:
        """True if a record with so much payload fits a file at all."""
        return blocks_of(payload_length, self._block_bytes) < self._blocks

    def turn(self) -> bool:
        """Go on in the next file; False while that holds records which the snapshot lacks."""
        following = (self._file + 1) % len(self._files)
        if self._highest[following] > self.snap:
            return False
        self._file, self._block = following, 1
        self._highest[following] = 0
        self.room = self._room()
        return True

    def write(self, payload: bytes) -> None:
        """Write the next record, which fits its file; raises OSError, and then nothing may be written any more."""
        number, file, block, block_bytes = self.number + 1, self._file, self._block, self._block_bytes
        data = encode(payload, number, self._generation, (file, block), seed=self._seed, block_bytes=block_bytes)
        self._files[file].write(block * block_bytes, data)
        size = len(data)
        self._block = block + size // block_bytes
        self._highest[file] = self.number = number
        self.room -= size

    def skip(self) -> int:
        """The next number, given to a batch that goes straight to the snapshot."""
        self.number += 1
        return self.number

    def _room(self) -> int:
        return (self._blocks - self._block) * self._block_bytes - HEADER_BYTES

    def close(self) -> None:
        """Let go of the files; harmless when already closed."""
        for file in self._files:
            file.close()
