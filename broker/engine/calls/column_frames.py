"""Messages of the core as frames of columns (`broker.interface.batches.columns`): what answers the reading of claims,
and the browsing of a queue by arrival number.

One pass a column, and no column where all messages have the default. A frame of 1,024 messages of 2 KiB takes
some 1 ms; the bodies are copied once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from broker.core.message.entry import ID_MASK, Entry
from broker.core.message.headers.properties import in_mapping
from broker.interface.batches.columns import Columns, Fill, identifiers, offsets_of, pack, packed, unless_default

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

V = TypeVar("V")


def fitting(entries: Iterable[Entry], longest: int) -> list[Entry]:
    """Return the messages, from the first, that go into one frame of at most `longest` bytes; the first one goes,
    however long it is.
    """
    seen: list[Entry] = []

    def sizes() -> Iterator[tuple[int, int]]:
        for entry in entries:
            seen.append(entry)
            yield entry.length, len(entry.packed_md) + len(entry.properties)

    return seen[: Fill(longest).take(sizes())]


def frame(entries: Sequence[Entry], now: float, first: int = 0, *, keys: bool = False) -> bytes:
    """The frame of these messages, whose bodies are in memory, at `now` (wall-clock seconds). `first` is the sequence
    of the first, `keys` asks for their arrival numbers.
    """
    descriptors, descriptor_of = _shared([entry.packed_md for entry in entries], "i")
    on_queues, queues = _shared([entry.queue for entry in entries], "h")
    bodies = [entry.data or b"" for entry in entries]
    assert sum(map(len, bodies)) == sum([entry.length for entry in entries])  # else some are only on disk
    special = any(type(entry) is not Entry for entry in entries)
    columns = Columns(
        messages=len(entries),
        first=first,
        keys=packed([entry.key & ID_MASK for entry in entries], "q") if keys else None,
        msg_ids=b"".join(_msg_ids(entries)) or None,
        correl_ids=identifiers([entry.correl_id for entry in entries]),
        group_ids=identifiers([entry.group_id for entry in entries]) if special else None,
        msg_seq_numbers=unless_default([entry.msg_seq_number for entry in entries], 1) if special else None,
        offsets=unless_default([entry.offset for entry in entries], 0) if special else None,
        msg_flags=unless_default([entry.msg_flags for entry in entries], 0) if special else None,
        original_lengths=unless_default([entry.original_length for entry in entries], -1) if special else None,
        backout_counts=unless_default([entry.backout_count for entry in entries], 0),
        expiries=unless_default([entry.expiry_left(now) for entry in entries], -1) if special else None,
        priorities=packed([entry.priority for entry in entries]),
        persistences=bytes([entry.persistence for entry in entries]),
        q_names=[queue.name for queue in on_queues],
        queues=queues,
        descriptors=descriptors,
        descriptor_of=descriptor_of,
        property_offsets=None,
        properties=b"",
        body_offsets=offsets_of(bodies),
        bodies=b"",
    )
    if special and any(entry.properties for entry in entries):
        properties = [in_mapping(entry.properties, 0) for entry in entries]
        columns = columns._replace(property_offsets=offsets_of(properties), properties=b"".join(properties))
    return pack(columns, bodies)


def _msg_ids(entries: Sequence[Entry]) -> list[bytes]:
    return [entry.given_msg_id or entry.queue.ids.identifier(entry.key & ID_MASK) for entry in entries]


def _shared(values: list[V], kind: str) -> tuple[list[V], bytes | None]:
    """The different ones among the values, and the column that says which of them each message has."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return list(places), packed([places[value] for value in values], kind) if len(places) > 1 else None
