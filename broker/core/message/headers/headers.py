"""The MQ headers at the front of a message's data: how many bytes they are together.

Each header says what follows it: its format, and the encoding in which the next one's numbers are. The chain ends at
the first format that is no header, or at bytes that are not what the format promised.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from broker.core.message.headers.mqmde import byte_order
from broker.mqi.constants.descriptor import MQFMT
from broker.mqi.layouts.layouts import MQDLH


class _HeaderOffsets(NamedTuple):
    """The offsets of the fields of a header that are read here. `size` None: it says itself how long it is."""

    encoding_at: int
    format_at: int
    size: int | None = None


_LENGTH_AT = 8
_FORMAT_SIZE = 8
_CHAINED = _HeaderOffsets(12, 20)
_DESCRIPTOR_AT = 104  # of the MQMD in an MQXQH

_HEADERS = {
    **dict.fromkeys(
        (
            MQFMT.MD_EXTENSION.value,
            MQFMT.RF_HEADER.value,
            MQFMT.RF_HEADER_2.value,
            MQFMT.DIST_HEADER.value,
            MQFMT.CICS.value,
            MQFMT.IMS.value,
            MQFMT.REF_MSG_HEADER.value,
            MQFMT.WORK_INFO_HEADER.value,
        ),
        _CHAINED,
    ),
    MQFMT.DEAD_LETTER_HEADER.value: _HeaderOffsets(108, 116, MQDLH.SIZE),
    MQFMT.XMIT_Q_HEADER.value: _HeaderOffsets(_DESCRIPTOR_AT + 24, _DESCRIPTOR_AT + 32, 428),
}


def headers_length(format: str, encoding: int, data: bytes) -> int:
    """Return the number of bytes at the front of `data`, in this format, that are MQ headers."""
    start = 0
    while format in _HEADERS:
        header = _HEADERS[format]
        order = byte_order(encoding)
        end = start + header.format_at + _FORMAT_SIZE
        if end > len(data):
            break
        size = header.size or struct.unpack_from(f"{order}i", data, start + _LENGTH_AT)[0]
        if start + size < end or start + size > len(data):
            break
        (encoding,) = struct.unpack_from(f"{order}i", data, start + header.encoding_at)
        format = data[end - _FORMAT_SIZE : end].rstrip(b" \0").decode("ascii", "replace")
        start += size
    return start
