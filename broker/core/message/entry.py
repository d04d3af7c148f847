"""A message on a queue (semantics 0.2).

States and who sees them: PUT_PENDING nobody, not even the unit of work that put it; AVAILABLE everybody;
GET_PENDING nobody; LOCKED the handle that locked it; DAMAGED nobody, since its data is not what was put; CLAIMED the
consumer that has claimed it; PREPARED nobody, it belongs to a prepared unit; DELAYED nobody before an instant, but who
asks for such messages; GONE is off the queue. `TRANSITIONS` says
what leads from one to the next. The place of an entry on its queue never changes: its key is decided when it is put, or
when its prepared unit is published, and is kept by commit, backout and restart.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any

import msgpack

from broker.core.message.handling import Handling
from broker.core.message.logical_order import LogicalPlace
from broker.core.message.rows import GOT, MessageRow
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from broker.core.queues.handles import Handle
    from broker.core.queues.message_queue import MessageQueue
    from broker.core.queues.unit import Unit

PUT_PENDING, AVAILABLE, GET_PENDING, LOCKED, DAMAGED, GONE, CLAIMED, PREPARED, DELAYED = range(9)
STATE_NAMES = ("PUT_PENDING", "AVAILABLE", "GET_PENDING", "LOCKED", "DAMAGED", "GONE", "CLAIMED", "PREPARED", "DELAYED")

TRANSITIONS = {
    PUT_PENDING: {
        "place": PUT_PENDING,  # a new message comes to its queue
        "arrive": AVAILABLE,  # its put is committed
        "withdraw": GONE,  # its put is backed out
        "prepare": PREPARED,  # it is staged by a prepared unit
        "postpone": DELAYED,  # its put is committed before its delivery instant
    },
    AVAILABLE: {
        "take": GET_PENDING,  # a destructive get
        "lock": LOCKED,  # a browse with LOCK
        "discard": GONE,  # expiry
        "set_aside": DAMAGED,  # a get or browse has found its data damaged
        "claim": CLAIMED,  # for a consumer
    },
    LOCKED: {
        "unlock": AVAILABLE,  # also for the time of its own handle's next get
    },
    GET_PENDING: {
        "remove": GONE,  # the get is committed
        "reinstate": AVAILABLE,  # the get is backed out
        "postpone": DELAYED,  # its handler has failed, or it was got while it was delayed and is backed out
    },
    DAMAGED: {
        "readmit": AVAILABLE,  # for as long as it takes to remove it: it is expired, or its queue is cleared
    },
    CLAIMED: {
        "acknowledge": GONE,  # its consumer is done with it
        "release": AVAILABLE,  # its consumer is resolved with BACKOUT, or the claim was refused
    },
    PREPARED: {
        "publish": AVAILABLE,  # its unit is among the winners of a batch
        "drop": GONE,  # its unit is discarded
    },
    DELAYED: {
        "fall_due": AVAILABLE,  # its instant has come; also for as long as it takes to remove or to get it before that
    },
    GONE: {
        "place": PUT_PENDING,  # a get whose answer nobody took, after its removal
    },
}
"""From each state the steps that a message can take, named as the methods of `MessageQueue` that take them, and the
state to which each leads. A step from any other state is our mistake.
"""

MAX_PRIORITY = 9
_CLOCK_ERROR = 1e-5  # tenths of a second: what seconds since 1970 lose as floating-point numbers

ID_BITS = 56
"""Of an arrival number, in microseconds since 1970: two thousand years. With the four of a rank a key has 60 bits, the
most that Python keeps in 32 bytes.
"""
ID_MASK = (1 << ID_BITS) - 1

COMMON_FIELDS = 4  # of a packed descriptor: those of `Entry._fields`
_pack = msgpack.Packer().pack


@lru_cache(maxsize=16)
def _plain_descriptor(priority: int, packed_md: bytes) -> bytes:
    """The packed descriptor of a message with no identifier of its own: the same for many that are put together."""
    packed: bytes = _pack((priority, None, None, packed_md))
    return packed


def order_key(rank: int, id: int) -> int:
    """The place in the delivery sequence: higher rank first, then arrival."""
    return (MAX_PRIORITY - rank) << ID_BITS | id


def rank_of(key: int) -> int:
    """The effective priority in a key."""
    return MAX_PRIORITY - (key >> ID_BITS)


class Entry:
    """One message on one queue. `data` is None while the body is only on disk; `length` is its length all the same.

    There may be millions of them. The fields that few messages use have room in `FullEntry` alone; those of any other
    entry have the values below and cannot be set. A MsgId made by the queue manager is not kept but made again, of the
    arrival number, whenever somebody asks.
    """

    __slots__ = (
        "backout_count",
        "correl_id",
        "data",
        "given_msg_id",
        "handling",
        "hardened",
        "key",
        "length",
        "marks",
        "packed_md",
        "persistence",
        "priority",
        "queue",
        "state",
        "unit",
    )

    queue: MessageQueue
    unit: Unit | None
    data: bytes | None
    marks: set[Handle | None] | None  # who has marked it in a browse; None in it is the co-operating set
    given_msg_id: bytes | None  # None: the queue manager made the MsgId
    handling: Handling | None  # what handlers, or a delay, have left with it

    deadline: float | None = None  # wall-clock seconds after which it is expired
    group_id: bytes = NO_ID
    msg_seq_number: int = 1
    offset: int = 0
    msg_flags: int = 0
    original_length: int = -1
    properties: bytes = b""  # packed (`broker.core.message.headers.properties`), not part of the data
    triggers: bool = True  # its arrival counts a start, where the trigger type is EVERY
    number: int = 0  # its id, where that is not its place: it was published by a prepared unit

    def __init__(self, queue: MessageQueue, id: int, rank: int, data: bytes | None, length: int) -> None:
        self.queue = queue
        self.key = (MAX_PRIORITY - rank) << ID_BITS | id  # as `order_key` has it
        self.data = data
        self.length = length
        self.state = PUT_PENDING
        self.unit = None
        self.backout_count = 0
        self.hardened = False  # it is on disk that somebody has got it (journal rule 8)
        self.marks = None
        self.handling = None
        self.given_msg_id = None
        self.correl_id = NO_ID
        self.priority = 0
        self.persistence = 0
        self.packed_md = b""

    @property
    def id(self) -> int:
        """The number under which the store keeps it: the arrival number, but for messages of prepared units."""
        return self.number or self.key & ID_MASK

    @property
    def place(self) -> int:
        """The arrival number: of prepared units that of their publication."""
        return self.key & ID_MASK

    @property
    def msg_id(self) -> bytes:
        """The MsgId."""
        return self.given_msg_id or self.queue.ids.identifier(self.key & ID_MASK)

    @property
    def token(self) -> bytes:
        """The message token: unique on the queue while the message is there."""
        return self.key.to_bytes(16, "big")

    @property
    def item(self) -> LogicalPlace:
        """Its place in its group and logical message."""
        return LogicalPlace(self.group_id, self.msg_seq_number, self.offset)

    @property
    def span(self) -> int:
        """The bytes that a segment covers: its length, or for a report about a segment the length of that."""
        return max(self.length, self.original_length)

    @property
    def delayed(self) -> bool:
        """True if the message must not be available before an instant of its own."""
        return self.handling is not None and self.handling.not_before > 0

    def expired(self, now: float) -> bool:
        """True if its time was up at `now` (wall-clock seconds)."""
        return self.deadline is not None and self.deadline <= now

    def expiry_left(self, now: float) -> int:
        """Return the rest of its life at `now`, in tenths of a second, rounded up; -1 for ever."""
        if self.deadline is None:
            return -1
        return max(1, ceil((self.deadline - now) * 10 - _CLOCK_ERROR))

    def row(self) -> MessageRow:
        """The row that the store keeps."""
        key = self.key
        handling = b"" if self.handling is None else self.handling.pack()
        fields = (
            self.number or key & ID_MASK, self.queue.number, MAX_PRIORITY - (key >> ID_BITS), self.persistence,
            self.packed_descriptor(), self.length, self.data, self.backout_count, 0, 0, 0, 0, handling,
        )  # fmt: skip
        return tuple.__new__(MessageRow, fields)  # as `MessageRow(*fields)`, without a call

    def packed_descriptor(self) -> bytes:
        """The packed descriptor, as `MessageRow.descriptor` holds it. A shared queue has MsgIds beside it."""
        if type(self) is Entry and self.correl_id == NO_ID and (self.given_msg_id is None or self.queue.shared):
            return _plain_descriptor(self.priority, self.packed_md)
        packed: bytes = _pack(self._fields())
        return packed

    def _fields(self) -> tuple[object, ...]:
        msg_id = None if self.queue.shared else self.given_msg_id
        correl_id = self.correl_id if self.correl_id != NO_ID else None
        return self.priority, msg_id, correl_id, self.packed_md

    @staticmethod
    def from_row(queue: MessageQueue, row: MessageRow, *, prepared: bool = False) -> Entry:
        """The entry that a store kept, as it was when it was committed. `prepared`: it belongs to a prepared unit."""
        id, _, rank, persistence, descriptor, length, data, backout_count, hardened, _, _, place, handling = row
        fields = msgpack.unpackb(descriptor, use_list=False)
        entry: Entry
        if len(fields) == COMMON_FIELDS:
            entry = Entry(queue, id, rank, data, length)
            entry.priority, entry.given_msg_id, correl_id, entry.packed_md = fields
        elif len(fields) == COMMON_FIELDS + 1 and not (place or prepared):
            entry = ExpiringEntry(queue, id, rank, data, length)
            entry.priority, entry.given_msg_id, correl_id, entry.packed_md, entry.deadline = fields
        else:
            entry = full = (PreparedEntry if place or prepared else FullEntry)(queue, id, rank, data, length)
            (
                full.priority, full.given_msg_id, correl_id, full.packed_md, full.deadline, full.group_id,
                full.msg_seq_number, full.offset, full.msg_flags, full.original_length, full.properties,
            ) = fields  # fmt: skip
        if place:
            entry.key = order_key(rank, place)
        if correl_id is not None:
            entry.correl_id = correl_id
        entry.persistence = persistence
        entry.backout_count = backout_count + (hardened == GOT)
        if handling:
            entry.handling = Handling.unpack(handling)
        return entry

    def share(self, common: dict[Any, Any]) -> None:
        """Keep what is equal to something in `common` there only. What messages of one program that were put within a
        hundredth of a second have kept of their descriptors is all equal.
        """
        self.packed_md = common.setdefault(self.packed_md, self.packed_md)
        self.length = common.setdefault(self.length, self.length)

    def __repr__(self) -> str:
        return f"<Entry {self.id} on {self.queue.name} {STATE_NAMES[self.state]}>"


class ExpiringEntry(Entry):
    """A message that expires, and has nothing else of what most have not: a record of a history. There are very many of
    them.
    """

    __slots__ = ("deadline",)

    deadline: float | None

    def packed_descriptor(self) -> bytes:
        correl_id = self.correl_id if self.correl_id != NO_ID else None
        packed: bytes = _pack((self.priority, self.given_msg_id, correl_id, self.packed_md, self.deadline))
        return packed

    def share(self, common: dict[Any, Any]) -> None:
        """Besides, keep the end of its life once for those that expire together."""
        super().share(common)
        self.deadline = common.setdefault(self.deadline, self.deadline)


class FullEntry(Entry):
    """A message that has flags, a place in a group, an expiry time, or properties."""

    __slots__ = ("deadline", "group_id", "msg_flags", "msg_seq_number", "offset", "original_length", "properties")

    def __init__(self, queue: MessageQueue, id: int, rank: int, data: bytes | None, length: int) -> None:
        super().__init__(queue, id, rank, data, length)
        self.deadline = None
        self.group_id = NO_ID
        self.msg_seq_number = 1
        self.offset = 0
        self.msg_flags = 0
        self.original_length = -1
        self.properties = b""

    def _fields(self) -> tuple[object, ...]:
        return (
            *super()._fields(), self.deadline, self.group_id, self.msg_seq_number, self.offset, self.msg_flags,
            self.original_length, self.properties,
        )  # fmt: skip


class CutSegment(FullEntry):
    """A piece, but not the first, of a message that the queue manager cuts: the message counts one start, and each
    piece would be one more. The store does not keep this: after a restart it is a segment like any other. Trigger
    messages, which start nothing themselves, are of this kind too.
    """

    __slots__ = ()

    triggers = False


class PreparedEntry(FullEntry):
    """A message of a prepared unit. Its place, and with that its key, is decided when the unit is published; `number`
    is its id from the beginning.
    """

    __slots__ = ("number",)

    def __init__(self, queue: MessageQueue, id: int, rank: int, data: bytes | None, length: int) -> None:
        super().__init__(queue, id, rank, data, length)
        self.number = id

    @classmethod
    def of(cls, entry: Entry) -> PreparedEntry:
        """Turn the entry of a put into a message of a prepared unit."""
        kind = cls if entry.triggers else PreparedPiece
        prepared = kind(entry.queue, 0, rank_of(entry.key), entry.data, entry.length)
        for field in _PREPARED_FIELDS:
            setattr(prepared, field, getattr(entry, field))
        return prepared

    def number_as(self, number: int) -> None:
        """The store keeps it under this number."""
        self.number = number
        self.key = self.key & ~ID_MASK | number

    def stand_at(self, place: int) -> None:
        """Its unit is published: this is its place on the queue from now on."""
        self.key = self.key & ~ID_MASK | place

    def row(self) -> MessageRow:
        """The row that the store keeps of it on its queue, at its place."""
        return super().row()._replace(place=self.key & ID_MASK)

    def held_row(self, unit: int, sequence: int) -> MessageRow:
        """The row that the store keeps of it in the prepared unit of this number."""
        return MessageRow(
            self.number,
            self.queue.number,
            MAX_PRIORITY - (self.key >> ID_BITS),
            self.persistence,
            self.packed_descriptor(),
            self.length,
            self.data,
            0,
            0,
            unit,
            sequence,
        )


class PreparedPiece(PreparedEntry):
    """A piece, but not the first, of a message of a prepared unit that the queue manager cuts."""

    __slots__ = ()

    triggers = False


_PREPARED_FIELDS = (
    "given_msg_id", "correl_id", "priority", "persistence", "packed_md", "deadline", "group_id", "msg_seq_number",
    "offset", "msg_flags", "original_length", "properties",
)  # fmt: skip
