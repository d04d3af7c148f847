"""What a report tells of an archive: each figure, worked out by hand beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from broker.mqi import MQDLH, MQFMT, MQOO, MQPMO, MQRC, MessageDescriptor
from broker.spark.pipelines.archive import Archiving, Source, archive
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.report import report
from broker.spark.pipelines.reporting.depths import observe
from tests.spark.archives import frame, lay_down, row
from tests.spark.daemons import Daemon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from broker import Connection

pytestmark = pytest.mark.spark

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon") / "data") as daemon:
        daemon.mqsc("DEFINE QLOCAL(ORDERS)", "DEFINE QLOCAL(DEAD)", "DEFINE QLOCAL(LIVE)")
        yield daemon


async def put(connection: Connection) -> None:
    """A message each second from noon on, of 1 to 200 bytes; one backed out twice; dead letters of both byte orders."""
    async with connection.open("ORDERS", MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT) as queue:
        for number in range(1, 201):
            at = f"12{number // 60:02}{number % 60:02}00"
            md = MessageDescriptor(put_date="20260131", put_time=at)
            await queue.put(b"x" * number, md, MQPMO.SET_ALL_CONTEXT)
    async with connection.open("ORDERS", MQOO.INPUT_SHARED) as queue:
        for _ in range(2):
            await connection.begin()
            await queue.get(options=2)  # MQGMO_SYNCPOINT
            await connection.backout()
    async with connection.open("DEAD", MQOO.OUTPUT | MQOO.SET_ALL_CONTEXT) as queue:
        for reason, order in ((MQRC.Q_FULL, "little"), (MQRC.Q_FULL, "big"), (70_000, "big")):
            header = MQDLH(reason=reason, dest_q_name="ORDERS").to_bytes(order)  # type: ignore[arg-type]
            md = MessageDescriptor(format=MQFMT.DEAD_LETTER_HEADER, put_date="20260131", put_time="12000000")
            await queue.put(header + b"a letter", md, MQPMO.SET_ALL_CONTEXT)
        md = MessageDescriptor(format=MQFMT.DEAD_LETTER_HEADER, put_date="", put_time="")
        await queue.put(b"no header", md, MQPMO.SET_ALL_CONTEXT)


@pytest.fixture(scope="module")
def kept(spark: SparkSession, daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of these messages, moved."""
    folder = tmp_path_factory.mktemp("kept") / "archive"
    daemon.call(put)
    archive(spark, ["ORDERS", "DEAD"], folder, Source(url=daemon.url), Archiving(move=True))
    return folder


