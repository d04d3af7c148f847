"""Batch reads and writes of the data source `mq`, on a daemon in a process of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import col
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StringType, StructField, StructType

from broker.mqi import MQMF, MQOO, MQPMO, MessageDescriptor, MQError
from broker.spark.browsing import BrowseStream
from broker.spark.claiming import ClaimStream
from broker.spark.schema import NAMES
from broker.spark.source import MQDataSource
from tests.spark.daemons import numbered

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from broker import Connection
    from tests.spark.daemons import Daemon

ID = bytes(range(1, 25))
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"

in_session = pytest.mark.usefixtures("spark")
"""Spark reads the text of a type only where a session is, also one of another test."""


def read(spark: SparkSession, daemon: Daemon, q_name: str = "Q", **options: str) -> DataFrame:
    return spark.read.format("mq").options(url=daemon.url, queue=q_name, **options).load()


def write(rows: DataFrame, daemon: Daemon, q_name: str = "R", **options: str) -> None:
    rows.write.format("mq").options(url=daemon.url, queue=q_name, **options).mode("append").save()


def typed(ddl: str) -> StructType:
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found


def prepared(daemon: Daemon, q_name: str = "R") -> int:
    """Return the number of messages of prepared units that count on a queue, besides those that a getter would find."""
    return daemon.depth(q_name) - len(daemon.bodies(q_name))


def test_a_read_has_every_field_and_takes_nothing(spark: SparkSession, daemon: Daemon) -> None:
    md = MessageDescriptor(
        msg_id=ID, correl_id=ID[::-1], format="MQSTR", coded_char_set_id=1208, priority=7, persistence=0, report=3,
        reply_to_q="REPLY", expiry=9000, group_id=ID, msg_seq_number=2, msg_flags=MQMF.MSG_IN_GROUP.value,
    )  # fmt: skip

    async def put(connection: Connection) -> None:
        async with connection.open("Q", MQOO.OUTPUT) as queue:
            await queue.put(b"one", md, properties={"colour": "red", "n": 7})

    daemon.call(put)
    daemon.put("Q", b"two")
    (message,) = [each for each in daemon.messages("Q") if each.data == b"one"]
    one, two = sorted(read(spark, daemon).collect(), key=lambda row: row.position)
    assert tuple(one.asDict()) == NAMES
    assert {name: getattr(one, name) for name in NAMES if hasattr(message.md, name) and name != "expiry"} == {
        name: getattr(message.md, name) for name in NAMES if hasattr(message.md, name) and name != "expiry"
    }
    assert 8000 < one.expiry <= 9000
    assert (one.queue, one.properties, one.body) == ("Q", {"colour": "red", "n": "7"}, b"one")
    assert one.put_timestamp.strftime("%Y%m%d%H%M%S%f")[:16] == one.put_date + one.put_time
    assert (two.body, two.group_id, two.properties) == (b"two", bytes(24), {})
    assert daemon.depth("Q") == 2


def test_several_queues_are_read_in_many_partitions_and_each_message_once(spark: SparkSession, daemon: Daemon) -> None:
    daemon.mqsc("DEFINE QLOCAL(A.1)", "DEFINE QLOCAL(A.2)", "DEFINE QLOCAL(B)")
    daemon.put("A.1", *numbered(4000))
    daemon.put("A.2", *numbered(2000, 4000))
    daemon.put("B", b"other")
    daemon.put("Q", b"006000")
    frame = read(spark, daemon, "A.*,Q", numPartitions="4")
    assert frame.rdd.getNumPartitions() == 5
    rows = frame.collect()
    assert [row.body for row in sorted(rows, key=lambda row: row.position)] == list(numbered(6001))
    assert {row.queue for row in rows} == {"A.1", "A.2", "Q"}
    assert read(spark, daemon, "S").collect() == []


def test_what_is_uncommitted_is_not_read(spark: SparkSession, daemon: Daemon) -> None:
    async def with_one_uncommitted(connection: Connection) -> list[bytes]:
        async with connection.open("Q", MQOO.OUTPUT) as queue:
            await queue.put(b"before")
            await queue.put(b"uncommitted", options=MQPMO.SYNCPOINT)
            await queue.put(b"behind")
            found = [row.body for row in read(spark, daemon).collect()]
            await connection.backout()
            return found

    assert daemon.call(with_one_uncommitted) == [b"before"]
    assert [row.body for row in read(spark, daemon).collect()] == [b"before", b"behind"]


def test_a_filter_holds_for_its_own_use_of_a_frame_alone(spark: SparkSession, daemon: Daemon) -> None:
    """Both uses first in turn, in a union, an except and a view; with Spark's switch for pushdown on and off."""
    daemon.put("Q", *numbered(3))
    daemon.put("R", *numbered(2))
    for switch in ("true", "false"):
        spark.conf.set(PUSHDOWN, switch)
        try:
            both = read(spark, daemon, "Q,R")
            one = both.where(col("queue") == "Q")
            assert (one.count(), both.count(), one.count()) == (3, 5, 3), switch
            both = read(spark, daemon, "Q,R")
            one = both.where(col("queue") == "R")
            assert (both.count(), one.count(), both.where("position > 0").count()) == (5, 2, 5), switch
            both = read(spark, daemon, "Q,R").select("queue", "body")
            one = both.where(col("queue") == "Q")
            assert (one.union(both).count(), both.exceptAll(one).count()) == (8, 2), switch
            read(spark, daemon, "Q,R").createOrReplaceTempView("both")
            found = spark.sql("SELECT (SELECT count(*) FROM both WHERE queue = 'Q'), (SELECT count(*) FROM both)")
            assert tuple(found.collect()[0]) == (3, 5), switch
        finally:
            spark.conf.unset(PUSHDOWN)


