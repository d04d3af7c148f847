"""The messages of a frame of columns, as the core stages them."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from broker.interface.batches.columns import (
    identifiers_in,
    integers,
    parts_of,
    spread,
    unpack,
    unsigned,
    values_in,
)
from broker.mqi import checks

if TYPE_CHECKING:
    from broker.core.prepared.staging import StagedRow


def staged_rows(frame: bytes) -> list[StagedRow]:
    """The messages of a frame. Raises BUFFER_ERROR (2004), OBJECT_NAME_ERROR (2152)."""
    columns = unpack(frame)
    q_names = [checks.name(name) for name in columns.q_names]
    return list(
        zip(
            spread(q_names, columns.queues, "h"),
            spread(columns.descriptors, columns.descriptor_of, "i"),
            integers(columns.priorities),
            integers(columns.persistences, "b"),
            values_in(columns.expiries, -1),
            identifiers_in(columns.msg_ids),
            identifiers_in(columns.correl_ids),
            identifiers_in(columns.group_ids),
            values_in(columns.msg_seq_numbers, 1),
            values_in(columns.offsets, 0),
            unsigned(columns.msg_flags, 0),
            values_in(columns.original_lengths, -1),
            repeat(b"") if columns.property_offsets is None else parts_of(columns.properties, columns.property_offsets),
            parts_of(columns.bodies, columns.body_offsets),
            strict=False,
        )
    )
