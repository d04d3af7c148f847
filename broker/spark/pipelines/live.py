"""Logical messages out of a stream of physical ones: a group is given when its last part has come.

Each group id has one state: the parts that were given to no get yet, and the identities of those that were. A timer
ends it when nothing has come for as long as `wait`, in the time of the puts: what is left then is reported as
incomplete, and what comes after it begins anew. Until then a message that comes again is known by its MsgId, and
dropped.

Spark would throw away messages that are older than its watermark, unseen. A group got late, a message replayed or of a
lower priority is that, and none is thrown away here: the column of the watermark goes no further than to the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgpack
from pyspark.sql import Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from broker.spark.pipelines.assembly import GROUP, INCOMPLETE, assembled_schema, is_part, with_lengths
from broker.spark.pipelines.logical_order import LAST_SEGMENT, SEGMENT, ArchivedPart, in_logical_order, lack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues
    from pyspark.sql.types import DataType

    from broker.spark.pipelines.logical_order import Given

STATE_STORE: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}
"""The settings that a session must have."""

WAIT_SECONDS: Final = 3600.0


def assembled_stream(messages: DataFrame, wait: float = WAIT_SECONDS) -> DataFrame:
    """The logical messages of a stream of messages, with the columns of `assembly.assembled`, and of groups of which
    nothing more has come for `wait` seconds the column `incomplete` (INCOMPLETE) in place of all others.

    Messages in no group pass as they are. The stream must not have a watermark yet.
    """
    _set(messages)
    columns = [name for name in messages.columns if name not in _LATER]
    seen = with_lengths(messages).select(*columns, "part_length", "part_hash")
    put = sql.coalesce("put_timestamp", sql.current_timestamp()).alias("event_time")
    parts = seen.where(is_part()).select("*", put).withWatermark("event_time", "0 seconds")
    parts = parts.withColumn("put_timestamp", sql.unix_micros("put_timestamp"))  # Python would make it a local time
    parts = parts.select(
        *seen.columns, sql.unix_millis("event_time").alias("put_ms")
    )  # a number, which has no watermark
    out = _schema(messages)
    groups = parts.groupBy(*GROUP).transformWithState(
        statefulProcessor=GroupProcessor(columns, round(wait * 1000)),
        outputStructType=_with_numbers(out),
        outputMode="Append",
        timeMode="EventTime",
    )
    groups = groups.withColumns(
        {
            "put_timestamp": sql.timestamp_micros("put_timestamp"),
            "incomplete": sql.col("incomplete")
            .withField("first_put", sql.timestamp_micros("incomplete.first_put"))
            .withField("last_put", sql.timestamp_micros("incomplete.last_put")),
        }
    )
    return groups.unionByName(_alone(seen.where(~is_part()), out))


def _set(messages: DataFrame) -> None:
    for name, value in STATE_STORE.items():
        messages.sparkSession.conf.set(name, value)


_LATER: Final = ("date", "data_length", "archived")


def _schema(messages: DataFrame) -> StructType:
    return StructType([*assembled_schema(messages.drop(*_LATER).schema), StructField("incomplete", INCOMPLETE)])


def _with_numbers(schema: StructType) -> StructType:
    """The schema with microseconds in place of times."""
    return StructType([StructField(field.name, _with_number(field.dataType)) for field in schema])


def _with_number(type: DataType) -> DataType:
    if isinstance(type, StructType):
        return _with_numbers(type)
    return LongType() if isinstance(type, TimestampType) else type


def _alone(messages: DataFrame, out: StructType) -> DataFrame:
    own = {
        "group_position": sql.col("position"),
        "positions": sql.array("position"),
        "msg_ids": sql.array("msg_id"),
        "incomplete": sql.lit(None).cast(INCOMPLETE),
    }
    return messages.withColumns(own).select(*out.names)


class GroupProcessor(StatefulProcessor):
    """The processor of each group id. `columns` are those of the messages, `wait_ms` how long a group may lack
    something after the last of its parts.
    """

    def __init__(self, columns: list[str], wait_ms: int) -> None:
        self._columns = columns
        self._wait_ms = wait_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark's call before all others."""
        self._handle = handle
        self._state = handle.getValueState("group", "held BINARY")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N803
        """Give what is complete with these parts."""
        held = self._held()
        last = timerValues.getCurrentWatermarkInMs()
        for row in rows:
            held.add(row)
            last = max(last, row.put_ms)
        yield from (self._logical_message(given) for given in held.take())
        self._set_timer(max(last + self._wait_ms, held.deadline), held)
        self._state.update((held.packed(),))

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Report what is left, and begin anew."""
        held = self._held()
        self._state.clear()
        if held.rows:
            yield self._incomplete(held)

    def close(self) -> None:
        """Spark's call after all others."""

    def _held(self) -> _Held:
        packed = self._state.get() if self._state.exists() else None
        return _Held(self._columns, None if packed is None else bytes(packed[0]))

    def _set_timer(self, deadline: int, held: _Held) -> None:
        for timer in list(self._handle.listTimers()):
            if timer != deadline:
                self._handle.deleteTimer(timer)
        held.deadline = deadline
        self._handle.registerTimer(deadline)

    def _logical_message(self, given: list[dict[str, Any]]) -> Row:
        first, several = given[0], len(given) > 1
        flags = first["msg_flags"]
        if several:
            flags |= SEGMENT | given[-1]["msg_flags"] & LAST_SEGMENT
        body = b"".join(row["body"].ljust(_span(row), b"\0") for row in given) if several else first["body"]
        return Row(
            **{name: first[name] for name in self._columns if name not in ("msg_flags", "body")},
            msg_flags=flags,
            group_position=first["group_position"],
            positions=[row["position"] for row in given],
            msg_ids=[row["msg_id"] for row in given],
            body=body,
            incomplete=None,
        )

    def _incomplete(self, held: _Held) -> Row:
        rows = sorted(held.rows, key=lambda row: int(row["position"]))
        lacking = lack([_part(row, index) for index, row in enumerate(rows)])
        puts = [row["put_timestamp"] for row in rows if row["put_timestamp"] is not None]
        found = {
            "queue": rows[0]["queue"],
            "group_id": rows[0]["group_id"],
            "lacks": str(lacking),
            "last_msg_seq_number": lacking.last,
            "missing_messages": [{"first": first, "last": last} for first, last in lacking.messages],
            "missing_segments": [gap._asdict() for gap in lacking.segments],
            "messages": len(rows),
            "bytes": sum(row["part_length"] for row in rows),
            "first_put": min(puts, default=None),
            "last_put": max(puts, default=None),
            "positions": [row["position"] for row in rows],
            "msg_ids": [row["msg_id"] for row in rows],
        }
        nothing = dict.fromkeys((*self._columns, "group_position", "positions", "msg_ids"))
        return Row(**nothing, incomplete=found)


