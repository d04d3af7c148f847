"""Streams of the data source `mq`: exactly once from claims to a published batch, whatever dies in between (K71)."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from broker.mqi import MQMF, MQOO, MQPMO, MessageDescriptor
from broker.spark import finish
from broker.spark.options import Use, parse
from broker.spark.sink import StreamSink, TaskResult
from tests.spark import steps
from tests.spark.daemons import numbered

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from broker import Connection
    from broker.interface.claims.claims import ConsumerState
    from tests.spark.daemons import Daemon

SECONDS = 60


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture(autouse=True)
def no_steps() -> None:
    if steps.FOLDER in os.environ:
        for each in steps.folder().iterdir():
            each.unlink()


def consumed(spark: SparkSession, daemon: Daemon, q_name: str = "Q", format: str = "mq", **options: str) -> DataFrame:
    given = {"url": daemon.url, "queue": q_name, "mode": "consume", "consumer": "C", **options}
    return spark.readStream.format(format).options(**given).load()


def started(
    rows: DataFrame, daemon: Daemon, checkpoint: Path, *, format: str = "mq", once: bool = True, **options: str
) -> StreamingQuery:
    """A query that writes to the queue R; `once`: all that is there now."""
    writer = rows.writeStream.format(format).options(url=daemon.url, queue="R", **options)
    trigger: dict[str, Any] = {"availableNow": True} if once else {"processingTime": "0 seconds"}
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


def run(rows: DataFrame, daemon: Daemon, checkpoint: Path, **options: Any) -> StreamingQuery:
    """Run a query to its end; raises what ends it."""
    query = started(rows, daemon, checkpoint, **options)
    assert query.awaitTermination(SECONDS)
    return query


def moved(spark: SparkSession, daemon: Daemon, checkpoint: Path, **options: str) -> StreamingQuery:
    """Move what is on Q to R, by way of the steps at which it may fail."""
    rows = consumed(spark, daemon, format="stepping", **options).select("body")
    return run(rows, daemon, checkpoint, format="stepping")


def state(daemon: Daemon, name: str = "C") -> ConsumerState:
    return daemon.call(lambda connection: connection.claims.consumer(name))


def uncommitted(daemon: Daemon, q_name: str = "R") -> int:
    return daemon.depth(q_name) - len(daemon.bodies(q_name))


def forget(checkpoint: Path, log: str, batch: int) -> None:
    """Remove a batch from one of the logs of a checkpoint."""
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / log / name).unlink(missing_ok=True)


# A query that runs well.


def test_a_stream_moves_each_message_once_and_in_order(spark: SparkSession, daemon: Daemon, checkpoint: Path) -> None:
    """K69, K70: what is there is drained, batch by batch, and `finish` acknowledges what Spark leaves."""
    daemon.put("Q", *numbered(2500))
    rows = consumed(spark, daemon, maxMessagesPerTrigger="1000")
    query = run(rows.select("body"), daemon, checkpoint, sinkId="COPY")
    assert daemon.bodies("R") == list(numbered(2500))
    assert finish(query) == 1
    assert finish(query) == 1
    assert (daemon.depth("Q"), state(daemon).acknowledged) == (0, 2500)
    ledger = daemon.call(lambda connection: connection.sinks.ledger("COPY"))
    assert ledger == (query.id, 2)
    daemon.put("Q", b"002500")
    run(rows.select("body"), daemon, checkpoint, sinkId="COPY")
    assert daemon.bodies("R") == list(numbered(2501))


def test_a_watermark_and_batches_without_messages(spark: SparkSession, daemon: Daemon, checkpoint: Path) -> None:
    """K70: the sink hears of every batch, an empty one too, so that its ledger has no gap."""
    daemon.put("Q", *numbered(3))
    counted = (
        consumed(spark, daemon)
        .withWatermark("put_timestamp", "0 seconds")
        .groupBy("put_timestamp")
        .count()
        .selectExpr("cast(count as string) body")
    )
    query = started(counted, daemon, checkpoint, once=False, sinkId="COUNTS")
    try:
        query.processAllAvailable()
        daemon.put("Q", b"a")
        query.processAllAvailable()
        ledger = daemon.call(lambda connection: connection.sinks.ledger("COUNTS"))
        last = query.lastProgress
        assert ledger is not None
        assert last is not None
        assert last["batchId"] - 1 <= ledger[1] <= last["batchId"]
        assert ledger[1] >= 2
        assert sum(int(body) for body in daemon.bodies("R")) == 4
    finally:
        query.stop()
        query.awaitTermination(SECONDS)


def test_several_queues_and_a_union_with_itself_share_a_reader(
    spark: SparkSession, daemon: Daemon, checkpoint: Path
) -> None:
    daemon.mqsc("DEFINE QLOCAL(A.1)", "DEFINE QLOCAL(A.2)")
    daemon.put("A.1", *numbered(20))
    daemon.put("A.2", *numbered(2, 20))
    rows = consumed(spark, daemon, "A.*").select("body")
    run(rows.union(rows), daemon, checkpoint)
    assert sorted(daemon.bodies("R")) == sorted([*numbered(22), *numbered(22)])
    assert state(daemon).pinned == 22


def test_two_loads_with_one_consumer_are_a_doubled_query(spark: SparkSession, daemon: Daemon, checkpoint: Path) -> None:
    daemon.put("Q", *numbered(5))
    one, two = consumed(spark, daemon).select("body"), consumed(spark, daemon).select("body")
    with pytest.raises(StreamingQueryException, match=r"2429|2041"):
        run(one.union(two), daemon, checkpoint)


def test_k38_groups_are_claimed_whole_and_written_as_groups(
    spark: SparkSession, daemon: Daemon, checkpoint: Path
) -> None:
    """K38, K42: at the source; an incomplete group waits."""
    group = b"G" * 24
    last = MQMF.LAST_MSG_IN_GROUP.value

    def member(number: int, flags: int = MQMF.MSG_IN_GROUP.value, id: bytes = group) -> tuple[bytes, MessageDescriptor]:
        return b"%d" % number, MessageDescriptor(group_id=id, msg_seq_number=number, msg_flags=flags)

    daemon.put("Q", member(3, last), b"single", member(1), member(2), member(1, id=b"H" * 24))
    rows = consumed(spark, daemon, groups="whole", maxMessagesPerTrigger="1")
    run(rows.drop("queue"), daemon, checkpoint)
    found = [(each.data, each.md.group_id, each.md.msg_seq_number) for each in daemon.messages("R")]
    assert [each for each in found if each[1] == group] == [(b"%d" % n, group, n) for n in (1, 2, 3)]
    assert len(found) == 4
    assert daemon.bodies("Q") == [b"1"]


# A driver that dies.


def test_k71_a_driver_dies_at_each_step(spark: SparkSession, daemon: Daemon, checkpoint: Path) -> None:
    """K71, and K20 where claims are left: the next driver goes on, and each message is written once."""
    count = 0
    for step in steps.STEPS:
        daemon.put("Q", *numbered(30, count))
        count += 30
        steps.fail_at(step, times=3 if step in ("reading", "staged") else 1)
        with pytest.raises(StreamingQueryException, match=f"the driver dies at {step}"):
            moved(spark, daemon, checkpoint, maxMessagesPerTrigger="20")
    query = moved(spark, daemon, checkpoint, maxMessagesPerTrigger="200")
    assert daemon.bodies("R") == list(numbered(count))
    finish(query)
    assert (daemon.depth("Q"), uncommitted(daemon)) == (0, 0)


def test_k71_the_daemon_dies_at_each_step(spark: SparkSession, daemon: Daemon, checkpoint: Path) -> None:
    """K71, K19: the calls are made again, so its restart is a pause."""
    daemon.put("Q", *numbered(10))
    rows = consumed(spark, daemon, format="stepping").select("body")
    at = ("registered", "claimed", "pinned", "reading", "staged", "publishing", "published")
    for step in at:
        steps.wait_at(step)
    query = started(rows, daemon, checkpoint, format="stepping")
    for step in at:
        reached = steps.waited_for(step)
        daemon.restart()
        reached.unlink()
    assert query.awaitTermination(SECONDS)
    finish(query)
    assert daemon.bodies("R") == list(numbered(10))
    assert (daemon.depth("Q"), uncommitted(daemon)) == (0, 0)


def test_k58_and_k59_a_zombie_aborts_nothing_of_the_new_driver_and_may_publish_first(
    spark: SparkSession, daemon: Daemon, checkpoint: Path
) -> None:
    """K58: it discards those whose messages it was given, and those of tasks that failed are None. K59, K57: its
    publish wins; the tasks of the new driver are told, and keep nothing. K29, K69: all that is batch 0, whose start is
    asked for again, and whose end, with its lineage, is in the log.
    """
    daemon.put("Q", *numbered(10))
    attempts: list[list[TaskResult]] = []
    for _ in range(2):
        steps.fail_at("publishing")
        with pytest.raises(StreamingQueryException, match="publishing"):
            moved(spark, daemon, checkpoint)
        attempts.append(pickle.loads((steps.folder() / "messages").read_bytes()))
    lineage = state(daemon).lineage
    zombie = StreamSink(parse({"url": daemon.url}, Use.WRITE_STREAM))
    assert daemon.depth("R") == 20
    zombie.abort([None], 0)
    assert daemon.depth("R") == 20
    zombie.abort([None, *attempts[0]], 0)
    assert (daemon.depth("R"), daemon.bodies("R")) == (10, [])
    zombie.commit(list(attempts[1]), 0)
    assert daemon.bodies("R") == list(numbered(10))
    moved(spark, daemon, checkpoint)
    reported: list[TaskResult] = pickle.loads((steps.folder() / "messages").read_bytes())
    assert [each.published for each in reported] == [True]
    assert daemon.bodies("R") == list(numbered(10))
    assert lineage == state(daemon).lineage != ""


def test_k71_a_driver_and_its_java_are_killed_behind_the_publish(
    spark: SparkSession, daemon: Daemon, checkpoint: Path
) -> None:
    """K71: in processes of their own; this session goes on with their checkpoint."""
    daemon.put("Q", *numbered(30))
    command = [sys.executable, "-m", "tests.spark.driver", daemon.url, str(checkpoint)]
    driver = subprocess.Popen(command, start_new_session=True)
    steps.kill_at("published", driver.pid)
    assert driver.wait(SECONDS) == -signal.SIGKILL
    assert daemon.bodies("R") == list(numbered(10))
    daemon.put("Q", b"000030")
    finish(moved(spark, daemon, checkpoint))
    assert daemon.bodies("R") == list(numbered(31))
    assert (daemon.depth("Q"), uncommitted(daemon)) == (0, 0)


@pytest.mark.slow
def test_nothing_but_the_master_changes_on_a_cluster(daemon: Daemon, checkpoint: Path, tmp_path: Path) -> None:
    """Spark's own cluster of two workers, each a process with executors of its own."""
    daemon.put("Q", *numbered(30))
    (tmp_path / "steps").mkdir()
    command = [sys.executable, "-m", "tests.spark.driver", daemon.url, str(checkpoint), "local-cluster[2,1,1024]"]
    subprocess.run(command, check=True, timeout=180, env={**os.environ, steps.FOLDER: str(tmp_path / "steps")})
    assert daemon.bodies("R") == list(numbered(30))
    assert uncommitted(daemon) == 0


