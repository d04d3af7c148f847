"""The data source `mq`: what Spark asks for readers and writers, and the batch read, which browses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from broker.spark import options as given
from broker.spark import schema as columns
from broker.spark.browsing import BrowsePartition, BrowseStream, browsed, divided, ranges_of
from broker.spark.claiming import ClaimStream
from broker.spark.daemon import line_to
from broker.spark.options import Options, Use
from broker.spark.selection import Selection
from broker.spark.sink import BatchSink, StreamSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
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
    """A reader of the messages on the queues when Spark plans the read, in ranges of arrival numbers.

    Spark keeps the plan with what `load()` has returned: all that is made of it reads these ranges. There is no
    `pushFilters`, since its filters would be kept with the plan.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._selection = Selection.of(options)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        found = [self._selection.narrowed(each) for each in ranges_of(options)]
        wanted = [each for each in found if each.first < each.last]
        return divided(line_to(options), wanted, options.partitions) or [NOTHING]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, BrowsePartition)
        return browsed(self._options, self._schema, partition, self._selection)


NOTHING = BrowsePartition("", 0, 0)
"""Spark reads one partition at least."""