def test_options_of_the_read_are_handled_at_the_queue_manager(spark: SparkSession, daemon: Daemon) -> None:
    daemon.put("Q", *numbered(3), (b"it", MessageDescriptor(msg_id=ID, correl_id=ID[::-1], group_id=ID)), b"last")
    rows = read(spark, daemon).orderBy("position").collect()
    middle, last = rows[3], rows[-1]

    def found(**options: str) -> list[bytes]:
        return [row.body for row in read(spark, daemon, **options).orderBy("position").collect()]

    assert found(positionFrom=str(middle.position)) == [b"it", b"last"]
    assert found(positionFrom=str(rows[1].position), positionTo=str(middle.position)) == [b"000001", b"000002", b"it"]
    assert found(msgId=ID.hex()) == found(correlId=ID[::-1].hex()) == [b"it"]
    assert found(groupId=ID.hex(), positionFrom=str(last.position)) == []
    assert len(found(since=rows[0].put_timestamp.replace(tzinfo=UTC).isoformat())) == 5
    assert found(since=(last.put_timestamp + timedelta(hours=1)).replace(tzinfo=UTC).isoformat()) == []
    some = spark.read.format("mq").schema("body binary")
    since = some.options(url=daemon.url, queue="Q", since="2020-01-01T00:00:00Z").load()
    assert (since.columns, since.count()) == (["body"], 5)


def test_a_frame_is_planned_once_for_all_that_is_made_of_it(spark: SparkSession, daemon: Daemon) -> None:
    """As docs/how-to/spark.md says: at its first action; in any thread, for what was made of it before and after."""
    daemon.put("Q", *numbered(3))
    frame, later = read(spark, daemon), read(spark, daemon)
    before, after = frame.select("body"), later.select("body")
    assert frame.schema == later.schema  # which plans neither
    daemon.put("Q", b"000003")
    assert before.count() == 4
    daemon.put("Q", b"000004")
    frame.createOrReplaceTempView("planned")
    assert (frame.count(), len(before.collect()), spark.table("planned").count()) == (4, 4, 4)
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(frame.count).result() == 4
    later._jdf.queryExecution().executedPlan()
    daemon.put("Q", b"000005")
    assert after.count() == 6  # explain() has planned nothing
    daemon.put("Q", b"000006")
    assert later.count() == 6
    assert read(spark, daemon).count() == 7
    daemon.mqsc("CLEAR QLOCAL(Q)")
    assert frame.count() == 0


