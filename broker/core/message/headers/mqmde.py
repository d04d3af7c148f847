"""MQMDE: the group and segment fields in front of the data, for programs that use version 1 descriptors.

72 bytes: `MDE `, version 2, length, then encoding, character set and format of the data behind, flags, and the five
fields that version 1 of MQMD does not have (semantics 1.5).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from broker.core.message.logical_order import LogicalPlace
from broker.mqi.constants.descriptor import MQCCSI, MQENC
from broker.mqi.errors import MQError
from broker.mqi.layouts.fields import signed
from broker.mqi.reasons import MQRC
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from broker.mqi.structures import MessageDescriptor

FORMAT = "MQHMDE"
LENGTH = 72
_LAYOUT = "4siiii8si24siiii"
_LITTLE_ENDIAN = 0x0000_0002  # the integers of MQENC.NATIVE on these machines are reversed
_INTEGER_MASK = 0x0000_000F
UNGROUPED = LogicalPlace(NO_ID, 1, 0)


def byte_order(encoding: int) -> str:
    """The struct prefix for integers in this MQENC."""
    return "<" if encoding & _INTEGER_MASK == _LITTLE_ENDIAN else ">"


def take_mqmde(md: MessageDescriptor, data: bytes, own_ccsid: int) -> tuple[MessageDescriptor, bytes]:
    """The descriptor with the fields of the MQMDE at the front of `data`, and the data behind it.

    What is not an MQMDE by the rules, or not in the queue manager's own encoding and character set, stays data. Raises
    MDE_ERROR (2248).
    """
    if md.format != FORMAT or md.encoding != MQENC.NATIVE or not _has_defaults(md):
        return md, data
    if md.coded_char_set_id not in (MQCCSI.Q_MGR, own_ccsid):
        return md, data
    if len(data) < LENGTH:
        raise MQError(MQRC.MDE_ERROR, f"format MQHMDE, but {len(data)} bytes: an MQMDE has {LENGTH}")
    (
        tag, version, length, encoding, ccsid, format, _, group_id, number, offset, flags, original,
    ) = struct.unpack_from(byte_order(md.encoding) + _LAYOUT, data)  # fmt: skip
    if tag != b"MDE " or version != 2 or length != LENGTH or (ccsid <= 0 and ccsid != MQCCSI.INHERIT):
        raise MQError(MQRC.MDE_ERROR, f"the data does not begin with a valid MQMDE: {data[:16]!r}")
    full = type(md).from_tuple(md.to_tuple())
    full.version = 2
    full.encoding, full.format = encoding, format.decode("ascii", "replace").rstrip(" \0")
    full.coded_char_set_id = md.coded_char_set_id if ccsid == MQCCSI.INHERIT else ccsid
    full.group_id, full.msg_seq_number, full.offset = group_id, number, offset
    full.msg_flags, full.original_length = flags, original
    return full, data[LENGTH:]


def packed(
    item: LogicalPlace, flags: int, original_length: int, encoding: int, ccsid: int, format: str, own_encoding: int
) -> bytes:
    """The MQMDE for a message that a version 1 descriptor cannot describe, itself in `own_encoding`. `encoding`,
    `ccsid` and `format` are those of the data behind it.
    """
    return struct.pack(
        byte_order(own_encoding) + _LAYOUT,
        b"MDE ", 2, LENGTH, signed(encoding), signed(ccsid), format.encode().ljust(8), 0, *item, signed(flags),
        signed(original_length),
    )  # fmt: skip


def needed(item: LogicalPlace, flags: int, original_length: int) -> bool:
    """True if a version 1 descriptor cannot describe a message with these fields."""
    return bool(flags) or original_length != -1 or item != UNGROUPED


def _has_defaults(md: MessageDescriptor) -> bool:
    """True if the descriptor says nothing about groups: version 1 never does."""
    if md.version == 1:
        return True
    return not needed(LogicalPlace(md.group_id, md.msg_seq_number, md.offset), md.msg_flags, md.original_length)
