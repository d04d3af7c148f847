"""Cutting a message that is too long for its queue, where it allows that (messages.md 4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgpack

from broker.core.entry import Entry, rank_of
from broker.core.logical import LAST_SEGMENT, SEGMENT, SEGMENTS
from broker.mqi.descriptor import MQRO
from broker.mqi.packing import KEPT_FIELDS

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers

SHORTEST = 16
"""No piece but the last is shorter, and all are multiples of it, whatever the format."""

WITH_DATA_BYTES = 100
"""How much of the message a report WITH_DATA carries."""

_REPORT = KEPT_FIELDS.index("report")
_WITH_DATA = (
    (MQRO.EXCEPTION.value, MQRO.EXCEPTION_WITH_DATA.value, MQRO.EXCEPTION_WITH_FULL_DATA.value),
    (MQRO.EXPIRATION.value, MQRO.EXPIRATION_WITH_DATA.value, MQRO.EXPIRATION_WITH_FULL_DATA.value),
    (MQRO.COA.value, MQRO.COA_WITH_DATA.value, MQRO.COA_WITH_FULL_DATA.value),
    (MQRO.COD.value, MQRO.COD_WITH_DATA.value, MQRO.COD_WITH_FULL_DATA.value),
)


def piece_length(limit: int) -> int:
    """The length of the pieces for this MAXMSGL; 0 when it is too small to cut anything."""
    return limit // SHORTEST * SHORTEST


def cut(whole: Entry, length: int, ids: Identifiers) -> list[Entry]:
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
            piece.kept = _without_data(whole.kept)
        pieces.append(piece)
    ends = whole.msg_flags & LAST_SEGMENT or not whole.msg_flags & SEGMENTS
    for piece in pieces:
        piece.msg_flags = piece.msg_flags & ~LAST_SEGMENT | SEGMENT
    if ends:
        pieces[-1].msg_flags |= LAST_SEGMENT
    return pieces


def _copy(whole: Entry, ids: Identifiers) -> Entry:
    piece = Entry(whole.queue, ids.next(), rank_of(whole.key), None, 0)
    piece.msg_id = ids.identifier(piece.id)
    for field in (
        "correl_id",
        "group_id",
        "msg_seq_number",
        "msg_flags",
        "priority",
        "persistence",
        "deadline",
        "kept",
    ):
        setattr(piece, field, getattr(whole, field))
    return piece


def _without_data(kept: bytes) -> bytes:
    """The kept fields of a piece that holds none of the first bytes of data: reports on it carry none."""
    fields = list(msgpack.unpackb(kept))
    for plain, with_data, with_full_data in _WITH_DATA:
        if fields[_REPORT] & with_full_data == with_data:
            fields[_REPORT] = fields[_REPORT] & ~with_full_data | plain
    packed: bytes = msgpack.packb(fields)
    return packed
