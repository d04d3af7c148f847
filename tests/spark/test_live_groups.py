"""Logical messages out of a stream: a group is given when its last part has come, and given up when nothing comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from broker.mqi import MessageDescriptor
from broker.spark.pipelines.archive import Source
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.live import GroupProcessor, assembled_stream
from broker.spark.pipelines.reassemble import Stream, reassemble_stream
from broker.spark.schema import NAMES, SCHEMA
from tests.spark.archives import frame, part
from tests.spark.groups import LMIG, LSEG, MIG, SEG

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from broker.spark.pipelines.running import Batch
    from tests.spark.daemons import Daemon

pytestmark = pytest.mark.spark

WAIT = 10_000
KEY = ("Q", b"G".ljust(24, b"\0"))


class Groups:
    """The processor in Spark's tester, without Spark. Times are milliseconds."""

    def __init__(self, columns: Sequence[str] = NAMES) -> None:
        self._tester = TwsTester(
            GroupProcessor([*columns], WAIT), timeMode="EventTime", eventTimeExtractor=lambda row: 1 << 60
        )

    def come(self, *parts: dict[str, Any]) -> list[tuple[bytes, list[int]]]:
        """These parts come: the data and positions of the messages that are given."""
        return [(row.body, row.positions) for row in self._tester.test(KEY, [_row(each) for each in parts])]

    def watermark(self, ms: int) -> list[tuple[str, list[int]]]:
        """Time goes by: what is given up."""
        return [(row.incomplete["lacks"], row.incomplete["positions"]) for row in self._tester.setWatermark(ms)]

    @property
    def state(self) -> tuple[Any, ...] | None:
        return self._tester.peekValueState("group", KEY)

    @state.setter
    def state(self, state: tuple[Any, ...]) -> None:
        self._tester.updateValueState("group", KEY, state)


def _row(given: dict[str, Any]) -> Row:
    """A part as Spark gives it to the processor; put as many seconds after the epoch as its position says."""
    put = given["position"] * 1000
    more = {"part_length": len(given["body"]), "part_hash": hash(given["body"]), "put_ms": put}
    return Row(**{**given, "put_timestamp": put * 1000, "properties": [*given["properties"].items()], **more})


def g(position: int, number: int, flags: int, body: bytes = b".", **fields: Any) -> dict[str, Any]:
    return part(position, b"G", number, flags, body, **fields)


@pytest.fixture
def groups() -> Groups:
    return Groups()


def test_a_group_is_given_when_its_last_part_has_come(groups: Groups) -> None:
    assert groups.come(g(3, 2, LMIG | LSEG, b"c", offset=1), g(1, 1, MIG, b"a")) == []
    assert groups.come(g(2, 2, LMIG | SEG, b"b")) == [(b"a", [1]), (b"bc", [2, 3])]


def test_a_message_that_comes_again_is_dropped_also_behind_the_end(groups: Groups) -> None:
    again = {"msg_id": (1).to_bytes(24, "big")}
    assert groups.come(g(1, 1, MIG, b"a"), g(4, 1, MIG, b"a", **again)) == []
    assert groups.come(g(2, 2, LMIG, b"b")) == [(b"a", [1]), (b"b", [2])]
    assert groups.come(g(5, 1, MIG, b"a", **again)) == []
    assert groups.watermark(5_000 + WAIT) == []
    assert groups.state is None


def test_what_nothing_more_comes_of_is_given_up_after_the_wait(groups: Groups) -> None:
    groups.come(g(1, 1, MIG))
    groups.come(g(7, 3, MIG))
    assert groups.watermark(7_000 + WAIT - 1) == []
    assert groups.watermark(7_000 + WAIT) == [("lacks messages 2, 4 and after", [1, 7])]
    assert groups.state is None


def test_a_part_that_was_put_long_ago_has_the_whole_wait_from_now_on(groups: Groups) -> None:
    groups.watermark(1_000_000)
    assert groups.come(g(1, 1, MIG, b"a")) == []
    assert groups.watermark(1_000_000 + WAIT - 1) == []
    assert groups.come(g(2, 2, LMIG, b"b")) == [(b"a", [1]), (b"b", [2])]


def test_an_identifier_that_is_used_again_is_another_group(groups: Groups) -> None:
    assert groups.come(g(1, 1, MIG, b"a"), g(2, 2, LMIG, b"b")) == [(b"a", [1]), (b"b", [2])]
    assert groups.come(g(3, 1, MIG, b"c"), g(4, 2, LMIG, b"d")) == [(b"c", [3]), (b"d", [4])]


def test_a_state_of_fewer_columns_is_read() -> None:
    """As after an upgrade that has added a column."""
    before, after = Groups([name for name in NAMES if name != "backout_count"]), Groups()
    before.come(g(1, 1, MIG, b"a"))
    assert before.state is not None
    after.state = before.state
    assert after.come(g(2, 2, LMIG, b"b")) == [(b"a", [1]), (b"b", [2])]


def test_a_part_that_is_older_than_the_watermark_is_not_thrown_away(spark: SparkSession, tmp_path: Path) -> None:
    """Spark drops such rows where it knows the column of the watermark."""
    batches = (
        part(60, b"V", 1, MIG, b"V1"),
        part(90, b"K", 1, MIG),
        part(91, b"K", 2, MIG),
        part(3, b"V", 2, LMIG, b"V2"),
    )
    for each in batches:
        frame(spark, [each]).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    found: list[bytes] = []
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query = (
        assembled_stream(stream, wait=1000)
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda rows, number: found.extend(row.body for row in rows.orderBy("msg_seq_number").collect()))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)
    assert found == [b"V1", b"V2"]


def put(group: bytes, number: int, flags: int) -> tuple[bytes, MessageDescriptor]:
    md = MessageDescriptor(msg_flags=flags, group_id=group.ljust(24, b"\0"), msg_seq_number=number)
    return group + b"%d" % number, md


def bodies(spark: SparkSession, to: Path) -> list[bytes]:
    whole = spark.read.parquet(str(to / "messages"))
    return [row.body for row in whole.orderBy("group_position", "msg_seq_number").collect()]


def test_queues_are_put_together_over_several_runs(spark: SparkSession, daemon: Daemon, tmp_path: Path) -> None:
    to = tmp_path / "whole"

    def run(*puts: tuple[bytes, MessageDescriptor | None], wait: float) -> Sequence[bytes]:
        daemon.put("Q", *puts)
        reported: list[Batch] = []
        stream = Stream(queues=("Q",), source=source, consumer="WHOLE", wait=wait)
        assert reassemble_stream(spark, stream, to, tell=reported.append) == len(puts)
        assert [batch.messages for batch in reported] == [len(puts)]
        assert daemon.depth("Q") == 0
        return bodies(spark, to)

    source = Source(url=daemon.url)
    assert run(put(b"Y", 2, LMIG), (b"alone", None), put(b"Z", 1, MIG), wait=3600) == [b"alone"]
    assert run(put(b"Y", 1, MIG), put(b"V", 1, MIG), wait=0) == [b"alone", b"Y1", b"Y2"]
    given_up = spark.read.parquet(str(to / "incomplete")).collect()
    assert [(row.group_id.strip(b"\0"), row.lacks) for row in given_up] == [(b"V", "lacks messages 2 and after")]
    (to / "_evermq").rename(tmp_path / "checkpoint")
    with pytest.raises(PipelineError, match="has tables and no checkpoint"):
        reassemble_stream(spark, Stream(queues=("Q",), source=source), to)
