"""From Arrow's record batches to frames of columns: the rows that a sink stages.

A descriptor is packed once for all rows of a record batch that have its fields in common; what a row lacks, or has
null, is MQ's default. Only properties cost a step for each row that has some: they become an MQRFH2 before its body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broker.interface.batches.columns import BYTES_MAX, MESSAGES_MAX, SHORT_BYTES, SHORT_MESSAGES_MAX, Columns, pack
from broker.interface.properties import with_properties
from broker.mqi import MQFMT, MessageDescriptor, checks
from broker.mqi.constants.descriptor import UTF_8
from broker.mqi.layouts.packing import PACKED_FIELDS, pack_md

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_ID_BYTES: Final = 24
_NUMBERS: Final = (
    "msg_seq_number", "offset", "msg_flags", "original_length", "expiry", "priority", "persistence",
)  # fmt: skip
_DEFAULTS: Final = MessageDescriptor()
_PERSISTENCES: Final = frozenset((0, 1, 2))

CONTEXT: Final = frozenset(
    ("user_identifier", "accounting_token", "appl_identity_data", "put_appl_type", "put_appl_name", "put_date",
     "put_time", "appl_origin_data")
)  # fmt: skip
"""The fields that say where a message comes from: the queue manager fills them in, as at any put."""


class ColumnPiece(NamedTuple):
    """Rows of a sink, as a frame of columns."""

    rows: int
    frame: bytes


def pieces(batch: pa.RecordBatch, q_name: str) -> Iterator[ColumnPiece]:
    """The rows of a record batch in pieces as long as a frame may be, a longer row alone; `q_name` is the queue of
    those that name none.

    Raises ValueError for a value that its field cannot hold, which names the column; MQError for properties and
    descriptors: PROPERTY_NAME_ERROR (2442), MD_ERROR (2026) and others.
    """
    rows = _Rows(batch, q_name)
    for start, end in rows.cuts():
        yield ColumnPiece(end - start, pack(rows.columns(start, end)))


class _Rows:
    """The rows of a record batch as columns of numbers, identifiers and bodies."""

    def __init__(self, batch: pa.RecordBatch, q_name: str) -> None:
        self._count = batch.num_rows
        self._given = {name: batch.column(name) for name in batch.schema.names}
        text = pa.types.is_string(self._given["body"].type) or pa.types.is_large_string(self._given["body"].type)
        self._body = self._bodies()
        if text:
            self._describe_text()
        if "properties" in self._given:
            self._prefix_properties()
        places = np.frombuffer(self._body.buffers()[1], np.int32)
        self._places = places[self._body.offset : self._body.offset + self._count + 1]
        self._data = memoryview(self._body.buffers()[2] or b"")
        self._q_names, self._queue_of = self._queues(q_name)
        self._descriptors, self._descriptor_of = self._described()
        self._ids = {name: self._identifiers(name) for name in ("msg_id", "correl_id", "group_id")}
        self._numbers = {name: self._integers(name) for name in _NUMBERS}
        strange = set(np.unique(self._numbers["persistence"]).tolist()) - _PERSISTENCES
        if strange:
            raise ValueError(f"column persistence has {min(strange)}: it is 0, 1, or 2 for the queue's default")

    def cuts(self) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each piece into which the rows are cut."""
        start = 0
        while start < self._count:
            first = self._places[start]
            end = int(np.searchsorted(self._places, first + BYTES_MAX, "right")) - 1
            end = min(max(end, start + 1), start + SHORT_MESSAGES_MAX, self._count)
            if end - start > MESSAGES_MAX and self._places[end] - first > (end - start) * SHORT_BYTES:
                end = start + MESSAGES_MAX
            yield start, end
            start = end

    def columns(self, start: int, end: int) -> Columns:
        """The rows from `start` to before `end`."""
        rows = slice(start, end)
        places = self._places[start : end + 1]
        used = None if self._descriptor_of is None else np.unique(self._descriptor_of[rows], return_inverse=True)
        descriptors = self._descriptors if used is None else [self._descriptors[place] for place in used[0].tolist()]
        return Columns(
            messages=end - start,
            first=0,
            keys=None,
            msg_ids=_slice(self._ids["msg_id"], start, end),
            correl_ids=_slice(self._ids["correl_id"], start, end),
            group_ids=_slice(self._ids["group_id"], start, end),
            msg_seq_numbers=_unless(self._numbers["msg_seq_number"][rows], _DEFAULTS.msg_seq_number),
            offsets=_unless(self._numbers["offset"][rows], _DEFAULTS.offset),
            msg_flags=_unless(self._numbers["msg_flags"][rows], _DEFAULTS.msg_flags),
            original_lengths=_unless(self._numbers["original_length"][rows], _DEFAULTS.original_length),
            backout_counts=None,
            expiries=_unless(self._numbers["expiry"][rows], _DEFAULTS.expiry),
            priorities=self._numbers["priority"][rows].astype("<i4").tobytes(),
            persistences=self._numbers["persistence"][rows].astype("<i1").tobytes(),
            q_names=self._q_names,
            queues=None if self._queue_of is None else self._queue_of[rows].astype("<i2").tobytes(),
            descriptors=descriptors,
            descriptor_of=None if used is None or len(descriptors) == 1 else used[1].astype("<i4").tobytes(),
            property_offsets=None,
            properties=b"",
            body_offsets=(places - places[0]).astype("<i4").tobytes(),
            bodies=bytes(self._data[places[0] : places[-1]]),
        )

    # What the columns of the record batch become.

    def _bodies(self) -> pa.Array:
        body = self._given["body"]
        if body.null_count:
            raise ValueError("column body is null in some rows: a message has a body, which may be empty")
        return body.cast(pa.binary())

    def _describe_text(self) -> None:
        """Text is in UTF-8, and of format MQSTR where the row does not say another, as that of any put."""
        format, ccsid = self._texts("format"), self._integers("coded_char_set_id")
        blank = pc.equal(pc.utf8_rtrim_whitespace(format), "")
        self._given["format"] = pc.if_else(blank, MQFMT.STRING.value, format)
        self._given["coded_char_set_id"] = pa.array(np.where(ccsid == 0, UTF_8, ccsid), pa.int32())

    def _prefix_properties(self) -> None:
        """Put the properties of each row that has some before its body, as any put does."""
        given = self._given["properties"]
        entries = np.diff(given.offsets.to_numpy()) > 0
        with_some = np.flatnonzero(entries & given.is_valid().to_numpy(zero_copy_only=False)).tolist()
        if not with_some:
            return
        bodies, formats = self._body.to_pylist(), self._texts("format").to_pylist()
        encodings = self._integers("encoding").tolist()
        for row in with_some:
            outer = MessageDescriptor(format=formats[row], encoding=encodings[row])
            outer, bodies[row] = with_properties(outer, bodies[row], dict(given[row].as_py()))
            formats[row], encodings[row] = outer.format, outer.encoding
        self._body = pa.array(bodies, pa.binary())
        self._given["format"] = pa.array(formats, pa.string())
        self._given["encoding"] = pa.array(encodings, pa.int32())

    def _queues(self, q_name: str) -> tuple[list[str], NDArray[Any] | None]:
        """The names of the queues, and which of them each row is for; None where there is one."""
        given = self._given.get("queue")
        if given is None or given.null_count:
            if not q_name:
                raise ValueError("rows without a queue: give the option queue, or a column queue that is not null")
            if given is None or given.null_count == self._count:
                return [q_name], None
            given = pc.fill_null(given, q_name)
        coded = given.dictionary_encode()
        names = coded.dictionary.to_pylist()
        return names, None if len(names) < 2 else coded.indices.to_numpy()

    def _described(self) -> tuple[list[bytes], NDArray[Any] | None]:
        """The packed descriptors, and which of them each row has; None where all have one."""
        names = [name for name in PACKED_FIELDS if name in self._given and name not in CONTEXT]
        columns = [self._field(name) for name in names]
        key = np.zeros(self._count, np.int64)
        first = key[:1]
        for column in columns:
            coded = column.dictionary_encode()
            key = key * len(coded.dictionary) + coded.indices.to_numpy()
            _, first, key = np.unique(key, return_index=True, return_inverse=True)  # so that it stays small
        packed = []
        for row in first.tolist():
            md = MessageDescriptor(**{name: column[row].as_py() for name, column in zip(names, columns, strict=True)})
            packed.append(pack_md(checks.descriptor(md)))
        return packed, None if len(packed) == 1 else key

    def _field(self, name: str) -> pa.Array:
        """A column of the descriptor, with MQ's default where it is null."""
        default = getattr(_DEFAULTS, name)
        given = self._given[name]
        return pc.fill_null(given, pa.scalar(default, given.type)) if given.null_count else given

    def _texts(self, name: str) -> pa.Array:
        if name in self._given:
            return self._field(name).cast(pa.string())
        return pa.repeat(getattr(_DEFAULTS, name), self._count)

    def _integers(self, name: str) -> NDArray[Any]:
        if name in self._given:
            found: NDArray[Any] = self._field(name).to_numpy(zero_copy_only=False)
            return found
        return np.full(self._count, int(getattr(_DEFAULTS, name)), np.int32)

    def _identifiers(self, name: str) -> bytes | None:
        """The identifiers one behind the other; None where all are zeros."""
        if name not in self._given:
            return None
        given = self._field(name)
        lengths = set(pc.unique(pc.binary_length(given)).to_pylist()) - {_ID_BYTES}
        if lengths:
            raise ValueError(f"column {name} has a value of {min(lengths)} bytes: it has {_ID_BYTES}, or is null")
        fixed = given.cast(pa.binary()).cast(pa.binary(_ID_BYTES))
        data = memoryview(fixed.buffers()[1])[_ID_BYTES * fixed.offset : _ID_BYTES * (fixed.offset + self._count)]
        return bytes(data) if np.frombuffer(data, np.uint8).any() else None


def _slice(identifiers: bytes | None, start: int, end: int) -> bytes | None:
    return None if identifiers is None else identifiers[_ID_BYTES * start : _ID_BYTES * end]


def _unless(values: NDArray[Any], default: int) -> bytes | None:
    """A column of int32; None where all values are the default."""
    return None if (values == default).all() else values.astype("<i4").tobytes()
