"""Groups and segments into logical messages: `evermq pipeline reassemble`.

    TO/messages/queue=Q/part-...parquet     logical messages (`assembly.assembled`)
    TO/incomplete/part-...parquet           what could not be put together, and what it lacks (`assembly.INCOMPLETE`)

A group is in one file, in logical order; `ORDER BY queue, group_position, msg_seq_number, offset` is the order in which
gets with LOGICAL_ORDER, ALL_MSGS_AVAILABLE and COMPLETE_MSG would be given them. Of a stream each batch has a folder of
its own, `batch=N`, which is written anew when the batch runs again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sql

from broker.spark.pipelines.archive import SETTINGS, read_archive
from broker.spark.pipelines.assembly import alone, assembled, incomplete, judged, with_lengths
from broker.spark.pipelines.directory import ArchiveDirectory
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.jobs import watched
from broker.spark.pipelines.live import WAIT_SECONDS, assembled_stream
from broker.spark.pipelines.running import Stop, followed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from broker.spark.pipelines.archive import Source
    from broker.spark.pipelines.running import Batch

MESSAGES: Final = "messages"
INCOMPLETE: Final = "incomplete"
_LATER: Final = ("date", "data_length", "archived")
_ORDER: Final = ("queue", "group_position", "msg_seq_number", "offset")
_BATCH: Final = "batch"
_DONE: Final = "_SUCCESS"
"""Spark's mark of a table that was written to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassembled:
    """The counts of a run: physical messages of the archive, logical messages made of them, messages of incomplete
    groups, those groups, and duplicates.
    """

    physical: int
    logical: int
    incomplete: int
    incomplete_groups: int
    duplicates: int


