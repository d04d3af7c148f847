"""The records of what the actors did and were told: the producers' ledger, the rival's, and the checkpoints and outputs
of queries.

It is kept outside the queue manager, and knows nothing of the inside. Whatever contradicts it is a `Violation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Violation(AssertionError):  # it is the finding that counts
    """The queue manager did what it must not do."""


class Member(NamedTuple):
    """The place of a message in its group."""

    group: bytes
    number: int
    size: int


@dataclass(slots=True)
class Sent:
    """A message that a producer has put: its data is `name`. `sure`: the producer was told that it is there."""

    name: str
    queue: str
    priority: int
    persistent: bool
    member: Member | None
    life: int  # of the queue manager, when it was put
    sure: bool = False

    @property
    def line(self) -> tuple[str, str, int]:
        """Messages with the same keep their order."""
        return self.name.partition(".")[0], self.queue, self.priority

    @property
    def order(self) -> int:
        """Its place among the messages of its producer."""
        return int(self.name.partition(".")[2])


class Row(NamedTuple):
    """A claimed message as a task has read it."""

    sequence: int
    name: str
    backout_count: int


class Offset(NamedTuple):
    """A position, as Spark keeps it."""

    consumer: str
    lineage: str
    sequence: int


class LogTaken(Exception):  # it is no error of ours: Spark ends a query that meets another on its checkpoint
    """Another driver has logged this batch."""


@dataclass(eq=False)
class Query:
    """A streaming query that archives: its checkpoint, whose files are written once each, and its output, by batch."""

    consumer: str
    groups: bool  # its consumer claims whole groups
    offsets: dict[int, Offset] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    output: dict[int, list[Row]] = field(default_factory=dict)
    copy: bool = False  # its checkpoint began as a copy of another
    copied: int = -1  # the last batch that came with it: not of this output
    over: bool = False  # given up: a new checkpoint and a new output take its place

    def log(self, batch: int, offset: Offset) -> None:
        """Write a file of the offset log. Raises LogTaken."""
        if self.offsets.setdefault(batch, offset) != offset:
            raise LogTaken

    def write(self, batch: int, rows: list[Row]) -> None:
        """Write the output of a batch: what is there stays."""
        self.output.setdefault(batch, rows)

    def copied_now(self) -> Query:
        """A copy of the checkpoint, for a query with an output of its own."""
        return Query(
            self.consumer,
            self.groups,
            dict(self.offsets),
            set(self.commits),
            copy=True,
            copied=max(self.commits, default=-1),
        )

    @property
    def highest(self) -> int:
        """The last sequence in its output."""
        return max((row.sequence for rows in self.output.values() for row in rows), default=0)


@dataclass(eq=False)
class Taking:
    """A unit of work of the rival. `ended` is whether its commit was answered; None: nobody was told."""

    names: list[str] = field(default_factory=list)
    committed: bool | None = False


@dataclass(eq=False, slots=True)
class Registration:
    """A call that makes somebody the reader of a consumer, and so stops all others: a register, or a resolve.

    `ended` is when it was over, and for ever where nobody knows; `refused`, that it has done nothing.
    """

    by: str
    begun: int
    ended: float = float("inf")
    refused: bool = False


@dataclass(eq=False)
class Records:
    """All of it, over all lives of one queue manager."""

    sent: dict[str, Sent] = field(default_factory=dict)
    taken: list[Taking] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    registrations: dict[str, list[Registration]] = field(default_factory=dict)
    twins: set[str] = field(default_factory=set)  # consumers that two queries have used
    doubled_by_copies: int = 0
    now: int = 0

    def tick(self) -> int:
        """The number of the next event."""
        self.now += 1
        return self.now

    def begin(self, consumer: str, by: str) -> Registration:
        """Somebody is about to become the reader of a consumer."""
        made = Registration(by, self.tick())
        self.registrations.setdefault(consumer, []).append(made)
        return made

    def replaced(self, consumer: str, own: Registration) -> bool:
        """True if somebody else has become the reader since for certain."""
        return any(
            each.by != own.by and not each.refused and each.begun > own.ended and each.ended < self.now
            for each in self.registrations[consumer]
        )

    def superseded(self, consumer: str, own: Registration) -> bool:
        """True if anybody else may have become the reader since."""
        return any(
            each.by != own.by and not each.refused and each.ended > own.begun for each in self.registrations[consumer]
        )
