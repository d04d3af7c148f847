"""The stream that consumes: exactly once, by claims that the queue manager keeps (`docs/rules/claims.md`).

What Spark asks, and what is done: `latestOffset(start)` acknowledges up to `start` and claims; `partitions(start, end)`
pins the batch, which stays as it is whatever is lost from then on; `read` reads it, as often as Spark likes;
`commit(end)` acknowledges. The consumer is registered once by each driver, with the offset that its checkpoint has: so
a deleted checkpoint, a second query and an older driver are refused, and the first goes on.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from broker.interface.batches.columns import SHORT_MESSAGES_MAX
from broker.mqi import MQRC, MQError
from broker.spark.arrow import record_batch
from broker.spark.browsing import chosen, ranges_of
from broker.spark.daemon import line_to, url_of
from broker.spark.offsets import ClaimOffset
from broker.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from broker.interface.claims.claims import ConsumerState, Registration
    from broker.spark.options import Options

logger = logging.getLogger(__name__)

CLAIM_MESSAGES_MAX: Final = 1_000_000


class DataLossError(RuntimeError):
    """Messages that a batch was to have are not there."""


@dataclass(frozen=True, slots=True)
class ClaimPartition(InputPartition):
    """The claims of a consumer with sequences in (after, last]."""

    uuid: str
    generation: int
    after: int
    last: int


class ClaimStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream that takes the messages from their queues."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._known: ConsumerState | None = None
        self._registration: Registration | None = None
        self._before: int | None = None  # of a trigger AvailableNow: the last message that had arrived

    def initialOffset(self) -> dict[str, Any]:
        state = self._consumer()
        return ClaimOffset(state.uuid, "", state.base).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.messages_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._before = self._consumer().arrived

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = ClaimOffset.from_json(start)
        registration = self._registered(begin, None)
        messages = limit.max_rows if isinstance(limit, ReadMaxRows) else CLAIM_MESSAGES_MAX
        options = self._options
        end = line_to(options).call(
            lambda connection: connection.claims.claim(
                begin.uuid,
                registration.generation,
                begin.sequence,
                messages,
                options.bytes_max,
                before=self._before,
                whole=options.whole_groups,
            )
        )
        if end == begin.sequence:
            self._check_queues()
            return start  # as it was written, so that Spark sees no difference
        return ClaimOffset(begin.uuid, registration.lineage, end, url_of(options)).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begin, until = ClaimOffset.from_json(start), ClaimOffset.from_json(end)
        if begin.sequence == until.sequence:  # a restart asks for one, and a batch for the watermark's sake is one
            return []
        generation = self._registered(begin, until).generation
        cuts = line_to(self._options).call(
            lambda connection: connection.claims.pin(
                until.uuid, generation, until.lineage, begin.sequence, until.sequence
            )
        )
        ends = [begin.sequence, *chosen(cuts, self._options.partitions)]
        return [ClaimPartition(until.uuid, generation, after, last) for after, last in pairwise(ends)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ClaimPartition)
        return _read(self._options, self._schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        until = ClaimOffset.from_json(end)
        generation = self._registered(until, None).generation
        line_to(self._options).call(
            lambda connection: connection.claims.acknowledge(until.uuid, generation, until.sequence)
        )

    def _consumer(self) -> ConsumerState:
        """The consumer, looked up once by each driver, with the queues of this stream."""
        if self._known is None:
            options = self._options
            ranges_of(options)  # before a consumer of no queue is made
            self._known = line_to(options).call(
                lambda connection: connection.claims.consumer(options.consumer, options.queues)
            )
        return self._known

    def _check_queues(self) -> None:
        """Raise UNKNOWN_OBJECT_NAME (2085) where nothing is claimed because a queue was deleted."""
        line_to(self._options).call(lambda connection: connection.claims.queue_ranges(self._options.queues))

    def _registered(self, begin: ClaimOffset, end: ClaimOffset | None) -> Registration:
        """Become the one reader, once by each driver."""
        if self._registration is None:
            self._consumer()
            lineage = (begin if end is None else end).lineage or None
            until = None if end is None else end.sequence
            self._registration = line_to(self._options).call(
                lambda connection: connection.claims.register(begin.uuid, lineage, begin.sequence, until)
            )
        return self._registration


def _read(options: Options, schema: StructType, partition: ClaimPartition) -> Iterator[pa.RecordBatch]:
    """The messages of a partition, all of them. While one frame is made a record batch, the next is on its way."""
    line, arrow = line_to(options), arrow_schema(schema)

    def following(after: int) -> Any:
        return line.start(
            lambda connection: connection.claims.read(partition.uuid, partition.generation, after, partition.last)
        )

    after = partition.after
    reading = following(after)
    while after < partition.last:
        try:
            columns = reading.result()
        except MQError as error:
            if options.fail_on_data_loss or error.reason != MQRC.OBJECT_DAMAGED:
                raise
            logger.error("damaged message left out sequence=%d: %s", after + 1, error)
            after += 1
            reading = following(after)
            continue
        there = columns.first if columns.messages else min(partition.last, after + SHORT_MESSAGES_MAX) + 1
        if there > after + 1:
            _lost(options, partition, after, there)
        after = there + columns.messages - 1
        if after < partition.last:
            reading = following(after)
        if columns.messages:
            yield record_batch(columns, arrow, bodies=options.include_body)


def _lost(options: Options, partition: ClaimPartition, after: int, there: int) -> None:
    """The messages behind `after` and before `there` are missing."""
    what = (
        f"{there - after - 1} messages of consumer {options.consumer} are missing, from sequence {after + 1} on "
        f"(batch {partition.after + 1} to {partition.last})"
    )
    if options.fail_on_data_loss:
        raise DataLossError(f"{what}: look at the queue manager; failOnDataLoss=false goes on without them")
    logger.error("%s", what, extra={"event": "messages_missing"})
