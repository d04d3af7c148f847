"""The truth about a store: kept outside of it, in the plainest way, and never read from any of its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from broker.storage.store import KeyRow, MessageRow, Numbering, ObjectRow, Rows, StepRow

SOON: Final = 1.6e9 + 1e-3
"""A key with this window is over at once: from then on a store may have it or not."""

LATER: Final = 4e9


@dataclass(slots=True)
class State:
    """All rows, with their data. A state is never changed: `after` makes another."""

    messages: dict[int, MessageRow] = field(default_factory=dict)
    objects: dict[tuple[str, str], ObjectRow] = field(default_factory=dict)
    high_water: int = 0
    keys: dict[tuple[int, bytes], KeyRow] = field(default_factory=dict)
    steps: dict[tuple[int, int], StepRow] = field(default_factory=dict)

    def after(self, rows: Rows) -> State:
        """The state that a batch leaves."""
        messages, objects = dict(self.messages), dict(self.objects)
        for row in rows.inserts:
            messages[row.id] = row
        _let_go(messages, rows)
        for run in rows.held:
            for at, id in enumerate(run.ids):
                messages[id] = messages[id]._replace(holder=run.holder, sequence=run.first + at)
        for run in rows.placed:
            for at, id in enumerate(run.ids):
                messages[id] = messages[id]._replace(holder=0, sequence=0, place=run.first + at)
        for id in rows.removals:
            del messages[id]
        for key in rows.dropped:
            del objects[key]
        for each in (*rows.objects, *rows.states):
            objects[each.space, each.name] = each
        keys = {name: row for name, row in self.keys.items() if name not in rows.freed}
        keys |= {put[:2]: put for put in rows.keys}
        steps = self.steps | {each[:2]: each for each in rows.steps}
        steps = {name: row for name, row in steps.items() if row.id in messages}
        return State(messages, objects, max(self.high_water, rows.high_water), keys, steps)

    def may_be(self, other: State) -> bool:
        """True if it is the other, but for keys whose time is over."""
        over = {name: row for name, row in other.keys.items() if row.until == SOON}
        return State(self.messages, self.objects, self.high_water, over | self.keys, self.steps) == other

    def without_nonpersistent(self) -> State:
        """The state after messages that are kept once have been given: those that somebody holds stay."""
        kept = {row.id: row for row in self.messages.values() if row.persistent or row.holder}
        steps = {name: row for name, row in self.steps.items() if row.id in kept}
        return State(kept, self.objects, self.high_water, self.keys, steps)

    def loaded(self) -> tuple[list[MessageRow], list[ObjectRow], int]:
        """Return what a load gives."""
        messages = [self.messages[id]._replace(data=None) for id in sorted(self.messages)]
        return messages, [self.objects[key] for key in sorted(self.objects)], self.high_water


def _let_go(messages: dict[int, MessageRow], rows: Rows) -> None:
    """Marks, and what goes back: by a backout, or with what a handler leaves."""
    for id in rows.hardened:
        messages[id] = messages[id]._replace(hardened=1)
    for id, mark in rows.marked:
        messages[id] = messages[id]._replace(hardened=mark)
    for id, count in rows.backouts:
        messages[id] = messages[id]._replace(backout_count=count, hardened=0, holder=0, sequence=0)
    for id, count, handling in rows.handled:
        messages[id] = messages[id]._replace(backout_count=count, hardened=0, handling=handling)


class Traffic:
    """Random batches on a state, as a queue manager's journal makes them. `claims`: with consumers and prepared units,
    handlers and keys; it numbers from `begin` on.
    """

    def __init__(self, random: Random, *, claims: bool = True, begin: int = 0) -> None:
        self._random = random
        self._claims = claims
        self._id = begin
        self._number = begin
        self._sequence = 0
        self._handling = Random(random.getstate()[1][0])  # of its own: what is put and got is as ever
        self._stepping = Random(random.getstate()[1][1])
        self._steps = self._stepping.random() < 0.5  # whether handlers finish any
        self._released: list[MessageRow] = []  # that are not persistent, and may be claimed again

    def batch(self, state: State, *, grows: bool = True, large: bool = False) -> Rows:
        """The next batch. `grows`: it may put messages and store objects. `large`: it fits no file of the log."""
        rows = self._batch(state, grows=grows, large=large)
        if self._claims:
            self._handle(rows, state)
            self._step(rows, state, grows=grows and self._steps)
        return rows

    def _step(self, rows: Rows, state: State, *, grows: bool) -> None:
        """Steps that are finished, some of messages that come or go in the same batch."""
        random = self._stepping
        there = [row.id for row in (*state.messages.values(), *rows.inserts) if row.persistent]
        for id in random.sample(there, min(len(there), random.choice((0, 0, 1, 3)))) if grows else ():
            place = 1 + sum(of == id for of, _ in state.steps)
            value = random.randbytes(random.choice((0, 20, 3000)))
            rows.steps.append(StepRow(id, place, f"step {place}", value))

    def _handle(self, rows: Rows, state: State) -> None:
        """Delays and keys of puts, attempts that failed, marks of handlers, keys that are freed. What was marked is
        settled with the next batches.
        """
        random = self._handling
        touched = {*rows.removals, *rows.hardened, *(id for id, _ in rows.backouts)}
        touched.update(id for run in (*rows.held, *rows.placed) for id in run.ids)
        for at, row in enumerate(rows.inserts):
            if row.persistent and not row.holder and random.random() < 0.2:
                rows.inserts[at] = row._replace(handling=random.randbytes(random.choice((9, 40, 900))))
            if row.persistent and random.random() < 0.2:
                hashed = b"%016d" % random.randrange(30)
                put = KeyRow(
                    random.randrange(3), hashed, row.id, b"", b"%8d" % row.id, random.choice((0.0, SOON, LATER))
                )
                if put[:2] not in [each[:2] for each in rows.keys]:
                    rows.keys.append(put)
        if state.keys and random.random() < 0.15:
            rows.freed.append(random.choice(sorted(state.keys)))
        free = [id for id, row in state.messages.items() if row.persistent and not row.holder and id not in touched]
        for id in random.sample(free, min(len(free), random.choice((0, 0, 1, 2, 6)))):
            if random.random() < 0.5:
                left = random.choice((b"", random.randbytes(30), random.randbytes(2000)))
                rows.handled.append((id, state.messages[id].backout_count + 1, left))
            else:
                rows.marked.append((id, random.choice((2, 3))))

    def _batch(self, state: State, *, grows: bool, large: bool) -> Rows:
        random = self._random
        rows = Rows()
        live = list(state.messages)
        if large:
            for _ in range(20):
                rows.inserts.append(self._message(4000))
            return rows
        for _ in range(random.choice((1, 1, 2, 3, 8))):
            if self._claims and random.random() < 0.3:
                self._hold_or_let_go(rows, state, live, grows=grows)
                continue
            kind = random.random()
            if kind < 0.55 and grows:
                rows.inserts.append(self._message())
            elif kind < 0.85 and live:
                rows.removals.append(self._take(live))
            elif kind < 0.9 and live:
                self._release(rows, state.messages[self._take(live)])
            elif kind < 0.94 and live:
                rows.hardened.append(self._take(live))
            elif kind < 0.97:
                self._object(rows, state, grows=grows)
            else:
                rows.high_water = state.high_water + random.randrange(1, 1000)
        if not rows:
            rows.high_water = state.high_water + 1
        return rows

    # Consumers and prepared units. A message that is not persistent is kept while somebody holds it: it goes with that.

    def _hold_or_let_go(self, rows: Rows, state: State, live: list[int], *, grows: bool) -> None:
        """A claim, a stage, an acknowledgement, a release, a publication; and what is kept of who does it."""
        random = self._random
        held = [id for id in live if state.messages[id].holder]
        kind = random.random()
        if kind < 0.4 and grows:
            self._claim(rows, state, live)
        elif kind < 0.5 and grows:
            holder, length = random.randrange(1, 5), random.choice((1, 3, 6))
            rows.inserts += [
                self._message(persistent=random.randrange(2))._replace(holder=holder, sequence=at + 1)
                for at in range(length)
            ]
        elif kind < 0.75 and held:
            rows.removals += self._some(held, live)
        elif kind < 0.85 and held:
            for id in self._some(held, live):
                self._release(rows, state.messages[id])
        elif held:
            chosen = self._some(held, live)
            published = [id for id in chosen if state.messages[id].persistent]
            rows.removals += [id for id in chosen if id not in published]
            self._id += len(published) + 1
            rows.placed.append(Numbering(0, self._id - len(published), published))
        if not rows.states:
            which = random.randrange(2)
            rows.states.append(ObjectRow("CONSUMER", f"C{which}", 10**6 + which, "CONSUMER", random.randbytes(20)))

    def _claim(self, rows: Rows, state: State, live: list[int]) -> None:
        """The rows of messages that are not persistent come with it, for they have none; some are claimed again."""
        random = self._random
        free = [id for id in live if not state.messages[id].holder]
        new = [self._message(persistent=0) for _ in range(random.choice((0, 0, 1, 2)))]
        if self._released and self._released[-1].id not in state.messages:
            new.append(self._released.pop())
        rows.inserts += new
        ids = [*self._some(free, live), *(row.id for row in new)]
        random.shuffle(ids)
        self._sequence += len(ids)
        rows.held.append(Numbering(random.randrange(1, 5), self._sequence - len(ids) + 1, ids))

    def _release(self, rows: Rows, row: MessageRow) -> None:
        if row.persistent:
            rows.backouts.append((row.id, row.backout_count + 1))
        else:
            rows.removals.append(row.id)
            self._released.append(row._replace(holder=0, sequence=0))

    def _some(self, of: list[int], live: list[int]) -> list[int]:
        """Some of these, which the batch then has touched."""
        chosen = self._random.sample(of, min(len(of), self._random.choice((1, 2, 5, 20))))
        if self._random.random() < 0.6:
            chosen.sort()
        for id in chosen:
            live.remove(id)
        return chosen

    def last_batch(self) -> Rows:
        """Return the last batch of an orderly stop: messages that are kept over that one stop."""
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
        names = [name for space, name in state.objects if space == "QUEUE"]
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
