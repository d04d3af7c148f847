"""The seed of all checks of a store, found again when its manifest is gone.

Each check is a CRC-32 that begins with the CRC-32 of the store's secret key. A CRC can be run backwards: bytes and
their check tell where it began. That needs the files; a program that only sends messages learns nothing by it. A seed
counts when two places of the store, apart from each other, come to the same.
"""

from __future__ import annotations

import secrets
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

_POLYNOMIAL: Final = 0xEDB88320
_ONES: Final = 0xFFFFFFFF


def seed_of(data: bytes, check: int) -> int:
    """The seed with which the check of `data` is `check`."""
    table, backwards = _tables()
    crc = check ^ _ONES
    for byte in reversed(data):
        index = backwards[crc >> 24]
        crc = ((crc ^ table[index]) << 8 & _ONES) | index ^ byte
    return crc ^ _ONES


def agreed(seeds: Iterable[int]) -> int | None:
    """The seed that most places come to, at least two of them."""
    found = Counter(seeds).most_common(1)
    return found[0][0] if found and found[0][1] > 1 else None


def key_of(seed: int) -> bytes:
    """A new secret key with the CRC-32 `seed`: 12 random bytes, and four that lead there."""
    table, backwards = _tables()
    random = secrets.token_bytes(12)
    crc = seed ^ _ONES
    for _ in range(4):
        index = backwards[crc >> 24]
        crc = (crc ^ table[index]) << 8 & _ONES | index
    key = random + (crc ^ crc32(random) ^ _ONES).to_bytes(4, "little")
    assert crc32(key) == seed
    return key


@cache
def _tables() -> tuple[list[int], list[int]]:
    """Return the change that each byte makes to a CRC, and the byte by the highest byte of its change."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    backwards = [0] * 256
    for byte, entry in enumerate(table):
        backwards[entry >> 24] = byte
    return table, backwards
