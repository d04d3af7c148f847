"""What a getter receives: the descriptor and the data of a message, put together from its segments where it has
several.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgpack

from broker.core import extension
from broker.core.logical import LAST_SEGMENT, SEGMENT, Item
from broker.interface.port import Delivery
from broker.mqi.packing import KEPT_FIELDS
from broker.mqi.structures import NO_ID, NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.entry import Entry

_ENCODING = KEPT_FIELDS.index("encoding")
_CCSID = KEPT_FIELDS.index("coded_char_set_id")
_FORMAT = KEPT_FIELDS.index("format")
_UNGROUPED = Item(NO_ID, 1, 0)

NOTHING = Delivery(b"", NO_ID, NO_ID, NO_ID, 1, 0, 0, -1, 0, 0, -1, 0, NO_TOKEN, b"", 0, 0)
"""The answer to a get that gives no message: UNLOCK."""


def delivery(entries: Sequence[Entry], reason: int, max_length: int | None, version: int, now: float) -> Delivery:
    """The answer to a get. All bodies are in memory. `version` is that of the getter's descriptor."""
    first = entries[0]
    data = first.data or b"" if len(entries) == 1 else b"".join(entry.data or b"" for entry in entries)
    kept, item, flags, original_length = first.kept, first.item, first.msg_flags, first.original_length
    if len(entries) > 1:
        flags |= SEGMENT | LAST_SEGMENT
    if version == 1 and (item != _UNGROUPED or flags or original_length != -1):
        fields = list(msgpack.unpackb(kept))
        encoding, ccsid, format = fields[_ENCODING], fields[_CCSID], fields[_FORMAT]
        data = extension.extension(item, flags, original_length, encoding, ccsid, format) + data
        fields[_FORMAT] = extension.FORMAT
        kept = msgpack.packb(fields)
        item, flags, original_length = _UNGROUPED, 0, -1
    return Delivery(
        kept,
        first.msg_id,
        first.correl_id,
        *item,
        flags,
        original_length,
        first.priority,
        first.persistence,
        _expiry(first, now),
        first.backout_count,
        first.token,
        data if max_length is None or len(data) <= max_length else data[:max_length],
        len(data),
        reason,
    )


def _expiry(entry: Entry, now: float) -> int:
    """What is left of its life in tenths of a second, rounded up; -1 for ever."""
    if entry.deadline is None:
        return -1
    return max(1, -int(-(entry.deadline - now) * 10 // 1))
