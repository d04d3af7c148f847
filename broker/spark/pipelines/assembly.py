"""Logical messages out of physical ones, as Spark does it over an archive.

Windows over the parts of each group id in logical order, without their data, find those groups that are plainly
complete, which is nearly all: one part in each place, each where the one before it ends, the last message marked as
such. The parts of all others are judged group by group by `logical_order`, which says what gets would be given. The two
agree wherever the windows decide (a test says so).

A row here has the columns of the archive, and besides:

- `part_length`, `part_hash`: length and hash of its data, which stay when the data itself is left out;
- `instance`: of which group or message it is, among those with its group id; null for what no get is given;
- `first_offset`: the offset of the part with which its logical message begins;
- `group_position`: the position of the part with which its group begins, which is where the group stands (6.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from pyspark.sql.window import Window

from broker.spark.pipelines.logical_order import (
    GROUPED,
    IN_PARTS,
    LAST_MSG_IN_GROUP,
    LAST_SEGMENT,
    SEGMENT,
    SEGMENTS,
    ArchivedPart,
    in_logical_order,
    lack,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from broker.spark.pipelines.logical_order import GroupOutcome

GROUP: Final = ("queue", "group_id")
JUDGED: Final = ("queue", "position", "msg_id", "group_id", "msg_seq_number", "offset", "msg_flags", "original_length",
                 "encoding", "coded_char_set_id", "put_timestamp", "part_length", "part_hash")  # fmt: skip
"""The columns that decide: all that must be there of rows that are judged."""

_PLACE: Final = ("msg_seq_number", "offset", "position")
_VERDICT: Final = (
    StructField("instance", IntegerType()),
    StructField("first_offset", IntegerType()),
    StructField("group_position", LongType()),
)
_OWN: Final = ("part_length", "part_hash", *(field.name for field in _VERDICT))

_GAP: Final = StructType([StructField("first", IntegerType()), StructField("last", IntegerType())])
INCOMPLETE: Final = StructType(
    [
        StructField("queue", StringType()),
        StructField("group_id", BinaryType()),
        StructField("lacks", StringType()),
        StructField("last_msg_seq_number", IntegerType()),
        StructField("missing_messages", ArrayType(_GAP)),
        StructField("missing_segments", ArrayType(StructType([StructField("msg_seq_number", IntegerType()), *_GAP]))),
        StructField("messages", IntegerType()),
        StructField("bytes", LongType()),
        StructField("first_put", TimestampType()),
        StructField("last_put", TimestampType()),
        StructField("positions", ArrayType(LongType())),
        StructField("msg_ids", ArrayType(BinaryType())),
    ]
)
"""A group, or a message of segments, of which something is left that no get is given."""


def with_lengths(messages: DataFrame) -> DataFrame:
    """The rows with `part_length` and `part_hash`. After this the column `body` may be dropped."""
    length = sql.coalesce(sql.octet_length("body"), sql.lit(0))
    return messages.withColumns({"part_length": length, "part_hash": sql.xxhash64("body")})


def is_part() -> Column:
    """True for a row in a group, or of a segment."""
    return sql.col("msg_flags").bitwiseAND(IN_PARTS) != 0


def alone(messages: DataFrame) -> DataFrame:
    """The messages that are in no group and whole, each once: two with one MsgId and the same data are one message."""
    once = messages.where(~is_part()).dropDuplicates(["queue", "msg_id", "part_length", "part_hash"])
    return once.withColumns(
        {
            "instance": sql.lit(0),
            "first_offset": sql.col("offset"),
            "group_position": sql.col("position"),
        }
    )


def judged(messages: DataFrame) -> DataFrame:
    """The parts among messages with their `instance`, `first_offset` and `group_position`, each once."""
    columns = messages.columns
    verdicts = (
        looked_at(messages.select(*JUDGED)).groupBy(*GROUP).agg(sql.first("complete"), sql.first("group_position"))
    )
    parts = messages.where(is_part()).join(verdicts.toDF(*GROUP, "complete", "group_position"), [*GROUP])
    plain = parts.where("complete").select(
        *columns, sql.lit(0).alias("instance"), sql.lit(0).alias("first_offset"), "group_position"
    )
    rest = parts.where("NOT complete").select(*columns)
    return plain.unionByName(rest.groupBy(*GROUP).applyInArrow(_verdicts, StructType([*rest.schema, *_VERDICT])))


def incomplete(messages: DataFrame) -> DataFrame:
    """Return a row for each group id of which parts are left that no get is given (INCOMPLETE)."""
    found = looked_at(messages.select(*JUDGED)).where("NOT complete").select(*JUDGED)
    return found.groupBy(*GROUP).applyInArrow(_left, INCOMPLETE)


def assembled(parts: DataFrame) -> DataFrame:
    """Logical messages, each a row: the fields of its first part, `msg_flags` and `body` of the whole; besides
    `group_position`, and `positions` and `msg_ids` of its parts.
    """
    kept = parts.where("instance IS NOT NULL")
    columns = [name for name in kept.columns if name not in ("body", *_OWN)]
    span = sql.greatest("part_length", "original_length")
    first = sql.min_by(sql.struct(*columns), "offset").alias("first")
    flags = sql.col("first.msg_flags")
    several = sql.col("parts") > 1
    return (
        kept.withColumn("padded", sql.when(span > sql.col("part_length"), sql.rpad("body", span, sql.lit(b"\0"))))
        .groupBy(*GROUP, "instance", "msg_seq_number", "first_offset", "group_position")
        .agg(
            first,
            sql.count("*").alias("parts"),
            sql.expr("listagg(coalesce(padded, body)) WITHIN GROUP (ORDER BY offset)").alias("joined"),
            sql.min_by("body", "offset").alias("own"),
            sql.bit_or("msg_flags").alias("all_flags"),
            sql.array_sort(sql.collect_list(sql.struct("offset", "position", "msg_id"))).alias("of"),
        )
        .select(
            *(sql.col(f"first.{name}") for name in columns if name != "msg_flags"),
            sql.when(several, flags.bitwiseOR(SEGMENT).bitwiseOR(sql.col("all_flags").bitwiseAND(LAST_SEGMENT)))
            .otherwise(flags)
            .alias("msg_flags"),
            "group_position",
            sql.col("of.position").alias("positions"),
            sql.col("of.msg_id").alias("msg_ids"),
            sql.when(several, sql.col("joined")).otherwise(sql.col("own")).alias("body"),
        )
    )


def assembled_schema(messages: StructType) -> StructType:
    """The columns of `assembled`, of messages with these."""
    fields = [field for field in messages if field.name not in ("msg_flags", "body", *_OWN)]
    return StructType(
        [
            *fields,
            messages["msg_flags"],
            StructField("group_position", LongType()),
            StructField("positions", ArrayType(LongType())),
            StructField("msg_ids", ArrayType(BinaryType())),
            messages["body"],
        ]
    )


def looked_at(messages: DataFrame) -> DataFrame:
    """The parts among messages with `complete`, the same for all with a group id, and `group_position`. The columns of
    JUDGED are enough, and windows over them cost a fifth of those over whole rows.
    """
    group = Window.partitionBy(*GROUP)
    order = group.orderBy(*_PLACE)
    parts = messages.where(is_part())
    number, flags = sql.col("msg_seq_number"), sql.col("msg_flags")
    before, behind = sql.lag(number).over(order), sql.lead(number).over(order)
    span = sql.greatest("part_length", "original_length")
    ends = flags.bitwiseAND(SEGMENTS) != SEGMENT  # the last segment, or no segment
    grouped = flags.bitwiseAND(GROUPED) != 0
    opens = sql.coalesce(before != number, sql.expr("TRUE"))
    closes = sql.coalesce(behind != number, sql.expr("TRUE"))
    begun = (sql.col("offset") == 0) & (number == sql.coalesce(before, sql.lit(0)) + 1)
    text = sql.struct("coded_char_set_id", "encoding")
    goes_on = (sql.col("offset") == sql.lag(sql.col("offset") + span).over(order)) & (text == sql.lag(text).over(order))
    last = sql.when(grouped, (flags.bitwiseAND(LAST_MSG_IN_GROUP) != 0) == (number == sql.max(number).over(group)))
    fits = (
        sql.when(opens, begun).otherwise(goes_on)
        & (closes == ends)
        & (ends | (span > 0))
        & last.otherwise(number == 1)
        & (grouped == sql.first(grouped).over(order))
    )
    return (
        parts.withColumns({"fits": fits, "group_position": sql.first("position").over(order)})
        .withColumn("complete", sql.bool_and(sql.coalesce("fits", sql.expr("FALSE"))).over(group))
        .drop("fits")
    )


def _verdicts(table: pa.Table) -> pa.Table:
    """The rows of a group id with what `logical_order` says of each."""
    import pyarrow as pa

    instances: dict[int, tuple[int, int, int]] = {}
    begins: dict[int, int] = {}
    outcome = _outcome(table)
    for given in outcome.given:
        first = given.parts[0]
        begin = begins.setdefault(given.instance, first.place[0])
        for part in given.parts:
            instances[part.place[1]] = (given.instance, first.offset, begin)
    again = {part.place[1] for part in outcome.duplicates}
    kept = [index for index in range(table.num_rows) if index not in again]
    verdicts = [instances.get(index, (None, None, None)) for index in kept]
    table = table.take(pa.array(kept))
    for place, (name, type) in enumerate((("instance", pa.int32()), ("first_offset", pa.int32()),
                                          ("group_position", pa.int64()))):  # fmt: skip
        table = table.append_column(name, pa.array([verdict[place] for verdict in verdicts], type))
    return table


def _left(table: pa.Table) -> pa.Table:
    """The row that tells of the parts of a group id of which no get is given; none where all are given."""
    import pyarrow as pa

    left = _outcome(table).left
    schema = to_arrow_schema(INCOMPLETE, timezone="UTC")
    if not left:
        return schema.empty_table()
    lacking = lack(left)
    rows = table.take(pa.array([part.place[1] for part in left]))
    puts = [put for put in rows["put_timestamp"].to_pylist() if put is not None]
    row = {
        "queue": table["queue"][0].as_py(),
        "group_id": table["group_id"][0].as_py(),
        "lacks": str(lacking),
        "last_msg_seq_number": lacking.last,
        "missing_messages": [{"first": first, "last": last} for first, last in lacking.messages],
        "missing_segments": [gap._asdict() for gap in lacking.segments],
        "messages": len(left),
        "bytes": sum(rows["part_length"].to_pylist()),
        "first_put": min(puts, default=None),
        "last_put": max(puts, default=None),
        "positions": rows["position"].to_pylist(),
        "msg_ids": rows["msg_id"].to_pylist(),
    }
    return pa.Table.from_pylist([row], schema)


def _outcome(table: pa.Table) -> GroupOutcome:
    """Return the outcome for rows of a group id. The place of a part is its position, and its index in the table."""
    columns = [table[name].to_pylist() for name in JUDGED[1:] if name != "put_timestamp"]
    return in_logical_order(
        ArchivedPart(
            place=(position, index),
            msg_seq_number=number,
            offset=offset,
            msg_flags=flags,
            span=max(length, original_length),
            text=(ccsid, encoding),
            identity=(msg_id, hash),
        )
        for index, (
            position,
            msg_id,
            _,
            number,
            offset,
            flags,
            original_length,
            encoding,
            ccsid,
            length,
            hash,
        ) in enumerate(zip(*columns, strict=True))
    )
