"""Conversion of message data to the getter's character set and encoding (MQGMO_CONVERT, semantics 5.8).

Text (MQSTR) is converted as a whole. Of data that begins with MQ headers each header is: its characters, its integers,
and what it says about the data behind it, down the chain to the text or, unconverted, to bytes of no format. A
character that the target does not have becomes a question mark, or what stands for it there.

All or nothing: data of which any part cannot be converted stays as it is, and the reason is a warning. This module
knows neither descriptors nor buffers.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from broker.core.code_pages import UTF_16, codec_of
from broker.mqi.descriptor import MQCCSI, MQFMT
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable


class Coding(NamedTuple):
    """How characters and integers are written: CodedCharSetId and Encoding."""

    ccsid: int
    encoding: int


class Converted(NamedTuple):
    """Data after a conversion, or as it was, with the reason: FORMAT_ERROR (2110), SOURCE_CCSID_ERROR (2111),
    SOURCE_INTEGER_ENC_ERROR (2112), TARGET_CCSID_ERROR (2115), TARGET_INTEGER_ENC_ERROR (2116), NOT_CONVERTED (2119).
    """

    data: bytes
    coding: Coding
    reason: int = 0


_INTEGER_MASK = 0xF
_ORDERS = {1: ">", 2: "<"}  # MQENC_INTEGER_NORMAL, MQENC_INTEGER_REVERSED
_STRING = MQFMT.STRING.value
_NONE = MQFMT.NONE.value
_FORMAT_SIZE = 8
_INHERITED = (MQCCSI.INHERIT.value, MQCCSI.Q_MGR.value)
_LONG_SIZE = 4


def convert(data: bytes, format: str, source: Coding, target: Coding) -> Converted:
    """Convert `data` of this format. No conversion is made, and none is wanting, where the codings are the same."""
    if source == target:
        return Converted(data, source)
    try:
        if format == _STRING:
            return Converted(_text(data, source, target), target)
        return Converted(_chain(data, format, source, target), target)
    except MQError as error:
        return Converted(data, source, int(error.reason))


def _text(data: bytes, source: Coding, target: Coding) -> bytes:
    decoding, encoding = _codec(source, _SOURCE), _codec(target, _TARGET)
    if decoding == encoding:
        return data
    try:
        return data.decode(decoding).encode(encoding, "replace")
    except UnicodeDecodeError as error:
        raise MQError(MQRC.NOT_CONVERTED, f"the text is not in coded character set {source.ccsid}: {error}") from error


_SOURCE = (MQRC.SOURCE_CCSID_ERROR, MQRC.SOURCE_INTEGER_ENC_ERROR)
_TARGET = (MQRC.TARGET_CCSID_ERROR, MQRC.TARGET_INTEGER_ENC_ERROR)


def _codec(coding: Coding, reasons: tuple[MQRC, MQRC]) -> str:
    name = codec_of(coding.ccsid)
    if name is None:
        raise MQError(reasons[0], f"coded character set {coding.ccsid} is not known")
    if name == UTF_16:
        return f"{name}_{'le' if _order(coding, reasons) == '<' else 'be'}"
    return name


def _order(coding: Coding, reasons: tuple[MQRC, MQRC]) -> str:
    order = _ORDERS.get(coding.encoding & _INTEGER_MASK)
    if order is None:
        raise MQError(reasons[1], f"encoding {coding.encoding:#x} says nothing of integers")
    return order


# Headers


class _Header:
    """The layout of a header: `4c` are four characters, `24b` bytes that are kept as they are, `l` is an integer.

    `describes` is the place of the Encoding of the data behind it, which CodedCharSetId and Format follow; None where
    the header is all there is. Folders behind the fixed part are converted by `folders`.
    """

    def __init__(
        self, tag: str, layout: str, describes: int | None = None, folders: Callable[..., bytes] | None = None
    ) -> None:
        self.tag = tag
        self.describes = describes
        self.folders = folders
        self.kinds = [field[-1] for field in layout.split()]
        codes = "".join("i" if field == "l" else f"{field[:-1]}s" for field in layout.split())
        self.structs = {order: struct.Struct(order + codes) for order in _ORDERS.values()}
        self.size = self.structs["<"].size


def _chain(data: bytes, format: str, source: Coding, target: Coding) -> bytes:
    """The headers at the front of `data` and what follows them. A loop: a chain may be as long as the data."""
    pieces: list[bytes] = []
    start = 0
    while format in _HEADERS:
        header = _HEADERS[format]
        fields, end = _fields(header, data, start, source)
        format = _NONE
        behind = source
        if header.describes is not None:
            format, behind = _described(fields, header.describes, source, nothing=end == len(data))
            fields[header.describes : header.describes + 2] = _stated(format, behind, target)
        pieces.append(header.structs[_order(target, _TARGET)].pack(*_recoded(header, fields, source, target)))
        if header.folders is not None:
            pieces.append(header.folders(data, start + header.size, end, source, target))
        start, source = end, behind
    if format == _STRING:
        pieces.append(_text(data[start:], source, target))
    elif format == _NONE and pieces:
        pieces.append(data[start:])
    else:
        raise MQError(MQRC.FORMAT_ERROR, f"data of format {format!r} cannot be converted")
    return b"".join(pieces)


def _fields(header: _Header, data: bytes, start: int, source: Coding) -> tuple[list[int | bytes], int]:
    """The fields of the header at `start`, and where it ends."""
    layout = header.structs[_order(source, _SOURCE)]
    codec = _codec(source, _SOURCE)
    if start + header.size > len(data):
        raise MQError(MQRC.FORMAT_ERROR, f"{len(data) - start} bytes are too few for a header {header.tag}")
    fields: list[int | bytes] = list(layout.unpack_from(data, start))
    if fields[0] != header.tag.encode(codec, "replace"):
        raise MQError(MQRC.FORMAT_ERROR, f"a header begins with {fields[0]!r}, not with {header.tag}")
    length = fields[2] if header.folders is not None else header.size
    if not isinstance(length, int) or length < header.size or start + length > len(data):
        raise MQError(MQRC.FORMAT_ERROR, f"a header {header.tag} has the length {length!r}")
    return fields, start + length


def _described(fields: list[int | bytes], place: int, source: Coding, *, nothing: bool) -> tuple[str, Coding]:
    """Format and coding of the data behind a header, if there is any."""
    encoding, ccsid, format = fields[place : place + 3]
    assert isinstance(encoding, int)
    assert isinstance(ccsid, int)
    assert isinstance(format, bytes)
    behind = Coding(source.ccsid if ccsid in _INHERITED else ccsid, encoding)
    name = format.decode(_codec(source, _SOURCE), "replace").rstrip(" \0")
    return _NONE if nothing else name, behind


def _stated(format: str, behind: Coding, target: Coding) -> tuple[int, int]:
    """Encoding and CodedCharSetId as a converted header says them: bytes of no format stay what they are."""
    coding = behind if format == _NONE else target
    return coding.encoding, coding.ccsid


def _recoded(header: _Header, fields: list[int | bytes], source: Coding, target: Coding) -> list[int | bytes]:
    """The fields with their characters in the target's character set, padded with its blanks."""
    blank = " ".encode(_codec(target, _TARGET))
    recoded: list[int | bytes] = []
    for kind, field in zip(header.kinds, fields, strict=True):
        if kind == "c" and isinstance(field, bytes):
            characters = _text(field, source, target)
            if len(blank) != 1 or len(characters.rstrip(blank)) > len(field):
                raise MQError(MQRC.NOT_CONVERTED, f"{field!r} does not fit its field in character set {target.ccsid}")
            recoded.append(characters[: len(field)].ljust(len(field), blank))
        else:
            recoded.append(field)
    return recoded


