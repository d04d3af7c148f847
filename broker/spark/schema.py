"""The columns of the data source `mq`: one schema, for what is read and for what is written.

The fields of a message descriptor have MQ's names in snake case and MQ's units and values; beside them stand the queue,
the position, the time of the put as Spark knows times, the properties and the body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql.types import DataType

_INT: Final = IntegerType()
_TEXT: Final = StringType()
_BYTES: Final = BinaryType()


class Column(NamedTuple):
    """A column: its name, its type, what it holds, and whether a write handles it (otherwise it may be there, and is
    not looked at).
    """

    name: str
    type: DataType
    holds: str
    written: bool = True


COLUMNS: Final = (
    Column("queue", _TEXT, "the local queue that the message is on; of a row to write, the queue it is put to"),
    Column("position", LongType(), "consuming, the sequence of the claim; browsing, the arrival number", written=False),
    Column("report", _INT, "Report: options of MQRO"),
    Column("msg_type", _INT, "MsgType: MQMT"),
    Column("expiry", _INT, "Expiry: what is left, in tenths of a second; -1 for unlimited"),
    Column("feedback", _INT, "Feedback: MQFB"),
    Column("encoding", _INT, "Encoding of numbers in the body: MQENC"),
    Column("coded_char_set_id", _INT, "CodedCharSetId of text in the body"),
    Column("format", _TEXT, "Format: MQFMT"),
    Column("priority", _INT, "Priority, 0 to 9"),
    Column("persistence", _INT, "Persistence: MQPER"),
    Column("msg_id", _BYTES, "MsgId, 24 bytes"),
    Column("correl_id", _BYTES, "CorrelId, 24 bytes; zeros for none"),
    Column("backout_count", _INT, "BackoutCount", written=False),
    Column("reply_to_q", _TEXT, "ReplyToQ"),
    Column("reply_to_q_mgr", _TEXT, "ReplyToQMgr"),
    Column("user_identifier", _TEXT, "UserIdentifier"),
    Column("accounting_token", _BYTES, "AccountingToken, 32 bytes"),
    Column("appl_identity_data", _TEXT, "ApplIdentityData"),
    Column("put_appl_type", _INT, "PutApplType: MQAT"),
    Column("put_appl_name", _TEXT, "PutApplName"),
    Column("put_date", _TEXT, "PutDate, YYYYMMDD in UTC"),
    Column("put_time", _TEXT, "PutTime, HHMMSSTH in UTC"),
    Column("appl_origin_data", _TEXT, "ApplOriginData"),
    Column("group_id", _BYTES, "GroupId, 24 bytes; zeros for none"),
    Column("msg_seq_number", _INT, "MsgSeqNumber, from 1 within the group"),
    Column("offset", _INT, "Offset of a segment within its logical message, in bytes"),
    Column("msg_flags", _INT, "MsgFlags: MQMF"),
    Column("original_length", _INT, "OriginalLength of a segment's message; -1 for undefined"),
    Column("put_timestamp", TimestampType(), "PutDate and PutTime; null where they are blank", written=False),
    Column("properties", MapType(_TEXT, _TEXT), "the message properties as text: numbers in decimal, true or false, "
           "bytes in hexadecimal"),
    Column("body", _BYTES, "the data of the message; null with includeBody=false"),
)  # fmt: skip
"""All columns, in their order."""

NAMES: Final = tuple(column.name for column in COLUMNS)
SCHEMA: Final = StructType([StructField(column.name, column.type) for column in COLUMNS])

_TYPES: Final = {column.name: column.type for column in COLUMNS}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of Arrow's record batches that Spark expects."""
    return to_arrow_schema(schema, timezone="UTC")


def check_read(schema: StructType) -> None:
    """A schema that a program gives for reading has some of the columns, with their types. Raises ValueError."""
    refuse_unknown(schema.names, "read")
    for field in schema.fields:
        if field.dataType != (due := _TYPES[field.name]):
            raise ValueError(
                f"column {field.name} is {due.simpleString()}, not {field.dataType.simpleString()}: leave out schema() "
                "and cast afterwards"
            )


def check_write(schema: StructType) -> None:
    """The rows to write have a column `body` (binary, or text), and others of these columns with their types. Raises
    ValueError.
    """
    refuse_unknown(schema.names, "written")
    if "body" not in schema.names:
        raise ValueError(f"a row to write has a column body; there are {', '.join(schema.names) or 'no columns'}")
    for field in schema.fields:
        due = _TYPES[field.name]
        if field.dataType != due and not _may_stand_for(field.dataType, due, field.name):
            raise ValueError(
                f"column {field.name} is {due.simpleString()}, not {field.dataType.simpleString()}: cast it"
            )


def refuse_unknown(names: Iterable[str], done: str) -> None:
    """Raise ValueError for names that are no columns, and for one that is there twice."""
    names = list(names)
    unknown = [name for name in names if name not in _TYPES]
    if unknown:
        raise ValueError(f"no column of a message: {', '.join(unknown)}; these can be {done}: {', '.join(NAMES)}")
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"columns that are there twice: {', '.join(sorted(twice))}")


def _may_stand_for(type: DataType, due: DataType, name: str) -> bool:
    """True if rows to write may have this type in place of the column's: text as a body, and maps whose values cannot
    be null.
    """
    if name == "body":
        return isinstance(type, StringType)
    if isinstance(due, MapType):
        return isinstance(type, MapType) and type.keyType == due.keyType and type.valueType == due.valueType
    return isinstance(due, StringType) and isinstance(type, StringType)
