"""The log read whole: which records count, which of them belong behind the snapshot, and what is missing.

Nothing is written here and nothing is assumed of what lies in the files: a record is what `record.decode` takes for
one, wherever it lies. Lengths of what does not count are not believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.storage.log.record import MAGIC, LogPlace, Record, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.storage.disk.disk import Content


class Chain(NamedTuple):
    """The log after the snapshot: its records without a gap, the last number, and records beyond a gap."""

    records: list[Record]
    end: int
    beyond: list[Record]

    @property
    def next_place(self) -> LogPlace:
        """The place of the next record: behind the last of the chain; without one, the beginning of the first file."""
        if not self.records:
            return LogPlace(0, 1)
        last = self.records[-1]
        return LogPlace(last.place.file, last.place.block + last.blocks)


def records_in(content: Content, file: int, *, seed: int, block_bytes: int) -> Iterator[Record]:
    """The records of one log file that count, by place. The blocks of one that counts are jumped over."""
    data = memoryview(content)
    block = 1
    while block * block_bytes < len(data):
        start = block * block_bytes
        record = None
        if bytes(data[start : start + len(MAGIC)]) == MAGIC:
            record = decode(data[start:], LogPlace(file, block), seed=seed, block_bytes=block_bytes)
        if record is not None:
            yield record
        block += record.blocks if record is not None else 1


def chain(records: Iterable[Record], number: int, generation: int) -> Chain:
    """The records behind a snapshot that holds all up to `number`, and was written in `generation`.

    Of two records of one number that of the higher generation counts; generations never fall along the chain. What
    lies beyond a gap, and is not older than the chain, was acknowledged: something before it is lost.
    """
    behind: dict[int, Record] = {}
    for record in records:
        if record.number > number and record.generation >= generation:
            other = behind.get(record.number)
            if other is None or record.generation > other.generation:
                behind[record.number] = record
    found: list[Record] = []
    while (following := behind.get(number + 1)) is not None and following.generation >= generation:
        found.append(following)
        number, generation = following.number, following.generation
    beyond = [each for each in behind.values() if each.number > number and each.generation >= generation]
    return Chain(found, number, sorted(beyond))
