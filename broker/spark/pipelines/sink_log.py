"""Spark's own list of the files of an archive, `_spark_metadata`: which of them count, by batch.

Spark's file sink writes the files of a batch and then the list, in one step; a reader of Spark's goes by the list
alone. So files of a batch that was cut off are there and do not count. A list is a file named for its batch: "v1", then
a line of JSON for each file. The pipelines set COMPACT_INTERVAL, so that each list (`7.compact`) names all files of all
batches up to its own, and one rename replaces it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from broker.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

COMPACT_INTERVAL: Final = {"spark.sql.streaming.fileSink.log.compactInterval": "1"}
"""The setting of a session that makes each list complete."""

_VERSION: Final = "v1"
_COMPLETE: Final = ".compact"


class DataFile(NamedTuple):
    """A file that counts: its path below the archive (`queue=Q/date=2026-01-31/part-...parquet`), and its bytes."""

    path: str
    bytes: int


class SinkLog:
    """The lists of an archive in a local directory."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._folder = archive / "_spark_metadata"

    def latest(self) -> int:
        """The number of the last batch whose files count; -1 where there is none."""
        return max((number for number, _ in self._lists()), default=-1)

    def files(self) -> list[DataFile]:
        """The files that count, in the order in which they were written. Raises PipelineError."""
        return [DataFile(_below(each["path"]), int(each["size"])) for each in self._entries()]

    def is_elsewhere(self) -> bool:
        """True if the files are listed at another place: the archive was moved or copied since."""
        here = self._archive.absolute().as_posix()
        return any(_local(each["path"]) != f"{here}/{_below(each['path'])}" for each in self._entries())

    def replace(self, files: list[DataFile]) -> None:
        """Let these files count and no others, in one step that is on the disk when this returns. Only for who holds
        the lock of the archive's writer. Raises PipelineError where the last list is not a complete one.
        """
        latest = self.latest()
        place = self._folder / f"{latest}{_COMPLETE}"
        if not place.exists():
            raise PipelineError(
                f"{self._folder}: the list of batch {latest} names the files of few batches alone, as Spark's setting "
                f"{next(iter(COMPACT_INTERVAL))} was not 1; run evermq pipeline archive once more before"
            )
        lines = [_VERSION, *(json.dumps(self._entry(each), separators=(",", ":")) for each in files)]
        scratch = self._folder / f".{place.name}.{os.getpid()}.tmp"
        with scratch.open("w", encoding="utf-8") as out:
            out.write("\n".join(lines))
            out.flush()
            os.fsync(out.fileno())
        # Without its checksum a file is read unchecked; with that of the old list the new one would be refused.
        (self._folder / f".{place.name}.crc").unlink(missing_ok=True)
        os.replace(scratch, place)
        sync_folder(self._folder)

    def _entries(self) -> list[dict[str, Any]]:
        """Return the entries of the lists: the last complete one, and those after it."""
        lists = sorted(self._lists())
        begin = max((index for index, (_, path) in enumerate(lists) if path.suffix == _COMPLETE), default=0)
        return [entry for _, path in lists[begin:] for entry in _parsed(path)]

    def _lists(self) -> list[tuple[int, Path]]:
        if not self._folder.is_dir():
            return []
        named = ((path.name.removesuffix(_COMPLETE), path) for path in self._folder.iterdir())
        return [(int(name), path) for name, path in named if name.isdecimal()]

    def _entry(self, file: DataFile) -> dict[str, Any]:
        found = (self._archive / file.path).stat()
        where = self._archive.absolute() / file.path
        return {
            "path": f"file://{quote(where.as_posix(), safe='/=:@!$&()*+,;~')}",
            "size": found.st_size,
            "isDir": False,
            "modificationTime": found.st_mtime_ns // 1_000_000,
            "blockReplication": 1,
            "blockSize": 33_554_432,
            "action": "add",
        }


def sync_folder(folder: Path) -> None:
    """Have on the disk what was created, renamed and removed in a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _parsed(path: Path) -> list[dict[str, Any]]:
    version, *lines = path.read_text("utf-8").split("\n")
    if version != _VERSION:
        raise PipelineError(f"{path}: a list of version {version!r}; this EverMQ knows {_VERSION}")
    try:
        return [json.loads(line) for line in lines if line]
    except ValueError as error:
        raise PipelineError(f"{path}: not a list of Spark's file sink: {error}") from error


def _local(uri: str) -> str:
    return unquote(urlsplit(uri).path)


def _below(uri: str) -> str:
    """The path below the archive: two folders, queue and date, and the file."""
    return "/".join(_local(uri).split("/")[-3:])
