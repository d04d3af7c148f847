"""The ledger: what programs asked for and what they were told, kept outside the queue manager.

It knows no order of events inside the queue manager. It knows when a call was made and when it was answered, and that
what one program has seen cannot be undone any more. Whatever contradicts that is a `Violation`, and names the rule:
the invariants are those of the design, the rules those at the head of `broker/engine/journal/journal.py`.

A message is told apart by its name, with which its data begins; no two have the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count
from typing import TYPE_CHECKING

from broker.mqi.structures import NO_ID

if TYPE_CHECKING:
    from broker.interface import Message as Got
    from broker.mqi import MessageDescriptor
    from tests.simulation.clock import SimulatedClock

NEVER = 1 << 60
_ROUNDING = 0.001  # seconds


class Violation(AssertionError):  # it is the finding that counts
    """The queue manager did what it must not do."""


class State(Enum):
    """The knowledge of the programs about a unit of work."""

    OPEN = auto()
    COMMITTING = auto()  # asked for, and not answered: it may have happened
    COMMITTED = auto()
    BACKING_OUT = auto()
    BACKED_OUT = auto()


ENDED = (State.COMMITTED, State.BACKED_OUT)


class Unit:
    """A unit of work: what a program put in it and got in it. A call outside syncpoint has one of its own."""

    def __init__(self, name: str, state: State = State.OPEN) -> None:
        self.name = name
        self.state = state
        self.puts: list[Message] = []
        self.gets: list[Message] = []

    def __str__(self) -> str:
        return f"{self.name} {self.state.name}"


@dataclass(eq=False, slots=True)
class QueueRecord:
    """A queue: whether it is HARDENBO, NPMCLASS(HIGH) and MSGDLVSQ(FIFO), and whether it is there (None: perhaps)."""

    name: str
    hardened: bool = True
    keeps: bool = False
    fifo: bool = False
    there: bool | None = True


@dataclass(eq=False, slots=True)
class Message:
    """A message: what was put, by which unit, who has got it, and what may have happened to it."""

    name: str
    data: bytes
    queue: QueueRecord
    priority: int
    persistent: bool
    unit: Unit
    correl_id: bytes
    issued: int
    expiry: int = -1  # tenths of a second
    deadline: tuple[float, float] | None = None  # between these moments of the wall clock it expires
    msg_id: bytes = NO_ID
    answered: int = NEVER
    perhaps: bool = False  # nobody was told whether it is in its unit at all
    holder: Unit | None = None  # who got it, and has not backed out
    held_at: int = 0
    freed_at: int = 0  # when it was last known to become visible
    low: int = 0  # the least BackoutCount that must be durable
    high: int = 0  # and the greatest that it may have
    marked: bool = False  # the mark of a get whose commit found no room may still be on disk
    gone: str = ""  # why it is not there any more, for messages that nobody got

    @property
    def committed(self) -> bool:
        return self.unit.state is State.COMMITTED

    def __str__(self) -> str:
        kind = "persistent" if self.persistent else "nonpersistent"
        held = f", got in {self.holder}" if self.holder else ""
        return f"{self.name} ({self.queue.name}, priority {self.priority}, {kind}, put in {self.unit}{held}{self.gone})"


@dataclass(eq=False, slots=True)
class Want:
    """A get that is under way: which messages will do, and whether it may wait."""

    queue: QueueRecord
    issued: int
    wall: int  # how many times the wall clock had shown by then
    syncpoint: bool = False
    waits: bool = False
    msg_id: bytes = NO_ID
    correl_id: bytes = NO_ID
    count: int = 1  # how many messages will do at most
    covered: bool = False  # a commit was made after it, before it was answered

    def accepts(self, message: Message) -> bool:
        return (
            message.queue is self.queue
            and self.msg_id in (NO_ID, message.msg_id)
            and self.correl_id in (NO_ID, message.correl_id)
        )


@dataclass(eq=False)
class Ledger:
    """All that programs did over all lives of one queue manager."""

    clock: SimulatedClock
    queues: dict[str, QueueRecord] = field(default_factory=dict)
    messages: dict[str, Message] = field(default_factory=dict)
    units: list[Unit] = field(default_factory=list)  # those not ended, and those that ended since the last audit
    strays: list[Want] = field(default_factory=list)  # gets outside syncpoint whose outcome nobody was told
    raises: dict[QueueRecord, int] = field(default_factory=dict)  # how many backout counts unanswered gets may raise
    orders: dict[QueueRecord, list[list[str]]] = field(default_factory=dict)  # as it was found, each time
    audited: int = 0  # when all was last compared
    refused_since: bool = False  # whether a write found no room since then
    refused_in_life: bool = False  # or before that, in this life of the queue manager
    units_ended: int = 0
    failing: bool = False  # the store has failed, and the queue manager is about to stop

    def __post_init__(self) -> None:
        self._ticks = count(1)
        self._names = count(1)
        self.now = 0

    def tick(self) -> int:
        """The number of the next event."""
        self.now = next(self._ticks)
        return self.now

    # Units

    def begin(self, name: str, state: State = State.OPEN) -> Unit:
        unit = Unit(name, state)
        self.units.append(unit)
        return unit

    def end(self, unit: Unit, state: State, *, counted: bool = False) -> None:
        """A unit has ended like this, as somebody was told or has seen. `counted`: the raised backout counts are
        durable.
        """
        if unit.state in ENDED:
            if unit.state is not state:
                raise Violation(f"invariant 3: the unit {unit} is seen to be {state.name}")
            return
        refused, unit.state = unit.state is State.COMMITTING and state is State.BACKED_OUT, state
        self.units_ended += 1
        if state is State.COMMITTED:
            for message in unit.puts:
                message.freed_at = self.tick()
        else:
            for message in unit.gets:
                self._release(message, unit, counted=counted)
                message.marked = refused and message.queue.hardened

    def _release(self, message: Message, unit: Unit, *, counted: bool) -> None:
        if message.holder is unit:
            message.holder = None
            message.freed_at = self.tick()
            message.high += 1
            message.low += counted

    # Puts

    def put(
        self, unit: Unit, queue: QueueRecord, *, priority: int, persistent: bool, expiry: int, size: int, correl: bytes
    ) -> Message:
        """A put is made; `size` is the length of its data beyond the name, `expiry` in tenths of a second or -1."""
        name = f"m{next(self._names)}"
        message = Message(
            name, f"{name} ".encode() + b"." * size, queue, priority, persistent, unit, correl, self.tick()
        )
        message.expiry = expiry
        if expiry >= 0:
            message.deadline = (self.clock.time() + expiry / 10, float("inf"))
        self.messages[name] = message
        unit.puts.append(message)
        return message

    def put_done(self, message: Message, md: MessageDescriptor, wall: int) -> None:
        """A put is answered; the wall clock had shown `wall` times when it was made."""
        message.answered = self.tick()
        message.msg_id = md.msg_id
        if message.deadline is not None:
            walls = self.clock.walls[wall - 1 :]
            message.deadline = (min(walls) + message.expiry / 10, max(walls) + message.expiry / 10)

    def put_undone(self, message: Message) -> None:
        """A put has failed, and left nothing."""
        if message.holder is not None or (message.unit.puts == [message] and message.committed):
            raise Violation(f"invariant 1: the put of {message} failed after it was seen")
        message.unit.puts.remove(message)
        message.unit = Unit(f"failed put of {message.name}", State.BACKED_OUT)

    # Gets

    def want(self, queue: QueueRecord, **how: bytes | int) -> Want:
        """A get is made."""
        return Want(queue, self.tick(), len(self.clock.walls), **how)  # type: ignore[arg-type]  # each by its name

    def got(self, want: Want, got: Got, unit: Unit) -> Message:
        """A destructive get of `unit` is answered."""
        message = self.seen(want, got)
        holder = message.holder
        if holder is not None:
            if self._holds(holder):
                raise Violation(f"invariant 2: {message} is given to {unit} too")
            self.end(holder, State.BACKED_OUT)
        if unit.state in (State.BACKING_OUT, State.BACKED_OUT):  # the answer comes after the connection has gone
            self.may_raise(message.queue)
            return message
        message.holder = unit
        message.held_at = self.tick()
        unit.gets.append(message)
        return message

    def unanswered(self, want: Want) -> None:
        """Nobody was told how a destructive get ended. Under syncpoint that loses nothing, unless a commit
        covers it.
        """
        self.may_raise(want.queue, want.count)
        if want.covered or not want.syncpoint:
            self.strays += [want] * want.count

    def may_raise(self, queue: QueueRecord, count: int = 1) -> None:
        """So many messages of this queue may go back with their backout counts raised, and nobody knows which."""
        self.raises[queue] = self.raises.get(queue, 0) + count

    def seen(self, want: Want, got: Got) -> Message:
        """A get or a browse shows a message: it must be committed, whole and alive, and nobody's."""
        message = self.message_of(got)
        if not want.accepts(message):
            raise Violation(f"{message} is not what was asked for on {want.queue.name}")
        self._check_alive(message, want)
        if message.unit.state in (State.OPEN, State.BACKING_OUT, State.BACKED_OUT) or message.gone:
            raise Violation(f"invariant 5: {message} is seen")
        self.end(message.unit, State.COMMITTED)
        message.perhaps = False
        holder, late = message.holder, 0
        if holder is not None and message.held_at < want.issued:
            if self._holds(holder):
                raise Violation(f"invariant 2: {message} is seen by others")
            self.end(holder, State.BACKED_OUT)
        elif holder is not None:
            late = 1  # it has been got, and perhaps backed out, since this get was made
        self.check_count(message, got.md.backout_count, late)
        return message

    def _holds(self, holder: Unit) -> bool:
        """True if what this unit has got must be nobody else's. While the queue manager breaks its connections it backs
        out one after the other, and nobody has been told yet.
        """
        return holder.state is State.COMMITTED or (holder.state is State.OPEN and not self.failing)

    def message_of(self, got: Got) -> Message:
        """Return the message, with the data and the descriptor that it was put with."""
        name = got.data.split(b" ")[0].decode(errors="replace")
        message = self.messages.get(name)
        if message is None:
            raise Violation(f"nobody has put {got.data[:40]!r}")
        md = got.md
        found = (got.data, md.priority, bool(md.persistence), md.correl_id)
        if found != (message.data, message.priority, message.persistent, message.correl_id):
            raise Violation(f"{message} has changed: {found}")
        if message.msg_id not in (NO_ID, md.msg_id):
            raise Violation(f"{message} has another MsgId")
        message.msg_id = md.msg_id
        return message

    def check_count(self, message: Message, backout_count: int, late: int = 0) -> None:
        """A message is found with this BackoutCount; `late` is how far the ledger may be behind."""
        if backout_count < message.low and not late:
            raise Violation(f"invariant 2: {message} has BackoutCount {backout_count}, not {message.low} at least")
        excess = backout_count - message.high - late
        if excess > 0:
            if excess > self.raises.get(message.queue, 0):
                raise Violation(f"invariant 2: {message} has BackoutCount {backout_count}, not {message.high} at most")
            self.raises[message.queue] -= excess
            message.high = backout_count - late

    def _check_alive(self, message: Message, want: Want) -> None:
        if message.deadline is not None and min(self.clock.walls[want.wall - 1 :]) >= message.deadline[1] + _ROUNDING:
            raise Violation(f"journal rule 9: {message} is given out after it has expired")

    def mortal(self, message: Message) -> bool:
        """True if it may have been discarded."""
        return message.deadline is not None and max(self.clock.walls) >= message.deadline[0] - _ROUNDING