def _folders(data: bytes, start: int, end: int, source: Coding, target: Coding) -> bytes:
    """The folders of an MQRFH2: their lengths are integers, their texts are in a character set of their own."""
    reading, writing = (
        struct.Struct(_order(source, _SOURCE) + "i"), struct.Struct(_order(target, _TARGET) + "i"),
    )  # fmt: skip
    pieces = []
    while start < end:
        length = reading.unpack_from(data, start)[0] if start + _LONG_SIZE <= end else -1
        behind = start + _LONG_SIZE + length
        if length < 0 or behind > end:
            raise MQError(MQRC.FORMAT_ERROR, "a folder of an MQRFH2 reaches beyond it")
        pieces += [writing.pack(length), data[start + _LONG_SIZE : behind]]
        start = behind
    return b"".join(pieces)


_HEADERS = {
    MQFMT.DEAD_LETTER_HEADER.value: _Header("DLH ", "4c l l 48c 48c l l 8c l 28c 8c 8c", 5),
    MQFMT.MD_EXTENSION.value: _Header("MDE ", "4c l l l l 8c l 24b l l l l", 3),
    MQFMT.RF_HEADER_2.value: _Header("RFH ", "4c l l l l 8c l l", 3, _folders),
    MQFMT.TRIGGER.value: _Header("TM  ", "4c l 48c 48c 64c l 256c 128c 128c"),
    MQFMT.XMIT_Q_HEADER.value: _Header(
        "XQH ",
        "4c l 48c 48c 4c l l l l l l l 8c l l 24b 24b l 48c 48c 12c 32b 32c l 28c 8c 8c 4c",
        10,
    ),
}
