"""The layout of a structure's fields in bytes: integers in either byte order, characters padded with blanks.

This module knows the arithmetic only; the structures are in `broker.mqi.layouts.layouts`. Characters are UTF-8, which
for MQ's names and dates is ASCII.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

ByteOrder = Literal["little", "big"]

LONG: Final = 0
"""The kind of a field that is a signed integer of four bytes; another kind is the size of a field of characters, or
minus the size of a field of plain bytes.
"""


class Fields:
    """The fields of one structure, in order, after the identifier and the version that every structure begins with.

    A version given as characters is the mark of a structure that holds characters only.
    """

    def __init__(self, name: str, struc_id: str, version: int | str, **fields: int) -> None:
        self.name = name
        self._marks = (struc_id, version)
        self._kinds = {"struc_id": 4, "version": 4 if isinstance(version, str) else LONG} | fields
        codes = "".join("i" if kind == LONG else f"{abs(kind)}s" for kind in self._kinds.values())
        self._structs = {"little": Struct(f"<{codes}"), "big": Struct(f">{codes}")}
        self.size = self._structs["little"].size

    def pack(self, values: Iterable[int | str | bytes], byteorder: ByteOrder = "little") -> bytes:
        """The bytes of the structure; `ValueError` where an integer needs more than four."""
        pairs = zip(self._kinds.items(), (*self._marks, *values), strict=True)
        return self._structs[byteorder].pack(*(self._encode(field, kind, value) for (field, kind), value in pairs))

    def unpack(self, data: bytes, byteorder: ByteOrder = "little") -> tuple[Any, ...]:
        """The values of the fields at the head of `data`; `ValueError` where this structure is not there."""
        if len(data) < self.size:
            raise ValueError(f"{self.name} has {self.size} bytes, not {len(data)}")
        raw = self._structs[byteorder].unpack_from(data)
        kinds = self._kinds.items()
        struc_id, version, *values = (self._decode(*kind, value) for kind, value in zip(kinds, raw, strict=True))
        if (struc_id, version) != self._marks:
            raise ValueError(f"{self.name} begins with {self._marks}, not with {(struc_id, version)}")
        return tuple(values)

    def _encode(self, field: str, kind: int, value: Any) -> int | bytes:
        if kind > LONG:
            return encode_characters(value, kind)
        if kind < LONG:
            return bytes(value)
        if not -(2**31) <= value < 2**32:
            raise ValueError(f"{self.name} {field} is {value}, which does not fit into four bytes")
        return signed(value)

    def _decode(self, field: str, kind: int, value: int | bytes) -> int | str | bytes:
        if isinstance(value, int) or kind < LONG:
            return value
        try:
            return decode_characters(value)
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.name} {field} is not UTF-8") from error


def signed(value: int) -> int:
    """An integer of 32 bits, which may have been given without a sign, as a structure holds it."""
    return (value + 2**31) % 2**32 - 2**31


def encode_characters(text: str, size: int) -> bytes:
    """The text as exactly `size` bytes: cut between two characters, or padded with blanks."""
    data = text.encode()
    if len(data) > size:
        data = data[:size].decode(errors="ignore").encode()
    return data.ljust(size)


def decode_characters(data: bytes) -> str:
    """The text of a field of characters, without the blanks and NULs that pad it."""
    return data.rstrip(b" \0").decode()