def test_a_plan_that_fails_is_made_again_and_one_that_is_made_stays(spark: SparkSession, daemon: Daemon) -> None:
    frame = read(spark, daemon, "NEW")
    with pytest.raises(PySparkException, match="2085"):
        frame.count()
    daemon.mqsc("DEFINE QLOCAL(NEW)")
    daemon.put("NEW", b"one")
    assert frame.count() == 1
    daemon.mqsc("CLEAR QLOCAL(NEW)", "DELETE QLOCAL(NEW)")
    with pytest.raises(PySparkException, match="2085"):
        frame.count()
    daemon.mqsc("DEFINE QLOCAL(NEW)")
    daemon.put("NEW", b"two")
    assert (frame.count(), read(spark, daemon, "NEW").count()) == (0, 1)


def test_columns_that_are_not_wanted_are_not_made(spark: SparkSession, daemon: Daemon) -> None:
    daemon.put("Q", b"one")
    assert [row.body for row in read(spark, daemon, includeBody="false").collect()] == [None]
    some = StructType([StructField("format", StringType()), StructField("queue", StringType())])
    rows = spark.read.format("mq").schema(some).options(url=daemon.url, queue="Q").load().collect()
    assert [tuple(row) for row in rows] == [("", "Q")]


@pytest.mark.parametrize(
    ("options", "schema", "what"),
    [
        ({"queue": "Q", "mod": "browse"}, "", "mod is no option of mq; did you mean mode"),
        ({"queue": "Q", "mode": "consume"}, "", "option mode is 'consume': a batch read browses; to consume"),
        ({"queue": "Q"}, "body string", "column body is binary, not string"),
        ({"queue": "Q"}, "bodies binary", "no column of a message: bodies; these can be read: queue, position"),
    ],
)
@in_session
def test_a_read_that_cannot_be_says_why(options: dict[str, str], schema: str, what: str) -> None:
    source = MQDataSource({"url": "mq://h", **options})
    with pytest.raises(ValueError, match=what):
        source.reader(typed(schema) if schema else source.schema())


def test_what_the_queue_manager_refuses_is_told_by_its_reason(spark: SparkSession, daemon: Daemon) -> None:
    with pytest.raises(PySparkException, match=r"MQRC_UNKNOWN_OBJECT_NAME \(2085\)"):
        read(spark, daemon, "NONE").collect()


@in_session
@pytest.mark.parametrize("q_name", ["NONE", "Q,NONE", "NONE.*"])
def test_no_read_ends_well_on_a_name_that_does_not_exist(daemon: Daemon, q_name: str) -> None:
    """A batch read, a stream that browses, and one that consumes, of which no consumer stays."""
    given = {"url": daemon.url, "queue": q_name}
    schema = typed("body binary")
    consuming = MQDataSource({**given, "mode": "consume", "consumer": "C"}).streamReader(schema)
    browsing = MQDataSource(given).streamReader(schema)
    assert isinstance(consuming, ClaimStream)
    assert isinstance(browsing, BrowseStream)
    batch = MQDataSource(given).reader(schema)
    limit = ReadMaxRows(10)
    for plan in (
        batch.partitions,
        consuming.prepareForTriggerAvailableNow,
        consuming.initialOffset,
        browsing.prepareForTriggerAvailableNow,
        lambda: browsing.latestOffset(browsing.initialOffset(), limit),
    ):
        with pytest.raises(MQError, match=r"MQRC_UNKNOWN_OBJECT_NAME \(2085\)"):
            plan()
    with pytest.raises(MQError, match="2152"):  # a new one would need the names of queues
        daemon.call(lambda connection: connection.claims.consumer("C"))


