"""The MQRFH2s of a message as its program put them, kept so that they can be given back byte for byte.

A queue keeps properties apart from the data (`broker.core.message.headers.properties`). Folders that hold none stay in
the data, each under the header it came in. What this module packs is the rest of the headers, so that nothing is kept
twice:

    mark -1, which no packed folder begins with
    Encoding and CodedCharSetId of the first header, the length of all of them, the length of what is left in the data
    of each header the fixed part, then of each folder
        NameValueLength and NameValueData where it holds properties,
        the complement of NameValueLength (a negative number) where it is left in the data

Integers are in the byte order of the header that they stand in, those of the first two lines little-endian.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from broker.mqi.layouts import rfh2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from broker.mqi.layouts.fields import ByteOrder

_MARK = b"\xff\xff\xff\xff"
_HEAD = Struct("<4siiii")
_LONG = {"little": Struct("<i"), "big": Struct(">i")}
_LONG_SIZE = 4
_LENGTH_AT, _ENCODING_AT, _CCSID_AT, _FORMAT_AT, _NAMES_CCSID_AT = 8, 12, 16, 20, 32
_FORMAT_SIZE = 8


class Behind(NamedTuple):
    """The fields of a header that describe the data behind it."""

    encoding: int
    coded_char_set_id: int
    format: str


class OriginalHeader(NamedTuple):
    """A header in the data of a put: where it is, how it is coded, and which of its folders hold no properties."""

    found: rfh2.Found
    coding: Behind
    """The coding of this header: from the descriptor, or the header before it."""
    left: frozenset[int]
    """The numbers of the folders that stay in the data."""


class Original(NamedTuple):
    """The figures of packed headers that are read without unpacking them.

    They have `length` bytes, and stand for the first `replaces` bytes of the message's data.
    """

    encoding: int
    coded_char_set_id: int
    length: int
    replaces: int


def pack(headers: Sequence[OriginalHeader], data: bytes, replaces: int) -> bytes:
    """The headers at the front of `data`, of which `left_in_data` leaves so many bytes there."""
    coding = headers[0].coding
    encoding, ccsid = rfh2.as_long(coding.encoding), rfh2.as_long(coding.coded_char_set_id)
    pieces = [_HEAD.pack(_MARK, encoding, ccsid, headers[-1].found.end, replaces)]
    for found, _, left in headers:
        pieces.append(data[found.start : found.start + rfh2.LENGTH_FIXED])
        for number, (begin, end) in enumerate(found.folders):
            if number in left:
                pieces.append(_LONG[found.byteorder].pack(~(end - begin)))
            else:
                pieces.append(data[begin - _LONG_SIZE : end])
    return b"".join(pieces)


def left_in_data(headers: Sequence[OriginalHeader], data: bytes, behind: Behind) -> tuple[bytes, Behind]:
    """The headers with the folders that hold no properties alone, and what describes them. A header without any goes.
    `behind` describes the data behind them all.
    """
    kept: list[bytes] = []
    followed_by = headers[-1].found.end
    for found, coding, left in reversed(headers):
        if not left:
            continue
        places = [place for number, place in enumerate(found.folders) if number in left]
        folders = b"".join(data[begin - _LONG_SIZE : end] for begin, end in places)
        fixed = bytearray(data[found.start : found.start + rfh2.LENGTH_FIXED])
        _LONG[found.byteorder].pack_into(fixed, _LENGTH_AT, rfh2.LENGTH_FIXED + len(folders))
        if found.end != followed_by:
            _describe(fixed, found.byteorder, behind)
        kept.append(bytes(fixed) + folders)
        followed_by, behind = found.start, coding
    return b"".join(reversed(kept)), behind


def _describe(fixed: bytearray, byteorder: ByteOrder, behind: Behind) -> None:
    """Let a header say this of what is behind it."""
    _LONG[byteorder].pack_into(fixed, _ENCODING_AT, rfh2.as_long(behind.encoding))
    _LONG[byteorder].pack_into(fixed, _CCSID_AT, rfh2.as_long(behind.coded_char_set_id or rfh2.INHERIT))
    fixed[_FORMAT_AT : _FORMAT_AT + _FORMAT_SIZE] = behind.format.encode().ljust(_FORMAT_SIZE)


def original(packed: bytes) -> Original | None:
    """Return the figures of packed headers; None for plain packed folders."""
    if not packed.startswith(_MARK):
        return None
    return Original(*_HEAD.unpack_from(packed)[1:])


def restored(packed: bytes, data: bytes) -> bytes:
    """The headers as they were put, and the data behind them. `data` begins with what was left of them there."""
    pieces: list[bytes] = []
    position = 0
    for start, _, places in _headers(packed):
        pieces.append(packed[start : start + rfh2.LENGTH_FIXED])
        if any(left for _, _, left in places):
            position += rfh2.LENGTH_FIXED
        for begin, end, left in places:
            if left:
                pieces.append(data[position : position + left])
                position += left
            else:
                pieces.append(packed[begin - _LONG_SIZE : end])
    pieces.append(data[position:])
    return b"".join(pieces)


def folders(packed: bytes) -> list[str]:
    """The texts of the folders that hold properties."""
    found: list[str] = []
    for start, byteorder, places in _headers(packed):
        (names_ccsid,) = _LONG[byteorder].unpack_from(packed, start + _NAMES_CCSID_AT)
        codec = "utf-8" if names_ccsid not in rfh2.UTF_16 else "utf-16-le" if byteorder == "little" else "utf-16-be"
        texts = (packed[begin:end].decode(codec).rstrip(" \0") for begin, end, left in places if not left)
        found += [text for text in texts if text]
    return found


def _headers(packed: bytes) -> Iterator[tuple[int, ByteOrder, list[tuple[int, int, int]]]]:
    """Of each header: where it begins, its byte order, and of its folders the place of NameValueData. The third number
    is 0, or how many bytes were left in the data.
    """
    position, encoding = _HEAD.size, _HEAD.unpack_from(packed)[1]
    while position < len(packed):
        start, byteorder = position, rfh2.byte_order(encoding)
        unpack = _LONG[byteorder].unpack_from
        (left,) = unpack(packed, start + _LENGTH_AT)
        (encoding,) = unpack(packed, start + _ENCODING_AT)
        left -= rfh2.LENGTH_FIXED
        position += rfh2.LENGTH_FIXED
        places: list[tuple[int, int, int]] = []
        while left:
            (length,) = unpack(packed, position)
            position += _LONG_SIZE
            if length < 0:
                places.append((position, position, _LONG_SIZE + ~length))
                length = ~length
            else:
                places.append((position, position + length, 0))
                position += length
            left -= _LONG_SIZE + length
        yield start, byteorder, places
