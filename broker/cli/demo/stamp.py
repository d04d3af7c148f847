"""The stamp in a message's CorrelId: which line it is, and a time. So the line itself travels as it is.

The time is, on the way in, when the line was put; on the way out, how long it waited for its handler. Both processes
are on one machine and read the same monotonic clock.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Self

_LAYOUT = struct.Struct(">8xQQ")


class Stamp(NamedTuple):
    """The number of a line, and a time in microseconds."""

    line: int
    microseconds: int

    @classmethod
    def of(cls, correl_id: bytes) -> Self:
        """The stamp in a CorrelId of 24 bytes."""
        return cls(*_LAYOUT.unpack(correl_id))

    def __bytes__(self) -> bytes:
        return _LAYOUT.pack(*self)


def microseconds(seconds: float) -> int:
    """A reading of the monotonic clock as a stamp carries it."""
    return round(seconds * 1_000_000)
