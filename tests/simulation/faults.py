"""Faults of a queue manager at a write, and in between."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from broker.storage.store import StoreFailedError, StoreFullError

if TYPE_CHECKING:
    from broker.testing import FaultStore


class Kind(StrEnum):
    """A kind of fault; its value is its name on the command line."""

    NONE = "none"
    FULL = "full"  # the write finds no room, and the next one neither, whatever they are
    NO_ROOM = "no-room"  # from this write on there is no room for anything that adds, for a while
    LOST = "lost"  # the write fails and is not there; nobody can know
    WRITTEN = "written"  # the write fails and is there; nobody can know
    CRASH_BEFORE = "crash-before"  # the process dies before the write
    CRASH_AFTER = "crash-after"  # the write is there, and the process dies before it learns of it
    CRASH = "crash"  # the process dies at a step, wherever its writes are then


AT_WRITES = (Kind.FULL, Kind.NO_ROOM, Kind.LOST, Kind.WRITTEN, Kind.CRASH_BEFORE, Kind.CRASH_AFTER)
"""The kinds that strike at a write; `CRASH` strikes at a step."""

FULL_WRITES = 2
"""How many writes in a row find no room."""


class Fault(NamedTuple):
    """A fault to come. `at` is the number of the write that it strikes, from 1 and over all lives of the queue
    manager, or the number of the step for CRASH.
    """

    kind: Kind
    at: int = 0

    def arm(self, store: FaultStore) -> None:
        """Plan it, if it strikes at a write that is still to come."""
        after = self.at - store.writes
        if after < 1:
            return
        match self.kind:
            case Kind.FULL:
                for number in range(FULL_WRITES):
                    store.fail_next(StoreFullError("the disk is full"), after=after + number)
            case Kind.NO_ROOM:
                store.fill(after=after)
            case Kind.LOST | Kind.WRITTEN:
                store.fail_next(StoreFailedError("no answer"), after=after, lose=self.kind is Kind.LOST)
            case Kind.CRASH_BEFORE | Kind.CRASH_AFTER:
                store.hold(after=after, written=self.kind is Kind.CRASH_AFTER)

    def __str__(self) -> str:
        if self.kind is Kind.NONE:
            return "no fault"
        return f"{self.kind} at {'step' if self.kind is Kind.CRASH else 'write'} {self.at}"