class _Held:
    """The state of a group id: `rows` that were given to no get, the identities of those that were, and when the timer
    goes off.
    """

    def __init__(self, columns: list[str], packed: bytes | None) -> None:
        self._columns = [*columns, "part_length", "part_hash"]
        self.rows: list[dict[str, Any]] = []
        self.deadline = 0
        self._given: set[tuple[Any, ...]] = set()
        if packed is not None:
            self.deadline, names, rows, given = msgpack.unpackb(packed, use_list=False)
            self.rows = [dict.fromkeys(self._columns) | dict(zip(names, row, strict=True)) for row in rows]
            self._given = set(given)

    def packed(self) -> bytes:
        """The state as it is kept, with the names of its columns: a later version may have more of them."""
        rows = [[row[name] for name in self._columns] for row in self.rows]
        packed: bytes = msgpack.packb([self.deadline, self._columns, rows, sorted(self._given)])
        return packed

    def add(self, row: Row) -> None:
        """A part has come, perhaps again."""
        values = {name: _plain(row[name]) for name in self._columns}
        if _identity(values) not in self._given:
            self.rows.append(values)

    def take(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the parts that each get is given; they are not held any longer."""
        rows = self.rows
        outcome = in_logical_order(_part(row, index) for index, row in enumerate(rows))
        begins: dict[int, int] = {}
        for given in outcome.given:
            yield self._taken(rows, given, begins.setdefault(given.instance, given.parts[0].place[0]))
        self.rows = [rows[part.place[1]] for part in outcome.left]

    def _taken(self, rows: list[dict[str, Any]], given: Given, begin: int) -> list[dict[str, Any]]:
        taken = [rows[part.place[1]] for part in given.parts]
        taken[0]["group_position"] = begin
        self._given.update(_identity(row) for row in taken)
        return taken


def _part(row: dict[str, Any], index: int) -> ArchivedPart:
    return ArchivedPart(
        place=(row["position"], index),
        msg_seq_number=row["msg_seq_number"],
        offset=row["offset"],
        msg_flags=row["msg_flags"],
        span=_span(row),
        text=(row["coded_char_set_id"], row["encoding"]),
        identity=(row["msg_id"], row["part_hash"]),
    )


def _span(row: dict[str, Any]) -> int:
    span: int = max(row["part_length"], row["original_length"])
    return span


def _identity(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["msg_seq_number"], row["offset"], row["msg_id"], row["part_hash"]


def _plain(value: Any) -> Any:
    """A value of a row as it is kept, and as Arrow takes it: a map is a list of pairs."""
    if isinstance(value, dict):
        return list(value.items())
    return bytes(value) if isinstance(value, bytearray) else value
