"""Which messages the options of a batch read select."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from broker.interface.claims.claims import BrowseSelection, QueueRange
from broker.spark.options import Use, parse
from broker.spark.selection import Selection

ID = bytes(range(24))
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
MICROSECONDS = int(NOON.timestamp()) * 1_000_000


def selected(**given: str) -> Selection:
    return Selection.of(parse({"url": "mq://h", "queue": "Q", **given}, Use.READ))


def test_options_say_what_is_wanted() -> None:
    assert selected() == Selection()
    assert selected(positionFrom="5", positionTo="9") == Selection(after=4, last=9)
    assert selected(positionFrom="0") == Selection()
    assert selected(since="2026-11-22T13:00:00+01:00") == Selection(since=MICROSECONDS)
    assert selected(msgId=ID.hex()) == Selection(ids=BrowseSelection(msg_id=ID))
    assert selected(correlId=ID.hex().upper(), groupId=ID[::-1].hex()) == Selection(
        ids=BrowseSelection(correl_id=ID, group_id=ID[::-1])
    )


def test_a_range_is_narrowed_to_the_positions_that_are_wanted() -> None:
    range = QueueRange("Q", 10, 100, 50, 5000)
    assert Selection(after=20, last=30).narrowed(range) == range._replace(first=20, last=30)
    assert Selection().narrowed(range) == range


def test_times_are_handled_row_by_row() -> None:
    times = pa.array([MICROSECONDS - 1, MICROSECONDS, None, MICROSECONDS + 1], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([times, pa.array([1, 2, 3, 4])], names=["put_timestamp", "n"])
    assert Selection(since=MICROSECONDS).rows(batch, batch.schema).column("n").to_pylist() == [2, 4]
    assert Selection(after=7).rows(batch, batch.schema) is batch


def test_a_read_without_the_column_of_the_time_goes_by_the_time_all_the_same() -> None:
    times = pa.array([MICROSECONDS - 1, MICROSECONDS], pa.timestamp("us", "UTC"))
    due = pa.schema([("n", pa.int64())])
    since = Selection(since=MICROSECONDS)
    made = since.columns(due)
    assert made.names == ["n", "put_timestamp"]
    assert Selection().columns(due) is due
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), times], schema=made)
    assert since.rows(batch, due).to_pydict() == {"n": [2]}
