"""Cutting a message that is too long for its queue, where it allows that (semantics 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgpack

from broker.core.message.entry import CutSegment, FullEntry, rank_of
from broker.core.message.headers.properties import folders_of
from broker.core.message.logical_order import LAST_SEGMENT, SEGMENT, SEGMENTS
from broker.core.message.report_options import CHOICES, WITH_DATA_BYTES
from broker.mqi.layouts.packing import PACKED_FIELDS

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers

SHORTEST = 16
"""No piece but the last is shorter, and all are multiples of it, whatever the format."""

_REPORT = PACKED_FIELDS.index("report")


def piece_length(limit: int) -> int:
    """The length of the pieces for this MAXMSGL; 0 when it is too small to cut anything."""
    return limit // SHORTEST * SHORTEST


def cut(whole: FullEntry, length: int, ids: Identifiers) -> list[FullEntry]:
    """The pieces of a message. The first keeps its MsgId, each other has a new one."""
    data = whole.data or b""
    pieces = []
    for start in range(0, len(data), length):
        piece = whole if not start else _copy(whole, ids)
        piece.data = data[start : start + length]
        piece.length = len(piece.data)
        piece.offset = whole.offset + start
        piece.original_length = piece.length
        if start >= WITH_DATA_BYTES:
            piece.packed_md = _without_data(whole.packed_md)
        pieces.append(piece)
    ends = whole.msg_flags & LAST_SEGMENT or not whole.msg_flags & SEGMENTS
    for piece in pieces:
        piece.msg_flags = piece.msg_flags & ~LAST_SEGMENT | SEGMENT
    if ends:
        pieces[-1].msg_flags |= LAST_SEGMENT
    return pieces


def _copy(whole: FullEntry, ids: Identifiers) -> FullEntry:
    piece = CutSegment(whole.queue, ids.next(), rank_of(whole.key), None, 0)
    for field in (
        "correl_id",
        "group_id",
        "msg_seq_number",
        "msg_flags",
        "priority",
        "persistence",
        "deadline",
        "packed_md",
    ):
        setattr(piece, field, getattr(whole, field))
    piece.properties = folders_of(whole.properties)
    return piece


def _without_data(packed_md: bytes) -> bytes:
    """The packed fields of a piece that holds none of the first bytes of data: reports on it carry none."""
    fields = list(msgpack.unpackb(packed_md))
    for choice in CHOICES:
        if choice.of(fields[_REPORT]) == choice.with_data:
            fields[_REPORT] = fields[_REPORT] & ~choice.with_full_data | choice.plain
    packed: bytes = msgpack.packb(fields)
    return packed