def reassemble(
    spark: SparkSession,
    archive: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    queues: Sequence[str] = (),
    overwrite: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Reassembled:
    """Write the logical messages of an archive, of these queues or of all, to a directory that is new or empty, or that
    has what an earlier run has left unfinished; with `overwrite` also in place of an earlier run's. `tell` is told how
    far it is.

    Raises PipelineError where there is no archive, or the directory holds something else.
    """
    place, out = ArchiveDirectory(archive), _Output(to)
    out.check(place.path, overwrite=overwrite)
    with place.reading(), watched(spark, "putting messages together", tell):
        out.clear()
        messages = read_archive(spark, place)
        if queues:
            messages = messages.where(sql.col("queue").isin(list(queues)))
        return _write(messages, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Live queues (names or generic names) of a source: their messages stay, or are claimed by `consumer` and then are
    gone. A group is given up when nothing of it has come for `wait` seconds, in the time of the puts.
    """

    queues: tuple[str, ...]
    source: Source
    consumer: str | None = None
    wait: float = WAIT_SECONDS

    def as_options(self) -> dict[str, str]:
        """The options of the source `mq`."""
        claims = {"mode": "browse"} if self.consumer is None else {"mode": "consume", "consumer": self.consumer}
        return {**self.source.as_options(), "queue": ",".join(self.queues), **claims}


def reassemble_stream(
    spark: SparkSession,
    stream: Stream,
    to: str | os.PathLike[str],
    *,
    follow: bool = False,
    stop: Stop | None = None,
    tell: Callable[[Batch], None] = lambda batch: None,
) -> int:
    """Write the logical messages of queues as they come, to a directory that is new or this stream's own; return the
    number of physical messages. Returns when all are there that were on the queues when it began; with `follow`, when
    it is told to `stop`. `tell` is told each batch with messages. Run again it goes on where it was.

    Raises PipelineError where the directory holds something else, and where the query failed.
    """
    from broker.spark import finish

    out = _Output(to)
    out.check_stream()
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    messages = spark.readStream.format("mq").options(**stream.as_options()).load()
    writer = (
        assembled_stream(messages, stream.wait)
        .writeStream.queryName(f"reassemble {out.path.name}")
        .option("checkpointLocation", str(out.checkpoint))
        .foreachBatch(out.write_batch)
    )
    query = (writer.trigger(processingTime="1 second") if follow else writer.trigger(availableNow=True)).start()
    try:
        count = followed(query, stop or Stop(), lambda batch: tell(_of_one_read(batch)))
        finish(query)
    finally:
        query.stop()
    return count // _READS


_READS: Final = 2
"""The times that each message of a stream is read and counted by Spark: for those in groups, and for the others."""


def _of_one_read(batch: Batch) -> Batch:
    return batch._replace(messages=batch.messages // _READS, rate=batch.rate / _READS)


def _write(messages: DataFrame, out: _Output) -> Reassembled:
    spark = messages.sparkSession
    seen = with_lengths(messages.drop(*_LATER))
    whole = assembled(alone(seen)).unionByName(assembled(judged(seen)))
    out.write(whole.sortWithinPartitions(*_ORDER), MESSAGES, "queue")
    out.write(incomplete(seen), INCOMPLETE)
    reader = spark.read.schema("positions ARRAY<BIGINT>")  # where there are no messages there are no files either
    written, left = (
        reader.parquet(str(out.path / name)).agg(sql.count("*"), sql.sum(sql.size("positions"))).first()
        for name in (MESSAGES, INCOMPLETE)
    )
    assert written is not None
    assert left is not None
    physical, used, unused = messages.count(), written[1] or 0, left[1] or 0
    return Reassembled(
        physical=physical,
        logical=written[0],
        incomplete=unused,
        incomplete_groups=left[0],
        duplicates=physical - used - unused,
    )


class _Output:
    """The directory that is written to."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if "://" in str(path):
            raise PipelineError(f"{path} is a URL: give a directory, on a cluster one that all machines mount")
        self.path = Path(os.path.abspath(path))
        self.checkpoint = self.path / "_evermq" / "checkpoint"

    def check(self, archive: Path, *, overwrite: bool) -> None:
        """Check that a table may be written here. Raises PipelineError."""
        if self.path == archive or archive in self.path.parents or self.path in archive.parents:
            raise PipelineError(
                f"{self.path} and the archive in {archive} are one in the other: give another directory"
            )
        self._check_names((MESSAGES, INCOMPLETE))
        done = [name for name in (MESSAGES, INCOMPLETE) if (self.path / name / _DONE).exists()]
        if len(done) == 2 and not overwrite:  # with one of them a run was cut off
            raise PipelineError(
                f"{self.path} has what an earlier run has written: give another directory, or --overwrite"
            )

    def clear(self) -> None:
        """Nothing that is here counts any longer: a run that is cut off leaves no mark of an earlier one."""
        for name in (MESSAGES, INCOMPLETE):
            (self.path / name / _DONE).unlink(missing_ok=True)

    def check_stream(self) -> None:
        """Check that a stream may be written here, which is new or was begun here. Raises PipelineError."""
        self._check_names((MESSAGES, INCOMPLETE, "_evermq"))
        if not self.checkpoint.exists() and any((self.path / name).exists() for name in (MESSAGES, INCOMPLETE)):
            raise PipelineError(f"{self.path} has tables and no checkpoint of a stream: give another directory")

    def _check_names(self, known: Sequence[str]) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise PipelineError(f"{self.path} is no directory")
        others = sorted({path.name for path in self.path.iterdir()} - set(known)) if self.path.exists() else []
        if others:
            raise PipelineError(f"{self.path} holds other things ({', '.join(others[:3])}): give another directory")

    def write(self, rows: DataFrame, name: str, *folders: str) -> None:
        """Write a table, in place of what is there."""
        rows.write.mode("overwrite").option("compression", "zstd").partitionBy(*folders).parquet(str(self.path / name))

    def write_batch(self, rows: DataFrame, number: int) -> None:
        """Write a batch of a stream, in place of what was written of it."""
        rows.persist()
        try:
            whole = rows.where("incomplete IS NULL").drop("incomplete").sortWithinPartitions(*_ORDER)
            self.write(whole, f"{MESSAGES}/{_BATCH}={number}", "queue")
            self.write(rows.where("incomplete IS NOT NULL").select("incomplete.*"), f"{INCOMPLETE}/{_BATCH}={number}")
        finally:
            rows.unpersist()