@in_session
def test_a_stream_whose_queue_is_deleted_while_it_runs_says_so(daemon: Daemon) -> None:
    """2085 where it is named; a generic name may lose its queues and find others."""
    daemon.mqsc("DEFINE QLOCAL(A.1)")
    limit = ReadMaxRows(10)
    streams = {}
    for q_name in ("A.1", "A.*"):
        given = {"url": daemon.url, "queue": q_name}
        for options in (given, {**given, "mode": "consume", "consumer": "C." + q_name[2].replace("*", "ALL")}):
            stream = MQDataSource(options).streamReader(typed("body binary"))
            assert isinstance(stream, BrowseStream | ClaimStream)
            start = stream.latestOffset(stream.initialOffset(), limit)
            streams[q_name, len(options)] = stream, start
    daemon.mqsc("DELETE QLOCAL(A.1)")
    for (q_name, _), (stream, start) in streams.items():
        if q_name == "A.*":
            assert stream.latestOffset(start, limit) == start
        else:
            with pytest.raises(MQError, match="2085"):
                stream.latestOffset(start, limit)


def test_nobody_there_is_an_error_after_a_while(spark: SparkSession) -> None:
    with pytest.raises(
        PySparkException, match=r"MQRC_HOST_NOT_AVAILABLE[\s\S]*tried for 0.2 s \(option retryTimeout\)"
    ):
        spark.read.format("mq").options(url="mq://127.0.0.1:1", queue="Q", retryTimeout="0.2").load().collect()


# Writes.


def bodies(spark: SparkSession, *given: bytes, partitions: int = 1) -> DataFrame:
    return spark.createDataFrame([(each,) for each in given], "body binary").coalesce(partitions)


def test_a_write_needs_a_body_alone(spark: SparkSession, daemon: Daemon) -> None:
    write(bodies(spark, b"one", b"two"), daemon)
    first, second = daemon.messages("R")
    assert (first.data, second.data, first.md.persistence) == (b"one", b"two", 1)
    assert first.md.put_date
    assert prepared(daemon) == 0


def test_text_and_fields_are_written(spark: SparkSession, daemon: Daemon) -> None:
    rows = spark.sql("SELECT 'Grüße' body, 'S' queue, 5 priority, map('colour', 'red') properties UNION ALL "
                     "SELECT 'x', null, null, null")  # fmt: skip
    write(rows, daemon)
    (on_s,), (on_r,) = daemon.messages("S"), daemon.messages("R")
    assert (on_s.data.decode(), on_s.md.format, on_s.md.priority, on_s.properties) == (
        "Grüße", "MQSTR", 5, {"colour": "red"}
    )  # fmt: skip
    assert (on_r.data, on_r.md.priority) == (b"x", 0)


def test_what_was_read_can_be_written(spark: SparkSession, daemon: Daemon) -> None:
    daemon.put("Q", (b"one", MessageDescriptor(msg_id=ID, correl_id=ID, format="F", expiry=9000)))
    write(read(spark, daemon).drop("queue"), daemon)
    (message,) = daemon.messages("R")
    assert (message.data, message.md.msg_id, message.md.correl_id, message.md.format) == (b"one", ID, ID, "F")


def test_k60_rows_stand_in_the_order_of_their_partitions(spark: SparkSession, daemon: Daemon) -> None:
    """K60: whichever partition is staged first."""

    def late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        time.sleep(1 if context.partitionId() == 0 else 0)
        yield from batches

    rows = spark.range(0, 3000, 1, 3).selectExpr("id", "cast(format_string('%06d', id) as binary) body")
    write(rows.mapInArrow(late, rows.schema).select("body"), daemon)
    assert daemon.bodies("R") == list(numbered(3000))


