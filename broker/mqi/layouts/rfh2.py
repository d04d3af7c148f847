"""MQRFH2: the header before the data of a message in which its properties travel (rules and formatting header 2).

    offset  0  StrucId `RFH `     8  StrucLength      16  CodedCharSetId   28  Flags
            4  Version 2         12  Encoding         20  Format           32  NameValueCCSID
           36  NameValueLength, NameValueData, and again, up to StrucLength: a folder each, padded to a multiple of four

Encoding, CodedCharSetId and Format are those of the data behind the header; the header's own integers are in the
encoding that the message descriptor names. What stands in a folder is the business of `broker.mqi.layouts.folders`.
Every field is checked before it is used: bytes that are no MQRFH2 are RFH_ERROR (2334), text that is no folder
RFH_FORMAT_ERROR (2421).
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from broker.mqi.constants.descriptor import MQENC, MQFMT, UTF_8
from broker.mqi.errors import MQError
from broker.mqi.layouts import folders as texts
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from broker.mqi.layouts.fields import ByteOrder
    from broker.mqi.layouts.folders import Value

FORMAT: Final = MQFMT.RF_HEADER_2.value
"""The format of data that begins with an MQRFH2."""

INHERIT: Final = -2
"""As CodedCharSetId: that of the header itself (MQCCSI_INHERIT)."""

FILLED_IN: Final = -3
"""As CodedCharSetId: that of the header itself, which was made of properties and is not to be given back as it is
(MQCCSI_APPL, which has no meaning in a header). Programs that write headers themselves do not use it.
"""

LENGTH_FIXED: Final = 36

FOLDERS_MAX: Final = 1000
"""The most folders in one header. MQ has no such limit; a program that comes near it means harm."""

_LONG_SIZE: Final = 4
_TAG: Final = b"RFH "
_VERSION: Final = 2
UTF_16: Final = frozenset((1200, 13488, 17584))
_FIXED: Final = {"little": Struct("<4siiii8sii"), "big": Struct(">4siiii8sii")}
_LONG: Final = {"little": Struct("<i"), "big": Struct(">i")}
_INTEGER_MASK: Final = 0xF
_REVERSED: Final = 0x2


def byte_order(encoding: int) -> ByteOrder:
    """The order of bytes in integers of this MQENC."""
    return "little" if encoding & _INTEGER_MASK == _REVERSED else "big"


@dataclass(frozen=True, slots=True)
class MQRFH2:
    """A header: what the data behind it is, and its folders as texts without padding."""

    folders: tuple[str, ...] = ()
    format: str = ""
    encoding: int = MQENC.NATIVE.value
    coded_char_set_id: int = INHERIT
    flags: int = 0

    def to_bytes(self, byteorder: ByteOrder = "little") -> bytes:
        """The header, its folders in UTF-8."""
        packed = pack(self.folders, byteorder)
        fixed = _FIXED[byteorder].pack(
            _TAG, _VERSION, LENGTH_FIXED + len(packed), as_long(self.encoding), as_long(self.coded_char_set_id),
            self.format.encode().ljust(8), as_long(self.flags), UTF_8,
        )  # fmt: skip
        return fixed + packed

    @classmethod
    def from_bytes(cls, data: bytes, byteorder: ByteOrder = "little", start: int = 0) -> tuple[Self, int]:
        """The header at `start` in `data`, and its length. Raises RFH_ERROR (2334)."""
        found = find(data, byteorder, start)
        texts = tuple(text for place in found.folders if (text := found.text(data, place)))
        return cls(texts, found.format, found.encoding, found.coded_char_set_id, found.flags), found.end - start


class Found(NamedTuple):
    """A header where it stands in data, from `start` to `end`. `folders` are the places of NameValueData, with its
    padding; the four bytes before each are its NameValueLength.
    """

    start: int
    end: int
    byteorder: ByteOrder
    codec: str
    folders: list[tuple[int, int]]
    format: str
    encoding: int
    coded_char_set_id: int
    flags: int

    def text(self, data: bytes, place: tuple[int, int]) -> str:
        """The text of a folder, without its padding. Raises RFH_ERROR (2334)."""
        begin, end = place
        try:
            return data[begin:end].decode(self.codec).rstrip(" \0")
        except UnicodeDecodeError as error:
            raise _bad(f"NameValueData is not {self.codec}: {error.reason}") from error


def find(data: bytes, byteorder: ByteOrder = "little", start: int = 0) -> Found:
    """The header at `start` in `data`; its folders' texts are not looked at. Raises RFH_ERROR (2334), also for more
    folders than `FOLDERS_MAX`.
    """
    left = len(data) - start
    if left < LENGTH_FIXED:
        raise _bad(f"{left} bytes, an MQRFH2 has {LENGTH_FIXED} or more")
    tag, version, length, encoding, ccsid, format, flags, names_ccsid = _FIXED[byteorder].unpack_from(data, start)
    if tag != _TAG or version != _VERSION:
        raise _bad(f"the data begins with {tag!r}, version {version}")
    if not LENGTH_FIXED <= length <= left or length % 4:
        raise _bad(f"StrucLength is {length}, of data of {left} bytes")
    if names_ccsid == UTF_8:
        codec = "utf-8"
    elif names_ccsid in UTF_16:
        codec = "utf-16-le" if byteorder == "little" else "utf-16-be"
    else:
        raise _bad(f"NameValueCCSID is {names_ccsid}: 1208 for UTF-8, or one of UTF-16")
    end = start + length
    places = _places(data, start + LENGTH_FIXED, end, byteorder)
    name = format.decode("ascii", "replace").rstrip(" \0")
    return Found(start, end, byteorder, codec, places, name, encoding, ccsid, flags)


def _places(data: bytes, position: int, end: int, byteorder: ByteOrder) -> list[tuple[int, int]]:
    """Return the places of NameValueData from `position` to `end`."""
    places: list[tuple[int, int]] = []
    unpack_long = _LONG[byteorder].unpack_from
    while position < end:
        if end - position < _LONG_SIZE:
            raise _bad("a NameValueLength is cut off")
        (length,) = unpack_long(data, position)
        position += _LONG_SIZE
        if not 0 <= length <= end - position or length % 4:
            raise _bad(f"NameValueLength is {length}, with {end - position} bytes left")
        if len(places) == FOLDERS_MAX:
            raise _bad(f"more than {FOLDERS_MAX} folders")
        places.append((position, position + length))
        position += length
    return places


def pack(folders: Iterable[str], byteorder: ByteOrder = "little") -> bytes:
    """Folders as they stand in a header: a length and padded UTF-8 each."""
    parts = []
    for folder in folders:
        text = folder.encode()
        text += b" " * (-len(text) % 4)
        parts += [_LONG[byteorder].pack(len(text)), text]
    return b"".join(parts)


def unpack(packed: bytes) -> list[str]:
    """The folders that `pack` packed in the byte order of a queue. Raises RFH_ERROR (2334)."""
    found = Found(0, len(packed), "little", "utf-8", _places(packed, 0, len(packed), "little"), "", 0, 0, 0)
    return [text for place in found.folders if (text := found.text(packed, place))]


def unpack_properties(packed: bytes) -> dict[str, Value]:
    """The properties that a queue keeps."""
    return texts.decode(unpack(packed))


def as_long(number: int) -> int:
    """The number in the 32 bits of an MQLONG, whose highest is its sign."""
    return (number + 2**31) % 2**32 - 2**31


def _bad(why: str) -> MQError:
    return MQError(MQRC.RFH_ERROR, why)
