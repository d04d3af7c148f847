"""Writing: each task stages its rows in a prepared unit, and the driver publishes the units of a batch together.

Exactly once: a batch of a stream is published once, whatever dies, since the queue manager keeps which one was the last
(`docs/rules/claims.md`). Spark makes a new writer for the commit and for the abort, so what ties a batch together comes
back in the messages of its tasks. Its own numbers of attempts begin again with each driver: the name of an attempt is
random.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from broker.interface.claims.claims import UnitName, Winner
from broker.mqi import MQPMO, MQRC, MQError
from broker.spark.daemon import line_to
from broker.spark.rows import pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    import pyarrow as pa

    import broker
    from broker.interface.claims.claims import Publication, Staged
    from broker.spark.options import Options
    from broker.spark.rows import ColumnPiece

logger = logging.getLogger(__name__)

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
"""Local properties that Spark gives the tasks of a stream. They are not documented; a test holds them."""

KEYED: Final = ""
"""The query of a batch write that has a key: all of them have it in common."""

_NEVER: Final = "never fits"  # of a batch with more rows than the queue may ever hold

_PAUSE_MIN: Final = 0.1
_PAUSE_MAX: Final = 2.0


@dataclass(frozen=True, slots=True)
class TaskResult(WriterCommitMessage):
    """The result of a task: the unit that it has staged, for a batch of `query` (None where no ledger is kept), and the
    number of rows. It is `published` where the whole batch had been before.
    """

    unit: UnitName
    query: str | None
    rows: int
    published: bool


class BatchSink(DataSourceArrowWriter):
    """A batch write: all of it becomes visible at once, or nothing. With a key it is made once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._sink = options.sink or f"SPARK.{os.urandom(16).hex()}"  # this very object goes to all tasks of the write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        query = KEYED if self._options.sink else None
        return _Writing(self._options, _unit(self._sink, 0), query).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _publish(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _discard(self._options, messages)


class StreamSink(DataSourceStreamArrowWriter):
    """A streaming write: each batch becomes visible at once, and once."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        context = _context()
        batch, query = context.getLocalProperty(BATCH_ID), context.getLocalProperty(QUERY_ID)
        if batch is None or query is None:
            raise RuntimeError(
                f"Spark {pyspark.__version__} does not tell the tasks of a stream which batch they are for (local "
                f"properties {BATCH_ID} and {QUERY_ID}), without which a batch could be written twice"
            )
        sink = self._options.sink or f"SPARK.{query.replace('-', '')}"
        return _Writing(self._options, _unit(sink, int(batch)), query).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        published = _publish(self._options, messages)
        if published is not None and published.already:
            logger.info("batch was published before batch=%d", batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _discard(self._options, messages)


def _unit(sink: str, batch: int) -> UnitName:
    """A new unit of this task."""
    return UnitName(sink, batch, _context().partitionId(), os.urandom(16))


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark writes in tasks"
    return context


class _Writing:
    """One attempt of one task: its rows go out in pieces, the next being made while one is on its way."""

    def __init__(self, options: Options, unit: UnitName, query: str | None) -> None:
        self._options = options
        self._line = line_to(options)
        self._unit = unit
        self._query = query
        self._flags = MQPMO.LOGICAL_ORDER.value if options.logical_order else 0
        self._under_way: tuple[Future[Staged], int, ColumnPiece, bool] | None = None
        self._published = False
        self._index = 0  # of the next piece's first row

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        """Stage all rows. Once the batch turns out to be published the rest is read and thrown away: an error would
        stop the query for ever.
        """
        held: ColumnPiece | None = None
        try:
            for batch in batches:
                for piece in () if self._published else pieces(batch, self._first_queue):
                    if held is not None:
                        self._stage(held, last=False)
                    held = piece
            if held is not None and not self._published:
                self._stage(held, last=True)
                self._settle()
        except Exception:
            self._give_up()
            raise
        return TaskResult(self._unit, self._query, self._index, self._published)

    @property
    def _first_queue(self) -> str:
        """The queue of rows that name none."""
        return self._options.queues[0] if self._options.queues else ""

    def _stage(self, piece: ColumnPiece, *, last: bool) -> None:
        self._settle()
        if not self._published:
            self._under_way = (self._sent(self._index, piece, last=last), self._index, piece, last)
            self._index += piece.rows

    def _sent(self, first: int, piece: ColumnPiece, *, last: bool) -> Future[Staged]:
        return self._line.start(
            lambda connection: connection.sinks.stage(
                self._unit, piece.frame, first, query=self._query, options=self._flags, last=last
            )
        )

    def _settle(self) -> None:
        """Wait for the piece that is under way. While a queue is full it is sent again."""
        if self._under_way is None:
            return
        answer, first, piece, last = self._under_way
        self._under_way = None
        deadline = None
        pause = _PAUSE_MIN
        while True:
            try:
                self._published = answer.result().published
                return
            except MQError as error:
                now = time.monotonic()
                deadline = deadline or now + self._options.put_timeout
                if error.reason != MQRC.Q_FULL or now >= deadline or _NEVER in error.detail:
                    raise
                pause = min(2 * pause, _PAUSE_MAX, deadline - now)
            time.sleep(pause)
            answer = self._sent(first, piece, last=last)

    def _give_up(self) -> None:
        """Discard what this attempt has staged, which nobody else can name; if that fails the publish of the batch, or
        time, discards it.
        """
        if self._index:
            try:
                self._line.call(lambda connection: connection.sinks.discard([self._unit]))
            except Exception as error:
                logger.warning("unit not discarded sink=%s batch=%d: %s", self._unit.sink, self._unit.batch, error)


def _publish(options: Options, messages: Sequence[WriterCommitMessage | None]) -> Publication | None:
    """Make what the tasks have staged visible, partition by partition; None where there is nothing to do."""
    written = sorted(_written(messages), key=lambda each: each.unit.partition)
    if not written:
        raise RuntimeError("Spark has committed a write of no task, so that its batch is not known")
    unit, query = written[0].unit, written[0].query
    winners = [Winner(each.unit, each.rows) for each in written if each.rows and not each.published]
    if query is None and not winners:
        return None
    line = line_to(options)
    if query and not options.fail_on_data_loss:
        line.call(lambda connection: _close_gap(connection, unit, query))
    return line.call(lambda connection: connection.sinks.publish(unit.sink, unit.batch, winners, query=query))


async def _close_gap(connection: broker.Connection, unit: UnitName, query: str) -> None:
    """Take batches for published that the ledger of the sink lacks, as that of a queue manager from a backup does."""
    ledger = await connection.sinks.ledger(unit.sink)
    if ledger is not None and ledger[0] == query and ledger[1] + 1 < unit.batch:
        logger.error("batches lost sink=%s first=%d last=%d", unit.sink, ledger[1] + 1, unit.batch - 1)
        for batch in range(ledger[1] + 1, unit.batch):
            await connection.sinks.publish(unit.sink, batch, [], query=query)


def _discard(options: Options, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Discard what these tasks have staged, and nothing else: there may be units of a newer driver."""
    units = [each.unit for each in _written(messages) if each.rows and not each.published]
    if units:
        line_to(options).call(lambda connection: connection.sinks.discard(units))


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    """The messages of the tasks that have succeeded."""
    return [each for each in messages if isinstance(each, TaskResult)]