def test_k62_the_queue_manager_makes_groups_of_the_rows_of_a_partition(spark: SparkSession, daemon: Daemon) -> None:
    """K62: with LOGICAL_ORDER; a group that is left open at the end fails the write."""
    in_group, last = MQMF.MSG_IN_GROUP.value, MQMF.LAST_MSG_IN_GROUP.value
    flags = [in_group, in_group, last, last, 0]
    rows = spark.createDataFrame([(bytes([n]), flag) for n, flag in enumerate(flags)], "body binary, msg_flags int")
    write(rows.coalesce(1), daemon, groupOrder="logical")
    found = daemon.messages("R")
    assert [each.md.msg_seq_number for each in found] == [1, 2, 3, 1, 1]
    groups = [each.md.group_id for each in found]
    assert groups[0] == groups[1] == groups[2] != groups[3]
    assert groups[4] == bytes(24)
    with pytest.raises(PySparkException, match="2241"):
        write(rows.limit(2).coalesce(1), daemon, "S", groupOrder="logical")
    assert daemon.depth("S") == 0


def test_a_key_makes_a_write_once(spark: SparkSession, daemon: Daemon) -> None:
    for _ in range(2):
        write(bodies(spark, b"one"), daemon, idempotencyKey="import 2026-11-22")
    write(bodies(spark, b"two"), daemon, idempotencyKey="import 2026-11-23")
    assert daemon.bodies("R") == [b"one", b"two"]
    assert prepared(daemon) == 0


def test_k55_a_task_that_is_tried_again_writes_its_rows_once(spark: SparkSession, daemon: Daemon) -> None:
    """K55: two attempts, one winner; what the other had staged is gone with the publish."""

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.attemptNumber() < 2:
            raise RuntimeError("this attempt fails")

    daemon.mqsc("ALTER QLOCAL(Q) MAXDEPTH(100000)")
    rows = spark.range(0, 6000, 1, 2).selectExpr("cast(format_string('%06d', id) as binary) body")
    write(rows.mapInArrow(fail_once, rows.schema), daemon, "Q")
    assert daemon.bodies("Q") == list(numbered(6000))
    assert daemon.depth("Q") == 6000


def test_k64_a_full_queue_fails_the_write_and_nothing_of_it_stays(spark: SparkSession, daemon: Daemon) -> None:
    """K64: at once where the rows can never fit."""
    daemon.mqsc("ALTER QLOCAL(R) MAXDEPTH(10)")
    with pytest.raises(PySparkException, match="2053"):
        write(bodies(spark, *numbered(11)), daemon)
    daemon.put("R", *numbered(5))
    with pytest.raises(PySparkException, match="2053"):
        write(bodies(spark, *numbered(8)), daemon, putTimeout="0.2")
    assert daemon.depth("R") == 5


@pytest.mark.parametrize(
    ("schema", "options", "what"),
    [
        ("body string, colour int, size int", {}, "no column of a message: colour, size; these can be written: queue"),
        ("priority int", {}, "a row to write has a column body; there are priority"),
        ("body binary, priority string", {}, "column priority is int, not string: cast it"),
        ("body binary", {"sinkId": "S"}, "option sinkId is for a streaming write"),
    ],
)
@in_session
def test_a_write_that_cannot_be_says_why(schema: str, options: dict[str, str], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        MQDataSource({"url": "mq://h", **options}).writer(typed(schema), overwrite=False)


@in_session
def test_messages_are_not_overwritten() -> None:
    source = MQDataSource({"url": "mq://h"})
    with pytest.raises(ValueError, match=r"messages cannot be overwritten: write with mode\('append'\)"):
        source.writer(typed("body binary"), overwrite=True)
    with pytest.raises(ValueError, match=r"messages cannot be overwritten: write with outputMode\('append'\)"):
        source.streamWriter(typed("body binary"), overwrite=True)
