"""The ledger: what client programs were told, and whether it agrees with what is on the queues afterwards.

Each call outside syncpoint and each unit of work is a `Unit` here: what it puts, what it got, and how it ended as far
as its program knows. When the programs have ended and the queue manager runs again, `reconcile` compares with what is
on the queues. The rules, with the invariants of the design that they stand for:

1.  What was acknowledged is so: its puts are there until a unit that is done has got them; its gets are gone for good.
2.  A unit that was backed out, refused, or whose commit was never asked for, has left no trace.
3.  A unit whose commit (or single call) was not answered is done as a whole or not at all.
4.  No message is there twice, is committed to two getters, comes again once its get is committed, or is seen by anybody
    before its unit is done.
5.  What a program put on a queue lies there in the order of priorities, then of its puts.
6.  BackoutCount tells at least how often a message was backed out. (On a store that takes nothing at all, a backout is
    done without its count: such a ledger is made with `counts=False`.)
7.  No two messages have one MsgId.

One exception (journal rule 11): a get outside syncpoint that was not answered may have removed a message that nobody
saw. So as many messages may be missing from a queue as such gets were made on it, and no more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


class Found(NamedTuple):
    """A message that was found on a queue, in the order of the queue."""

    key: str
    priority: int
    backout_count: int


class ComplaintError(AssertionError):
    """The queue manager has broken a promise; the text says which."""


@dataclass(eq=False, slots=True)
class Unit:
    """A unit of work, or a call outside syncpoint. `puts` and `gets` tell the queue of each message."""

    puts: dict[str, str] = field(default_factory=dict)
    gets: dict[str, str] = field(default_factory=dict)
    asked: bool = False
    """Whether its outcome is with the queue manager: the single call or the commit was made."""


@dataclass(slots=True)
class Figures:
    """The figures of a ledger."""

    puts_acknowledged: int = 0
    gets_acknowledged: int = 0
    units_done: int = 0
    units_backed_out: int = 0
    units_cut_short: int = 0
    unknown_done: int = 0
    unknown_undone: int = 0
    refusals: int = 0
    lost_unseen: int = 0
    reconciliations: int = 0

    def outcomes(self) -> str:
        """Return in words how the calls ended whose outcome the programs were not told."""
        unknown = self.unknown_done + self.unknown_undone
        return f"of {unknown} calls of unknown outcome, {self.unknown_done} were done as a whole, the others not at all"

    def __iadd__(self, other: Figures) -> Figures:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        return self


class Ledger:
    """The knowledge of the programs of one data directory. `hardened` names the queues with HARDENBO."""

    def __init__(self, hardened: Collection[str] = (), *, counts: bool = True) -> None:
        self.figures = Figures()
        self.there: dict[str, str] = {}
        self._hardened = frozenset(hardened)
        self._counts = counts
        self._open: dict[Unit, None] = {}
        self._consumed: set[str] = set()
        self._void: set[str] = set()  # put by units that are undone
        self._seen: set[str] = set()
        self._backouts: Counter[str] = Counter()
        self._ids: set[bytes] = set()
        self._unanswered_gets: Counter[str] = Counter()

    # What programs say.

    def begin(self) -> Unit:
        """A unit that nothing is known of yet."""
        unit = Unit()
        self._open[unit] = None
        return unit

    def put(self, unit: Unit, queue: str, key: str) -> None:
        """A program puts a message: said before the call."""
        unit.puts[key] = queue

    def not_put(self, unit: Unit, key: str) -> None:
        """A put under syncpoint was refused; the rest of its unit is as it was."""
        del unit.puts[key]
        self._void.add(key)
        self.figures.refusals += 1

    def named(self, msg_id: bytes) -> None:
        """A message that was put was given this MsgId."""
        if msg_id in self._ids:
            raise ComplaintError(f"the MsgId {msg_id.hex()} was given to two messages")
        self._ids.add(msg_id)

    def got(self, unit: Unit, queue: str, key: str) -> None:
        """A program was given a message."""
        if key in self._consumed:
            raise ComplaintError(f"{key} came again from {queue}: its get was committed")
        if key in self._void:
            raise ComplaintError(f"{key} came from {queue}: its put is undone")
        self._seen.add(key)
        unit.gets[key] = queue

    def unanswered_get(self, queue: str, messages: int = 1) -> None:
        """A get outside syncpoint, of so many messages at most, was not answered."""
        self._unanswered_gets[queue] += messages

    def done(self, unit: Unit) -> None:
        """The call or the commit was acknowledged."""
        del self._open[unit]
        self.there |= unit.puts
        self._remove(unit)
        self.figures.units_done += 1
        self.figures.puts_acknowledged += len(unit.puts)
        self.figures.gets_acknowledged += len(unit.gets)

    def backed_out(self, unit: Unit) -> None:
        """The backout was acknowledged, or a commit answered that it was backed out."""
        del self._open[unit]
        self._backouts.update(unit.gets.keys())
        self._undo(unit)
        self.figures.units_backed_out += 1

    def refused(self, unit: Unit) -> None:
        """A single call failed for good, with a reason that says that nothing was done."""
        del self._open[unit]
        self._undo(unit)
        self.figures.refusals += 1

    # What is on the queues.

    def reconcile(self, found: Mapping[str, Iterable[Found]]) -> None:
        """Compare with all that is on the queues, while no program runs; raises ComplaintError.

        From then on, the outcome of every unit is known.
        """
        lists = {queue: list(messages) for queue, messages in found.items()}
        where = {message.key: queue for queue, messages in lists.items() for message in messages}
        doubles = [
            f"{key} is there {count} times"
            for key, count in Counter(message.key for messages in lists.values() for message in messages).items()
            if count > 1
        ]
        complaints = doubles + self._end_units(where) + self._compare(where)
        for queue, messages in lists.items():
            complaints += _out_of_order(queue, messages) if not self._unanswered_gets[queue] else []
            complaints += [
                f"{key} on {queue} has BackoutCount {count}, and was backed out {self._backouts[key]} times"
                for key, _, count in messages
                if self._counts and count < self._backouts[key]
            ]
        if complaints:
            raise ComplaintError(_reported(complaints))
        self.there = where
        self._seen.clear()
        self._unanswered_gets.clear()
        self.figures.reconciliations += 1

    def _end_units(self, where: Mapping[str, str]) -> list[str]:
        """Decide how each unit that is still open has ended, from what is there."""
        complaints = []
        units, self._open = list(self._open), {}
        asked = [unit for unit in units if unit.asked]
        takers = Counter(key for unit in asked for key in unit.gets)
        self.figures.units_cut_short += len(units) - len(asked)
        for unit in units:
            verdicts = set(self._verdicts(unit, where, takers)) if unit.asked else {False}
            if len(verdicts) > 1:
                complaints.append(f"a unit of work is there in part: it put {unit.puts}, and got {unit.gets}")
            elif True in verdicts:
                self.there |= unit.puts
                self._remove(unit)
                self.figures.unknown_done += 1
            elif False in verdicts:
                self._backouts.update(key for key, queue in unit.gets.items() if queue in self._hardened)
                self._undo(unit)
                self.figures.unknown_undone += unit.asked
            else:
                # What it put may have gone with a get that nobody saw, or other units of unknown outcome got the same.
                self.there |= {key: queue for key, queue in unit.puts.items() if key in where}
                for key in unit.gets.keys() - where.keys():
                    self.there.pop(key, None)
        return complaints

    def _verdicts(self, unit: Unit, where: Mapping[str, str], takers: Counter[str]) -> Iterable[bool]:
        """Yield what each message of a unit says of it: that it is done, or that it is not."""
        for key, queue in unit.puts.items():
            if key in where or key in self._seen:
                yield True
            elif not self._unanswered_gets[queue]:
                yield False
        for key in unit.gets:
            if key in where or key in self._consumed:
                yield False
            elif takers[key] == 1:
                yield True

    def _compare(self, where: Mapping[str, str]) -> list[str]:
        """Compare what is there with what must be."""
        expected = {key: queue for key, queue in self.there.items() if key not in self._consumed}
        missing = defaultdict(list)
        for key, queue in expected.items():
            if where.get(key) != queue:
                missing[queue].append(key)
        complaints = []
        for queue, keys in missing.items():
            if len(keys) > self._unanswered_gets[queue]:
                complaints.append(f"{queue} lacks {len(keys)} messages that must be there: {' '.join(keys[:20])}")
            self.figures.lost_unseen += len(keys)
        for key, queue in where.items():
            if expected.get(key) != queue:
                why = "was got for good" if key in self._consumed else "belongs to a unit that is undone"
                complaints.append(f"{key} is on {queue}, and {why}")
        return complaints

    def _remove(self, unit: Unit) -> None:
        """The gets of a unit are for good."""
        for key, queue in unit.gets.items():
            if key in self._consumed:
                raise ComplaintError(f"{key} of {queue} was committed to two getters")
            self._consumed.add(key)
            self.there.pop(key, None)

    def _undo(self, unit: Unit) -> None:
        """The puts of a unit have never been."""
        self._void |= unit.puts.keys()
        seen = self._seen & unit.puts.keys()
        if seen:
            raise ComplaintError(f"{' '.join(sorted(seen))} was seen, and its put is undone")


def _out_of_order(queue: str, messages: Iterable[Found]) -> list[str]:
    """Return the messages on a queue behind a later message of the same program, or behind one of lower priority."""
    complaints = []
    last: dict[str, tuple[int, int]] = {}
    lowest = 9
    for key, priority, _ in messages:
        program, _, number = key.partition(".")
        place = -priority, int(number)
        if place < last.get(program, place) or priority > lowest:
            complaints.append(f"{key} of priority {priority} is out of its order on {queue}")
        last[program] = place
        lowest = min(lowest, priority)
    return complaints


def _reported(complaints: list[str]) -> str:
    more = f"\nand {len(complaints) - 20} more" if len(complaints) > 20 else ""
    return "\n".join(complaints[:20]) + more
