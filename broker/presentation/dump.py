"""Data in hexadecimal digits, beside its characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROW: Final = 16


def dump(data: bytes) -> Iterator[str]:
    """Yield a line for each 16 bytes: its place, the bytes in pairs, and what of them is ASCII."""
    for at in range(0, len(data), _ROW):
        row = data[at : at + _ROW]
        digits = " ".join(row[pair : pair + 2].hex().upper() for pair in range(0, len(row), 2))
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"{at:08X}:  {digits:<39} '{characters:<16}'"
