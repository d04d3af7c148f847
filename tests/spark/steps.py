"""A data source that fails, or waits, at a step that a test names: `mq` otherwise.

What a driver had in its memory is lost with its query: Spark starts a process for each, and the next query knows what
stands in the checkpoint alone. So a failure at a step is the death of a driver there. The tests name the step in a
folder that all processes of Spark know, by the environment.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.spark.claiming import ClaimStream
from broker.spark.offsets import ClaimOffset
from broker.spark.options import Use, parse
from broker.spark.sink import StreamSink, TaskResult
from broker.spark.source import MQDataSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

FOLDER = "EVERMQ_TESTS_STEPS"
WAIT_SECONDS = 30.0

STEPS = ("registered", "claimed", "pinning", "pinned", "reading", "staged", "publishing", "published", "acknowledging")
"""All steps, in the order in which a batch comes to them."""


def folder() -> Path:
    return Path(os.environ[FOLDER])


def fail_at(step: str, times: int = 1) -> None:
    """Let this step fail, so many times."""
    for number in range(times):
        (folder() / f"fail.{step}.{number}").touch()


def wait_at(step: str) -> None:
    """Let this step wait, the next time that a process comes to it."""
    (folder() / f"wait.{step}").touch()


def kill_at(step: str, group: int) -> None:
    """Let this step kill a group of processes."""
    (folder() / f"kill.{step}").write_text(str(group))


def waited_for(step: str) -> Path:
    """Wait until a process has come to a step at which it waits: removing the path lets it go on."""
    reached = folder() / f"reached.{step}"
    deadline = time.monotonic() + WAIT_SECONDS
    while not reached.exists():
        assert time.monotonic() < deadline, f"nobody came to {step}"
        time.sleep(0.01)
    return reached


def at(step: str) -> None:
    """A process has come to a step."""
    here = folder()
    kill = here / f"kill.{step}"
    if kill.exists():
        group = int(kill.read_text())
        kill.unlink()
        os.killpg(group, signal.SIGKILL)
    for each in sorted(here.glob(f"fail.{step}.*")):
        each.unlink(missing_ok=True)
        raise RuntimeError(f"the driver dies at {step}")
    wait = here / f"wait.{step}"
    if wait.exists():
        reached = here / f"reached.{step}"
        wait.rename(reached)
        deadline = time.monotonic() + WAIT_SECONDS
        while reached.exists() and time.monotonic() < deadline:
            time.sleep(0.01)


class SteppingSource(MQDataSource):
    """`mq` with steps."""

    @classmethod
    def name(cls) -> str:
        return "stepping"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return SteppingStream(parse(self.options, Use.CONSUME), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return SteppingSink(parse(self.options, Use.WRITE_STREAM))


class SteppingStream(ClaimStream):
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._registered(ClaimOffset.from_json(start), None)
        at("registered")
        end = super().latestOffset(start, limit)
        if end != start:
            at("claimed")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        at("pinning")
        found = super().partitions(start, end)
        at("pinned")
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            yield batch
            at("reading")

    def commit(self, end: dict[str, Any]) -> None:
        at("acknowledging")
        super().commit(end)


class SteppingSink(StreamSink):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        written = super().write(iterator)
        at("staged")
        return written

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        (folder() / "messages").write_bytes(pickle.dumps(messages))
        at("publishing")
        super().commit(messages, batchId)
        at("published")

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        """A driver that has died aborts nothing."""
