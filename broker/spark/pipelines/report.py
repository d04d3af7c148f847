"""Report on an archive and live queues, as tables and a page: `evermq pipeline report`."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.spark.pipelines.archive import read_archive
from broker.spark.pipelines.directory import ArchiveDirectory
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.jobs import watched
from broker.spark.pipelines.reporting import tables
from broker.spark.pipelines.reporting.depths import observe
from broker.spark.pipelines.reporting.page import PageContents, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from broker.spark.pipelines.archive import Source

_DEPTHS: Final = "depths"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The result of a run: the page, and the numbers of messages and queues."""

    page: Path
    messages: int
    queues: int


def report(
    spark: SparkSession,
    archive: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    queues: list[str] | None = None,
    source: Source | None = None,
    now: datetime | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Reported:
    """Make of the archive in a directory, in the directory `to`, the tables `tables/NAME` (Parquet) and the page
    `report.html`, in place of those of the last run. With `queues` (names or generic names, and the `source` they are
    on) the depths of these queues are added to the observations in `depths`, which stay from run to run.

    `now` is the time of the observation. Raises PipelineError where there is no archive, or `to` is one.
    """
    place, target, now = ArchiveDirectory(archive), Path(os.path.abspath(to)), now or datetime.now(UTC)
    _check_target(target)
    scratch = target / f".tables.{os.getpid()}"
    try:
        with place.reading():
            _write(spark, read_archive(spark, place), scratch, tell, moved=_moved(place))
        shutil.rmtree(target / "tables", ignore_errors=True)
        scratch.rename(target / "tables")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    found = {path.name: _rows(path) for path in sorted((target / "tables").iterdir())}
    if queues and source is not None:
        known = {str(row["queue"]) for row in found["queues"]}
        with watched(spark, "looking at the queues", tell):
            observe(spark, source, queues, target / _DEPTHS, known=known, now=now)
    found[_DEPTHS] = sorted(_rows(target / _DEPTHS), key=lambda row: (row["queue"], row["observed"]))
    text = page(PageContents(archive=str(place.path), moved=_moved(place), made=now, tables=found))
    _replace(target / "report.html", text)
    rows = found["queues"]
    return Reported(page=target / "report.html", messages=sum(row["messages"] for row in rows), queues=len(rows))


def _check_target(target: Path) -> None:
    if (target / "_spark_metadata").exists() or (target / "_evermq").exists():
        raise PipelineError(f"{target} is an archive: give another directory for the report")
    target.mkdir(parents=True, exist_ok=True)


def _moved(place: ArchiveDirectory) -> bool:
    description = place.description
    return description is not None and description.mode == "consume"


def _write(spark: SparkSession, messages: DataFrame, folder: Path, tell: Callable[[str], None], *, moved: bool) -> None:
    """Write all tables; `queues` first, as it says from when to when the messages are."""

    def write(name: str, table: DataFrame) -> None:
        with watched(spark, f"making the table {name}", tell):
            table.coalesce(1).write.parquet(str(folder / name))

    write("queues", tables.queues(messages))
    puts = [row for row in _rows(folder / "queues") if row["first_put"] is not None]
    span = max((row["last_put"] for row in puts), default=0) - min((row["first_put"] for row in puts), default=0)
    write("arrivals", tables.arrivals(messages, tables.bucket_seconds(span)))
    write("sizes", tables.sizes(messages))
    write("backouts", tables.backouts(messages))
    write("dead_letters", tables.dead_letters(messages))
    write("handlers", tables.handlers(messages))
    if moved:
        write("time_on_queue", tables.time_on_queue(messages))
        write("time_curve", tables.time_curve(messages))


def _rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a small table, read without Spark; times as seconds since 1970."""
    from pyarrow.parquet import read_table

    rows: list[dict[str, Any]] = read_table(folder).to_pylist() if folder.exists() else []
    return [{name: _seconds(value) for name, value in row.items()} for row in rows]


def _seconds(value: Any) -> Any:
    """A time as seconds, which is UTC where it does not say; anything else as it is."""
    if not isinstance(value, datetime):
        return value
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


def _replace(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(text, "utf-8")
    os.replace(scratch, path)
