"""Conversion of message data to the getter's character set and encoding (MQGMO_CONVERT, semantics 5.8).

Text (MQSTR) is converted as a whole, PCF by `broker.core.message.conversion.pcf`. Of data that begins with MQ headers
each header is: its characters, its integers, and what it says about the data behind it, down the chain to the text, to
PCF or, unconverted, to bytes of no format. A character that the target does not have becomes a question mark, or what
stands for it there.

All or nothing: data of which any part cannot be converted stays as it is, and the reason is a warning. This module
knows neither descriptors nor buffers.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from broker.core.message.conversion import coding, pcf
from broker.core.message.conversion.coding import SOURCE, TARGET, Coding, order_of, page_of
from broker.mqi.constants.descriptor import MQCCSI, MQFMT
from broker.mqi.constants.options import MQPMRF
from broker.mqi.errors import MQError
from broker.mqi.layouts import rfh2
from broker.mqi.layouts.code_pages import code_page
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Converted(NamedTuple):
    """Data after a conversion, or as it was, with the reason: FORMAT_ERROR (2110), SOURCE_CCSID_ERROR (2111),
    SOURCE_INTEGER_ENC_ERROR (2112), TARGET_CCSID_ERROR (2115), TARGET_INTEGER_ENC_ERROR (2116), NOT_CONVERTED (2119).
    """

    data: bytes
    coding: Coding
    reason: int = 0


_STRING = MQFMT.STRING.value
_NONE = MQFMT.NONE.value
_PCF = frozenset((MQFMT.ADMIN.value, MQFMT.EVENT.value, MQFMT.PCF.value))
_INHERITED = (MQCCSI.INHERIT.value, MQCCSI.Q_MGR.value)
_LONG_SIZE = 4


def convert(data: bytes, format: str, source: Coding, target: Coding, *, chain: bool = False) -> Converted:
    """Convert `data` of this format. No conversion is made, and none is wanting, where the codings are the same; with
    `chain` the data behind a header in the right coding is converted all the same.
    """
    if source == target and (not chain or code_page(source.ccsid) is None):
        return Converted(data, source)
    try:
        return Converted(_chain(data, format, source, target), target)
    except MQError as error:
        return Converted(data, source, int(error.reason))


def _chain(data: bytes, format: str, source: Coding, target: Coding) -> bytes:
    """The headers at the front of `data` and what follows them. A loop: a chain may be as long as the data."""
    pieces: list[bytes] = []
    start = 0
    while format in _HEADERS:
        header, fields, end = _found(format, data, start, source)
        format = _NONE
        behind = source
        if header.describes is not None:
            format, behind = _described(fields, header.describes, source, nothing=end == len(data))
            _state(fields, header.describes, format, behind, source, target)
        pieces.append(header.structs[order_of(target, TARGET)].pack(*_recoded(header, fields, source, target)))
        if header.tail is not None:
            pieces.append(header.tail(fields, data[start + header.size : end], source, target))
        start, source = end, behind
    if start and source == target:
        pieces.append(data[start:])
    elif format == _STRING:
        pieces.append(coding.text(data[start:], source, target))
    elif format in _PCF:
        pieces.append(pcf.converted(data, start, source, target))
    elif format == _NONE and pieces:
        pieces.append(data[start:])
    else:
        raise MQError(MQRC.FORMAT_ERROR, f"data of format {format!r} cannot be converted")
    return b"".join(pieces)


# Headers


class _HeaderLayout:
    """The layout of a header: `4c` are four characters, `24b` bytes that are kept as they are, `l` is an integer.

    The first field is `tag` and the second `version`. `describes` is the place of the Encoding of the data behind it,
    which CodedCharSetId and Format follow; None where the header is all there is. A header with a `tail` says itself
    how long it is, in its third field; what is behind the fixed part is converted by it.
    """

    def __init__(
        self,
        tag: str,
        version: int | str,
        layout: str,
        describes: int | None = None,
        tail: Callable[[Sequence[int | bytes], bytes, Coding, Coding], bytes] | None = None,
    ) -> None:
        self.tag = tag
        self.version = version
        self.describes = describes
        self.tail = tail
        self.kinds = [part[-1] for part in layout.split()]
        codes = "".join("i" if part == "l" else f"{part[:-1]}s" for part in layout.split())
        self.structs = {order: struct.Struct(order + codes) for order in "<>"}
        self.size = self.structs["<"].size


def _found(format: str, data: bytes, start: int, source: Coding) -> tuple[_HeaderLayout, list[int | bytes], int]:
    """The header at `start`, its fields, and where it ends."""
    order, page = order_of(source, SOURCE), page_of(source, SOURCE)
    for header in _HEADERS[format]:
        if start + header.size > len(data):
            continue
        fields: list[int | bytes] = list(header.structs[order].unpack_from(data, start))
        version = page.encode(header.version) if isinstance(header.version, str) else header.version
        if fields[0] != page.encode(header.tag) or fields[1] != version:
            continue
        length = fields[2] if header.tail is not None else header.size
        if not isinstance(length, int) or length < header.size or start + length > len(data):
            raise _bad(f"a header {header.tag} has the length {length!r}")
        return header, fields, start + length
    raise _bad(f"{data[start : start + 8]!r}, of {len(data) - start} bytes, begin no header of format {format}")


def _described(fields: list[int | bytes], place: int, source: Coding, *, nothing: bool) -> tuple[str, Coding]:
    """Format and coding of the data behind a header, if there is any."""
    encoding, ccsid, format = fields[place : place + 3]
    assert isinstance(encoding, int)
    assert isinstance(ccsid, int)
    assert isinstance(format, bytes)
    behind = Coding(source.ccsid if ccsid in _INHERITED else ccsid, encoding)
    try:
        name = page_of(source, SOURCE).decode(format).rstrip(" \0")
    except UnicodeDecodeError as error:
        raise _bad(f"the format {format!r} behind a header is not in character set {source.ccsid}") from error
    return _NONE if nothing else name, behind


def _state(fields: list[int | bytes], place: int, format: str, behind: Coding, source: Coding, target: Coding) -> None:
    """Let a header say how the data behind it will be coded: bytes of no format stay what they are."""
    now = behind if format == _NONE else target
    fields[place] = now.encoding
    if fields[place + 1] not in _INHERITED or source.ccsid != target.ccsid:
        fields[place + 1] = now.ccsid


def _recoded(header: _HeaderLayout, fields: list[int | bytes], source: Coding, target: Coding) -> list[int | bytes]:
    """The fields with their characters in the target's character set, padded with its blanks."""
    return [
        coding.field(field, source, target) if kind == "c" and isinstance(field, bytes) else field
        for kind, field in zip(header.kinds, fields, strict=True)
    ]


