"""Measures what Spark reads from queues and writes to them, as a share of what memory gives and nothing takes.

    python docs/scripts/spark_throughput.py --page

One Spark session, `local[2]`; for each figure a daemon of its own, in a process of its own, with its data in a
temporary folder (`TMPDIR`). The figures take turns, in several rounds after one that warms Java up; what is told is the
median of each. All rows are counted at the end of each. `--page` writes it into `docs/explanation/performance.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow.dataset
from anyio.from_thread import start_blocking_portal
from pyspark.sql import functions

import broker
from broker.benchmarks.batches import check_depth
from broker.benchmarks.child import ROOT, MeasurementError
from broker.benchmarks.daemon import QUEUE, MeasuredDaemon, daemon
from broker.benchmarks.machine import machine
from broker.benchmarks.workloads.loop import HOLD, longest_hold, start_watch
from broker.mqi import MQOO
from broker.spark import finish, session
from performance_page import PAGE, markdown, replaced
from spark_sources import BATCH_ROWS, MemorySource, NullSource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from anyio.from_thread import BlockingPortal
    from pyspark.sql import DataFrame, SparkSession

    from broker import Connection

PARTITIONS: Final = 2
ROWS_A_TRIGGER: Final = 100_000  # as `maxMessagesPerTrigger` is by default
WARM_UP_DIVISOR: Final = 10

_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
_QUIET_SECONDS: Final = 0.5
_QUIET_SHARE: Final = 0.04


class Used(NamedTuple):
    """Processor time in seconds: of the daemon, of the Python processes of Spark, of its Java."""

    daemon: float
    python: float
    java: float

    def since(self, before: Used) -> Used:
        return Used._make(now - then for now, then in zip(self, before, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run: rows a second, microseconds of processor time a row, the longest hold of the daemon's loop in ms."""

    rate: float
    daemon_us: float
    python_us: float
    java_us: float
    hold_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measurement; `base` is the title of what it is a share of. `queued`: the rows are on the queue before;
    `consumes`: they are not afterwards. `settings` are those of the daemon.
    """

    title: str
    run: Callable[[Bench], None]
    base: str = ""
    queued: bool = False
    consumes: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def uses_queue(self) -> bool:
        return bool(self.base)

    def median(self, name: str) -> float:
        found: float = median(getattr(each, name) for each in self.outcomes)
        return found


@dataclass(slots=True)
class Bench:
    """The place of one run: the session, an empty folder, the URL of the daemon if there is one, and how much."""

    spark: SparkSession
    folder: Path
    url: str
    rows: int
    size: int

    def memory(self, *, streaming: bool) -> DataFrame:
        options: dict[str, str | int] = {
            "rows": self.rows, "size": self.size, "partitions": PARTITIONS, "rowsPerTrigger": ROWS_A_TRIGGER,
        }  # fmt: skip
        reader = self.spark.readStream if streaming else self.spark.read
        return reader.format("memory").options(**options).load()

    def queue(self, *, streaming: bool) -> DataFrame:
        options: dict[str, str | int] = {"url": self.url, "queue": QUEUE, "numPartitions": PARTITIONS}
        if not streaming:
            return self.spark.read.format("mq").options(**options).load()
        options |= {"mode": "consume", "consumer": QUEUE, "maxMessagesPerTrigger": ROWS_A_TRIGGER}
        return self.spark.readStream.format("mq").options(**options).load()

    def made(self) -> DataFrame:
        """Rows with a body of their own each, made by Spark."""
        number = functions.unhex(functions.lpad(functions.hex("id"), 16, "0"))
        body = functions.concat(number, functions.lit(os.urandom(self.size - 8)))
        return self.spark.range(0, self.rows, 1, PARTITIONS).select(body.alias("body"))

    def to_nothing(self, rows: DataFrame) -> None:
        rows.write.format("noop").mode("overwrite").save()

    def to_parquet(self, rows: DataFrame) -> None:
        rows.write.parquet(str(self.folder / "rows"))
        self._count()

    def stream_to_nothing(self, rows: DataFrame) -> None:
        self._stream(rows, "noop")

    def stream_to_parquet(self, rows: DataFrame) -> None:
        self._stream(rows, "parquet")
        self._count()

    def _stream(self, rows: DataFrame, format: str) -> None:
        options = {"checkpointLocation": str(self.folder / "checkpoint"), "path": str(self.folder / "rows")}
        query = rows.writeStream.format(format).options(**options).trigger(availableNow=True).start()
        query.awaitTermination()
        if self.url:
            finish(query)

    def _count(self) -> None:
        found = pyarrow.dataset.dataset(self.folder / "rows", format="parquet", exclude_invalid_files=True).count_rows()
        if found != self.rows:
            raise MeasurementError(f"{found} rows are in the output instead of {self.rows}")


def _write_null(bench: Bench) -> None:
    bench.made().write.format("null").mode("append").save()


def _write_queue(bench: Bench) -> None:
    bench.made().write.format("mq").options(url=bench.url, queue=QUEUE).mode("append").save()


STREAM_NOTHING: Final = "stream from memory to nothing"
STREAM_PARQUET: Final = "stream from memory to Parquet"
BATCH_NOTHING: Final = "batch from memory to nothing"
BATCH_PARQUET: Final = "batch from memory to Parquet"
LONG: Final = "a log of 4 x 256 MiB"
LONG_LOG: Final = {"EVERMQ_JOURNAL_FILES": "4", "EVERMQ_JOURNAL_FILE_BYTES": str(256 * 1024 * 1024)}
WRITE_NOTHING: Final = "batch to a writer in Python that drops it"


def figures() -> list[Figure]:
    """All figures, those first of which others are a share."""
    return [
        Figure(title=STREAM_NOTHING, run=lambda bench: bench.stream_to_nothing(bench.memory(streaming=True))),
        Figure(title=STREAM_PARQUET, run=lambda bench: bench.stream_to_parquet(bench.memory(streaming=True))),
        Figure(title=BATCH_NOTHING, run=lambda bench: bench.to_nothing(bench.memory(streaming=False))),
        Figure(title=BATCH_PARQUET, run=lambda bench: bench.to_parquet(bench.memory(streaming=False))),
        Figure(title=WRITE_NOTHING, run=_write_null),
        Figure(
            title="stream that consumes a queue, to nothing", base=STREAM_NOTHING, queued=True, consumes=True,
            run=lambda bench: bench.stream_to_nothing(bench.queue(streaming=True)),
        ),
        Figure(
            title="stream that consumes a queue, to Parquet", base=STREAM_PARQUET, queued=True, consumes=True,
            run=lambda bench: bench.stream_to_parquet(bench.queue(streaming=True)),
        ),
        Figure(
            title=f"the same, {LONG}", base=STREAM_PARQUET, queued=True, consumes=True, settings=LONG_LOG,
            run=lambda bench: bench.stream_to_parquet(bench.queue(streaming=True)),
        ),
        Figure(
            title="batch that browses a queue, to nothing", base=BATCH_NOTHING, queued=True,
            run=lambda bench: bench.to_nothing(bench.queue(streaming=False)),
        ),
        Figure(
            title="batch that browses a queue, to Parquet", base=BATCH_PARQUET, queued=True,
            run=lambda bench: bench.to_parquet(bench.queue(streaming=False)),
        ),
        Figure(title="batch written to a queue", base=WRITE_NOTHING, run=_write_queue),
        Figure(title=f"the same, {LONG}", base=WRITE_NOTHING, run=_write_queue, settings=LONG_LOG),
    ]  # fmt: skip


class Runner:
    """Runs figures in one session."""

    def __init__(self, spark: SparkSession, portal: BlockingPortal, size: int) -> None:
        self._spark = spark
        self._portal = portal
        self._size = size
        self._java: int = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # there is one

    def run(self, figure: Figure, rows: int) -> Outcome:
        """One run of a figure, with a daemon of its own if it has to do with a queue."""
        with tempfile.TemporaryDirectory(prefix="evermq-spark-") as name:
            bench = Bench(self._spark, Path(name), "", rows, self._size)
            if not figure.uses_queue:
                return self._timed(figure, bench, None)
            with self._daemon(bench.folder, figure.settings) as started:
                bench.url = started.url
                self._on(started, start_watch)
                if figure.queued:
                    self._on(started, lambda connection: _fill(connection, rows, self._size))
                _wait_quiet(started.pid)
                outcome = self._timed(figure, bench, started)
                stays = 0 if figure.consumes else rows
                self._on(started, lambda connection: _check(connection, stays))
                return outcome

    @contextmanager
    def _daemon(self, folder: Path, settings: Mapping[str, str]) -> Iterator[MeasuredDaemon]:
        made = daemon(folder, HOLD.definitions, {**HOLD.settings, **settings})
        with self._portal.wrap_async_context_manager(made) as started:
            yield started

    def _timed(self, figure: Figure, bench: Bench, started: MeasuredDaemon | None) -> Outcome:
        if started is not None:
            self._on(started, longest_hold)
        before, begun = self._used(started), time.perf_counter()
        figure.run(bench)
        seconds, used = time.perf_counter() - begun, self._used(started).since(before)
        hold = 0.0 if started is None else self._on(started, longest_hold)
        daemon_us, python_us, java_us = (each / bench.rows * 1e6 for each in used)
        return Outcome(
            rate=bench.rows / seconds, daemon_us=daemon_us, python_us=python_us, java_us=java_us, hold_ms=hold
        )

    def _on(self, started: MeasuredDaemon, make: Callable[[Connection], Awaitable[Any]]) -> Any:
        async def called() -> Any:
            async with broker.connect(started.url) as connection:
                return await make(connection)

        return self._portal.call(called)

    def _used(self, started: MeasuredDaemon | None) -> Used:
        return Used(0.0 if started is None else Times.of(started.pid).own, _below(self._java), Times.of(self._java).own)


async def _fill(connection: Connection, rows: int, size: int) -> None:
    some = [os.urandom(size) for _ in range(BATCH_ROWS)]  # as those from memory: neither is compressed by Parquet
    async with connection.open(QUEUE, MQOO.OUTPUT) as queue:
        await queue.put_many(some[row % BATCH_ROWS] for row in range(rows))


async def _check(connection: Connection, rows: int) -> None:
    async with connection.open(QUEUE, MQOO.INQUIRE) as queue:
        await check_depth(queue, rows)


class Times(NamedTuple):
    """The processor time of a process, in seconds: its own, and that of its children that have ended."""

    own: float
    ended: float
    parent: int

    @classmethod
    def of(cls, pid: int) -> Times:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cls(sum(map(int, fields[11:13])) * _TICK, sum(map(int, fields[13:15])) * _TICK, int(fields[1]))


def _below(pid: int) -> float:
    """The processor time of all processes below a process, those that have ended too."""
    times: dict[int, Times] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            times[int(folder.name)] = Times.of(int(folder.name))
    found, used = [pid], times[pid].ended
    for each in found:
        below = [child for child, its in times.items() if its.parent == each]
        used += sum(times[child].own + times[child].ended for child in below)
        found += below
    return used


def _wait_quiet(pid: int) -> None:
    """Return when the daemon has nothing more to do with what was put."""
    used = Times.of(pid).own
    while True:
        time.sleep(_QUIET_SECONDS)
        before, used = used, Times.of(pid).own
        if used - before < _QUIET_SHARE * _QUIET_SECONDS:
            return


def rows_of(measured: list[Figure]) -> list[list[str]]:
    """The table, its head first."""
    by_title = {each.title: each for each in measured}
    rows = [["", "rows a second", "min - max", "share", "daemon, us a row", "Python", "Java", "longest hold, ms"]]
    for each in measured:
        rates = [outcome.rate for outcome in each.outcomes]
        base = by_title.get(each.base)
        share = f"{each.median('rate') / base.median('rate'):.0%}" if base is not None else ""
        rows.append([
            each.title, f"{median(rates):,.0f}", f"{min(rates):,.0f} - {max(rates):,.0f}", share,
            f"{each.median('daemon_us'):.1f}" if each.uses_queue else "",
            f"{each.median('python_us'):.1f}", f"{each.median('java_us'):.1f}",
            f"{each.median('hold_ms'):.1f}" if each.uses_queue else "",
        ])  # fmt: skip
    return rows


def _load() -> str:
    return Path("/proc/loadavg").read_text().split()[0]


def measure(given: argparse.Namespace) -> list[Figure]:
    """All figures, in turns."""
    wanted = [each for each in figures() if not given.only or any(only in each.title for only in given.only)]
    scripts = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [scripts, str(ROOT), os.environ.get("PYTHONPATH")]))
    spark = session("throughput", master="local[2]", settings={"spark.log.level": "ERROR"})
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(given.arrow_rows))
    for source in (MemorySource, NullSource):
        spark.dataSource.register(source)
    try:
        with start_blocking_portal() as portal:
            runner = Runner(spark, portal, given.size)
            for round in range(given.rounds + 1):
                for each in wanted:
                    outcome = runner.run(each, given.rows if round else max(given.rows // WARM_UP_DIVISOR, BATCH_ROWS))
                    if round:
                        each.outcomes.append(outcome)
                    print(f"{'round ' + str(round) if round else 'warm up'}, load {_load()}: {each.title}: {outcome}",
                          file=sys.stderr, flush=True)  # fmt: skip
    finally:
        spark.stop()
    return wanted


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the data source mq against rows in memory.")
    parser.add_argument("--rows", type=int, default=300_000, metavar="N")
    parser.add_argument("--size", type=int, default=2048, metavar="BYTES", help="of each body")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="figures with this in their title")
    parser.add_argument("--arrow-rows", type=int, default=10_000, metavar="N", help="maxRecordsPerBatch, as Spark's")
    parser.add_argument("--page", action="store_true", help="write the table into docs/explanation/performance.md")
    return parser.parse_args()


def _main() -> None:
    given = _arguments()
    begun = _load()
    measured = measure(given)
    reported = {name: text for name, text in machine().items() if name != "packages"}
    reported["load before and after"] = f"{begun}, {_load()}"
    table = markdown(rows_of(measured))
    facts = markdown([["", "this run"], *map(list, reported.items())])
    print(facts + "\n" + table)
    if given.page:
        page = replaced(PAGE.read_text("utf-8"), "spark", facts + "\n" + table)
        PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    _main()
