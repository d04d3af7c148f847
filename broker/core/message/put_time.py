"""The time of a message's put, by PutDate and PutTime in its descriptor."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import msgpack

from broker.mqi.layouts.packing import PACKED_FIELDS

_PUT_DATE = PACKED_FIELDS.index("put_date")
_PUT_TIME = PACKED_FIELDS.index("put_time")


@lru_cache(maxsize=1024)  # messages that were put within a hundredth of a second share it
def put_at(packed_md: bytes) -> float:
    """Return the time of the put in seconds since 1970; 0 where the putter set a context that has none."""
    fields = msgpack.unpackb(packed_md)
    text = fields[_PUT_DATE] + fields[_PUT_TIME]
    if len(text) != 16 or not text.isdecimal():
        return 0.0
    try:
        return datetime.fromisoformat(f"{text[:8]}T{text[8:14]}.{text[14:]}Z").timestamp()
    except ValueError:
        return 0.0
