"""The frozen rows of a unit of work: made by the core, carried by the journal, kept by a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class MessageRow(NamedTuple):
    """A message as it is kept. `id` is its arrival number, unique in the queue manager for ever.

    `queue` is the number of the queue's definition, `rank` its effective priority, `descriptor` the packed MQMD with
    the expiry deadline. `length` is the length of `data` in bytes; a load brings no data (`data` is then None).
    `persistent` is 0 only for the nonpersistent messages of NPMCLASS(HIGH) queues that an orderly stop keeps.
    `hardened` is 1 when the message was in somebody's hands and the outcome never became known (journal rule 8).

    `holder` is the number of the consumer that has claimed the message, or of the prepared unit that it belongs to, and
    `sequence` its place there, from 1; both are 0 for a message that is on its queue. While it is held, a nonpersistent
    message is kept as well. `place` is the place in order of arrival of a message that a prepared unit has published;
    0 for all others, whose place is their id.

    `handling` is what handlers, and puts with a delay, have left with the message (`Handling.pack`); empty for nearly
    all. `hardened` is 2 where the somebody was a handler in the queue manager's own process, and 3 where it had no
    other message beside it.
    """

    id: int
    queue: int
    rank: int
    persistent: int
    descriptor: bytes
    length: int
    data: bytes | None
    backout_count: int = 0
    hardened: int = 0
    holder: int = 0
    sequence: int = 0
    place: int = 0
    handling: bytes = b""


GOT: Final = 1
HANDLED: Final = 2
HANDLED_ALONE: Final = 3
"""The values of `hardened`: who had the message."""


class Numbering(NamedTuple):
    """Messages, by their ids, in an order: the first of them is given the number `first`, the next the next one."""

    holder: int
    first: int
    ids: Sequence[int]


class ObjectRow(NamedTuple):
    """A definition as it is kept. `number` identifies a queue to its messages; a name used again gets a new number."""

    space: str
    name: str
    number: int
    kind: str
    attributes: bytes


class KeyRow(NamedTuple):
    """The key of a put, as it is kept to tell duplicates: of the queue with this number, as a keyed hash of 16 bytes.

    `id` is that of the first message with the key, `msg_id` its MsgId where that is a given one (else b""), `digest`
    8 bytes of a hash of its data. The key is forgotten at `until` (seconds since 1970); 0: when the message has gone.
    """

    queue: int
    key: bytes
    id: int
    msg_id: bytes
    digest: bytes
    until: float


class StepRow(NamedTuple):
    """A step that a handler has finished for a message, as it is kept. `id` is that of the message, `place` the number
    of the step among those of the message, from 1. A step never changes, and goes with its message.
    """

    id: int
    place: int
    name: str
    value: bytes

    @property
    def length(self) -> int:
        """The bytes of its value."""
        return len(self.value)


@dataclass(slots=True)
class Rows:
    """The changes of one unit, or of a batch of units together. Never altered once handed to a store."""

    inserts: list[MessageRow] = field(default_factory=list)
    removals: list[int] = field(default_factory=list)  # ids of messages
    backouts: list[tuple[int, int]] = field(default_factory=list)  # (id, new BackoutCount); clears `hardened`, `holder`
    hardened: list[int] = field(default_factory=list)  # ids: sets `hardened`
    objects: list[ObjectRow] = field(default_factory=list)  # stored or replaced, by (space, name)
    dropped: list[tuple[str, str]] = field(default_factory=list)  # (space, name) of objects deleted
    high_water: int = 0  # raise the stored high-water mark of the manager's counter to this
    states: list[ObjectRow] = field(default_factory=list)  # as `objects`, of what changes all the time: needs no room
    held: list[Numbering] = field(default_factory=list)  # messages that are there: sets `holder` and `sequence`
    placed: list[Numbering] = field(
        default_factory=list
    )  # held messages (holder 0 here): sets `place`, clears `holder`
    handled: list[tuple[int, int, bytes]] = field(default_factory=list)  # (id, BackoutCount, handling); clears
    # `hardened`: a message that a handler has failed on, or that is released before its time
    marked: list[tuple[int, int]] = field(default_factory=list)  # (id, `hardened`), by handlers in this process; what
    # the same rows say of the end of such a delivery counts after it
    keys: list[KeyRow] = field(default_factory=list)  # stored or replaced, by (queue, key)
    freed: list[tuple[int, bytes]] = field(default_factory=list)  # (queue, key) forgotten before their time
    steps: list[StepRow] = field(default_factory=list)  # of messages that are there, or among the inserts

    def __bool__(self) -> bool:
        """True if there is anything to write."""
        return bool(
            self.inserts or self.removals or self.backouts or self.hardened
            or self.objects or self.states or self.dropped or self.held or self.placed or self.high_water
            or self.handled or self.marked or self.keys or self.freed or self.steps
        )  # fmt: skip

    @property
    def grows(self) -> bool:
        """True if it needs room for good: it adds something."""
        return bool(self.inserts or self.objects or self.held or self.steps)

    def extend(self, other: Rows) -> None:
        """Take in the rows of another unit. Two unsettled units never touch one message, so the order is free."""
        self.inserts.extend(other.inserts)
        self.removals.extend(other.removals)
        self.backouts.extend(other.backouts)
        self.hardened.extend(other.hardened)
        self.objects.extend(other.objects)
        self.states.extend(other.states)
        self.dropped.extend(other.dropped)
        self.held.extend(other.held)
        self.placed.extend(other.placed)
        self.handled.extend(other.handled)
        self.marked.extend(other.marked)
        self.keys.extend(other.keys)
        self.freed.extend(other.freed)
        self.steps.extend(other.steps)
        self.high_water = max(self.high_water, other.high_water)
