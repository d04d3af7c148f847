"""Compare the manifest with the other files of a store, and say in words what is wrong.

A start refuses what is told here, and `evermq verify` tells all of it. Nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.storage.log import manifest as manifests
from broker.storage.log import record
from broker.storage.log.scan import Chain, chain, records_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from broker.storage.disk.disk import Disk
    from broker.storage.log.manifest import Manifest
    from broker.storage.log.record import Record
    from broker.storage.snapshot.checks import Tally


def advice(path: Path) -> str:
    """Return advice on a fault in the directory `path`."""
    return (
        "put back what belongs there, restore the directory from a backup, or see "
        f"`evermq recover {path} --accept-loss`"
    )


def database_fault(disk: Disk, kept: Manifest) -> str | None:
    """Return the fault of the files of the database, seen from the outside; None when there is none."""
    path = disk.path / kept.database
    found = disk.identity(kept.database)
    if found is None:
        return f"{path} is missing"
    if not found.size:
        return f"{path} is empty (0 bytes)"
    if kept.carrying and disk.identity(f"{kept.database}-wal") is None:
        return f"{path}-wal is missing, and {path.name} may be half written"
    return None


def length_fault(disk: Disk, kept: Manifest, needed: int) -> str | None:
    """Return the fault of a database that has pages up to so many bytes; None when there is none."""
    found = disk.identity(kept.database)
    if found is None or found.size >= needed or kept.carrying:  # the rest may be in the write-ahead log
        return None
    return wrong_length(disk.path / kept.database, found.size, needed)


def wrong_length(path: Path, found: int, expected: int) -> str:
    """Return the text of the error for a file that has `found` bytes."""
    return f"{path} has {found} bytes in place of {expected}"


def snapshot_fault(disk: Disk, kept: Manifest, tally: Tally) -> str | None:
    """Return the fault of a database with this tally, beside the manifest; None when there is none."""
    if tally.number < kept.snap:
        path = disk.path / kept.database
        return f"{path} is older than it must be: it holds {tally.number} of {kept.snap} batches"
    return None


def log_fault(disk: Disk, kept: Manifest, number: int) -> tuple[list[Record], str | None]:
    """The records of a log file that count, as the medium has them, and what is wrong with the file: it is missing,
    foreign, not of its size, or cannot be read. A foreign one may have records of this store all the same.
    """
    name = kept.logs[number]
    found = disk.identity(name)
    if found is None:
        return [], f"{disk.path / name} is missing"
    try:
        content = disk.read(name)
    except OSError as error:
        return [], f"{disk.path / name} cannot be read ({error}): look at the disk"
    records = list(records_in(content, number, seed=kept.seed, block_bytes=kept.block_bytes))
    header = record.file_header(
        kept.instance, number, block_bytes=kept.block_bytes, file_bytes=kept.file_bytes, seed=kept.seed
    )
    path, fault = disk.path / name, None
    if found.size != kept.file_bytes:
        fault = wrong_length(path, found.size, kept.file_bytes)
    elif content[: kept.block_bytes] != header:
        fault = f"{path} is not the log file of this store, or its first block is damaged"
    return records, fault


def chain_fault(disk: Disk, kept: Manifest, tally: Tally, records: Sequence[Record]) -> tuple[Chain, str | None]:
    """Return the records of the log beyond a snapshot, and the fault when some are missing."""
    found = chain(records, tally.number, tally.generation)
    newest = max((each.generation for each in records), default=0)
    if newest > kept.generation:
        return found, (
            f"{disk.path / manifests.FILE} is older than the log: it is of start {kept.generation}, and the log has "
            f"records of start {newest}"
        )
    expected = max(found.end, kept.durable, kept.last if kept.state == manifests.ORDERLY else 0)
    expected = max([expected, *(each.number for each in found.beyond)])
    if found.beyond or found.end < expected:
        return found, (
            f"the log {disk.path / 'log.*'} is damaged: it ends at batch {found.end} and has held {expected}; "
            f"{expected - found.end} batches are missing or cut off"
        )
    if kept.state == manifests.ORDERLY and found.end != kept.last:
        return found, (
            f"{disk.path / manifests.FILE} is not that of this log: it ends at batch {kept.last}, and the log at "
            f"{found.end}"
        )
    return found, None
