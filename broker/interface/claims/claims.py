"""Arguments and answers of the calls about claims and prepared units (`docs/rules/claims.md`).

A consumer is an object of the queue manager that claims messages durably, outside any unit of work, until it
acknowledges them. A prepared unit is a named set of messages that have been put durably and wait for the decision to
publish them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

STAGE_ROWS_MAX: Final = 4096
"""The most messages of one piece of `Port.stage`."""


class ConsumerState(NamedTuple):
    """A consumer as it is kept. Sequences count its messages from 1 over all its queues, without a hole; `base` is that
    of the last message before its first checkpoint, `next` the one that is claimed next. `lineage` is the checkpoint
    that has pinned ("" for none). `arrived` is the number of the message that has arrived last at the queue manager.
    """

    uuid: str
    generation: int
    lineage: str
    base: int
    acknowledged: int
    pinned: int
    next: int
    arrived: int


class Registration(NamedTuple):
    """The registration of a reader: its generation, the lineage of its offsets, and its position."""

    generation: int
    lineage: str
    position: int


class Cut(NamedTuple):
    """A place where a range of claims may be cut: behind the message with this sequence. `messages` and `bytes` are of
    what lies between the cut before it and this one.
    """

    sequence: int
    messages: int
    bytes: int


class QueueRange(NamedTuple):
    """The messages of a queue by arrival number: all that a browse by number finds in `(first, last]`, how many and
    how many bytes they are. What arrives later, or is uncommitted now, has a number above `last`.
    """

    q_name: str
    first: int
    last: int
    messages: int
    bytes: int


class BrowseSelection(NamedTuple):
    """The messages of a range that a browse is to find: those with these identifiers (24 bytes; None for any)."""

    msg_id: bytes | None = None
    correl_id: bytes | None = None
    group_id: bytes | None = None


class UnitName(NamedTuple):
    """The name of a prepared unit: the sink (48 characters), the number of its batch, the partition, and the attempt,
    16 random bytes that whoever stages it has made.
    """

    sink: str
    batch: int
    partition: int
    attempt: bytes


class Winner(NamedTuple):
    """A prepared unit that is to be published, and the number of messages staged in it."""

    unit: UnitName
    rows: int


class Staged(NamedTuple):
    """The answer to `stage`: True if the batch was published before, so that nothing was kept."""

    published: bool


class Publication(NamedTuple):
    """The answer to `publish`: the number of messages published, 0 where that had been done `already`."""

    messages: int
    already: bool
