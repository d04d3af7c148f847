"""Where zeros are written at a start, and when the log goes on in its next file (log rules 4 and 7.8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.storage.log.log import Log
from broker.storage.log.manifest import Manifest
from broker.storage.log.record import LogPlace, Record
from broker.storage.log.scan import chain

BLOCK = 512
BLOCKS = 4
SNAP = 7
MANIFEST = Manifest(
    name="QM1", instance=bytes(16), key=bytes(16), files=2, file_bytes=BLOCKS * BLOCK, block_bytes=BLOCK, snap=SNAP
)


class NotedFile:
    """A file that notes where zeros were written, by block."""

    way = "noted"

    def __init__(self) -> None:
        self.zeroed: list[int] = []

    def write(self, offset: int, data: bytes) -> None:
        assert data == bytes(BLOCK)
        self.zeroed.append(offset // BLOCK)

    def close(self) -> None:
        """Nothing is held."""


def opened(*places: LogPlace) -> tuple[Log, list[NotedFile]]:
    """A log whose records behind the snapshot lie in these places, one block each, and its files."""
    records = [Record(SNAP + 1 + at, 1, place, 1, memoryview(b"")) for at, place in enumerate(places)]
    files = [NotedFile(), NotedFile()]
    return Log(files, MANIFEST, chain(records, SNAP, 1)), files  # type: ignore[arg-type]  # it writes, and no more


@pytest.mark.parametrize(
    ("behind", "zeroed"),
    [(-1, [[], [2]]), (0, [[1], [2]]), (1, [[1], [2]])],
    ids=["lacks its last record", "holds just its last record", "holds more"],
)
def test_the_next_file_is_cleared_when_the_snapshot_holds_its_last_record(behind: int, zeroed: list[list[int]]) -> None:
    """log rule 7.8"""
    log, files = opened(LogPlace(0, 2), LogPlace(0, 3), LogPlace(1, 1))
    last_in_next_file = SNAP + 2
    log.snap = last_in_next_file + behind
    log.clear()
    assert [file.zeroed for file in files] == zeroed
    assert log.turn() == bool(zeroed[0])


def test_of_a_store_that_has_carried_nothing_over_yet_the_next_file_is_cleared() -> None:
    """log rule 7.8: its snapshot holds no record, and no file has one that it lacks."""
    files = [NotedFile(), NotedFile()]
    Log(files, replace(MANIFEST, snap=0), chain([], 0, 1)).clear()  # type: ignore[arg-type]  # as above
    assert [file.zeroed for file in files] == [[1], [1]]


def test_behind_the_last_block_of_a_file_nothing_is_cleared() -> None:
    """log rule 7.8"""
    log, files = opened(LogPlace(0, 2), LogPlace(0, BLOCKS - 1))
    log.clear()
    assert [file.zeroed for file in files] == [[], [1]]