def _folders(fields: Sequence[int | bytes], tail: bytes, source: Coding, target: Coding) -> bytes:
    """The folders of an MQRFH2: their lengths are integers, their texts are in a character set of their own."""
    reading, writing = (
        struct.Struct(order_of(source, SOURCE) + "i"), struct.Struct(order_of(target, TARGET) + "i"),
    )  # fmt: skip
    swaps = fields[-1] in rfh2.UTF_16 and reading.format != writing.format
    pieces = []
    start = 0
    while start < len(tail):
        length = reading.unpack_from(tail, start)[0] if start + _LONG_SIZE <= len(tail) else -1
        behind = start + _LONG_SIZE + length
        if length < 0 or behind > len(tail) or (swaps and length % 2):
            raise _bad("a folder of an MQRFH2 reaches beyond it, or ends in the middle of a character")
        name_values = tail[start + _LONG_SIZE : behind]
        pieces += [writing.pack(length), _swapped(name_values) if swaps else name_values]
        start = behind
    return b"".join(pieces)


def _swapped(characters: bytes) -> bytes:
    """Characters of two bytes in the other byte order."""
    swapped = bytearray(len(characters))
    swapped[::2], swapped[1::2] = characters[1::2], characters[::2]
    return bytes(swapped)


_NAME_SIZE = 48
_ID_SIZE = 24
_ACCOUNTING_TOKEN_SIZE = 32
_RECORD_FIELDS = (
    (MQPMRF.MSG_ID.value, _ID_SIZE),
    (MQPMRF.CORREL_ID.value, _ID_SIZE),
    (MQPMRF.GROUP_ID.value, _ID_SIZE),
    (MQPMRF.FEEDBACK.value, _LONG_SIZE),
    (MQPMRF.ACCOUNTING_TOKEN.value, _ACCOUNTING_TOKEN_SIZE),
)
_FEEDBACK = MQPMRF.FEEDBACK.value


