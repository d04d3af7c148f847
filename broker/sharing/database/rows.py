"""Messages as rows of the table `message`, and back."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgpack

from broker.core.message.entry import COMMON_FIELDS, ID_BITS, ID_MASK, Entry, rank_of
from broker.core.message.handling import Handling
from broker.core.message.rows import MessageRow
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.queues.shared_queue import SharedQueue

ARRIVAL: Final = "(place & ((1::bigint << 56) - 1))"
"""The arrival number of a row, without the priority."""

_STARTS_NOTHING: Final = 1 << 32  # `starts` in the schema

OF_NO_MEMBER: Final = "member = '' AND epoch = 0"
"""Of rows of `held`: they are claimed by a consumer, or in the prepared unit of a sink, `unit`."""

COLUMNS: Final = "place, persistent, msg_id, descriptor, length, body, backout_count, handling, state, deadline"
"""The columns of a row that `entry_of` reads, and two more."""

_MSG_ID: Final = attrgetter("given_msg_id")  # each that is on a shared queue has one
_FIELDS: Final = itemgetter(*COLUMNS.split(", ")[:8])


def entry_of(queue: SharedQueue, row: Any) -> Entry:
    """The entry of a row of this queue, with its body."""
    place, persistent, msg_id, descriptor, length, body, backout_count, handling = _FIELDS(row)
    fields = _unpacked(descriptor)
    if len(fields) == COMMON_FIELDS:
        entry = Entry(queue, place & ID_MASK, rank_of(place), body, length)
        entry.priority, _, correl_id, entry.packed_md = fields
        if correl_id is not None:
            entry.correl_id = correl_id
    else:
        entry = Entry.from_row(queue, MessageRow(place & ID_MASK, 0, rank_of(place), 0, descriptor, length, body))
    entry.given_msg_id = msg_id
    entry.persistence = int(persistent)
    entry.backout_count = backout_count
    if handling:
        entry.handling = Handling.unpack(handling)
    return entry


@lru_cache(maxsize=16)
def _unpacked(descriptor: bytes) -> tuple[Any, ...]:
    """The fields of a packed descriptor, which many messages have alike."""
    fields: tuple[Any, ...] = msgpack.unpackb(descriptor, use_list=False)
    return fields


def put_arguments(entries: Sequence[Entry], now: float) -> tuple[list[Any] | None, ...]:
    """The arrays that `put_messages` takes of messages, in order, but for the first two. Where all are alike an array
    has one value, or is null: most of what many messages have is alike, and arrays are dear to encode.
    """
    rows = [entry.row() for entry in entries]
    return (
        alike([row.rank for row in rows]),
        alike([bool(entry.persistence) for entry in entries]),
        [entry.msg_id for entry in entries],
        _optional([None if entry.correl_id == NO_ID else entry.correl_id for entry in entries]),
        _optional([None if entry.group_id == NO_ID else entry.group_id for entry in entries]),
        alike([entry.msg_seq_number for entry in entries]),
        alike([entry.offset for entry in entries]),
        alike([entry.msg_flags if entry.triggers else entry.msg_flags | _STARTS_NOTHING for entry in entries]),
        _optional([entry.deadline for entry in entries]),
        alike([_instant(entry, now) for entry in entries]),
        _optional([row.handling or None for row in rows]),
        alike([row.descriptor for row in rows]),
        alike([row.length for row in rows]),
        [row.data for row in rows],
    )


def plain_arguments(entries: Sequence[Entry]) -> tuple[Any, ...] | None:
    """The arguments of `put_alike` for messages, in order; None where they are on several queues, differ in more than
    their identifiers and data, or have what most have not.
    """
    first = entries[0]
    queue, shelf, persistence, packed_md = first.queue, first.key >> ID_BITS, first.persistence, first.packed_md
    same = True
    for entry in entries:
        if (
            type(entry) is not Entry
            or entry.queue is not queue
            or entry.handling is not None
            or entry.correl_id != NO_ID
            or entry.key >> ID_BITS != shelf
            or entry.persistence != persistence
        ):
            return None
        same = same and entry.packed_md is packed_md and entry.priority == first.priority
    return (
        rank_of(first.key),
        bool(persistence),
        b"".join(map(_MSG_ID, entries)),
        [first.packed_descriptor()] if same else alike([entry.packed_descriptor() for entry in entries]),
        [entry.data for entry in entries],
    )


def alike(values: list[Any]) -> list[Any]:
    """These values, or the one that all of them are."""
    return values[:1] if values.count(values[0]) == len(values) else values


def _optional(values: list[Any]) -> list[Any] | None:
    return None if values.count(None) == len(values) else values


def _instant(entry: Entry, now: float) -> float:
    """Return the instant of availability by the database's clock; below 0: in so many seconds."""
    if entry.handling is None:
        return 0.0
    extras = None if entry.unit is None else entry.unit.extras
    if extras is None or extras.delayed.get(entry) is None:
        return entry.handling.not_before
    return min(now - entry.handling.not_before, 0.0)
