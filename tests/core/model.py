"""A queue manager with its messages, said plainly: lists that are walked from the front.

It has no indexes, no lines of waiters and no table of states; it is slow and easy to believe. A message is a number,
given in the order of the puts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from broker.mqi import MQRC

PUT, HERE, GOT = "PUT_PENDING", "AVAILABLE", "GET_PENDING"

Outcome: TypeAlias = int | MQRC
"""The number of a message, or the reason why there is none."""


@dataclass(eq=False)
class ModelMessage:
    """A message, on its queue."""

    number: int
    queue: ModelQueue
    rank: int
    persistent: bool
    deadline: float | None
    msg_id: str
    correl_id: str
    state: str = PUT
    backouts: int = 0
    kept: int | None = None  # the backout count on disk; None: it is not on disk

    @property
    def place(self) -> tuple[int, int]:
        return (-self.rank, self.number)


@dataclass(eq=False)
class ModelQueue:
    """A queue."""

    max_depth: int
    fifo: bool
    default_priority: int = 0
    put_inhibited: bool = False
    get_inhibited: bool = False
    messages: list[ModelMessage] = field(default_factory=list)
    waits: list[ModelWait] = field(default_factory=list)
    starts: int = 0

    @property
    def depth(self) -> int:
        return sum(message.state != GOT for message in self.messages)

    def in_order(self) -> list[ModelMessage]:
        return sorted(self.messages, key=lambda message: message.place)


@dataclass(eq=False)
class ModelUnit:
    """A unit of work."""

    puts: list[ModelMessage] = field(default_factory=list)
    gets: list[ModelMessage] = field(default_factory=list)


@dataclass(eq=False)
class ModelProgram:
    """A connection."""

    unit: ModelUnit | None = None


@dataclass(eq=False)
class ModelAccess:
    """An open queue."""

    program: ModelProgram
    queue: ModelQueue
    cursor: tuple[int, int] = (-10, 0)  # before every place


@dataclass(frozen=True)
class Wanted:
    """The fields of a get: an empty identifier is any."""

    msg_id: str = ""
    correl_id: str = ""
    browse: bool = False
    syncpoint: str = ""  # "", "always", "if persistent"

    @property
    def specific(self) -> bool:
        return bool(self.msg_id or self.correl_id)


@dataclass(eq=False)
class ModelWait:
    """A get that waits."""

    access: ModelAccess
    wanted: Wanted
    after: tuple[int, int]
    outcome: Outcome | None = None


class Model:
    """A queue manager."""

    def __init__(self, max_calls: int) -> None:
        self.max_calls = max_calls
        self.now = 0.0
        self.queues: dict[str, ModelQueue] = {}
        self.journal: list[tuple[ModelUnit, bool]] = []
        self.held = False
        self.settling = False

    # Calls

    def put(self, access: ModelAccess, message: ModelMessage, *, syncpoint: bool) -> MQRC | None:
        queue = access.queue
        if queue.depth >= queue.max_depth:
            self.expire(queue)
        if queue.put_inhibited:
            return MQRC.PUT_INHIBITED
        if queue.depth >= queue.max_depth:
            return MQRC.Q_FULL
        unit = (access.program.unit or ModelUnit()) if syncpoint else ModelUnit()
        if self.full(unit):
            return MQRC.SYNCPOINT_LIMIT_REACHED
        queue.messages.append(message)
        unit.puts.append(message)
        if syncpoint:
            access.program.unit = unit
        else:
            self.end(unit, commit=True)
        return None

    def get(self, access: ModelAccess, wanted: Wanted, *, after_cursor: bool = False) -> Outcome:
        if access.queue.get_inhibited:
            return MQRC.GET_INHIBITED
        after = access.cursor if after_cursor else (-10, 0)
        found = self.find(access.queue, wanted, after)
        return MQRC.NO_MSG_AVAILABLE if found is None else self.grant(access, wanted, found)

    def wait(self, access: ModelAccess, wanted: Wanted, *, after_cursor: bool = False) -> ModelWait:
        wait = ModelWait(access, wanted, access.cursor if after_cursor else (-10, 0))
        outcome = self.get(access, wanted, after_cursor=after_cursor)
        if outcome == MQRC.NO_MSG_AVAILABLE:
            access.queue.waits.append(wait)
        else:
            wait.outcome = outcome
        return wait

    def get_under_cursor(self, access: ModelAccess, wanted: Wanted) -> Outcome:
        if access.queue.get_inhibited:
            return MQRC.GET_INHIBITED
        for message in access.queue.messages:
            if message.place == access.cursor and message.state == HERE and not self.expired(message):
                return self.grant(access, wanted, message)
        return MQRC.NO_MSG_UNDER_CURSOR

    def end_unit(self, program: ModelProgram, *, commit: bool) -> None:
        unit, program.unit = program.unit, None
        if unit is not None:
            self.end(unit, commit=commit)

    def give_back(self, program: ModelProgram, message: ModelMessage) -> None:
        assert program.unit is not None
        program.unit.gets.remove(message)
        message.state = HERE
        self.offer(message)

    def put_again(self, message: ModelMessage) -> None:
        message.backouts += 1
        message.state = PUT
        message.queue.messages.append(message)
        self.end(ModelUnit(puts=[message]), commit=True)

    def close(self, access: ModelAccess) -> None:
        self.end_waits(access.queue, MQRC.HOBJ_ERROR, of=access)

    def inhibit_gets(self, queue: ModelQueue, *, inhibited: bool) -> None:
        queue.get_inhibited = inhibited
        if inhibited:
            self.end_waits(queue, MQRC.GET_INHIBITED)

    def restart(self) -> None:
        """Restart: what was written is all there is, and nobody holds any of it."""
        self.journal.clear()
        for queue in self.queues.values():
            queue.waits.clear()
            queue.messages = [message for message in queue.messages if message.kept is not None]
            queue.starts = len(queue.messages)
            for message in queue.messages:
                message.state = HERE
                message.backouts = message.kept or 0

    # What follows from them

    def find(self, queue: ModelQueue, wanted: Wanted, after: tuple[int, int]) -> ModelMessage | None:
        for message in queue.in_order():
            if message.state == HERE and message.place > after and self.matches(wanted, message):
                if not self.expired(message):
                    return message
                queue.messages.remove(message)
        return None

    def matches(self, wanted: Wanted, message: ModelMessage) -> bool:
        return wanted.msg_id in ("", message.msg_id) and wanted.correl_id in ("", message.correl_id)

    def grant(self, access: ModelAccess, wanted: Wanted, message: ModelMessage) -> Outcome:
        if wanted.browse:
            access.cursor = message.place
            return message.number
        if wanted.syncpoint == "always" or (wanted.syncpoint == "if persistent" and message.persistent):
            unit = access.program.unit or ModelUnit()
            if self.full(unit):
                return MQRC.SYNCPOINT_LIMIT_REACHED
            access.program.unit = unit
            unit.gets.append(message)
            message.state = GOT
        else:
            message.state = GOT
            self.end(ModelUnit(gets=[message]), commit=True)
        return message.number

    def end(self, unit: ModelUnit, *, commit: bool) -> None:
        if not commit:
            for message in unit.gets:
                message.backouts += 1
        self.journal.append((unit, commit))
        if not self.held:
            self.settle()

    def settle(self) -> None:
        """One after the other: what a unit leads to stands behind those that are frozen already."""
        if self.settling:
            return
        self.settling = True
        while self.journal:
            self.settle_next(written=True)
        self.settling = False

    def settle_next(self, *, written: bool) -> None:
        unit, commit = self.journal.pop(0)
        come, go = (unit.puts, unit.gets) if commit and written else (unit.gets, unit.puts)
        for message in go:
            message.queue.messages.remove(message)
            message.kept = None
        for message in come:
            message.state = HERE
            message.queue.starts += commit and written
            if message.persistent and written:
                message.kept = message.backouts
        for message in sorted(come, key=lambda message: message.place):
            self.offer(message)

    def offer(self, message: ModelMessage) -> None:
        """Browsers first, then those who ask for something, then those who take anything."""
        waits = message.queue.waits
        browsers = [wait for wait in waits if wait.wanted.browse]
        specific = [wait for wait in waits if not wait.wanted.browse and wait.wanted.specific]
        general = [wait for wait in waits if not wait.wanted.browse and not wait.wanted.specific]
        for wait in browsers + specific + general:
            if not self.matches(wait.wanted, message) or message.place <= wait.after:
                continue
            if self.expired(message):
                message.queue.messages.remove(message)
                return
            waits.remove(wait)
            wait.outcome = self.grant(wait.access, wait.wanted, message)
            if message.state != HERE:
                return

    def full(self, unit: ModelUnit) -> bool:
        return len(unit.puts) + len(unit.gets) >= self.max_calls

    def expired(self, message: ModelMessage) -> bool:
        return message.deadline is not None and message.deadline <= self.now

    def expire(self, queue: ModelQueue) -> None:
        queue.messages = [message for message in queue.messages if message.state != HERE or not self.expired(message)]

    def end_waits(self, queue: ModelQueue, reason: MQRC, of: ModelAccess | None = None) -> None:
        for wait in list(queue.waits):
            if of is None or wait.access is of:
                queue.waits.remove(wait)
                wait.outcome = reason
