"""From msgpack to Python: what bytes of a line may become.

What a queue manager reads of a client is bounded a second time, after its length. What is long in a frame is bytes or a
text; all else in it is at most 64 KiB of msgpack. So a frame of many empty lists cannot become a hundred times its size
as objects.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgpack

if TYPE_CHECKING:
    from collections.abc import Callable

Payload: TypeAlias = "bytes | bytearray | memoryview"

PARTS_BYTES_MAX: Final = 64 * 1024
_ARRAY_MAX: Final = 1024
_FIRST_LOOK: Final = 64  # bytes at an item; there may be very many items, and most are a number or nil
_WIDTHS: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""By the first byte of bin and str, but for the shortest: how many bytes their length takes."""

_ITEMS_MAX: Final = 1_000_000


def _refuse_extension(code: int, data: bytes) -> object:
    raise ValueError(f"extension type {code} is not used here")


def _unpacker(items_max: int) -> Callable[[Payload], Any]:
    """Return a function that unpacks the one value in some bytes; it raises ValueError, TypeError or UnpackException
    for anything else.
    """
    return partial(
        msgpack.unpackb,
        raw=False,
        strict_map_key=True,
        ext_hook=_refuse_extension,
        max_ext_len=0,
        max_array_len=items_max,
        max_map_len=items_max,
    )


unpack: Final = _unpacker(_ITEMS_MAX)
"""Return the one value in these bytes, from an end that is trusted."""

unpack_short: Final = _unpacker(_ARRAY_MAX)
"""Return the one value in at most `PARTS_BYTES_MAX` bytes, from an end that nobody has reason to trust."""


def unpack_careful(payload: Payload) -> Any:
    """Return the one value in these bytes, however many they are, from an end that nobody has reason to trust."""
    if len(payload) > PARTS_BYTES_MAX:
        _check_parts(payload)
    return unpack_short(payload)


def _check_parts(payload: Payload) -> None:
    """Check what stands at the head of this file, without making an object or a copy of anything long."""
    count, position = _array_header(payload)
    left = PARTS_BYTES_MAX
    for _ in range(count):
        if position >= len(payload):
            raise ValueError("it is incomplete")
        width = _WIDTHS.get(payload[position])
        if width is not None:
            length = int.from_bytes(payload[position + 1 : position + 1 + width], "big")
            position += 1 + width + length
            continue
        length = _length(payload, position, left)
        position += length
        left -= length


def _length(payload: Payload, position: int, most: int) -> int:
    """Return the number of bytes of the item that begins here; raises ValueError when there are more than `most`."""
    looked_at = min(_FIRST_LOOK, most)
    while True:
        unpacker = msgpack.Unpacker()
        unpacker.feed(payload[position : position + looked_at])
        try:
            unpacker.skip()
        except msgpack.OutOfData:
            if looked_at == most:
                raise ValueError(f"more than {PARTS_BYTES_MAX} bytes of it are neither a message nor a text") from None
            looked_at = min(8 * looked_at, most)
        else:
            length: int = unpacker.tell()
            return length


def _array_header(payload: Payload) -> tuple[int, int]:
    """Return the number of items of the array, and where the first one begins."""
    kind = payload[0]
    if kind & 0xF0 == 0x90:
        return kind & 0x0F, 1
    count = int.from_bytes(payload[1:3], "big")
    if kind != 0xDC or count > _ARRAY_MAX:  # the longest form is for more items than a frame may have
        raise ValueError(f"it is no array of at most {_ARRAY_MAX} items")
    return count, 3
