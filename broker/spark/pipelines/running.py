"""A streaming query while it runs: what each of its batches brought, and an end that loses nothing."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.spark.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS: Final = 0.5
BATCH_SECONDS_MAX: Final = 20.0
"""The time that a query that is to stop has to end its batch. A batch that is cut off runs again."""


class BatchLag(NamedTuple):
    """The lag behind a batch: messages and bytes that could be read."""

    messages: int
    bytes: int


class Batch(NamedTuple):
    """A batch that a query has done: its number, its messages, how many a second that was, and the lag behind it, where
    it is known.
    """

    number: int
    messages: int
    rate: float
    lag: BatchLag | None

    def __str__(self) -> str:
        lag = "" if self.lag is None else f", {self.lag.messages:,} waiting ({self.lag.bytes:,} bytes)"
        return f"batch {self.number}: {self.messages:,} messages, {self.rate:,.0f}/s{lag}"


class CutOffError(Exception):
    """A query that was to stop was ended in a batch, which will run again; `messages` are those of the ones before."""

    def __init__(self, messages: int) -> None:
        super().__init__(f"ended in a batch, after {messages} messages")
        self.messages = messages


class Stop:
    """An order to stop, which anybody may give from any thread, and from a signal handler."""

    def __init__(self) -> None:
        self._ordered = threading.Event()

    def order(self) -> None:
        """Give it. Harmless when repeated."""
        self._ordered.set()

    @property
    def ordered(self) -> bool:
        """True if it was given."""
        return self._ordered.is_set()


def followed(
    query: StreamingQuery,
    stop: Stop,
    tell: Callable[[Batch], None],
    lag: Callable[[list[Any]], BatchLag | None] = lambda offsets: None,
) -> int:
    """Wait for the end of a query, and tell of each batch with messages; the number of these messages. Stopped, the
    query ends behind the batch at which it is. `lag` is given the offsets of the query's sources. Raises PipelineError
    where it failed, and CutOffError where it was to stop and was ended at once.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import StreamingQueryException

    progress = _Progress(tell, lag)
    try:
        while not query.awaitTermination(_LOOK_SECONDS):  # type: ignore[arg-type]  # it takes any number
            progress.of(query)
            if stop.ordered:
                _end(query)
                break
        progress.of(query)
    except (StreamingQueryException, Py4JError, OSError) as error:
        # An order to a whole process group reaches Spark's processes too, and they are quicker.
        if stop.ordered:
            raise CutOffError(progress.messages) from error
        raise PipelineError(f"the query failed: {reason(error)}") from error
    return progress.messages


class _Progress:
    """The batches that were told already: Spark keeps the last hundred."""

    def __init__(self, tell: Callable[[Batch], None], lag: Callable[[list[Any]], BatchLag | None]) -> None:
        self.messages = 0
        self._tell = tell
        self._lag = lag
        self._last = -1

    def of(self, query: StreamingQuery) -> None:
        """Tell of the batches since; the lag is known behind the last of them alone."""
        since = [each for each in query.recentProgress if each.batchId > self._last and each.numInputRows]
        for progress in since:
            self._last = progress.batchId
            self.messages += progress.numInputRows
            lag = self._lag([source.endOffset for source in progress.sources]) if progress is since[-1] else None
            self._tell(Batch(progress.batchId, progress.numInputRows, progress.processedRowsPerSecond or 0.0, lag))


def _end(query: StreamingQuery) -> None:
    """Stop a query between two batches, if it comes to such a place in time."""
    deadline = time.monotonic() + BATCH_SECONDS_MAX
    begun = query.lastProgress
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        query.awaitTermination(_LOOK_SECONDS)  # type: ignore[arg-type]  # it takes any number
        now = query.lastProgress
        if now is not None and (begun is None or now.batchId > begun.batchId):
            break
    query.stop()


def reason(error: Exception) -> str:
    """The line of an error of Spark's that tells what went wrong: the last of the errors of Python in it, if any."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if line.split(":")[0].rsplit(".")[-1].endswith(("Error", "Exception"))]
    return (python or lines or ["Spark does not say why"])[-1 if python else 0]
