"""The body of a measured message: its number, the time of its put, and padding that does not compress."""

from __future__ import annotations

import os
import struct
import time
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = struct.Struct("<QQ")
_PADDING = os.urandom(64 * 1024)

now = time.monotonic_ns
"""One clock for all processes of a machine, in nanoseconds."""


class Body(NamedTuple):
    """The contents of a body: the number of its message, from 0, and when its put began (`now`)."""

    number: int
    put: int

    @classmethod
    def of(cls, data: bytes) -> Self:
        return cls._make(_HEAD.unpack_from(data))


def body(number: int, size: int) -> bytes:
    """The body of message `number`, `size` bytes long, its put beginning now."""
    return _HEAD.pack(number, now()) + _PADDING[: size - _HEAD.size]


def bodies(count: int, size: int) -> Iterator[bytes]:
    """`count` bodies numbered from 0, each made when it is asked for."""
    return (body(number, size) for number in range(count))
