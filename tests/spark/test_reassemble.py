"""Logical messages out of an archive: just those that gets in logical order are given."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from broker.mqi import MQMT, MessageDescriptor
from broker.spark.pipelines.assembly import alone, assembled, incomplete, judged, looked_at, with_lengths
from broker.spark.pipelines.errors import PipelineError
from broker.spark.pipelines.reassemble import Reassembled, reassemble
from tests.spark.archives import frame, lay_down, part, queue_and_gets, row
from tests.spark.groups import LMIG, LSEG, MIG, SEG, shuffled_groups

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from broker import Message

pytestmark = pytest.mark.spark

ORDER = ("group_position", "msg_seq_number", "offset")
TOLD = ("group_id", "msg_seq_number", "offset", "msg_flags", "original_length", "msg_id", "correl_id", "format",
        "coded_char_set_id", "priority", "put_date", "put_time", "put_appl_name")  # fmt: skip


def in_order(messages: DataFrame) -> list[dict[str, Any]]:
    """The logical messages of a table, in the order of the gets."""
    seen = with_lengths(messages)
    whole = assembled(judged(seen)).unionByName(assembled(alone(seen)))
    return [each.asDict() for each in whole.orderBy(*ORDER).collect()]


def reported(message: Message) -> dict[str, Any]:
    """A message got, as a row of a table."""
    return {name: getattr(message.md, name) for name in TOLD} | {"body": message.data}


def test_an_archive_gives_what_gets_in_logical_order_are_given(spark: SparkSession) -> None:
    puts = shuffled_groups(Random(1), 150, messages_max=12, mishaps=0.4)
    rows, gets = anyio.run(partial(queue_and_gets, puts))
    Random(2).shuffle(rows)
    messages = frame(spark, rows)
    found = in_order(messages)
    assert [{name: each[name] for name in (*TOLD, "body")} for each in found] == [reported(message) for message in gets]
    left = [position for each in incomplete(with_lengths(messages)).collect() for position in each.positions]
    given = [position for each in found for position in each["positions"]]
    assert sorted(left + given) == sorted(each["position"] for each in rows)
    assert left


def test_a_thousand_whole_groups_are_all_found_by_the_windows(spark: SparkSession) -> None:
    """Judging groups one by one costs a hundred times as much."""
    puts = shuffled_groups(Random(3), 1000, messages_max=5)
    rows = [
        part(position, md.group_id, md.msg_seq_number, md.msg_flags, body, offset=md.offset)
        for position, (body, md) in enumerate(puts, 1)
    ]
    found = looked_at(with_lengths(frame(spark, rows)))
    assert found.where("NOT complete").count() == 0
    assert found.select("group_id").distinct().count() == 2000


def test_segments_that_are_reports_keep_their_places(spark: SparkSession) -> None:
    """A report tells of 10 bytes and brings 4 of them: the others are zeros."""
    group = b"G".ljust(24)
    report = partial(MessageDescriptor, group_id=group, msg_type=MQMT.REPORT, feedback=260)
    first = report(msg_flags=SEG, original_length=10)
    last = report(msg_flags=LSEG, offset=10, original_length=2)
    rows, gets = anyio.run(partial(queue_and_gets, [(b"xy", last), (b"abcd", first)]))
    (found,) = in_order(frame(spark, rows))
    assert found["body"] == gets[0].data == b"abcd\0\0\0\0\0\0xy"


Y, Z, W = b"Y", b"Z", b"W"
MISSING = (
    part(1, Y, 1, MIG | SEG, b"12"),
    part(2, Y, 1, MIG | LSEG, b"78", offset=6),
    part(3, Y, 4, MIG),
    part(4, Z, 2, MIG | LMIG),
    part(5, W, 1, MIG | LMIG),
    part(6, W, 3, MIG | LMIG, b"late"),
)


def test_what_is_missing_is_told(spark: SparkSession) -> None:
    messages = with_lengths(frame(spark, MISSING))
    rows = {row.group_id.strip(b"\0"): row.asDict(recursive=True) for row in incomplete(messages).collect()}
    assert {group: row["lacks"] for group, row in rows.items()} == {
        Y: "lacks messages 2 to 3, 5 and after; the bytes 2 to 5 of message 1",
        Z: "lacks messages 1",
        W: "lacks messages 1 to 2",
    }
    rows[Y].pop("group_id")
    assert rows[Y] == {
        "queue": "Q",
        "lacks": "lacks messages 2 to 3, 5 and after; the bytes 2 to 5 of message 1",
        "last_msg_seq_number": None,
        "missing_messages": [{"first": 2, "last": 3}, {"first": 5, "last": None}],
        "missing_segments": [{"msg_seq_number": 1, "first": 2, "last": 5}],
        "messages": 3,
        "bytes": 5,
        "first_put": MISSING[0]["put_timestamp"].replace(tzinfo=None),
        "last_put": MISSING[2]["put_timestamp"].replace(tzinfo=None),
        "positions": [1, 2, 3],
        "msg_ids": [MISSING[place]["msg_id"] for place in range(3)],
    }


def test_a_message_that_is_there_twice_counts_once(spark: SparkSession) -> None:
    first = {"msg_id": (1).to_bytes(24, "big")}
    rows = (
        part(1, Y, 1, MIG, b"one"),
        part(2, Y, 2, MIG | LMIG, b"two"),
        part(3, Y, 1, MIG, b"one", **first),
        part(4, Z, 1, MIG, b"one"),
        part(5, Z, 1, MIG, b"other", msg_id=(4).to_bytes(24, "big")),  # one MsgId, but it is another message
        part(6, Z, 1, MIG, b"one", msg_id=(4).to_bytes(24, "big")),
        part(7, Z, 2, MIG | LMIG, b"two"),
        row(8, b"alone"),
        row(9, b"alone", msg_id=(8).to_bytes(24, "big")),
        row(10, b"other", msg_id=(8).to_bytes(24, "big")),
    )
    messages = frame(spark, rows)
    assert [each["body"] for each in in_order(messages)] == [b"one", b"two", b"one", b"two", b"alone", b"other"]
    assert [each.positions for each in incomplete(with_lengths(messages)).collect()] == [[5]]


def test_tables_are_written_and_not_written_over(spark: SparkSession, tmp_path: Path) -> None:
    rows = (
        row(1, b"A"),
        part(2, Y, 2, MIG | LMIG, b"2"),
        part(3, Y, 1, MIG, b"1"),
        part(4, Y, 2, MIG | LMIG, b"2", msg_id=(2).to_bytes(24, "big")),
        part(5, W, 1, MIG, b"1"),
        row(6, b"B", queue="12"),
    )
    archive, to = lay_down(spark, frame(spark, rows), tmp_path / "kept"), tmp_path / "whole"
    done = reassemble(spark, archive, to)
    assert done == Reassembled(physical=6, logical=4, incomplete=1, incomplete_groups=1, duplicates=1)
    table = spark.read.parquet(str(to / "messages")).orderBy("queue", *ORDER).collect()
    assert [(each.queue, each.body, each.positions) for each in table] == [
        ("12", b"B", [6]),
        ("Q", b"A", [1]),
        ("Q", b"1", [3]),
        ("Q", b"2", [2]),
    ]
    assert [each.lacks for each in spark.read.parquet(str(to / "incomplete")).collect()] == [
        "lacks messages 2 and after"
    ]

    with pytest.raises(PipelineError, match=r"has what an earlier run has written: .* --overwrite"):
        reassemble(spark, archive, to)
    nothing = Reassembled(physical=0, logical=0, incomplete=0, incomplete_groups=0, duplicates=0)
    assert reassemble(spark, archive, to, queues=["NONE"], overwrite=True) == nothing


def test_what_was_left_unfinished_is_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, to = lay_down(spark, frame(spark, [row(1), row(2, queue="12")]), tmp_path / "kept"), tmp_path / "whole"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("broker.spark.pipelines.reassemble.incomplete", _dies)  # the messages are written
        reassemble(spark, archive, to)
    done = reassemble(spark, archive, to, queues=["12"])
    assert done == Reassembled(physical=1, logical=1, incomplete=0, incomplete_groups=0, duplicates=0)


def _dies(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_directory_that_holds_other_things_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    archive = lay_down(spark, frame(spark, [row(1)]), tmp_path / "kept")
    with pytest.raises(PipelineError, match="one in the other"):
        reassemble(spark, archive, archive / "whole")
    with pytest.raises(PipelineError, match="one in the other"):
        reassemble(spark, archive, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").touch()
    with pytest.raises(PipelineError, match=r"holds other things \(thesis.txt\)"):
        reassemble(spark, archive, other)
