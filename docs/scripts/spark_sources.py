"""Sources for comparison with the data source `mq`: rows that are in memory already, and a sink that drops them.

Spark's workers import this module: `spark_throughput.py` sees to that.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from broker.spark.schema import SCHEMA, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

BATCH_ROWS = 1024


@dataclass(frozen=True, slots=True)
class MemoryPartition(InputPartition):
    """So many rows with bodies of `size` bytes."""

    rows: int
    size: int


class MemorySource(DataSource):
    """Messages that exist nowhere, as record batches that are made once and given again and again: the most that Spark
    takes in from Python. Options: `rows`, `size` of a body in bytes, `partitions`, and of a stream `rowsPerTrigger`.
    """

    @classmethod
    def name(cls) -> str:
        return "memory"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> MemoryReader:
        return MemoryReader(self.options)

    def streamReader(self, schema: StructType) -> MemoryStream:
        return MemoryStream(self.options)


def _divided(options: Mapping[str, str], rows: int) -> list[InputPartition]:
    """So many rows in the partitions that the options ask for."""
    count = int(options["partitions"])
    share = -(-rows // count)
    sizes = [min(share, rows - begun) for begun in range(0, rows, share)]
    return [MemoryPartition(each, int(options["size"])) for each in sizes]


class MemoryReader(DataSourceReader):
    """All rows in one batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return _divided(self._options, int(self._options["rows"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MemoryPartition)
        return _given(partition)


class MemoryStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The rows in batches, as a stream gives them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, Any]:
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(int(self._options["rowsPerTrigger"]))

    def prepareForTriggerAvailableNow(self) -> None:
        """There is never more than there was."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        assert isinstance(limit, ReadMaxRows)
        return {"rows": min(int(self._options["rows"]), start["rows"] + limit.max_rows)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return _divided(self._options, end["rows"] - start["rows"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MemoryPartition)
        return _given(partition)


def _given(partition: MemoryPartition) -> Iterator[pa.RecordBatch]:
    batch = _batch(partition.size)
    for begun in range(0, partition.rows, BATCH_ROWS):
        yield batch.slice(0, partition.rows - begun)


@lru_cache(maxsize=1)
def _batch(size: int) -> pa.RecordBatch:
    """Messages with identifiers and bodies of their own; in all else they are alike, as those of one program are."""
    own = {
        "queue": ["BENCH"] * BATCH_ROWS,
        "position": range(BATCH_ROWS),
        "msg_id": [os.urandom(24) for _ in range(BATCH_ROWS)],
        "properties": [{}] * BATCH_ROWS,
        "body": [os.urandom(size) for _ in range(BATCH_ROWS)],
    }
    schema = arrow_schema(SCHEMA)
    alike = {pa.string(): "", pa.int32(): 0, pa.binary(): bytes(24)}
    arrays = [pa.array(own.get(field.name, [alike.get(field.type)] * BATCH_ROWS), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class NullSource(DataSource):
    """A sink that takes the rows in and drops them: the least that a writer in Python costs."""

    @classmethod
    def name(cls) -> str:
        return "null"

    def writer(self, schema: StructType, overwrite: bool) -> NullSink:
        return NullSink()


class NullSink(DataSourceArrowWriter):
    """A write that leaves nothing."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
