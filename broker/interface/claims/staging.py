"""Messages that a prepared unit is to put, gathered into frames of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.interface.batches.columns import (
    BYTES_MAX,
    Columns,
    Fill,
    identifiers,
    offsets_of,
    pack,
    packed,
    unless_default,
)
from broker.interface.data import prepared
from broker.interface.properties import with_properties
from broker.mqi import checks
from broker.mqi.errors import MQError
from broker.mqi.layouts.packing import pack_md
from broker.mqi.names import NAME_LENGTH
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from broker.interface.data import Data
    from broker.mqi.layouts.folders import Value

FRAME_BYTES: Final = 4 * BYTES_MAX
"""The longest frame that is made of several messages, where the line takes it."""

_PERSISTENCES: Final = range(-128, 128)
_PRIORITY_MAX: Final = 2**31 - 1


class Row(NamedTuple):
    """A message to stage: the name of its queue, its data (text is sent as UTF-8), descriptor and properties."""

    q_name: str
    data: Data
    md: MessageDescriptor | None = None
    properties: Mapping[str, Value] | None = None


class _Staged(NamedTuple):
    q_name: str
    md: MessageDescriptor
    packed_md: bytes
    data: bytes


class Staging:
    """The next frame of a prepared unit, message by message. None of it is longer than `longest` bytes, but where one
    message is.
    """

    def __init__(self, longest: int = FRAME_BYTES) -> None:
        self._longest = longest
        self._fill = Fill(longest)
        self._rows: list[_Staged] = []
        self._fields: tuple[Any, ...] = ()  # of the descriptor given last, and what was made of it
        self._described = MessageDescriptor()
        self._packed = pack_md(self._described)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row) -> bytes | None:
        """Take a message in; the frame of those before it, where it does not fit in with them.

        Its descriptor may be changed afterwards. Raises OBJECT_NAME_ERROR (2152), MD_ERROR (2026) for a descriptor that
        is not of version 2 or has a field that cannot hold its value, PROPERTY_NAME_ERROR (2442) and others for a
        property; TypeError for data that is neither bytes-like nor str.
        """
        if not isinstance(row.q_name, str) or not 0 < len(row.q_name) <= NAME_LENGTH:
            raise MQError(MQRC.OBJECT_NAME_ERROR, f"{row.q_name!r}: a name of 1 to {NAME_LENGTH} characters")
        md, data = prepared(row.data, row.md, None)
        if row.properties:
            md, data = with_properties(md, data, row.properties)
        self._describe(MessageDescriptor() if md is None else md)
        frame = None
        size = (len(data), len(self._packed))
        if not self._fill.take([size]):
            frame = self.frame()
            self._fill.take([size])
        self._rows.append(_Staged(row.q_name, self._described, self._packed, data))
        return frame

    def frame(self) -> bytes:
        """The frame of the messages that are in it, which is empty from now on."""
        rows, self._rows = self._rows, []
        self._fill = Fill(self._longest)
        return _frame(rows)

    def _describe(self, md: MessageDescriptor) -> None:
        """Check a descriptor and pack it; mostly it has the fields of the one before."""
        fields = md.to_tuple()
        if fields == self._fields and tuple(map(type, fields)) == tuple(map(type, self._fields)):
            return
        checked = checks.descriptor(MessageDescriptor.from_tuple(fields))
        if checked.version != 2:  # the MQMDE that another may have is not looked for
            raise MQError(MQRC.MD_ERROR, f"version={checked.version}: a staged message has a descriptor of version 2")
        if checked.persistence not in _PERSISTENCES:
            raise MQError(MQRC.PERSISTENCE_ERROR, f"persistence={checked.persistence}: 0, 1, or 2 for the default")
        if checked.priority > _PRIORITY_MAX:
            raise MQError(MQRC.PRIORITY_ERROR, f"priority={checked.priority}: no more than {_PRIORITY_MAX} in a frame")
        self._packed = pack_md(checked)
        self._described = checked
        self._fields = fields


def frames(rows: Iterable[Row], longest: int = FRAME_BYTES) -> Iterator[bytes]:
    """The frames of these messages. Raises what `Staging.add` raises."""
    staging = Staging(longest)
    for row in rows:
        frame = staging.add(row)
        if frame is not None:
            yield frame
    if len(staging):
        yield staging.frame()


def _frame(rows: list[_Staged]) -> bytes:
    mds = [row.md for row in rows]
    q_names = {name: place for place, name in enumerate(dict.fromkeys([row.q_name for row in rows]))}
    descriptors = {each: place for place, each in enumerate(dict.fromkeys([row.packed_md for row in rows]))}
    bodies = [row.data for row in rows]
    columns = Columns(
        messages=len(rows),
        first=0,
        keys=None,
        msg_ids=identifiers([md.msg_id for md in mds]),
        correl_ids=identifiers([md.correl_id for md in mds]),
        group_ids=identifiers([md.group_id for md in mds]),
        msg_seq_numbers=unless_default([md.msg_seq_number for md in mds], 1),
        offsets=unless_default([md.offset for md in mds], 0),
        msg_flags=unless_default([int(md.msg_flags) for md in mds], 0),
        original_lengths=unless_default([md.original_length for md in mds], -1),
        backout_counts=unless_default([md.backout_count for md in mds], 0),
        expiries=unless_default([md.expiry for md in mds], -1),
        priorities=packed([md.priority for md in mds]),
        persistences=packed([md.persistence for md in mds], "b"),
        q_names=list(q_names),
        queues=packed([q_names[row.q_name] for row in rows], "h") if len(q_names) > 1 else None,
        descriptors=list(descriptors),
        descriptor_of=packed([descriptors[row.packed_md] for row in rows]) if len(descriptors) > 1 else None,
        property_offsets=None,
        properties=b"",
        body_offsets=offsets_of(bodies),
        bodies=b"",
    )
    return pack(columns, bodies)
