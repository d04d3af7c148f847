"""The data source `mq`: what Spark asks for readers and writers, and the batch read, which browses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from broker.spark import options as given
from broker.spark import schema as columns
from broker.spark.browsing import BrowsePartition, BrowseStream, browsed, divided
from broker.spark.claiming import ClaimStream
from broker.spark.daemon import line_to
from broker.spark.filters import Selection, selection
from broker.spark.options import Options, Use
from broker.spark.sink import BatchSink, StreamSink

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
        Filter,
        InputPartition,
    )
    from pyspark.sql.types import StructType


class MQDataSource(DataSource):
    """The data source: `spark.read.format("mq")`, `readStream`, `write` and `writeStream`."""

    @classmethod
    def name(cls) -> str:
        return "mq"

    def schema(self) -> StructType:
        return columns.SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        columns.check_read(schema)
        return BatchReader(given.parse(self.options, Use.READ), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        columns.check_read(schema)
        use = given.stream_use(self.options)
        stream = ClaimStream if use is Use.CONSUME else BrowseStream
        return stream(given.parse(self.options, use), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise ValueError("messages cannot be overwritten: write with mode('append')")
        columns.check_write(schema)
        return BatchSink(given.parse(self.options, Use.WRITE))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        if overwrite:
            raise ValueError("messages cannot be overwritten: write with outputMode('append')")
        columns.check_write(schema)
        return StreamSink(given.parse(self.options, Use.WRITE_STREAM))


class BatchReader(DataSourceReader):
    """What is on the queues when the read is planned, each time anew, in ranges of arrival numbers."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._selection = Selection()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._selection, left = selection(filters)
        return left

    def partitions(self) -> Sequence[InputPartition]:
        options, wanted = self._options, self._selection
        line = line_to(options)
        ranges = line.call(lambda connection: connection.claims.queue_ranges(options.queues))
        found = [wanted.narrowed(each) for each in ranges if wanted.has_queue(each.q_name)]
        return divided(line, [each for each in found if each.first < each.last], options.partitions) or [NOTHING]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, BrowsePartition)
        return browsed(self._options, self._schema, partition, self._selection)


NOTHING = BrowsePartition("", 0, 0)
"""Spark reads one partition at least."""
