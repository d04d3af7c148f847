"""The depths of queues at each run of a report: a table of observations, to which each run adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.spark.daemon import line_to
from broker.spark.options import Use, parse

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

    from broker.spark.pipelines.archive import Source

SCHEMA: Final = "observed TIMESTAMP, queue STRING, depth BIGINT, oldest_seconds DOUBLE"
"""The time of an observation, the queue, the messages that a get would find on it, and the age of the first."""


def observe(
    spark: SparkSession, source: Source, queues: list[str], folder: Path, *, known: set[str], now: datetime
) -> None:
    """Add to the observations in a folder how many messages are on the queues (names or generic names). An empty one
    has a depth of 0, where it is named, was seen before, or is among the `known`.
    """
    options = {**source.as_options(), "queue": ",".join(queues), "includeBody": "false"}
    there = _there(spark, options)
    found = {
        row.queue: (row.depth, None if row.oldest is None else max(0.0, now.timestamp() - row.oldest)) for row in there
    }
    known = known | _seen(folder)
    named = {name for name in queues if not name.endswith("*")}
    empty = {name for name in known if any(_means(each, name) for each in queues)} | named
    rows = [(now, name, *found.get(name, (0, None))) for name in sorted(found.keys() | empty)]
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").parquet(str(folder))


def _there(spark: SparkSession, options: dict[str, str]) -> list[Row]:
    """The queues that have messages, with how many, and when the first of them was put; generic names may mean none."""
    given = parse(options, Use.READ)
    if not line_to(given).call(lambda connection: connection.claims.queue_ranges(given.queues)):
        return []
    return (
        spark.read.format("mq")
        .options(**options)
        .load()
        .selectExpr("queue", "unix_micros(put_timestamp) / 1e6D AS put")
        .groupBy("queue")
        .agg({"queue": "count", "put": "min"})
        .toDF("queue", "depth", "oldest")
        .collect()
    )


def _seen(folder: Path) -> set[str]:
    """The queues of all observations so far."""
    from pyarrow.parquet import read_table

    return set(read_table(folder, columns=["queue"]).column("queue").to_pylist()) if folder.exists() else set()


def _means(pattern: str, name: str) -> bool:
    """True if a name or generic name stands for a queue."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
