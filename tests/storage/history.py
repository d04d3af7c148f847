"""The history of a store: what it was told, batch by batch, and what it must hold after each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from broker.storage.store import Numbering, Rows, StepRow
from tests.storage.samples import (
    ARCHIVE,
    ORDERS,
    SHIPPING,
    UNIT,
    Contents,
    handle,
    keep_keys,
    keep_steps,
    key,
    mark,
    message,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from broker.storage.store import KeyRow, MessageRow, ObjectRow, Store


class History:
    """Random batches from a seed, written one by one: number n is `batches[n - 1]`. The first has the definitions.

    A consumer and a prepared unit hold some of the messages, also of those that are not persistent; handlers have left
    something with others, and some have keys.
    """

    def __init__(self, seed: int, bytes_max: int = 1500) -> None:
        self._random = random.Random(seed)
        self._bytes_max = bytes_max
        self._there: list[int] = []
        self._holding = random.Random(seed)  # of its own: what is put and got is as ever
        self._handling = random.Random(seed)
        self._stepping = random.Random(seed)
        self._steps = 0
        self._keys: list[tuple[int, bytes]] = []
        self._fleeting: list[int] = []
        self._next_fleeting = 10**5
        self._place = 10**6
        self._next = 1
        self.batches: list[Rows] = []

    async def write(self, store: Store, count: int) -> None:
        """Write so many batches more."""
        for _ in range(count):
            rows = (
                self._rows() if self.batches else Rows(objects=[ORDERS, SHIPPING, ARCHIVE, UNIT], high_water=2 * 10**6)
            )
            await store.write(rows)
            self.batches.append(rows)

    def after(self, number: int, without: Collection[int] = ()) -> Contents:
        """Return what a store holds after a batch, if it has never heard of some."""
        messages: dict[int, MessageRow] = {}
        objects: dict[tuple[str, str], ObjectRow] = {}
        keys: dict[tuple[int, bytes], KeyRow] = {}
        steps: dict[tuple[int, int], StepRow] = {}
        high_water = 0
        for each, rows in enumerate(self.batches[:number], 1):
            if each in without:
                continue
            messages |= {row.id: row for row in rows.inserts}
            mark(messages, rows)
            for id, backouts in rows.backouts:
                if id in messages:
                    messages[id] = messages[id]._replace(backout_count=backouts, hardened=0, holder=0, sequence=0)
            handle(messages, rows)
            for run in rows.held:
                for sequence, id in enumerate(run.ids, run.first):
                    if id in messages:
                        messages[id] = messages[id]._replace(holder=run.holder, sequence=sequence)
            for run in rows.placed:
                for place, id in enumerate(run.ids, run.first):
                    if id in messages:
                        messages[id] = messages[id]._replace(holder=0, sequence=0, place=place)
            for id in rows.removals:
                messages.pop(id, None)
            objects |= {(row.space, row.name): row for row in (*rows.objects, *rows.states)}
            keep_keys(keys, rows)
            keep_steps(steps, messages, rows)
            high_water = max(high_water, rows.high_water)
        return Contents(
            [messages[id] for id in sorted(messages)],
            [objects[name] for name in sorted(objects)],
            high_water,
            tuple(sorted(keys.values())),
            tuple(sorted(steps.values())),
        )

    def _rows(self) -> Rows:
        rows = Rows()
        for _ in range(self._random.randrange(1, 4)):
            rows.inserts.append(message(self._next, self._random.randbytes(self._random.randrange(self._bytes_max))))
            self._next += 1
        for _ in range(self._random.randrange(3)):
            if self._there:
                place = self._random.randrange(len(self._there))
                self._there[place], self._there[-1] = self._there[-1], self._there[place]
                rows.removals.append(self._there.pop())
        if self._there and self._random.random() < 0.3:
            rows.backouts.append((self._random.choice(self._there), self._random.randrange(1, 9)))
        self._hold(rows)
        self._handle(rows)
        self._step(rows)
        self._there += [row.id for row in rows.inserts if row.persistent]
        return rows

    def _handle(self, rows: Rows) -> None:
        """A put with a delay and a key, an attempt that failed, a mark, a key that is free again."""
        random = self._handling
        touched = {id for id, _ in rows.backouts} | {id for run in (*rows.held, *rows.placed) for id in run.ids}
        free = [id for id in self._there if id not in touched and id > self._next - 30]  # few changes of the snapshot
        if random.random() < 0.2:
            rows.inserts[0] = rows.inserts[0]._replace(handling=random.randbytes(20))
        if random.random() < 0.1:
            put = key(rows.inserts[0].id, b"order %d" % random.randrange(20), until=random.choice((0.0, 4e9)))
            rows.keys.append(put)
            self._keys.append(put[:2])
        elif self._keys and random.random() < 0.1:
            rows.freed.append(random.choice(self._keys))
        for id in random.sample(free, min(len(free), 2)):
            if random.random() < 0.1:
                rows.handled.append((id, random.randrange(9), random.randbytes(random.randrange(30))))
            elif random.random() < 0.1:
                rows.marked.append((id, random.choice((2, 3))))

    def _step(self, rows: Rows) -> None:
        """Steps of some messages, those that are new, and those that go with this batch among them."""
        random = self._stepping
        for id in (*(row.id for row in rows.inserts if row.persistent), *self._there[-3:], *rows.removals[:1]):
            if random.random() < 0.05:
                self._steps += 1
                value = random.randbytes(random.choice((0, 5, 60)))
                rows.steps.append(StepRow(id, self._steps, f"step {self._steps}", value))

    def _hold(self, rows: Rows) -> None:
        """Claims, a message that is only there while it is claimed, a publication."""
        random = self._holding
        touched = {id for id, _ in rows.backouts}
        some = [id for id in random.sample(self._there, min(len(self._there), 6)) if id not in touched]
        if random.random() < 0.1:
            rows.held.append(Numbering(ARCHIVE.number, random.randrange(1, 1000), some[:3]))
            rows.states.append(ARCHIVE._replace(attributes=random.randbytes(8)))
        if random.random() < 0.1:
            rows.placed.append(Numbering(0, self._place, some[3:]))
            self._place += 10
        if random.random() < 0.2:
            claimed = message(self._next_fleeting, b"not persistent", persistent=0)
            rows.inserts.append(claimed._replace(holder=UNIT.number, sequence=random.randrange(1, 1000)))
            self._fleeting.append(claimed.id)
            self._next_fleeting += 1
        if self._fleeting and random.random() < 0.15:
            rows.removals.append(self._fleeting.pop())
