"""Fewer and larger files: what many short batches have left is gathered by Spark, a folder of queue and date at a time.

A reader sees each message once, whenever it looks and wherever a compaction was cut off:

1. The gathered files are written aside, and checked to have as many messages as those they stand for.
2. They are moved into their folders, where they do not count yet.
3. The list of files is replaced, in one step: from then on they count, and those before them do not.
4. What does not count is removed, unless somebody reads it; then the next compaction does it.

Cut off before 3 nothing has changed that a reader sees; after it all has. What is left over does not count, and is
removed by the next one. Files are only removed by a list that could be read and names some.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from broker.spark.pipelines.archive import FOLDERS, SETTINGS, ddl
from broker.spark.pipelines.directory import ArchiveDirectory
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.sink_log import DataFile, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

FILE_BYTES: Final = 128 * 1024 * 1024
"""The size of the files that are made. A file of half of it and more stays as it is."""


class Compacted(NamedTuple):
    """The result of a compaction: the numbers of files before and after, and of removed files that did not count."""

    before: int
    after: int
    removed: int


def compact(
    spark: SparkSession,
    directory: str | os.PathLike[str],
    *,
    file_bytes: int = FILE_BYTES,
    tell: Callable[[str], None] = lambda text: None,
) -> Compacted:
    """Gather the small files of an archive, and remove those that do not count. Harmless at any time, and when it is
    cut off; nobody may add to the archive meanwhile. Raises PipelineError where somebody does, or where files are
    damaged.
    """
    place = ArchiveDirectory(directory)
    with place.writing():
        place.check()
        files = place.sink_log.files()
        if not files:
            return Compacted(0, 0, 0)
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        aside = place.path / "_evermq" / "compaction"
        shutil.rmtree(aside, ignore_errors=True)
        try:
            now = _gathered(spark, place, files, aside, file_bytes, tell)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        if now != files:
            place.sink_log.replace(now)
        return Compacted(len(files), len(now), _remove_uncounted(place, now))


def _gathered(
    spark: SparkSession,
    place: ArchiveDirectory,
    files: list[DataFile],
    aside: Path,
    file_bytes: int,
    tell: Callable[[str], None],
) -> list[DataFile]:
    """Steps 1 and 2: the files that are to count."""
    folders: defaultdict[str, list[DataFile]] = defaultdict(list)
    for each in files:
        if each.bytes < file_bytes // 2:
            folders[each.path.rpartition("/")[0]].append(each)
    description = place.description
    assert description is not None  # there are files
    schema = ddl({name: type for name, type in description.columns.items() if name not in FOLDERS})
    small = {folder: found for folder, found in folders.items() if len(found) > 1}
    now = [
        each
        for each in files
        if len(folders.get(each.path.rpartition("/")[0], ())) < 2 or each.bytes >= file_bytes // 2
    ]
    for number, (folder, found) in enumerate(small.items(), 1):
        tell(f"folder {number} of {len(small)}: {folder}, {len(found)} files")
        target = aside / str(number)
        _write(spark, schema, [place.path / each.path for each in found], target, file_bytes)
        now += [_moved(path, place.path, folder) for path in sorted(target.glob("part-*.parquet"))]
        sync_folder(place.path / folder)
    return now


def _write(spark: SparkSession, schema: str, paths: list[Path], target: Path, file_bytes: int) -> None:
    """Step 1 for one folder. Raises PipelineError where what was written is not what was read."""
    from pyspark.sql import functions as f

    names = [str(path) for path in paths]
    found = spark.read.schema(schema).parquet(*names)
    parts = max(1, -(-sum(path.stat().st_size for path in paths) // file_bytes))
    gathered = found.repartitionByRange(parts, "position") if parts > 1 else found.coalesce(1)
    gathered.sortWithinPartitions("position").write.option("compression", "zstd").parquet(str(target))
    count = f.count(f.lit(1))
    read, written = (each.select(count).first() for each in (found, spark.read.parquet(str(target))))
    if read != written:
        raise PipelineError(f"{target}: {written} messages were written of {read}; the archive is as it was")


def _moved(path: Path, archive: Path, folder: str) -> DataFile:
    """Step 2 for one file, whose bytes are on the disk before it has its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    name = f"{folder}/part-{uuid4().hex}.parquet"
    os.rename(path, archive / name)
    return DataFile(name, (archive / name).stat().st_size)


def _remove_uncounted(place: ArchiveDirectory, files: list[DataFile]) -> int:
    """Step 4: the number of files that were removed."""
    with place.removing() as alone:
        left_over = sorted(place.data_files() - {each.path for each in files}) if alone else []
        for name in left_over:
            path = place.path / name
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        return len(left_over)
