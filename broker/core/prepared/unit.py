"""A prepared unit: messages of one sink that are durable, and on no queue before the unit is published.

It is staged in pieces, and everything that a put checks is checked then. From the first durable piece on it is
PREPARED, and stays so over restarts until a batch of its sink is published, or it is discarded (`TRANSITIONS` in
`core/queues/unit.py`). Its messages count in the depth of their queues and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from broker.core.message.generated import reports
from broker.core.message.logical_order import LogicalPlace, Position
from broker.core.message.rows import Numbering, ObjectRow
from broker.core.queues.unit import PREPARED, PREPARING, STATE_NAMES, TRANSITIONS
from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.message.entry import PreparedEntry
    from broker.core.queues.message_queue import MessageQueue

SPACE: Final = "UNIT"


class UnitName(NamedTuple):
    """The name of a prepared unit: its sink, the number of the batch, the partition, and the attempt, 16 random bytes
    that whoever stages it has made.
    """

    sink: str
    batch: int
    partition: int
    attempt: bytes

    @property
    def text(self) -> str:
        """The name as administrators see it and the store keeps it."""
        return f"{self.sink}/{self.batch}/{self.partition}/{self.attempt.hex()}"

    @classmethod
    def parsed(cls, text: str) -> UnitName | None:
        """The name that an administrator has written, the attempt in either case; None where it is none."""
        try:
            sink, batch, partition, attempt = text.rsplit("/", 3)
            return cls(sink, int(batch), int(partition), bytes.fromhex(attempt))
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"partition {self.partition} of batch {self.batch} of sink {self.sink}, attempt {self.attempt.hex()}"


class Mark(NamedTuple):
    """The extent of a unit before a piece came: the number of its messages, and the notes about them."""

    entries: int
    stored: int
    last: tuple[int, range] | None
    nonpersistent: int
    confirmed: int


class PreparedUnit:
    """One unit. `entries` are its messages in the order of their indexes, those on their way to the store last; `rows`
    is how many messages whoever staged it gave, which is fewer where the queue manager has cut some.
    """

    __slots__ = (
        "base", "bytes", "closed", "coming", "confirmed", "counts", "ends", "entries", "lacks", "name", "nonpersistent",
        "number", "positions", "query", "rows", "shown", "since", "state", "stored", "touched",
    )  # fmt: skip

    def __init__(self, name: UnitName, number: int, query: str | None, now: float) -> None:
        self.name = name
        self.number = number  # that of its row, and the holder of its messages
        self.query = query
        self.since = self.touched = now  # when it was begun, and when its last piece came, wall clock
        self.state = PREPARING
        self.entries: list[PreparedEntry] = []
        self.rows = 0
        self.bytes = 0  # of their bodies
        self.counts: dict[MessageQueue, int] = {}  # how many are for each queue
        self.closed = False  # no piece comes any more
        self.positions: dict[str, Position] = {}  # by queue name: the groups and logical messages that are open
        self.coming = 0  # pieces on their way to the store
        self.lacks = False  # some of its messages are gone: it can only be discarded
        self.stored: list[tuple[int, range]] = []  # runs of persistent messages: index of the first, their ids
        self.nonpersistent: list[int] = []  # ids of the others
        self.confirmed: list[int] = []  # indexes of those that ask for a confirmation of arrival
        self.ends: dict[bytes, int] = {}  # the index of the last message of each group
        self.base = 0  # the place of its first message, while it is being published
        self.shown = 0  # how many of its messages are on their queues

    def become(self, state: int) -> None:
        """Take a step of the life cycle; a step that the table does not have is our mistake."""
        assert state in TRANSITIONS[self.state], f"{STATE_NAMES[self.state]} -> {STATE_NAMES[state]}"
        self.state = state

    # What is kept of it

    def row(self) -> ObjectRow:
        """Return the stored row of the unit; its messages have rows of their own."""
        fields = {
            "name": self.name, "query": self.query, "since": self.since, "touched": self.touched, "rows": self.rows,
            "entries": len(self.entries), "closed": self.closed,
            "positions": {q_name: position[:-1] for q_name, position in self.positions.items()},
        }  # fmt: skip
        attributes: bytes = msgpack.packb(fields)
        return ObjectRow(SPACE, self.name.text, self.number, SPACE, attributes)

    @classmethod
    def from_row(cls, row: ObjectRow) -> tuple[PreparedUnit, int]:
        """The unit that a store kept, without its messages (`load`), and how many these must be."""
        fields: dict[str, Any] = msgpack.unpackb(row.attributes)
        unit = cls(UnitName(*fields["name"]), row.number, fields["query"], fields["since"])
        unit.state = PREPARED
        unit.touched, unit.rows, unit.closed = fields["touched"], fields["rows"], fields["closed"]
        for q_name, (item, *others) in fields["positions"].items():
            unit.positions[q_name] = Position(LogicalPlace(*item), *others)
        return unit, fields["entries"]

    # Its messages

    def add(self, entries: Sequence[PreparedEntry]) -> None:
        """These messages come behind the others."""
        index, counts = len(self.entries), self.counts
        self.entries += entries
        for entry in entries:
            self.bytes += entry.length
            counts[entry.queue] = counts.get(entry.queue, 0) + 1
            if not entry.persistence:
                self.nonpersistent.append(entry.number)
            elif self.stored and self._follows(entry.number, index):
                first, ids = self.stored[-1]
                self.stored[-1] = first, range(ids.start, entry.number + 1)
            else:
                self.stored.append((index, range(entry.number, entry.number + 1)))
            if reports.asked(entry, reports.COA):
                self.confirmed.append(index)
            if entry.group_id != NO_ID:
                self.ends[entry.group_id] = index
            index += 1

    def _follows(self, number: int, index: int) -> bool:
        first, ids = self.stored[-1]
        return ids.stop == number and first + len(ids) == index

    def mark(self) -> Mark:
        """Return the extent of its messages now."""
        last = self.stored[-1] if self.stored else None
        return Mark(len(self.entries), len(self.stored), last, len(self.nonpersistent), len(self.confirmed))

    def cut_back(self, mark: Mark) -> list[PreparedEntry]:
        """Its messages reach no further than that any more: those that leave it."""
        left = self.entries[mark.entries :]
        del self.entries[mark.entries :], self.nonpersistent[mark.nonpersistent :], self.confirmed[mark.confirmed :]
        del self.stored[mark.stored :]
        if mark.last is not None:
            self.stored[-1] = mark.last
        self._discount(left)
        return left

    def give_up(self, count: int) -> list[PreparedEntry]:
        """So many of its messages, the last ones, leave it for good: from now on it can only be discarded."""
        self.lacks = True
        left = self.entries[-count:]
        del self.entries[-count:]
        self._discount(left)
        return left

    def _discount(self, left: Iterable[PreparedEntry]) -> None:
        for entry in left:
            self.bytes -= entry.length
            self.counts[entry.queue] -= 1
        self.counts = {queue: count for queue, count in self.counts.items() if count}

    @property
    def messages(self) -> int:
        """The number of its messages, on whatever queue manager they are."""
        return sum(self.counts.values())

    def left(self) -> list[PreparedEntry]:
        """Its messages that are not on their queues."""
        return self.entries[self.shown :] if self.shown else self.entries

    def runs(self) -> Iterable[Numbering]:
        """Its persistent messages at their places, from `base` on."""
        return (Numbering(0, self.base + index, ids) for index, ids in self.stored)

    def show(self, count: int) -> list[PreparedEntry]:
        """The next of its messages at their places: so many, and more up to the last of every group that has begun."""
        start, end = self.shown, self._slice_end(count)
        shown = self.entries[start:end]
        self._stand(shown)
        self.shown = end
        return shown

    def place_all(self) -> None:
        """All its messages are at their places, though nobody sees them yet."""
        self._stand(self.left())

    def _stand(self, entries: Sequence[PreparedEntry]) -> None:
        for place, entry in enumerate(entries, self.base + self.shown):
            entry.stand_at(place)

    def _slice_end(self, count: int) -> int:
        end = min(self.shown + count, len(self.entries))
        if not self.ends:
            return end
        index = self.shown
        while index < min(end, len(self.entries)):
            end = max(end, self.ends.get(self.entries[index].group_id, 0) + 1)
            index += 1
        return min(end, len(self.entries))

    @property
    def unfinished(self) -> int:
        """INCOMPLETE_MSG (2242) or INCOMPLETE_GROUP (2241) for what LOGICAL_ORDER has left open; 0 when nothing is."""
        left = (position.unfinished for position in self.positions.values() if position.logical)
        return next(filter(None, left), 0)

    def __repr__(self) -> str:
        return f"<PreparedUnit {self.name.text} {STATE_NAMES[self.state]}>"
