"""An archive as it lies in a directory.

    DIR/queue=Q/date=2026-01-31/part-...parquet   the messages
    DIR/_spark_metadata/                          which of these files count (`sink_log`)
    DIR/_evermq/archive.json                      what is archived, how, and with which columns
    DIR/_evermq/checkpoint/                       how far the archive has come: Spark's checkpoint
    DIR/_evermq/writer.lock, files.lock           held by whoever adds to it; by whoever reads, and alone by compaction

What must hold of the checkpoint and the list of files, so that no message is missing and none is there twice:

1. Spark's file sink leaves out each batch whose number its list has. So a checkpoint that is new, or older than the
   list, would lose messages without a word: it is refused.
2. A batch that the checkpoint has as done is on the list. Where it is not, the list was removed: it is refused.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.sink_log import SinkLog, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The description of an archive: set by its first run, kept by the others. `columns` are names with types of
    Spark.
    """

    queues: tuple[str, ...]
    mode: str
    consumer: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    version: int = VERSION

    @classmethod
    def parsed(cls, text: str) -> Self:
        """The description that a file holds. Raises ValueError, KeyError or TypeError where it holds none."""
        reported = json.loads(text)
        return cls(**{**reported, "queues": tuple(reported["queues"])})


class ArchiveDirectory:
    """The directory of an archive. Raises PipelineError where the path is no local directory, or could be none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if "://" in str(path):
            raise PipelineError(f"{path} is a URL: an archive is a directory, on a cluster one that all machines mount")
        self.path = Path(os.path.abspath(path))
        check_directory(self.path)
        self.sink_log = SinkLog(self.path)
        self._own = self.path / "_evermq"
        self.checkpoint = self._own / "checkpoint"

    @property
    def description(self) -> Description | None:
        """The description of the archive; None for a directory in which there is none yet."""
        place = self._own / "archive.json"
        try:
            return Description.parsed(place.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise PipelineError(f"{place}: not the description of an archive of this version: {error}") from error

    def described(self) -> Description:
        """The description of the archive. Raises PipelineError where there is none."""
        if self.description is None:
            raise PipelineError(f"there is no archive in {self.path}: make one with evermq pipeline archive")
        return self.description

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to add to the archive, which one process has at a time. Raises PipelineError for a second one."""
        self._own.mkdir(parents=True, exist_ok=True)
        with _locked(self._own / "writer.lock", fcntl.LOCK_EX | fcntl.LOCK_NB) as held:
            if not held:
                raise PipelineError(f"{self.path} is being written by another pipeline: wait for it, or stop it")
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """The files that count stay while this is held. Raises PipelineError where there is no archive."""
        self.described()
        with _locked(self._own / "files.lock", fcntl.LOCK_SH):
            yield

    @contextmanager
    def removing(self) -> Iterator[bool]:
        """The right to remove files that do not count; False while somebody reads."""
        with _locked(self._own / "files.lock", fcntl.LOCK_EX | fcntl.LOCK_NB) as held:
            yield held

    def check(self) -> None:
        """Check that a run may go on where the last one was. For who is `writing`. Raises PipelineError."""
        listed, offered, done = self.sink_log.latest(), _latest(self.checkpoint / "offsets"), self.done
        if listed > min(offered, done + 1):
            known = "none" if offered < 0 else f"those up to {offered}"
            raise PipelineError(
                f"{self.path} has batches up to {listed} and the checkpoint {self.checkpoint} knows of {known}: it is "
                "new or was restored, and Spark would leave out each batch whose number is there. Archive to a new "
                "directory (with --move, first RESOLVE CONSUMER)"
            )
        if listed < done:
            raise PipelineError(
                f"the checkpoint {self.checkpoint} has batches up to {done} as done, and {self.path}/_spark_metadata "
                f"{'is gone' if listed < 0 else f'ends with {listed}'}: restore it, or archive to a new directory"
            )
        if listed >= 0 and self.sink_log.is_elsewhere():
            self.sink_log.replace(self.sink_log.files())

    @property
    def done(self) -> int:
        """The number of the last batch that is done; -1 for none."""
        return _latest(self.checkpoint / "commits")

    def describe(self, now: Description) -> None:
        """Keep what the archive is of, and compare it with what it was. Raises PipelineError where these differ; there
        may be more columns.
        """
        was = self.description
        if was is not None:
            _compare(self.path, was, now)
            now = Description(
                queues=was.queues, mode=was.mode, consumer=was.consumer, columns={**was.columns, **now.columns}
            )
        if now != was:
            _write(self._own / "archive.json", json.dumps(asdict(now), indent=1))

    def data_files(self) -> set[str]:
        """All files of messages, whether they count or not, as paths below the directory."""
        return {path.relative_to(self.path).as_posix() for path in self.path.glob("queue=*/date=*/part-*.parquet")}


def check_directory(path: Path) -> None:
    """Raise PipelineError for a path that is that of something else."""
    if path.exists() and not path.is_dir():
        raise PipelineError(f"{path} is no directory")


def _compare(path: Path, was: Description, now: Description) -> None:
    for name in ("queues", "mode", "consumer"):
        if getattr(was, name) != getattr(now, name):
            raise PipelineError(
                f"the archive in {path} is of {_words(was)}, and not of {_words(now)}: give another directory, or the "
                "same options as before"
            )
    for name, type in was.columns.items():
        if now.columns.get(name, type) != type:
            raise PipelineError(
                f"column {name} of the archive in {path} is {type}, and would be {now.columns[name]}: archive to a new "
                "directory"
            )


def _words(description: Description) -> str:
    by = f" by consumer {description.consumer}" if description.consumer else ""
    verb = "moved" if description.mode == "consume" else "copied"
    return f"{', '.join(description.queues)} {verb}{by}"


def _latest(folder: Path) -> int:
    """The highest number that a file of a folder has for its name; -1 for none."""
    names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
    return max((int(name) for name in names if name.isdecimal()), default=-1)


@contextmanager
def _locked(place: Path, how: int) -> Iterator[bool]:
    """Hold the lock of a file; False where it is to be had at once and is not."""
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, how)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _write(place: Path, text: str) -> None:
    """Write a small file as a whole, and have it on the disk."""
    scratch = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    with scratch.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(scratch, place)
    sync_folder(place.parent)
