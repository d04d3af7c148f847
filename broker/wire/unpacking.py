"""From msgpack to Python: what bytes of a line may become.

What a queue manager reads of a client is bounded a second time, after its length. What is long in a frame is bytes or a
text; all else in it is at most 64 KiB of msgpack. So a frame of many empty lists cannot become a hundred times its size
as objects.
"""

from __future__ import annotations

from typing import Any, Final

import msgpack

_PARTS_BYTES_MAX: Final = 64 * 1024
_BYTES_AND_TEXTS: Final = frozenset({0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB})  # bin and str, but for the shortest
_ITEMS_MAX: Final = 1_000_000


def unpack(payload: bytes | bytearray) -> Any:
    """The one value in these bytes. Raises ValueError, TypeError or UnpackException for anything else."""
    return msgpack.unpackb(
        payload,
        raw=False,
        strict_map_key=True,
        ext_hook=_refuse_extension,
        max_ext_len=0,
        max_array_len=_ITEMS_MAX,
        max_map_len=_ITEMS_MAX,
    )


def unpack_careful(payload: bytes | bytearray) -> Any:
    """As `unpack`, from an end that nobody has reason to trust."""
    if len(payload) > _PARTS_BYTES_MAX:
        _check_parts(payload)
    return msgpack.unpackb(
        payload,
        raw=False,
        strict_map_key=True,
        ext_hook=_refuse_extension,
        max_ext_len=0,
        max_array_len=1024,
        max_map_len=1024,
    )


def _check_parts(payload: bytes | bytearray) -> None:
    """Check what stands at the head of this file, without making an object of anything."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(payload))
    unpacker.feed(payload)
    parts = 0
    for _ in range(unpacker.read_array_header()):
        start = unpacker.tell()
        unpacker.skip()
        if payload[start] not in _BYTES_AND_TEXTS:
            parts += unpacker.tell() - start
        if parts > _PARTS_BYTES_MAX:
            raise ValueError(f"more than {_PARTS_BYTES_MAX} bytes of it are neither a message nor a text")


def _refuse_extension(code: int, data: bytes) -> object:
    raise ValueError(f"extension type {code} is not used here")
