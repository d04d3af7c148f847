"""Reading without taking: ranges of arrival numbers, and the stream that goes through them.

A stream goes by arrival number and not by place: a message of higher priority would otherwise come in before the
offset. It goes no further than the oldest message that is uncommitted: one that is committed late, or backed out, would
otherwise be passed for good. What others take before it is read is not seen.

An offset is `{"v": 1, "queues": {"A": 17}}`: by queue the last arrival number that was read. A queue that is not named
begins at 0, or at the number that `behind` has. A stream that begins with the latest message has `latest` as its first
offset, and `since` in the next: where it has begun stands in the checkpoint before anything is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from broker.interface.batches.columns import integers
from broker.mqi import MQRC, MQError
from broker.spark.arrow import record_batch
from broker.spark.daemon import line_to
from broker.spark.options import EARLIEST, LATEST
from broker.spark.schema import arrow_schema
from broker.spark.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    import broker
    from broker.interface.batches.columns import Columns
    from broker.interface.claims.claims import BrowseSelection, Cut, QueueRange
    from broker.spark.connecting import SparkLine
    from broker.spark.options import Options

Offset: TypeAlias = dict[str, Any]

PARTITION_MESSAGES: Final = 1000
PARTITION_BYTES: Final = 4 * 1024 * 1024
"""A partition of fewer messages than these, and of fewer bytes, is not worth a task."""

_EVERYTHING: Final = 2**62 - 1


@dataclass(frozen=True, slots=True)
class BrowsePartition(InputPartition):
    """The messages of a queue with arrival numbers in (after, last]."""

    q_name: str
    after: int
    last: int


def browsed(
    options: Options, schema: StructType, partition: BrowsePartition, selection: Selection
) -> Iterator[pa.RecordBatch]:
    """The messages of a partition. While one frame is made a record batch, the next is on its way."""
    if partition.after >= partition.last:
        return
    line, arrow = line_to(options), arrow_schema(schema)
    made = selection.columns(arrow)
    reading = line.start(_next_frame(partition, partition.after, selection.ids))
    while (columns := reading.result()).messages:
        after = integers(columns.keys or b"", "q")[-1]
        reading = line.start(_next_frame(partition, after, selection.ids))
        batch = selection.rows(record_batch(columns, made, bodies=options.include_body), arrow)
        if batch.num_rows:
            yield batch


def _next_frame(
    partition: BrowsePartition, after: int, selection: BrowseSelection
) -> Callable[[broker.Connection], Awaitable[Columns]]:
    return lambda connection: connection.claims.browse(partition.q_name, after, partition.last, selection)


def divided(line: SparkLine, ranges: Sequence[QueueRange], most: int) -> list[InputPartition]:
    """Partitions of these ranges: for each queue its share of `most`, and one at least; none that is not worth a task.
    Neighbours of one group stay together.
    """
    weights = [max(each.messages / PARTITION_MESSAGES, each.bytes / PARTITION_BYTES) for each in ranges]
    whole = sum(weights)
    made: list[InputPartition] = []
    for each, weight in zip(ranges, weights, strict=True):
        share = min(round(most * weight / whole), int(weight)) if whole else 1
        ends = [each.last]
        if share > 1:
            *ends, _ = chosen(line.call(_cuts(each, _EVERYTHING, _EVERYTHING)), share)
            ends.append(each.last)
        made += [
            BrowsePartition(each.q_name, after, last) for after, last in zip([each.first, *ends], ends, strict=False)
        ]
    return made


def chosen(cuts: Sequence[Cut], most: int) -> list[int]:
    """The numbers at which a range is cut into partitions: at most so many, of like size, none that is not worth a
    task. The last is that of the last cut; there is none where there are no cuts.
    """
    weights = [max(each.messages / PARTITION_MESSAGES, each.bytes / PARTITION_BYTES) for each in cuts]
    whole = sum(weights)
    count = max(1, min(most, int(whole)))
    ends: list[int] = []
    reached = 0.0
    for cut, weight in zip(cuts[:-1], weights, strict=False):
        reached += weight
        if reached >= whole * (len(ends) + 1) / count:
            ends.append(cut.sequence)
    return [*ends, *(cut.sequence for cut in cuts[-1:])]


def _cuts(range: QueueRange, messages: int, size: int) -> Callable[[broker.Connection], Awaitable[list[Cut]]]:
    return lambda connection: connection.claims.browse_cuts(range.q_name, range.first, range.last, messages, size)


def ranges_of(options: Options) -> list[QueueRange]:
    """Return the ranges of the queues that can be read now. Raises UNKNOWN_OBJECT_NAME (2085), also where generic names
    mean no queue at all: a read of nothing would end as well as one of empty queues.
    """
    ranges = line_to(options).call(lambda connection: connection.claims.queue_ranges(options.queues))
    if not ranges:
        raise MQError(
            MQRC.UNKNOWN_OBJECT_NAME,
            f"option queue is {','.join(options.queues)!r}: there is no queue whose name begins so; define one, or "
            "mend the option",
        )
    return ranges


class BrowseStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream that leaves the messages where they are."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._bound: dict[str, int] | None = None  # of a trigger AvailableNow, by queue
        self._since: dict[str, int] = {}
        self._found = False  # a queue: from then on those of generic names may go

    def initialOffset(self) -> Offset:
        position = self._options.starting_position
        if position == LATEST:
            return {"v": 1, "queues": {}, "latest": True}
        return {"v": 1, "queues": {}} if position == EARLIEST else {"v": 1, "queues": {}, "behind": position}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.messages_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._bound = {each.q_name: each.last for each in self._ranges()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        ranges = self._ranges()
        begun = start.get("latest") is not True
        if not begun and not self._since:
            self._since = {each.q_name: each.last for each in ranges}
        news = self._news(start if begun else {**start, "queues": self._since}, ranges)
        if not news:
            return start
        messages = limit.max_rows if isinstance(limit, ReadMaxRows) else 2**63
        share = max(1, messages // len(news)), max(1, self._options.bytes_max // len(news))
        line = line_to(self._options)
        reached = {each.q_name: _admitted(line, each, *share) for each in news}
        end = {"v": 1, "queues": dict(sorted({**start["queues"], **reached}.items()))}
        if "behind" in start:
            end["behind"] = start["behind"]
        return end if begun else {**end, "queues": {**self._since, **reached}, "since": self._since}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        begin = end.get("since", {}) if start.get("latest") is True else start["queues"]
        behind = start.get("behind", 0)
        ends: dict[str, int] = end["queues"]
        sizes = {each.q_name: each for each in self._ranges()}
        ranges = []
        for q_name, last in ends.items():
            after = begin.get(q_name, behind)
            known = sizes.get(q_name)
            if known is not None and after < last:
                ranges.append(known._replace(first=after, last=last))
        return divided(line_to(self._options), ranges, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, BrowsePartition)
        return browsed(self._options, self._schema, partition, Selection())

    def _ranges(self) -> list[QueueRange]:
        if not self._found:
            ranges, self._found = ranges_of(self._options), True
            return ranges
        q_names = self._options.queues
        return line_to(self._options).call(lambda connection: connection.claims.queue_ranges(q_names))

    def _news(self, start: Offset, ranges: Sequence[QueueRange]) -> list[QueueRange]:
        """By queue what is behind the offset, as far as this trigger goes."""
        positions: Mapping[str, int] = start["queues"]
        behind = start.get("behind", 0)
        news = []
        for each in ranges:
            last = each.last if self._bound is None else min(each.last, self._bound.get(each.q_name, 0))
            after = max(positions.get(each.q_name, behind), each.first)
            if after < last:
                news.append(each._replace(first=after, last=last))
        return news


def _admitted(line: SparkLine, range: QueueRange, messages: int, size: int) -> int:
    """The last arrival number of a batch of so many messages and bytes. They are counted where there may be more."""
    if min(range.messages, range.last - range.first) <= messages and range.bytes <= size:
        return range.last
    cuts = line.call(_cuts(range, messages, size))
    all_of_them = sum(cut.messages for cut in cuts) < messages and sum(cut.bytes for cut in cuts) < size
    return range.last if all_of_them else cuts[-1].sequence