# Checkpoints that do not fit.


def test_k25_a_deleted_checkpoint_is_refused_and_the_first_query_goes_on(
    spark: SparkSession, daemon: Daemon, checkpoint: Path, tmp_path: Path
) -> None:
    """K25, K24: a second query too."""
    daemon.put("Q", *numbered(5))
    rows = consumed(spark, daemon).select("body")
    first = started(rows, daemon, checkpoint, once=False)
    try:
        first.processAllAvailable()
        daemon.put("Q", b"000005")
        with pytest.raises(StreamingQueryException, match=r"MQRC_SUBSCRIPTION_IN_USE \(2429\).*RESOLVE CONSUMER\(C\)"):
            run(rows, daemon, tmp_path / "other")
        first.processAllAvailable()
    finally:
        first.stop()
    assert daemon.bodies("R") == list(numbered(6))
    shutil.rmtree(checkpoint)
    with pytest.raises(StreamingQueryException, match="2429"):
        run(rows, daemon, checkpoint)


def test_k26_of_two_first_runs_that_have_logged_a_batch_the_first_to_pin_wins(
    spark: SparkSession, daemon: Daemon, checkpoint: Path, tmp_path: Path
) -> None:
    """K26: the other is refused, and the winner's batch is not in both."""
    daemon.put("Q", *numbered(5))
    for each in (checkpoint, tmp_path / "other"):
        steps.fail_at("pinning")
        with pytest.raises(StreamingQueryException, match="pinning"):
            moved(spark, daemon, each)
    moved(spark, daemon, checkpoint)
    with pytest.raises(StreamingQueryException, match="2429"):
        moved(spark, daemon, tmp_path / "other")
    assert daemon.bodies("R") == list(numbered(5))


