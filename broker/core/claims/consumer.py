"""A consumer: who claims messages durably, and where it stands (claims rules 2.1 to 2.4).

Its messages are numbered from 1, over all its queues and without a hole. Those up to `acknowledged` are gone; those
behind it, up to `next` - 1, are claimed; of these the ones up to `pinned` may have been read. Nothing is worked out
from what happens to be on a queue.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgpack

from broker.core.message.rows import ObjectRow
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from broker.core.message.entry import Entry
    from broker.core.queues.queue import LocalQueue

SPACE: Final = "CONSUMER"

CLAIMS_MAX: Final = 1_000_000
"""The most messages that one consumer may have claimed."""

_LENGTH: Final = attrgetter("length")
_QUEUE: Final = attrgetter("queue")


class Consumer:
    """One consumer. `claims` are its messages, the first of them with the sequence `acknowledged` + 1; None is one that
    the store has lost.
    """

    __slots__ = (
        "acknowledged", "base", "bytes", "claims", "counts", "generation", "lineage", "name", "next", "number",
        "pinned", "q_names", "since", "turn", "uuid",
    )  # fmt: skip

    shared = False
    """True if it claims from shared queues."""

    def __init__(self, name: str, number: int, uuid: str, q_names: Sequence[str]) -> None:
        self.name = name
        self.number = number  # that of its row, and the holder of its messages
        self.uuid = uuid
        self.q_names = tuple(q_names)  # some of them may be generic
        self.generation = 0
        self.lineage = ""  # the checkpoint whose offsets count; none until one is pinned
        self.base = 0
        self.acknowledged = 0
        self.pinned = 0
        self.next = 1
        self.claims: list[Entry | None] = []
        self.since = 0.0  # when the oldest of them was claimed, wall clock
        self.bytes = 0  # of their bodies
        self.counts: dict[LocalQueue, int] = {}  # how many are of each queue
        self.turn = ""  # the queue at which the last claim ended

    # What is kept of it

    def row(self, **changes: object) -> ObjectRow:
        """Return its stored row, with these fields changed."""
        fields = {
            "uuid": self.uuid, "q_names": self.q_names, "generation": self.generation, "lineage": self.lineage,
            "base": self.base, "acknowledged": self.acknowledged, "pinned": self.pinned, "next": self.next,
            "since": self.since, "turn": self.turn,
        }  # fmt: skip
        attributes: bytes = msgpack.packb(fields | changes)
        return ObjectRow(SPACE, self.name, self.number, SPACE, attributes)

    @classmethod
    def from_row(cls, row: ObjectRow) -> Consumer:
        """The consumer that a store kept, without its messages (`load`)."""
        fields: dict[str, Any] = msgpack.unpackb(row.attributes)
        consumer = cls(row.name, row.number, fields.pop("uuid"), fields.pop("q_names"))
        consumer.change(**fields)
        return consumer

    def change(self, **changes: Any) -> None:
        """Take over changes that are durable."""
        for name, value in changes.items():
            setattr(self, name, value)

    def load(self, claimed: Sequence[tuple[int, Entry]]) -> None:
        """Its messages as a store kept them, with their sequences."""
        found = dict(claimed)
        self.claims = [found.get(sequence) for sequence in range(self.acknowledged + 1, self.next)]
        self._count([entry for entry in self.claims if entry is not None], 1)

    # Its messages

    def take(self, entries: Sequence[Entry]) -> None:
        """These messages are claimed, behind the others."""
        self.claims += entries
        self.next += len(entries)
        self._count(entries, 1)

    def let_go(self, count: int) -> None:
        """The first of its messages are acknowledged, or back on their queues."""
        self._count([entry for entry in self.claims[:count] if entry is not None], -1)
        del self.claims[:count]
        self.acknowledged += count

    def between(self, after: int, last: int) -> list[Entry | None]:
        """Its messages with sequences behind `after`, up to `last`."""
        return self.claims[after - self.acknowledged : last - self.acknowledged]

    @property
    def claim_count(self) -> int:
        """The number of messages that it has claimed."""
        return self.next - 1 - self.acknowledged

    @property
    def not_pinned(self) -> int:
        """The number of its messages that nobody has been allowed to read yet."""
        return self.next - 1 - max(self.pinned, self.acknowledged)

    def age(self, now: float) -> float:
        """Return the seconds since the oldest of its messages was claimed; 0 when it has none."""
        return max(0.0, now - self.since) if self.claim_count else 0.0

    def _count(self, entries: Sequence[Entry], step: int) -> None:
        for queue, count in counts(entries).items():
            self.counts[queue] = self.counts.get(queue, 0) + step * count
            if not self.counts[queue]:
                del self.counts[queue]
        self.bytes += step * sum(map(_LENGTH, entries))

    # What its readers may do (claims rule 2.4)

    def check_generation(self, generation: int) -> None:
        """Raise OBJECT_CHANGED (2041) for a reader that is not the one that registered last."""
        if generation != self.generation:
            raise MQError(
                MQRC.OBJECT_CHANGED,
                f"consumer {self.name} is at generation {self.generation}, and this reader is of generation "
                f"{generation}: another has registered since, or the consumer was resolved; only the last may go on",
            )

    def check_lineage(self, lineage: str | None) -> None:
        """Raise SUBSCRIPTION_IN_USE (2429) for a reader with another checkpoint, or a new one, where one counts."""
        if self.lineage and lineage != self.lineage:
            what = f"another one ({lineage})" if lineage else "a new one"
            raise MQError(
                MQRC.SUBSCRIPTION_IN_USE,
                f"consumer {self.name} is read with the checkpoint of lineage {self.lineage}, and this is {what}: use "
                f"that checkpoint or another consumer, or give it up with RESOLVE CONSUMER({self.name})",
            )

    def check_position(self, start: int, end: int | None) -> None:
        """Raise UOW_COMMITTED (2408) for a position that others have passed, NO_DATA_AVAILABLE (2379) for one that was
        never reached.
        """
        last = start if end is None else end
        if self.acknowledged > start:
            raise self.passed(start, "acknowledged", self.acknowledged)
        if last > self.next - 1:
            raise self.missing(last)
        if self.pinned > last:
            raise self.passed(last, "pinned", self.pinned)

    # What its readers' calls change of it: they are checked, and nothing is changed yet

    def registered(self, lineage: str | None, start: int | None, end: int | None) -> tuple[int, dict[str, Any]]:
        """Of a reader with a checkpoint: its position, and what is changed."""
        self.check_lineage(lineage)
        position = self.base if start is None else start
        self.check_position(position, end)
        return position, {"generation": self.generation + 1}

    def resumed(self, lineage: str) -> dict[str, Any]:
        """Of a reader without a checkpoint, which goes on where the consumer stands."""
        return {"generation": self.generation + 1, "lineage": lineage, "pinned": self.acknowledged}

    def pin(self, lineage: str, start: int, end: int) -> dict[str, Any]:
        """Of a reader that is going to read the batch behind `start` up to `end`."""
        self.check_lineage(lineage)
        if start < self.acknowledged:
            raise self.passed(start, "acknowledged", self.acknowledged)
        if end > self.next - 1:
            raise self.missing(end)
        return {"lineage": lineage, "pinned": max(self.pinned, end)}

    def claimed(self, count: int, q_name: str, now: float) -> dict[str, Any]:
        """Of a claim of so many messages, the last of them from this queue."""
        return {"next": self.next + count, "since": self.since if self.claim_count else now, "turn": q_name}

    def done(self, to: int) -> dict[str, Any]:
        """Of the end of its claims up to `to`."""
        return {"acknowledged": to, "pinned": max(self.pinned, to)}

    def resolved(self, *, commit: bool = False, pinned: bool = True) -> dict[str, Any]:
        """Of whoever ends all its claims, before these do: its readers may not go on. Raises SUBSCRIPTION_IN_USE (2429)
        where messages may have been read, and nobody says what becomes of them.
        """
        read = max(self.pinned - self.acknowledged, 0)
        if read and not (commit or pinned):
            raise MQError(
                MQRC.SUBSCRIPTION_IN_USE,
                f"{read} messages of consumer {self.name} are pinned, so they may have been read, and be in a sink "
                "already: ACTION(COMMIT) removes them, PINNED(YES) returns them all the same",
            )
        return {"generation": self.generation + 1, "lineage": ""}

    def emptied(self) -> dict[str, Any]:
        """Of the end of all its claims: the next reader begins behind them."""
        return dict.fromkeys(("base", "acknowledged", "pinned"), self.next - 1)

    def check_claim(self, start: int) -> None:
        """Raise what a claim behind `start` is refused with."""
        if start < self.pinned:
            raise self.passed(start, "pinned", self.pinned)
        if start > self.next - 1:
            raise self.missing(start)

    def check_acknowledge(self, to: int) -> None:
        """Raise what an acknowledge up to `to` is refused with."""
        if to > self.next - 1:
            raise self.missing(to)
        if to > self.pinned:
            raise MQError(
                MQRC.NO_DATA_AVAILABLE,
                f"the messages of consumer {self.name} are pinned up to {self.pinned}, and this reader says {to}: what "
                "nobody was allowed to read cannot be acknowledged",
            )

    def check_read(self, after: int, last: int) -> None:
        """Raise what a read of the claims behind `after`, up to `last`, is refused with."""
        if after < self.acknowledged:
            raise self.passed(after, "acknowledged", self.acknowledged)
        if last > self.pinned:
            raise self.missing(last)

    def passed(self, said: int, what: str, stored: int) -> MQError:
        """UOW_COMMITTED (2408) for a position before what is `acknowledged`, or `pinned`."""
        return MQError(
            MQRC.UOW_COMMITTED,
            f"consumer {self.name} has {what} up to {stored}, and this reader says {said}: its checkpoint is "
            f"older than the consumer; give it up with RESOLVE CONSUMER({self.name}), then begin with a new checkpoint "
            "and a new output",
        )

    def missing(self, said: int) -> MQError:
        """NO_DATA_AVAILABLE (2379) for claims that are not there."""
        return MQError(
            MQRC.NO_DATA_AVAILABLE,
            f"consumer {self.name} has claimed messages up to {self.next - 1}, and this reader says {said}: the queue "
            "manager is older than the checkpoint, as after a restore; begin with a new checkpoint and a new output, "
            f"after RESOLVE CONSUMER({self.name})",
        )


def unknown(uuid: str) -> MQError:
    """NO_SUBSCRIPTION (2428) for a consumer that is not there."""
    return MQError(
        MQRC.NO_SUBSCRIPTION,
        f"there is no consumer {uuid}: its checkpoint is of another queue manager, or of an earlier one",
    )


def counts(entries: Iterable[Entry]) -> dict[LocalQueue, int]:
    """Return the number of messages of each queue."""
    return Counter(map(_QUEUE, entries))
