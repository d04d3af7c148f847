"""The records of what producers and workers were told, kept outside of the queue manager: they tell if what comes next
may be, and if the end is one that all of it allows.

A message is known by its name, which is its body. At the end a persistent message whose put was answered is in one
place: among what handlers have put, if its handler returned, or on the dead-letter queue. Where a call was never
answered both may be, but never two of them, and never none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.interface.handlers.deliveries import Delivered
    from broker.mqi.delivery_fields import ServiceOptions
    from tests.simulation.handlers.worker import Worker


class Violation(AssertionError):
    """The queue manager broke a promise."""


class Put(Enum):
    """The knowledge about a put."""

    MADE = "made"
    UNKNOWN = "unknown"
    REFUSED = "refused"


class End(Enum):
    """The knowledge about the end of a message: that it has one, and which."""

    NONE = "none"
    DONE = "done"
    DEAD = "dead"


@dataclass
class Record:
    """A message. `not_before` is on the monotonic clock. `failed` attempts were answered as charged, `open` ones may
    have been, `lost` are deliveries whose worker or queue manager went. `refused_until`: a commit found no room, and
    nothing of that is written, so a restart forgets it.
    """

    name: str
    number: int
    persistent: bool
    customer: str
    put: Put = Put.UNKNOWN
    key: str = ""
    not_before: float = 0.0
    refused_until: float = 0.0
    end: End = End.NONE
    maybe: set[End] = field(default_factory=set)
    failed: int = 0
    open: int = 0
    lost: int = 0
    handled_by: Worker | None = None
    returned: bool = False
    held: bool = False


class Records:
    """All messages, by name."""

    def __init__(self, terms: ServiceOptions) -> None:
        self._terms = terms
        self.messages: dict[str, Record] = {}
        self.keys: dict[str, list[Record]] = {}
        self.duplicates: list[tuple[str, bytes]] = []
        self.ids: dict[bytes, Record] = {}
        self.figures: Counter[str] = Counter()

    def new(self, name: str, *, persistent: bool, customer: str, key: str) -> Record:
        """A message is about to be put."""
        record = self.messages[name] = Record(name, len(self.messages), persistent, customer, key=key)
        if key:
            self.keys.setdefault(key, []).append(record)
        return record

    # What workers see and are told

    def handed(self, worker: Worker, delivered: Delivered, asked: float, now: float) -> Record:
        """A worker that has asked for it has got a delivery now: it may."""
        (message,) = delivered.messages
        record = self.messages[message.data.decode()]
        name = record.name
        if record.put is Put.REFUSED:
            raise Violation(f"{name} is there, and its put was refused")
        if record.handled_by is not None:
            raise Violation(f"{name} is handled by two workers")
        if record.end is not End.NONE:
            raise Violation(f"{name} comes again, and is {record.end.value}")
        if now < max(record.not_before, record.refused_until):
            raise Violation(f"{name} comes {max(record.not_before, record.refused_until) - now} s before its instant")
        charged = delivered.attempt - 1
        least = record.failed if record.persistent else 0
        if not least <= charged <= record.failed + record.open + record.lost:
            raise Violation(
                f"{name} has been charged {charged} times; {record.failed} attempts have failed, {record.open} may "
                f"have, {record.lost} were lost"
            )
        limit = self._terms.attempts
        assert limit is not None
        if delivered.attempt > limit and not (record.lost and self._is_alone(worker)):
            raise Violation(f"{name} comes for the attempt {delivered.attempt} of {limit}")
        if self._terms.order_by:
            self._check_order(record, asked)
        record.handled_by = worker
        worker.handled[delivered.id] = delivered
        self.figures["deliveries"] += 1
        return record

    def _is_alone(self, worker: Worker) -> bool:
        return not worker.handled

    def _check_order(self, record: Record, asked: float) -> None:
        """Nothing of its customer that was put before it is still to come, but what waited for its first instant when
        the worker asked.
        """
        for other in self.messages.values():
            if other is record or other.customer != record.customer:
                continue
            if other.handled_by is not None:
                raise Violation(f"{record.name} and {other.name} of {record.customer} are handled at a time")
            sure = other.put is Put.MADE and other.persistent and other.end is End.NONE and not other.maybe
            if sure and not other.held and other.number < record.number and not self._is_delayed(other, asked):
                raise Violation(f"{record.name} comes before {other.name} of {record.customer}")

    @staticmethod
    def _is_delayed(record: Record, now: float) -> bool:
        never_tried = not (record.failed or record.open or record.lost or record.returned)
        return never_tried and now < record.not_before + 1e-6

    def let_go(self, record: Record) -> None:
        """A delivery has ended, whatever became of the message."""
        record.handled_by = None

    def lost(self, worker: Worker) -> None:
        """A worker has gone, or the queue manager under it."""
        for delivered in worker.handled.values():
            record = self.messages[delivered.messages[0].data.decode()]
            record.lost += 1
            record.maybe.add(End.DEAD)
            self.let_go(record)
        worker.handled.clear()

    def any_may_be_lost(self) -> None:
        """Deliveries have gone that no worker had handled yet: nobody knows of which messages."""
        for record in self.messages.values():
            if record.end is End.NONE:
                record.lost += 1
                record.maybe.add(End.DEAD)

    # The end

    def check_end(self, out: list[str], dead: list[str]) -> None:
        """Check what all that was put came to."""
        places: dict[str, list[End]] = {}
        for names, end in ((out, End.DONE), (dead, End.DEAD)):
            for name in names:
                places.setdefault(name, []).append(end)
        for record in self.messages.values():
            self._check_one(record, places.pop(record.name, []))
        if places:
            raise Violation(f"nobody has put {sorted(places)}")
        self._check_keys(frozenset([*out, *dead]))

    @staticmethod
    def _check_one(record: Record, found: list[End]) -> None:
        """The ends that a message has come to."""
        if len(found) > 1:
            raise Violation(f"{record.name} has come to {len(found)} ends: {[each.value for each in found]}")
        if found and record.put is Put.REFUSED:
            raise Violation(f"{record.name} is {found[0].value}, and its put was refused")
        if not found and record.put is Put.MADE and record.persistent:
            raise Violation(f"{record.name} is lost; it was {record.end.value}")
        if found and record.end is not End.NONE and found[0] is not record.end:
            raise Violation(f"{record.name} is {found[0].value}, and was {record.end.value}")
        if not found and record.end is not End.NONE and record.persistent:
            raise Violation(f"{record.name} was {record.end.value}, and is nowhere")
        if record.end is End.NONE and found and found[0] not in record.maybe:
            raise Violation(f"{record.name} is {found[0].value}, and nobody has done that")

    def _check_keys(self, found: frozenset[str]) -> None:
        """Of the messages of a key there is one, if any put with it was answered; duplicates were told its MsgId."""
        for key, records in self.keys.items():
            there = [record.name for record in records if record.name in found]
            if len(there) > 1:
                raise Violation(f"{there} have the key {key}, all of them")
            if not there and any(record.put is not Put.UNKNOWN for record in records):
                raise Violation(f"no message has the key {key}, and a put with it was answered")
        for key, msg_id in self.duplicates:
            first = self.ids.get(msg_id)
            if first is not None and first.key != key:
                raise Violation(f"a duplicate of {key} was told the MsgId of {first.name}")
