"""Filters that are pushed down, and what is left to Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from broker.interface.claims import QueueRange, Wanted
from broker.spark.filters import Selection, selection

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

ID = bytes(range(24))
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
MICROSECONDS = int(NOON.timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([GreaterThan(("position",), 5), LessThan(("position",), 9)], Selection(after=5, last=8)),
        ([GreaterThanOrEqual(("position",), 5), LessThanOrEqual(("position",), 9)], Selection(after=4, last=9)),
        ([EqualTo(("position",), 5), GreaterThan(("position",), 2)], Selection(after=4, last=5)),
        ([EqualTo(("msg_id",), ID)], Selection(wanted=Wanted(msg_id=ID))),
        ([EqualNullSafe(("correl_id",), bytearray(ID))], Selection(wanted=Wanted(correl_id=ID))),
        ([EqualTo(("group_id",), ID), EqualTo(("group_id",), ID[::-1])], Selection(last=0, wanted=Wanted(group_id=ID))),
        ([In(("queue",), ("A", "B")), EqualTo(("queue",), "A")], Selection(q_names=frozenset("A"))),
        ([GreaterThan(("put_timestamp",), NOON)], Selection(since=MICROSECONDS + 1)),
        (
            [GreaterThanOrEqual(("put_timestamp",), NOON), LessThan(("put_timestamp",), NOON)],
            Selection(since=MICROSECONDS, until=MICROSECONDS - 1),
        ),
        ([IsNotNull(("queue",)), IsNotNull(("position",))], Selection()),
    ],
)
def test_a_filter_that_is_heeded_is_not_left_to_spark(filters: list[Filter], found: Selection) -> None:
    assert selection(filters) == (found, [])


@pytest.mark.parametrize(
    "filter",
    [
        EqualTo(("msg_id",), ID[:23]),
        EqualTo(("group_id",), bytes(24)),
        In(("msg_id",), (ID, ID)),
        GreaterThan(("msg_id",), ID),
        EqualTo(("put_timestamp",), "2026"),
        EqualTo(("position",), 1.5),
        GreaterThan(("queue",), "A"),
        In(("queue",), ("A", None)),
        EqualTo(("format",), "MQSTR"),
        EqualTo(("properties", "colour"), "red"),
        IsNotNull(("put_timestamp",)),
        IsNull(("queue",)),
        Not(EqualTo(("position",), 5)),
        StringContains(("queue",), "A"),
    ],
    ids=repr,
)
def test_what_cannot_be_said_is_left_to_spark(filter: Filter) -> None:
    assert selection([filter]) == (Selection(), [filter])


def test_a_range_is_narrowed_to_the_positions_that_are_wanted() -> None:
    range = QueueRange("Q", 10, 100, 50, 5000)
    assert Selection(after=20, last=30).narrowed(range) == range._replace(first=20, last=30)
    assert Selection().narrowed(range) == range


def test_times_are_heeded_row_by_row() -> None:
    times = pa.array([MICROSECONDS - 1, MICROSECONDS, None, MICROSECONDS + 1], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([times, pa.array([1, 2, 3, 4])], names=["put_timestamp", "n"])
    assert Selection(since=MICROSECONDS).of(batch).column("n").to_pylist() == [2, 4]
    assert Selection(since=MICROSECONDS, until=MICROSECONDS).of(batch).column("n").to_pylist() == [2]
    assert Selection(after=7).of(batch) is batch
