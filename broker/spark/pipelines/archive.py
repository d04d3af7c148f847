"""Queues to Parquet, exactly once: `evermq pipeline archive`.

The source `mq` reads, Spark's file sink writes: a batch that was cut off runs again with the same messages, and its
list of files tells which of them count (`directory`). The columns are those of the source, and besides:

- `date`: the day on which the message was put (GMT), of PutDate; NULL where it has none. With `queue` it names the
  folder.
- `data_length`: how many bytes `body` has, so that whoever adds them up need not read them.
- `archived`: when the batch began in which the message came. Where messages are moved it was on the queue until then.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker.spark.pipelines.directory import ArchiveDirectory, Description
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.lag import LagOf
from broker.spark.pipelines.running import CutOffError, Stop, followed

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from broker.spark.pipelines.running import Batch

CONSUMER_LENGTH: Final = 48
FOLDERS: Final = ("queue", "date")
SETTINGS: Final = {
    "spark.sql.streaming.fileSink.log.compactInterval": "1",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
"""The settings of a session: complete lists of files, queues named `12` that stay names, and one time for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of messages: a queue manager by `url` (`mq://127.0.0.1:1414`), or a data directory by `path`, for
    which a daemon is started as long as it is read. `options` are further options of the source `mq`.
    """

    url: str | None = None
    path: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    def as_options(self) -> dict[str, str]:
        """The options of the source `mq`."""
        place = {"path": self.path} if self.path is not None else {"url": self.url} if self.url is not None else {}
        return {**place, **self.options}


@dataclass(frozen=True, slots=True, kw_only=True)
class Archiving:
    """The way to archive queues: copied, or moved; by which consumer, where they are moved (None: `consumer_name`);
    `follow`: go on with what arrives.
    """

    move: bool = False
    consumer: str | None = None
    follow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The result of a run: its messages and batches; `stopped`: it was stopped before its end."""

    messages: int
    batches: int
    stopped: bool


def archive(
    spark: SparkSession,
    queues: list[str],
    directory: str | os.PathLike[str],
    source: Source,
    options: Archiving | None = None,
    *,
    stop: Stop | None = None,
    tell: Callable[[Batch], None] = lambda batch: None,
) -> Archived:
    """Copy the messages of queues (names or generic names) to an archive in a directory, or move them there. Returns
    when all are there that were on the queues when it began; with `follow`, when it is told to `stop`. `tell` is told
    each batch with messages.

    What is moved is claimed by a consumer (by default `consumer_name`), is acknowledged when its batch is written, and
    then is gone. Run again with the same arguments it goes on where it was, however it ended.

    Raises PipelineError where the directory holds something else, is being written, or no longer goes with its
    checkpoint; and where the query failed.
    """
    from py4j.protocol import Py4JError

    place, order, how = ArchiveDirectory(directory), stop or Stop(), options or Archiving()
    with place.writing():
        place.check()
        was = place.description
        name = _consumer(was, place, how.consumer) if how.move else None
        _settle(spark)
        given = _options(queues, source, name)
        messages = _with_columns(spark.readStream.format("mq").options(**given).load())
        place.describe(
            Description(
                queues=tuple(queues),
                mode="consume" if how.move else "browse",
                consumer=name,
                columns={each.name: each.dataType.simpleString() for each in messages.schema},
            )
        )
        before = place.done
        if order.ordered:
            return Archived(messages=0, batches=0, stopped=True)
        query = _started(messages, place, follow=how.follow)
        try:
            count = followed(query, order, tell, LagOf(given))
            _finish(query)
        except CutOffError as cut_off:
            count = cut_off.messages
        finally:
            with suppress(Py4JError, OSError):  # where Java has ended
                query.stop()
        return Archived(messages=count, batches=place.done - before, stopped=order.ordered)


def consumer_name(directory: str | os.PathLike[str]) -> str:
    """The consumer of an archive that nobody names: `ARCHIVE.`, the name of its directory, and eight digits made of its
    path, so that two archives do not share one.
    """
    path = ArchiveDirectory(directory).path
    mark = hashlib.sha256(str(path).encode()).hexdigest()[:8].upper()
    text = re.sub(r"[^A-Z0-9._]", "_", path.name.upper())
    return f"ARCHIVE.{text[: CONSUMER_LENGTH - 17]}.{mark}"


def read_archive(spark: SparkSession, place: ArchiveDirectory) -> DataFrame:
    """The messages of an archive: its columns, whichever run wrote them; NULL where a file is older than a column. To
    be used for as long as the caller is `reading` the directory. Raises PipelineError.
    """
    description = place.description
    if description is None:
        raise PipelineError(f"there is no archive in {place.path}: make one with evermq pipeline archive")
    _settle(spark)
    files = place.sink_log.files()
    schema = ddl(description.columns)
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema)  # where a file lacks a column it is NULL
    if not place.sink_log.is_elsewhere():
        found = reader.parquet(str(place.path))
    else:  # Spark would look for the files where they were
        paths = [str(place.path / each.path) for each in files]
        found = reader.option("basePath", str(place.path)).parquet(*paths)
    return found.select(*description.columns)


def ddl(columns: Mapping[str, str]) -> str:
    """Names and types as Spark reads a schema; any column may be NULL."""
    return ", ".join(f"`{name}` {type}" for name, type in columns.items())


def _consumer(was: Description | None, place: ArchiveDirectory, given: str | None) -> str:
    """The name once used stays, though the directory was moved since."""
    if given is None and was is not None and was.consumer is not None:
        return was.consumer
    return given or consumer_name(place.path)


def _settle(spark: SparkSession) -> None:
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)


def _options(queues: list[str], source: Source, consumer: str | None) -> dict[str, str]:
    """The options of the source `mq`."""
    options = {**source.as_options(), "queue": ",".join(queues), "mode": "browse"}
    return options if consumer is None else {**options, "mode": "consume", "consumer": consumer}


def _with_columns(messages: DataFrame) -> DataFrame:
    return messages.selectExpr(
        "*",
        "CAST(try_to_timestamp(put_date, 'yyyyMMdd') AS DATE) AS date",
        "CAST(octet_length(body) AS INT) AS data_length",
        "IF(position IS NULL, NULL, current_timestamp()) AS archived",  # a column that may be NULL can be lacking
    )


def _started(messages: DataFrame, place: ArchiveDirectory, *, follow: bool) -> StreamingQuery:
    writer = (
        messages.writeStream.format("parquet")
        .queryName(f"archive {place.path.name}")
        .option("path", str(place.path))
        .option("checkpointLocation", str(place.checkpoint))
        .option("compression", "zstd")
        .partitionBy(*FOLDERS)
    )
    return (writer.trigger(processingTime="1 second") if follow else writer.trigger(availableNow=True)).start()


def _finish(query: StreamingQuery) -> None:
    """Acknowledge what the last batch has brought, which Spark leaves to the next run."""
    from broker.spark import finish

    finish(query)
