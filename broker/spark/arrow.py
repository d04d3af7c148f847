"""From frames of columns to Arrow's record batches: buffers as they came, without a step for each message.

What a frame leaves out, since all its messages have the default, is a slice of an array that is made once. A packed
descriptor is taken apart once, however many messages share it. Only properties cost a step for each message that has
some.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from broker.interface.batches.columns import SHORT_MESSAGES_MAX
from broker.mqi import MessageDescriptor
from broker.mqi.layouts.packing import PACKED_FIELDS, unpack_md
from broker.mqi.layouts.rfh2 import unpack_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from broker.interface.batches.columns import Columns
    from broker.mqi.layouts.folders import Value

_ID_BYTES: Final = 24
_DESCRIPTORS_KEPT: Final = 4096
_NATIVE: Final = sys.byteorder == "little"
_SLOTS: Final = {name: place for place, name in enumerate(PACKED_FIELDS)}


def record_batch(columns: Columns, schema: pa.Schema, *, bodies: bool = True) -> pa.RecordBatch:
    """The messages of a frame as the columns that `schema` names (`broker.spark.schema`); without `bodies` that column
    is null.
    """
    spread = _Spread(columns)
    arrays = []
    for field in schema:
        if field.name == "body" and not bodies:
            arrays.append(pa.nulls(columns.messages, field.type))
        else:
            arrays.append(_MAKERS[field.name](spread, field))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Spread:
    """A frame that is being made a record batch: what its descriptors are is asked for once."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.messages = columns.messages
        index = columns.descriptor_of
        self.index = None if index is None else _numbers(index, "<i4", pa.int32())

    def described(self, field: pa.Field, values: Callable[[bytes], Any]) -> pa.Array:
        """A column whose value depends on the descriptor of the message alone."""
        descriptors = self.columns.descriptors
        if self.index is None:
            return _same(values(descriptors[0]) if descriptors else None, field.type, self.messages)
        return pa.array([values(each) for each in descriptors], field.type).take(self.index)


def _same(value: Any, type: pa.DataType, count: int) -> pa.Array:
    """An array of one value."""
    if count > SHORT_MESSAGES_MAX:
        return pa.repeat(pa.scalar(value, type), count)
    return _kept(value, type).slice(0, count)


@lru_cache(maxsize=1024)
def _kept(value: Any, type: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, type), SHORT_MESSAGES_MAX)


