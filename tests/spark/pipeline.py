"""The program that is killed: a driver of Spark with two queries, in a process of its own.

`python -m tests.spark.pipeline FOLDER URL` archives one queue to Parquet and moves another to a third, until it is
killed. When the file `drain` is in FOLDER it takes all that is there, ends in order, and writes down what the archive
has. Its state is the file `state.json` in FOLDER.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from broker.spark import finish, session
from tests.spark.conftest import SETTINGS
from tests.spark.traffic import ARCHIVED, MOVED, TARGET, name_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH = 150
"""Messages, at most: so there are many batches."""

DRAIN = "drain"


def main(folder: Path, url: str) -> None:
    settings = {**SETTINGS, "spark.local.dir": str(folder / "local")}
    spark = session("pipeline", master="local[2,3]", settings=settings)
    gateway = spark.sparkContext._jvm
    assert gateway is not None
    jvm = gateway.java.lang.ProcessHandle.current().pid()
    queries = [_archive(spark, folder, url)]
    while not _batches(queries[0]) and queries[0].isActive:
        time.sleep(0.05)  # queries that start together spoil each other's tasks: they share a map of environments
    queries.append(_move(spark, folder, url))
    while all(query.isActive for query in queries):
        if (folder / DRAIN).exists():
            for query in queries:
                query.stop()
            _drain(spark, folder, url)
            return
        _tell(folder, {"driver": os.getpid(), "jvm": jvm, "batches": [_batches(query) for query in queries]})
        time.sleep(0.05)
    for query in queries:
        query.awaitTermination(1)  # raises what has ended it


def _drain(spark: SparkSession, folder: Path, url: str) -> None:
    for start in (_archive, _move):
        query = start(spark, folder, url, drain=True)
        query.awaitTermination()
        finish(query, url=url)
    rows = spark.read.parquet(str(folder / "archive")).select("body").collect()
    (folder / "archived.json").write_text(json.dumps([name_of(bytes(row.body)) for row in rows]))
    spark.stop()


def _archive(spark: SparkSession, folder: Path, url: str, *, drain: bool = False) -> StreamingQuery:
    rows = _read(spark, url, ARCHIVED, "ARCHIVE").select("queue", "body")
    written = rows.writeStream.format("parquet").option("path", str(folder / "archive"))
    written = written.option("checkpointLocation", str(folder / "archive-checkpoint")).queryName("archive")
    return (written.trigger(availableNow=True) if drain else written).start()


def _move(spark: SparkSession, folder: Path, url: str, *, drain: bool = False) -> StreamingQuery:
    rows = _read(spark, url, MOVED, "MOVE").select("body")
    written = rows.writeStream.format("mq").options(url=url, queue=TARGET, sinkId="MOVED")
    written = written.option("checkpointLocation", str(folder / "move-checkpoint")).queryName("move")
    return (written.trigger(availableNow=True) if drain else written).start()


def _read(spark: SparkSession, url: str, q_name: str, consumer: str) -> DataFrame:
    options = {"url": url, "queue": q_name, "mode": "consume", "consumer": consumer, "numPartitions": "2"}
    return spark.readStream.format("mq").options(**options, maxMessagesPerTrigger=str(BATCH)).load()


def _batches(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return 0 if progress is None else int(progress["batchId"]) + 1


def _tell(folder: Path, state: dict[str, object]) -> None:
    """Replace the file in one step, for those who read it meanwhile."""
    (folder / "state.new").write_text(json.dumps(state))
    (folder / "state.new").rename(folder / "state.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
