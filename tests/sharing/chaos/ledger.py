"""The ledger of what programs have done, and what they were told: against what is there in the end.

A unit of work puts messages on shared queues, and one that is mixed puts a mark on a private queue of its member too.
Each message has a key; it may be moved from queue to queue under syncpoint, and is consumed in the end. A nonpersistent
message may be gone when the database has crashed, and for no other reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


_IN_ORDER: Final = ("IN", "LINE", "ALONE", "GROUPS")
"""Where messages are put once, by their producers, and by one way."""


class Key(NamedTuple):
    """The key of a message: who put it, in which of its units, which of its messages; its priority, and its persistence
    (MQPER_PERSISTENT is 1).
    """

    producer: str
    unit: int
    number: int
    priority: int
    persistence: int = 1

    def __bytes__(self) -> bytes:
        return ":".join(map(str, self)).encode()

    @classmethod
    def of(cls, body: bytes) -> Key:
        producer, *numbers = body.decode().split(":")
        return cls(producer, *map(int, numbers))


class Outcome(Enum):
    """The outcome of a unit of work that a program was told."""

    COMMITTED = "committed"
    BACKED_OUT = "backed out"
    UNKNOWN = "unknown"


@dataclass
class Put:
    """A unit of work that put messages; or one message that was put `alone`, outside syncpoint."""

    keys: list[Key]
    member: str
    mixed: bool = False
    outcome: Outcome = Outcome.UNKNOWN
    alone: bool = False
    crashed: bool = False  # the database, since it began


@dataclass
class Ledger:
    """The ledger of what all programs were told. `complaints` are what cannot be; `in_turn` is what was consumed of
    LINE, by one program at a time: for each unit of work its number, drawn from `turns` before the first get, since
    programs may hear late of a commit; `unheard` are gets outside syncpoint of which a program has not heard what they
    got, by reason code; `given` is what the database has given to such gets.
    """

    puts: dict[tuple[str, int], Put] = field(default_factory=dict)
    consumed: dict[Key, Outcome] = field(default_factory=dict)
    in_turn: list[tuple[int, list[Key]]] = field(default_factory=list)
    turns: Iterator[int] = field(default_factory=count)
    unheard: Counter[str] = field(default_factory=Counter)
    given: set[Key] = field(default_factory=set)
    moved: int = 0
    published: int = 0  # batches
    complaints: list[str] = field(default_factory=list)
    now: int = 0  # counts what is told
    crashes: int = 0  # of the database: each counts when it begins, and when it is over
    _gone: dict[Key, int] = field(default_factory=dict)

    def put(self, unit: Put) -> Put:
        """A unit of work that a program begins: of its end it has heard nothing yet."""
        producer, number = unit.keys[0][:2]
        self.puts[producer, number] = unit
        return unit

    def database_crashed(self) -> None:
        """Nonpersistent messages that have been put may be gone."""
        self.crashes += 1
        for unit in self.puts.values():
            unit.crashed = True

    def got(self, key: Key, since: int) -> None:
        """A call that began at `since` has got a message."""
        if self._gone.get(key, since + 1) <= since:
            self.complaints.append(f"{key} was got again after it had been consumed")

    def got_group(self, keys: list[Key], crashes: int) -> None:
        """A program has got a group, of which all was there: what its unit of work has put; or there was none. When it
        began the database had had so many `crashes`: the end of a nonpersistent group may have gone since.
        """
        unit = self.puts[keys[0][:2]] if keys else None
        if unit is None or keys == unit.keys:
            return
        if keys != unit.keys[: len(keys)] or keys[0].persistence or crashes == self.crashes:
            self.complaints.append(f"{keys} were got as a group: {unit}")

    def consume(self, key: Key, outcome: Outcome) -> None:
        """A message was got for good, or perhaps. Programs may hear late of what has come to nothing: by then another
        may have got the message.
        """
        self.now += 1
        if self.consumed.get(key) is not Outcome.COMMITTED:
            if outcome is not Outcome.BACKED_OUT:
                self.consumed[key] = outcome
            if outcome is Outcome.COMMITTED:
                self._gone[key] = self.now
        elif outcome is Outcome.COMMITTED:
            self.complaints.append(f"{key} was consumed twice")

    def judge(self, there: dict[str, list[Key]], marks: dict[str, list[tuple[str, int]]]) -> list[str]:
        """Return what is wrong: `there` are the messages on each shared queue, in order; `marks` the units whose marks
        are on each member's private queue.
        """
        wrong = list(self.complaints)
        places: dict[Key, list[str]] = {}
        for queue, keys in there.items():
            for key in keys:
                places.setdefault(key, []).append(queue)
            if queue in _IN_ORDER:
                wrong += _out_of_order(queue, keys)
        in_turn = [key for _, keys in sorted(self.in_turn) for key in keys]
        wrong += _out_of_order("in turn", [key for key in in_turn + there.get("LINE", []) if self._was_seen(key)])
        wrong += [f"{key} is there more than once: {queues}" for key, queues in places.items() if len(queues) > 1]
        lost = [unit for unit in self.puts.values() if unit.alone and self._is_lost(unit, places)]
        wrong += [f"lost: given to nobody: {unit}" for unit in lost if not self.given.issuperset(unit.keys)]
        if len(lost) > self.unheard.total():
            wrong.append(f"lost: more than those that were got for nobody, {dict(self.unheard)}: {lost}")
        for unit in self.puts.values():
            wrong += self._judge_unit(unit, places, marks)
        known = {key for unit in self.puts.values() for key in unit.keys}
        return [*wrong, *(f"{key} was never put" for key in places if key not in known)]

    def _judge_unit(
        self, unit: Put, places: dict[Key, list[str]], marks: dict[str, list[tuple[str, int]]]
    ) -> list[str]:
        consumed = [key for key in unit.keys if self.consumed.get(key) is Outcome.COMMITTED]
        wrong = [f"{key} is there though it was consumed" for key in consumed if key in places]
        certain = {self._existed(key, unit, key in places) for key in unit.keys}
        if unit.mixed:
            number = marks[unit.member].count(unit.keys[0][:2])
            if number > 1:
                wrong.append(f"the mark of {unit.keys[0]} is there {number} times")
            certain.add(bool(number))
        if True in certain and False in certain:
            wrong.append(f"torn: {unit}, of which there are {[key for key in unit.keys if key in places]}")
        if self._is_lost(unit, places) and not unit.alone:
            wrong.append(f"lost: {unit}")
        if unit.outcome is Outcome.BACKED_OUT and True in certain:
            wrong.append(f"there though backed out: {unit}")
        return wrong

    def _is_lost(self, unit: Put, places: dict[Key, list[str]]) -> bool:
        return unit.outcome is Outcome.COMMITTED and any(
            self._existed(key, unit, key in places) is False for key in unit.keys
        )

    def _existed(self, key: Key, unit: Put, there: bool) -> bool | None:
        """True if a message was put; None where one is not there that may have been consumed, or gone with a crash."""
        if there or self.consumed.get(key) is Outcome.COMMITTED:
            return True
        return None if key in self.consumed or (unit.crashed and not key.persistence) else False

    def _was_seen(self, key: Key) -> bool:
        """True if a message could be got before its producer put the next: one of whose end nobody heard may have come
        late.
        """
        unit = self.puts.get((key.producer, key.unit))
        return unit is not None and unit.outcome is Outcome.COMMITTED


def _out_of_order(queue: str, keys: list[Key]) -> list[str]:
    """Messages of one producer that are not in the order of their puts, within a priority."""
    last: dict[tuple[str, int], Key] = {}
    wrong = []
    for key in keys:
        before = last.get((key.producer, key.priority))
        if before is not None and before[1:3] >= key[1:3]:
            wrong.append(f"{queue}: {key} stands behind {before}")
        last[key.producer, key.priority] = key
    return wrong
