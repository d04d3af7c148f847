"""What a store must have: kept outside of it, in the plainest way, and never read from any of its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.storage.store import MessageRow, ObjectRow, Rows

if TYPE_CHECKING:
    from random import Random


@dataclass(slots=True)
class State:
    """All rows, with their data. A state is never changed: `after` makes another."""

    messages: dict[int, MessageRow] = field(default_factory=dict)
    objects: dict[tuple[str, str], ObjectRow] = field(default_factory=dict)
    high_water: int = 0

    def after(self, rows: Rows) -> State:
        """The state that a batch leaves."""
        messages, objects = dict(self.messages), dict(self.objects)
        for row in rows.inserts:
            messages[row.id] = row
        for id, count in rows.backouts:
            messages[id] = messages[id]._replace(backout_count=count, hardened=0)
        for id in rows.hardened:
            messages[id] = messages[id]._replace(hardened=1)
        for id in rows.removals:
            del messages[id]
        for key in rows.dropped:
            del objects[key]
        for each in rows.objects:
            objects[each.space, each.name] = each
        return State(messages, objects, max(self.high_water, rows.high_water))

    def without_nonpersistent(self) -> State:
        """The state after messages that are kept once have been given."""
        return State({row.id: row for row in self.messages.values() if row.persistent}, self.objects, self.high_water)

    def loaded(self) -> tuple[list[MessageRow], list[ObjectRow], int]:
        """What a load gives."""
        messages = [self.messages[id]._replace(data=None) for id in sorted(self.messages)]
        return messages, [self.objects[key] for key in sorted(self.objects)], self.high_water


class Traffic:
    """Random batches on a state, as a queue manager's journal makes them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._id = 0
        self._number = 0

    def batch(self, state: State, *, grows: bool = True, large: bool = False) -> Rows:
        """The next batch. `grows`: it may put messages and store objects. `large`: it fits no file of the log."""
        random = self._random
        rows = Rows()
        live = list(state.messages)
        if large:
            for _ in range(20):
                rows.inserts.append(self._message(4000))
            return rows
        for _ in range(random.choice((1, 1, 2, 3, 8))):
            kind = random.random()
            if kind < 0.55 and grows:
                rows.inserts.append(self._message())
            elif kind < 0.85 and live:
                rows.removals.append(self._take(live))
            elif kind < 0.9 and live:
                id = self._take(live)
                rows.backouts.append((id, state.messages[id].backout_count + 1))
            elif kind < 0.94 and live:
                rows.hardened.append(self._take(live))
            elif kind < 0.97:
                self._object(rows, state, grows=grows)
            else:
                rows.high_water = state.high_water + random.randrange(1, 1000)
        if not rows:
            rows.high_water = state.high_water + 1
        return rows

    def last_batch(self) -> Rows:
        """What an orderly stop writes last: messages that are kept over that one stop."""
        kept = [self._message(persistent=0) for _ in range(self._random.randrange(1, 4))]
        return Rows(inserts=kept, high_water=self._id)

    def _message(self, length: int | None = None, persistent: int = 1) -> MessageRow:
        random = self._random
        self._id += random.choice((1, 1, 1, 7))
        if length is None:
            length = random.choice((0, 10, 10, 100, 100, 600, 2000, 9000))
        data = random.randbytes(min(length, 16)).ljust(length, b"%d" % (self._id % 10))
        descriptor = b"MD  %d" % self._id + random.randbytes(random.choice((8, 300)))
        return MessageRow(self._id, random.randrange(3), random.randrange(10), persistent, descriptor, length, data)

    def _object(self, rows: Rows, state: State, *, grows: bool) -> None:
        names = [name for _, name in state.objects]
        if names and self._random.random() < 0.4:
            rows.dropped = [("QUEUE", self._random.choice(names))]
        elif grows:
            self._number += 1
            name = f"Q{self._random.randrange(6)}"
            attributes = self._random.randbytes(self._random.choice((20, 200)))
            rows.objects = [ObjectRow("QUEUE", name, self._number, "QLOCAL", attributes)]

    def _take(self, live: list[int]) -> int:
        """One of the messages that the batch has not touched: often the oldest, as it is with queues."""
        return live.pop(0 if self._random.random() < 0.6 else self._random.randrange(len(live)))