def _numbers(column: bytes, kind: str, type: pa.DataType) -> pa.Array:
    """A column of numbers, which NumPy calls `kind`, as an array."""
    if _NATIVE and np.dtype(kind).itemsize * 8 == type.bit_width:
        return pa.Array.from_buffers(type, len(column) * 8 // type.bit_width, [None, pa.py_buffer(column)])
    return pa.array(np.frombuffer(column, kind).astype(type.to_pandas_dtype()))


def _number(name: str, default: int) -> Callable[[_Spread, pa.Field], pa.Array]:
    def make(spread: _Spread, field: pa.Field) -> pa.Array:
        column: bytes | None = getattr(spread.columns, name)
        if column is None:
            return _same(default, field.type, spread.messages)
        return _numbers(column, "<i4" if len(column) == 4 * spread.messages else "i1", field.type)

    return make


def _identifier(name: str) -> Callable[[_Spread, pa.Field], pa.Array]:
    def make(spread: _Spread, field: pa.Field) -> pa.Array:
        column: bytes | None = getattr(spread.columns, name)
        if column is None:
            return _same(bytes(_ID_BYTES), field.type, spread.messages)
        return _binary(_regular(spread.messages), column, spread.messages)

    return make


@lru_cache(maxsize=64)
def _regular(count: int) -> bytes:
    """The offsets of so many identifiers."""
    return (np.arange(count + 1, dtype=np.int32) * _ID_BYTES).tobytes()


def _binary(offsets: bytes, data: bytes, count: int) -> pa.Array:
    """An array of byte strings; the offsets are native."""
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _queue(spread: _Spread, field: pa.Field) -> pa.Array:
    names, index = spread.columns.q_names, spread.columns.queues
    if index is None:
        return _same(names[0] if names else None, field.type, spread.messages)
    return pa.array(names, field.type).take(pa.array(np.frombuffer(index, "<i2").astype(np.int32)))


def _position(spread: _Spread, field: pa.Field) -> pa.Array:
    columns = spread.columns
    if columns.keys is not None:
        return _numbers(columns.keys, "<i8", field.type)
    return pa.array(np.arange(columns.first, columns.first + spread.messages, dtype=np.int64))


def _packed_field(name: str) -> Callable[[_Spread, pa.Field], pa.Array]:
    place = _SLOTS[name]
    return lambda spread, field: spread.described(field, lambda packed: _unpacked(packed)[place])


def _put_timestamp(spread: _Spread, field: pa.Field) -> pa.Array:
    return spread.described(field, lambda packed: _unpacked(packed)[-1])


@lru_cache(maxsize=_DESCRIPTORS_KEPT)
def _unpacked(packed: bytes) -> tuple[Any, ...]:
    """The values of a packed descriptor, and behind them the time of its put in microseconds since 1970, or None."""
    md = MessageDescriptor()
    unpack_md(packed, md)
    values = (getattr(md, name) for name in PACKED_FIELDS)
    plain = [int(value) if isinstance(value, int) else value for value in values]  # an MQMT is an int to Arrow
    return (*plain, put_microseconds(md.put_date, md.put_time))


def put_microseconds(put_date: str, put_time: str) -> int | None:
    """PutDate and PutTime, in UTC, as microseconds since 1970; None where they are no time."""
    text = put_date + put_time
    if len(put_date) != 8 or len(put_time) != 8 or not text.isdecimal() or not text.isascii():
        return None
    date, time = f"{text[:4]}-{text[4:6]}-{text[6:8]}", f"{text[8:10]}:{text[10:12]}:{text[12:14]}"
    try:
        moment = np.datetime64(f"{date}T{time}.{text[14:]}", "us")
    except ValueError:
        return None
    return int(moment.astype(np.int64))


def _properties(spread: _Spread, field: pa.Field) -> pa.Array:
    columns = spread.columns
    if columns.property_offsets is None:
        return _no_properties(field.type).slice(0, spread.messages)
    places: Sequence[int] = np.frombuffer(columns.property_offsets, "<i4").tolist()
    packed = columns.properties
    ends, names, values = [0], [], []
    for start, end in pairwise(places):
        if start < end:
            for name, value in _texts(packed[start:end]):
                names.append(name)
                values.append(value)
        ends.append(len(names))
    offsets = pa.array(ends, pa.int32())
    made = pa.MapArray.from_arrays(offsets, pa.array(names, pa.string()), pa.array(values, pa.string()))
    return made.cast(field.type)


@lru_cache(maxsize=8)
def _no_properties(type: pa.DataType) -> pa.Array:
    return pa.array([{}] * SHORT_MESSAGES_MAX, type)


@lru_cache(maxsize=_DESCRIPTORS_KEPT)
def _texts(packed: bytes) -> list[tuple[str, str | None]]:
    """Names and values of packed properties."""
    return [(name, _text(value)) for name, value in unpack_properties(packed).items()]


def _text(value: Value) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str) else repr(value)


def _body(spread: _Spread, field: pa.Field) -> pa.Array:
    columns = spread.columns
    offsets = columns.body_offsets
    if not _NATIVE:
        offsets = np.frombuffer(offsets, "<i4").astype(np.int32).tobytes()
    return _binary(offsets, columns.bodies, spread.messages)


_MAKERS: Final[dict[str, Callable[[_Spread, pa.Field], pa.Array]]] = {
    **{name: _packed_field(name) for name in PACKED_FIELDS},
    "queue": _queue,
    "position": _position,
    "expiry": _number("expiries", -1),
    "priority": _number("priorities", 0),
    "persistence": _number("persistences", 0),
    "msg_id": _identifier("msg_ids"),
    "correl_id": _identifier("correl_ids"),
    "group_id": _identifier("group_ids"),
    "backout_count": _number("backout_counts", 0),
    "msg_seq_number": _number("msg_seq_numbers", 1),
    "offset": _number("offsets", 0),
    "msg_flags": _number("msg_flags", 0),
    "original_length": _number("original_lengths", -1),
    "put_timestamp": _put_timestamp,
    "properties": _properties,
    "body": _body,
}
"""By column of the schema: what makes it."""