def test_k27_a_checkpoint_of_a_backup_is_refused_and_resolve_is_the_way_out(
    spark: SparkSession, daemon: Daemon, checkpoint: Path, tmp_path: Path
) -> None:
    """K27, K50."""
    daemon.put("Q", *numbered(30))
    rows = consumed(spark, daemon, maxMessagesPerTrigger="10").select("body")
    run(rows, daemon, checkpoint)
    for batch in (1, 2):
        forget(checkpoint, "offsets", batch)
        forget(checkpoint, "commits", batch)
    with pytest.raises(StreamingQueryException, match=r"MQRC_UOW_COMMITTED \(2408\)"):
        run(rows, daemon, checkpoint)
    daemon.mqsc("RESOLVE CONSUMER(C) ACTION(COMMIT)")
    daemon.put("Q", b"000030")
    run(rows, daemon, tmp_path / "new")
    assert daemon.bodies("R") == list(numbered(31))


def test_k28_a_queue_manager_of_a_backup_is_refused(spark: SparkSession, daemon: Daemon, checkpoint: Path) -> None:
    """K28: claims that the checkpoint knows are not there."""
    daemon.put("Q", *numbered(5))
    steps.fail_at("pinning")
    with pytest.raises(StreamingQueryException, match="pinning"):
        moved(spark, daemon, checkpoint)
    (checkpoint / "offsets" / ".0.crc").unlink()
    log = checkpoint / "offsets" / "0"
    log.write_text(log.read_text().replace('"seq": 5', '"seq": 50'))
    with pytest.raises(StreamingQueryException, match=r"MQRC_NO_DATA_AVAILABLE \(2379\)"):
        moved(spark, daemon, checkpoint)