@pytest.fixture(scope="module")
def reported(spark: SparkSession, daemon: Daemon, kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of it with a live queue, and what a second run adds."""
    folder, source = tmp_path_factory.mktemp("told") / "report", Source(url=daemon.url)
    daemon.put("LIVE", b"a", b"b", b"c")
    made = report(spark, kept, folder, queues=["LIVE", "ORD*"], source=source, now=NOON)
    assert (made.page, made.messages, made.queues) == (folder / "report.html", 204, 2)
    daemon.put("LIVE", b"d")
    observe(spark, source, ["LIVE", "OR*"], folder / "depths", known=set(), now=NOON.replace(hour=13))
    return folder


def rows(spark: SparkSession, folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.read.parquet(str(folder)).selectExpr(*columns).collect()]


def test_queues_have_their_sizes_times_and_backouts(spark: SparkSession, reported: Path) -> None:
    columns = ("queue", "messages", "bytes", "date_format(first_put, 'HH:mm:ss')", "date_format(last_put, 'HH:mm:ss')",
               "size_min", "size_max", "backed_out", "backouts")  # fmt: skip
    assert rows(spark, reported / "tables" / "queues", *columns) == [
        ("DEAD", 4, 3 * 180 + 9, "12:00:00", "12:00:00", 9, 180, 0, 0),
        ("ORDERS", 200, 20_100, "12:00:01", "12:03:20", 1, 200, 1, 2),
    ]
    ((p50, p90, p99),) = rows(spark, reported / "tables" / "queues", "size_p50", "size_p90", "size_p99")[1:]
    assert (p50, p90, p99) == (pytest.approx(100, abs=4), pytest.approx(180, abs=4), pytest.approx(198, abs=4))


def test_arrivals_are_counted_in_buckets(spark: SparkSession, reported: Path) -> None:
    found = rows(
        spark, reported / "tables" / "arrivals", "queue", "date_format(since, 'HH:mm:ss')", "messages", "seconds"
    )
    assert found[:3] == [("DEAD", "12:00:00", 3, 2.0), ("ORDERS", "12:00:00", 1, 2.0), ("ORDERS", "12:00:02", 2, 2.0)]
    assert sum(row[2] for row in found) == 203


def test_sizes_are_counted_in_quarters_of_powers_of_two(spark: SparkSession, reported: Path) -> None:
    found = rows(spark, reported / "tables" / "sizes", "queue", "size_from", "size_below", "messages")
    orders = {(size_from, size_below): count for name, size_from, size_below, count in found if name == "ORDERS"}
    assert orders[1, 2] == 1
    assert orders[8, 10] == 2
    assert orders[128, 160] == 32
    assert orders[192, 224] == 9  # 192 to 200
    assert sum(orders.values()) == 200


def test_backouts_are_counted(spark: SparkSession, reported: Path) -> None:
    assert rows(spark, reported / "tables" / "backouts", "queue", "backout_count", "messages") == [
        ("DEAD", 0, 4), ("ORDERS", 0, 199), ("ORDERS", 2, 1),
    ]  # fmt: skip


def test_dead_letters_are_told_by_reason_in_either_byte_order(spark: SparkSession, reported: Path) -> None:
    columns = ("queue", "dest_q_name", "reason", "messages")
    assert rows(spark, reported / "tables" / "dead_letters", *columns) == [
        ("DEAD", "ORDERS", 2053, 2),
        ("DEAD", "ORDERS", 70_000, 1),
    ]


def dead_letter(position: int, **reported: object) -> dict[str, Any]:
    """A dead letter of a handler, as the archive has it."""
    known = {"why": "attempts", "queue": "ORDERS", "handler": "shop:ship", "exception": "ValueError", "attempts": 6,
             "crashes": 0, "last_failed": NOON.timestamp() + position}  # fmt: skip
    properties = {f"evermq.{name}": str(value) for name, value in {**known, **reported}.items()}
    return row(position, b"5 chairs", queue="ORDERS.DEAD", properties=properties)


def test_dead_letters_of_handlers_are_told_by_why_queue_and_handler(spark: SparkSession, tmp_path: Path) -> None:
    letters = [
        dead_letter(1),
        dead_letter(2, attempts=4, crashes=1),
        dead_letter(3, why="unreadable", exception="UnreadableError", attempts=1),
        dead_letter(4, handler="shop:bill", exception=""),
        row(5, queue="ORDERS.DEAD"),
        row(6, queue="ORDERS.DEAD", properties=None),
    ]
    kept = lay_down(spark, frame(spark, letters), tmp_path / "archive")
    report(spark, kept, tmp_path / "report")
    columns = ("queue", "from_queue", "handler", "why", "exception", "messages", "attempts", "attempts_max", "crashes",
               "date_format(first_failed, 'HH:mm:ss')", "date_format(last_failed, 'HH:mm:ss')")  # fmt: skip
    dead, orders = "ORDERS.DEAD", "ORDERS"
    assert rows(spark, tmp_path / "report" / "tables" / "handlers", *columns) == [
        (dead, orders, "shop:bill", "attempts", "", 1, 6, 6, 0, "12:00:04", "12:00:04"),
        (dead, orders, "shop:ship", "attempts", "ValueError", 2, 10, 6, 1, "12:00:01", "12:00:02"),
        (dead, orders, "shop:ship", "unreadable", "UnreadableError", 1, 1, 1, 0, "12:00:03", "12:00:03"),
    ]
    page = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert "<h2>Dead letters of handlers</h2>" in page
    assert "2026-01-31 12:00:02" in page


def test_the_time_on_the_queue_is_from_put_to_move(spark: SparkSession, kept: Path, reported: Path) -> None:
    since = "(unix_micros(archived) - unix_micros(put_timestamp)) / 1e6D"
    ((least, most),) = [
        tuple(row)
        for row in spark.read.parquet(str(kept))
        .where("queue = 'ORDERS'")
        .selectExpr(f"min({since})", f"max({since})")
        .collect()
    ]
    found = rows(spark, reported / "tables" / "time_on_queue", "queue", "messages", "least", "most", "p50")
    assert [row[:2] for row in found] == [("DEAD", 3), ("ORDERS", 200)]  # one has no time of put
    assert found[1][2:4] == (least, most)
    assert most - least == pytest.approx(199)
    assert found[1][4] == pytest.approx(least + 99.5, abs=4)
    curve = rows(spark, reported / "tables" / "time_curve", "queue", "percentile", "seconds")
    assert [row[1] for row in curve if row[0] == "ORDERS"] == list(range(1, 100))
    assert [row[2] for row in curve if row[0] == "ORDERS"] == sorted(row[2] for row in curve if row[0] == "ORDERS")


def test_each_run_adds_the_depths_of_live_queues(spark: SparkSession, reported: Path) -> None:
    columns = ("date_format(observed, 'HH:mm')", "queue", "depth", "oldest_seconds IS NULL")
    assert sorted(rows(spark, reported / "depths", *columns)) == [
        ("12:00", "LIVE", 3, False), ("12:00", "ORDERS", 0, True),
        ("13:00", "LIVE", 4, False), ("13:00", "ORDERS", 0, True),
    ]  # fmt: skip


def test_the_page_tells_the_same(reported: Path) -> None:
    text = (reported / "report.html").read_text("utf-8")
    for words in ("204", "20.2 KiB", "MQRC_Q_FULL (2053)", "70000 (of the application)", "messages per second"):
        assert words in text
    assert text.count("<svg ") == 6
    assert sorted(path.name for path in reported.iterdir()) == ["depths", "report.html", "tables"]


def test_an_archive_without_messages_has_a_report(spark: SparkSession, daemon: Daemon, tmp_path: Path) -> None:
    archive(spark, ["ORDERS"], tmp_path / "none", Source(url=daemon.url))
    made = report(spark, tmp_path / "none", tmp_path / "report")
    assert (made.messages, made.queues) == (0, 0)
    assert "The archive has no messages yet." in made.page.read_text("utf-8")


def test_a_report_is_not_written_into_an_archive(spark: SparkSession, kept: Path) -> None:
    with pytest.raises(PipelineError, match="is an archive: give another directory for the report"):
        report(spark, kept, kept)
