"""A message on a queue.

States and who sees them: PUT_PENDING nobody, not even the unit of work that put it; AVAILABLE everybody;
GET_PENDING nobody; LOCKED the handle that locked it; GONE is off the queue. The place of an entry never changes: its
key is decided when it is put, and is kept by commit, backout and restart.

    PUT_PENDING -> AVAILABLE | GONE                 commit | backout
    AVAILABLE   -> GET_PENDING | LOCKED | GONE      a destructive get | a browse with LOCK | expiry
    LOCKED      -> AVAILABLE                        unlock, or for the time of its own handle's next get
    GET_PENDING -> GONE | AVAILABLE                 commit | backout
    GONE        -> PUT_PENDING                      a get whose answer nobody took
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import msgpack

from broker.core.logical import Item
from broker.core.rows import MessageRow
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from broker.core.handles import Handle
    from broker.core.queue import LocalQueue
    from broker.core.unit import Unit

PUT_PENDING, AVAILABLE, GET_PENDING, LOCKED, GONE = range(5)
STATE_NAMES = ("PUT_PENDING", "AVAILABLE", "GET_PENDING", "LOCKED", "GONE")

MAX_PRIORITY = 9
_CLOCK_ERROR = 1e-5  # tenths of a second: what seconds since 1970 lose as floating-point numbers
_RANK_SHIFT = 60


def order_key(rank: int, id: int) -> int:
    """The place in the delivery sequence: higher rank first, then arrival."""
    return (MAX_PRIORITY - rank) << _RANK_SHIFT | id


def rank_of(key: int) -> int:
    """The effective priority in a key."""
    return MAX_PRIORITY - (key >> _RANK_SHIFT)


class Entry:
    """One message on one queue. `data` is None while the body is only on disk; `length` is its length all the same."""

    __slots__ = (
        "backout_count",
        "correl_id",
        "data",
        "deadline",
        "group_id",
        "id",
        "kept",
        "key",
        "length",
        "marked",
        "marks",
        "msg_flags",
        "msg_id",
        "msg_seq_number",
        "offset",
        "original_length",
        "persistence",
        "priority",
        "properties",
        "queue",
        "state",
        "unit",
    )

    queue: LocalQueue
    unit: Unit | None
    data: bytes | None
    marks: set[Handle | None] | None  # who has marked it in a browse; None in it is the co-operating set
    deadline: float | None  # wall-clock seconds after which it is expired

    def __init__(self, queue: LocalQueue, id: int, rank: int, data: bytes | None, length: int) -> None:
        self.queue = queue
        self.id = id
        self.key = order_key(rank, id)
        self.data = data
        self.length = length
        self.state = PUT_PENDING
        self.unit = None
        self.backout_count = 0
        self.marked = False  # a "got" mark is on disk (journal rule 8)
        self.deadline = None
        self.marks = None
        self.msg_id = self.correl_id = self.group_id = NO_ID
        self.msg_seq_number = 1
        self.offset = 0
        self.msg_flags = 0
        self.original_length = -1
        self.priority = 0
        self.persistence = 0
        self.kept = b""
        self.properties = b""  # packed (`broker.core.properties`), not part of the data

    @property
    def token(self) -> bytes:
        """The message token: unique on the queue while the message is there."""
        return self.key.to_bytes(16, "big")

    @property
    def item(self) -> Item:
        """Its place in its group and logical message."""
        return Item(self.group_id, self.msg_seq_number, self.offset)

    @property
    def span(self) -> int:
        """How far a segment reaches: its length, or for a report about a segment the length of that."""
        return max(self.length, self.original_length)

    def expired(self, now: float) -> bool:
        """Whether its time was up at `now` (wall-clock seconds)."""
        return self.deadline is not None and self.deadline <= now

    def expiry_left(self, now: float) -> int:
        """What is left of its life at `now`, in tenths of a second, rounded up; -1 for ever."""
        if self.deadline is None:
            return -1
        return max(1, ceil((self.deadline - now) * 10 - _CLOCK_ERROR))

    def row(self) -> MessageRow:
        """What the store keeps of it."""
        fields = (
            self.msg_id, self.correl_id, self.group_id, self.msg_seq_number, self.offset, self.msg_flags,
            self.original_length, self.priority, self.deadline, self.kept,
        )  # fmt: skip
        descriptor: bytes = msgpack.packb((*fields, self.properties) if self.properties else fields)
        return MessageRow(
            self.id,
            self.queue.number,
            rank_of(self.key),
            self.persistence,
            descriptor,
            self.length,
            self.data,
            self.backout_count,
        )

    @classmethod
    def from_row(cls, queue: LocalQueue, row: MessageRow) -> Entry:
        """The entry that a store kept, as it was when it was committed."""
        entry = cls(queue, row.id, row.rank, row.data, row.length)
        (
            entry.msg_id, entry.correl_id, entry.group_id, entry.msg_seq_number, entry.offset, entry.msg_flags,
            entry.original_length, entry.priority, entry.deadline, entry.kept, *properties,
        ) = msgpack.unpackb(row.descriptor)  # fmt: skip
        entry.properties = properties[0] if properties else b""
        entry.persistence = row.persistent
        entry.backout_count = row.backout_count + row.got
        return entry

    def __repr__(self) -> str:
        return f"<Entry {self.id} on {self.queue.name} {STATE_NAMES[self.state]}>"