# A stream that browses.


def test_k72_a_stream_that_browses_sees_each_message_once(
    spark: SparkSession, daemon: Daemon, checkpoint: Path
) -> None:
    """K72: one that is committed late, one that is backed out, and one of a higher priority."""
    rows = spark.readStream.format("mq").options(url=daemon.url, queue="Q", maxMessagesPerTrigger="2").load()

    def passed() -> None:
        run(rows.select("body"), daemon, checkpoint)

    async def held_up(connection: Connection) -> None:
        async with connection.open("Q", MQOO.OUTPUT | MQOO.INPUT_SHARED) as queue:
            await queue.put(b"gone", options=MQPMO.SYNCPOINT)
            await queue.put(b"two", MessageDescriptor(priority=9))
            passed()
            assert await asyncio.to_thread(daemon.bodies, "R") == [b"one"]
            await connection.backout()
            await queue.put(b"late", options=MQPMO.SYNCPOINT)
            passed()
            assert await asyncio.to_thread(daemon.bodies, "R") == [b"one", b"two"]
            await connection.commit()

    daemon.put("Q", b"one")
    daemon.call(held_up)
    daemon.put("Q", *numbered(5))
    passed()
    assert daemon.bodies("R") == [b"one", b"two", b"late", *numbered(5)]
    assert daemon.depth("Q") == 8


def test_a_stream_that_begins_with_the_latest_message_keeps_where_it_began(
    spark: SparkSession, daemon: Daemon, checkpoint: Path
) -> None:
    daemon.put("Q", b"old")
    rows = spark.readStream.format("mq").options(url=daemon.url, queue="Q", startingPosition="latest").load()
    query = started(rows.select("body"), daemon, checkpoint, once=False)
    try:
        query.processAllAvailable()
        daemon.put("Q", *numbered(3))
        query.processAllAvailable()
    finally:
        query.stop()
    assert daemon.bodies("R") == list(numbered(3))
    forget(checkpoint, "commits", 0)
    daemon.put("Q", b"000003")
    run(rows.select("body"), daemon, checkpoint)
    assert daemon.bodies("R") == list(numbered(4))
