"""A message as a getter receives it: put together from its segments, with an MQMDE where its descriptor is too old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message.headers import mqmde
from broker.core.message.logical_order import LAST_SEGMENT, SEGMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.message.entry import Entry


def flags_of(entries: Sequence[Entry]) -> int:
    """MsgFlags: those of the first segment. Several segments up to the last are the only segment of their message."""
    flags = entries[0].msg_flags
    if len(entries) > 1:
        flags |= SEGMENT | entries[-1].msg_flags & LAST_SEGMENT
    return flags


def length_of(entries: Sequence[Entry], *, with_mqmde: bool) -> int:
    """Return the number of bytes that the getter receives; `with_mqmde`: its descriptor is of version 1."""
    first = entries[0]
    length = first.length if len(entries) == 1 else sum(entry.span for entry in entries)
    return length + mqmde.LENGTH if with_mqmde and needs_mqmde(entries) else length


def data_of(entries: Sequence[Entry]) -> bytes:
    """The data, of bodies that are in memory. What a short report leaves out of its segment is zeros."""
    if len(entries) == 1:
        return entries[0].data or b""
    return b"".join((entry.data or b"").ljust(entry.span, b"\0") for entry in entries)


def needs_mqmde(entries: Sequence[Entry]) -> bool:
    """True if a version 1 descriptor cannot describe the message."""
    first = entries[0]
    return mqmde.needed(first.item, flags_of(entries), first.original_length)