def _records(fields: Sequence[int | bytes], tail: bytes, source: Coding, target: Coding) -> bytes:
    """The records of an MQDH: names of queues, and what of the descriptor differs from one to the other."""
    numbers = [field for field in fields[-4:] if isinstance(field, int)]
    which, count, objects_at, messages_at = numbers
    if which & ~sum(flag for flag, _ in _RECORD_FIELDS) or count < 0:
        raise _bad(f"an MQDH has {count} records with the fields {which:#x}")
    changed = bytearray(tail)
    for start in _places(objects_at, count, 2 * _NAME_SIZE, len(tail), _DIST_HEADER_SIZE):
        for begin in (start, start + _NAME_SIZE):
            changed[begin : begin + _NAME_SIZE] = coding.field(tail[begin : begin + _NAME_SIZE], source, target)
    size = sum(each for flag, each in _RECORD_FIELDS if which & flag)
    feedback_at = sum(each for flag, each in _RECORD_FIELDS if which & flag and flag < _FEEDBACK)
    starts = _places(messages_at, count, size, len(tail), _DIST_HEADER_SIZE)
    if which & _FEEDBACK:
        for start in starts:
            begin = start + feedback_at
            changed[begin : begin + _LONG_SIZE] = coding.integers(tail[begin : begin + _LONG_SIZE], "i", source, target)
    return bytes(changed)


def _places(offset: int, count: int, size: int, length: int, before: int) -> range:
    """Return the offsets of records of this size in the `length` bytes behind a fixed part of `before`. `offset` counts
    from the start of that; 0 says that there are none.
    """
    if not offset or not count or not size:
        return range(0)
    start = offset - before
    if start < 0 or start + count * size > length:
        raise _bad(f"{count} records of {size} bytes at {offset} reach beyond their header")
    return range(start, start + count * size, size)


def _names(fields: Sequence[int | bytes], tail: bytes, source: Coding, target: Coding) -> bytes:
    """The texts of an MQRMH: environment and name of the source and of the destination."""
    numbers = [field for field in fields[-11:-3] if isinstance(field, int)]
    changed = bytearray(tail)
    for length, offset in zip(numbers[::2], numbers[1::2], strict=True):
        if length < 0:
            raise _bad(f"a text of an MQRMH has the length {length}")
        for start in _places(offset, 1, length, len(tail), _REF_MSG_HEADER_SIZE):
            changed[start : start + length] = coding.field(tail[start : start + length], source, target)
    return bytes(changed)


def _bad(why: str) -> MQError:
    return MQError(MQRC.FORMAT_ERROR, why)


_DIST_HEADER = _HeaderLayout("DH  ", 1, "4c l l l l 8c l l l l l", 3, _records)
_DIST_HEADER_SIZE = _DIST_HEADER.size
_REF_MSG_HEADER = _HeaderLayout("RMH ", 1, "4c l l l l 8c l 8c 24b l l l l l l l l l l l", 3, _names)
_REF_MSG_HEADER_SIZE = _REF_MSG_HEADER.size
_HEADERS = {
    MQFMT.DEAD_LETTER_HEADER.value: (_HeaderLayout("DLH ", 1, "4c l l 48c 48c l l 8c l 28c 8c 8c", 5),),
    MQFMT.DIST_HEADER.value: (_DIST_HEADER,),
    MQFMT.MD_EXTENSION.value: (_HeaderLayout("MDE ", 2, "4c l l l l 8c l 24b l l l l", 3),),
    MQFMT.REF_MSG_HEADER.value: (_REF_MSG_HEADER,),
    MQFMT.RF_HEADER_2.value: (_HeaderLayout("RFH ", 2, "4c l l l l 8c l l", 3, _folders),),
    MQFMT.TRIGGER.value: (
        _HeaderLayout("TM  ", 1, "4c l 48c 48c 64c l 256c 128c 128c"),
        _HeaderLayout("TMC ", "   2", "4c 4c 48c 48c 64c 4c 256c 128c 128c 48c"),
        _HeaderLayout("TMC ", "   1", "4c 4c 48c 48c 64c 4c 256c 128c 128c"),
    ),
    MQFMT.XMIT_Q_HEADER.value: (
        _HeaderLayout(
            "XQH ",
            1,
            "4c l 48c 48c 4c l l l l l l l 8c l l 24b 24b l 48c 48c 12c 32b 32c l 28c 8c 8c 4c",
            10,
        ),
    ),
}
"""The layouts of each format; of several the first whose tag and version are there."""
