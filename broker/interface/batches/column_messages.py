"""From columns to messages as programs have them."""

from __future__ import annotations

from itertools import pairwise, repeat
from typing import TYPE_CHECKING

from broker.interface.answers import GetAnswer
from broker.interface.batches.columns import (
    LEAST_PRIORITY,
    Columns,
    identifiers_in,
    integers,
    parts_of,
    spread,
    unsigned,
    values_in,
)
from broker.interface.message import Message
from broker.mqi.structures import NO_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ColumnMessage(Message):
    """A message read by its place among others: claimed by a consumer, or browsed by arrival number.

    `q_name` is its queue. `sequence` is that of the claim, `position` the arrival number; 0 where it has none.
    """

    __slots__ = ("position", "q_name", "sequence")

    def __init__(self, delivery: GetAnswer, q_name: str, sequence: int, position: int) -> None:
        super().__init__(delivery)
        self.q_name = q_name
        self.sequence = sequence
        self.position = position

    @property
    def resolved_q_name(self) -> str:
        """The local queue that it is on."""
        return self.q_name


def messages(columns: Columns) -> Iterator[ColumnMessage]:
    """The messages of a frame, in order. Their properties are in the mapping, whatever PROPCTL says, and the data is as
    it was put. None has a token.
    """
    sequences: Iterable[int] = repeat(0)
    if columns.first:
        sequences = range(columns.first, columns.first + columns.messages)
    positions = repeat(0) if columns.keys is None else integers(columns.keys, "q")
    q_names = spread(columns.q_names, columns.queues, "h")
    places = zip(q_names, sequences, positions, strict=False)
    for delivery, (q_name, sequence, position) in zip(_deliveries(columns), places, strict=False):
        yield ColumnMessage(delivery, q_name, sequence, position)


def _deliveries(columns: Columns) -> Iterator[GetAnswer]:
    """The messages as gets would give them, but for their tokens."""
    bodies = parts_of(columns.bodies, columns.body_offsets)
    properties: Iterable[bytes] = repeat(b"")
    if columns.property_offsets is not None:
        properties = parts_of(columns.properties, columns.property_offsets)
    rows = zip(
        spread(columns.descriptors, columns.descriptor_of, "i"),
        identifiers_in(columns.msg_ids),
        identifiers_in(columns.correl_ids),
        identifiers_in(columns.group_ids),
        values_in(columns.msg_seq_numbers, 1),
        values_in(columns.offsets, 0),
        unsigned(columns.msg_flags, 0),
        values_in(columns.original_lengths, -1),
        unsigned(columns.priorities, LEAST_PRIORITY),
        integers(columns.persistences, "b"),
        values_in(columns.expiries, -1),
        values_in(columns.backout_counts, 0),
        repeat(NO_TOKEN),
        bodies,
        (end - start for start, end in pairwise(integers(columns.body_offsets))),
        repeat(0),
        properties,
        repeat(0.0),
        strict=False,
    )
    return map(GetAnswer._make, rows)
